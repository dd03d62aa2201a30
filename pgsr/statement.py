"""What a release promises: one row for each neighbour step, read together with what is published exactly."""

from __future__ import annotations

from typing import Any

from pgsr._account import DIGITS, account
from pgsr.budget import Calibration
from pgsr.hierarchy import Tree
from pgsr.plan import Plan
from pgsr.steps import stated_steps
from pgsr.vectors import KEEP_NUMBERS, Relation, sensitivity
from pgsr.words import NUMBER, exact_statistics, sentence, step, unit_means
from topdown.errors import ConfigError


def refuse_empty_promise(plan: Plan, tree: Tree) -> None:
    """Refuse a release whose neighbours never agree on the exact statistics or never differ in an answer.

    Raises:
        ConfigError: C169.
    """
    kept = [relation for relation in plan.steps if relation in KEEP_NUMBERS]
    if not kept:
        raise ConfigError(
            f"every pair of neighbours ({', '.join(plan.steps)}) differs in the {NUMBER}, which is published exactly",
            code="C169",
            fix='protect "move" too (--relations move), which leaves the number of groups as it is',
        )
    if sensitivity(plan.kind, kept[0], tree, plan.sizes.n_sizes).l1 == 0:
        raise ConfigError(
            "with one size, no step that keeps the number of groups changes an answer: noise protects nothing",
            code="C169",
            fix="raise the number of sizes (--sizes)",
        )


def privacy(plan: Plan, tree: Tree, noise: Calibration) -> dict[str, Any]:
    """Return the section `privacy` of a release: what is protected, from whom, and what it costs.

    Args:
        plan: what is released, whose unit names who adds one to the size of a group, such as "person".
        tree: the regions.
        noise: of every level, and its exact loss.

    Raises:
        ConfigError: the accountant has no bound (A009).
    """
    return {
        "unit": plan.unit,
        "unit_means": unit_means(plan.unit, noise.relations),
        "relations": list(noise.relations),
        "conditional_on": list(exact_statistics(plan.sizes, plan.public)),
        "noise": noise.noise,
        "calibration": noise.name,
        "claimed": str(noise.claimed),
        "loss_name": plan.budget.loss_name,
        "loss": str(noise.loss),
        "private_as_claimed": noise.private,
        "secrets": [_row(relation, plan, tree, noise) for relation in stated_steps(noise.relations)],
    }


def _row(relation: Relation, plan: Plan, tree: Tree, noise: Calibration) -> dict[str, Any]:
    sizes = plan.sizes
    this = step(relation, sizes, plan.public, plan.unit)
    row = {
        "name": this.name,
        "kind": this.kind,
        "relation": this.relation,
        "neighbours": this.neighbours,
        "status": this.status,
        "exact": [*this.always, *this.sometimes],
    }
    if this.always:
        return row | {"sentence": f"disclosed by: {', '.join(this.always)}"}
    moved = sensitivity(plan.kind, relation, tree, sizes.n_sizes, sizes.smallest).l1_by_level
    cost = account(noise.noise, [(p, n) for p, n in zip(noise.parameters, moved, strict=True) if n])
    return row | {
        "loss": str(cost.loss),
        "n_counts_moved": cost.n_counts_moved,
        "epsilon": {cost.delta: list(cost.epsilon.texts(DIGITS))},
        "best_guess": list(cost.best_guess.texts(DIGITS)),
        "right_in_100": cost.right_in_100,
        "method": cost.best_guess.method,
        "sentence": sentence(this, cost.right_in_100, exact_statistics(sizes, plan.public)),
    }
