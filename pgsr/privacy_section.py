"""What a release promises: one row for each neighbour step, read together with what is published exactly.

The numbers come from topdown's accountant.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pgsr.hierarchy import Tree
from pgsr.level_noise import LAW_NAMES, Calibration, exact_loss
from pgsr.neighbours import (
    KEEP_NUMBERS,
    NUMBER,
    Relation,
    exact_statistics,
    stated_steps,
    step_in_words,
    step_sentence,
    unit_means,
)
from pgsr.run_settings import Plan
from pgsr.vectors import sensitivity
from topdown.errors import ConfigError
from topdown.privacy import loss_numbers
from topdown.privacy.accountant import NoisyCounts, WholeLoss

DELTA = "1e-10"
Parts = Sequence[tuple[Fraction, int]]


def step_numbers(noise: str, parts: Parts) -> dict[str, Any]:
    """Return the numbers of a step that moves `changed` answers by one under noise of each parameter.

    Args:
        noise: "geometric" (parameter: scale) or "gaussian" (variance).
        parts: (parameter, changed) of every level; changed > 0 at one level at least.

    Raises:
        ConfigError: no engine encloses this composition (A009).
    """
    moved = tuple(
        NoisyCounts(LAW_NAMES[noise], parameter, changed) for parameter, changed in parts if changed
    )
    return loss_numbers(WholeLoss(moved), (DELTA,))


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


def privacy_section(plan: Plan, tree: Tree, noise: Calibration) -> dict[str, Any]:
    """Return the section `privacy` of a release: what is protected, from whom, and what it costs.

    Args:
        plan: what is released, whose unit names who adds one to the size of a group, such as "person".
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
        "secrets": [_step_row(relation, plan, tree, noise) for relation in stated_steps(noise.relations)],
    }


def _step_row(relation: Relation, plan: Plan, tree: Tree, noise: Calibration) -> dict[str, Any]:
    sizes = plan.sizes
    this = step_in_words(relation, sizes, plan.public, plan.unit)
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
    numbers = step_numbers(noise.noise, list(zip(noise.parameters, moved, strict=True)))
    said = step_sentence(this, numbers["right_in_100"], exact_statistics(sizes, plan.public))
    return (
        row | {"loss": str(exact_loss(noise.noise, noise.parameters, moved))} | numbers | {"sentence": said}
    )
