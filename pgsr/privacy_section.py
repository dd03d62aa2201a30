"""What a release promises: one row for each neighbour step, read together with what is published exactly.

The numbers come from topdown's accountant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from pgsr.hierarchy import Tree
from pgsr.level_noise import Calibration
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
from topdown.privacy import Enclosure
from topdown.privacy.accountant import Composition, PureLoss

DELTA = "1e-10"
DIGITS = 12
Parts = Sequence[tuple[Fraction, int]]


@dataclass(frozen=True)
class StepCost:
    """What one step costs.

    Args:
        loss: exact: epsilon of geometric noise, rho of Gaussian noise.
        l0_sensitivity: answers that the step moves, each by one.
        delta: where epsilon is stated: "0" for geometric noise.
        epsilon: enclosure of epsilon at delta.
        bayes_accuracy: enclosure of the probability that the best attacker, between two equally likely neighbours,
            names the right one.
    """

    loss: Fraction
    l0_sensitivity: int
    delta: str
    epsilon: Enclosure
    bayes_accuracy: Enclosure

    @property
    def attacker_accuracy_percent(self) -> int:
        """The accuracy of the best attacker in percent, rounded up."""
        return min(ceil(100 * self.bayes_accuracy.upper), 100)


def account_step(noise: str, parts: Parts) -> StepCost:
    """Return what a step costs that moves `changed` answers by one under noise of each parameter.

    Args:
        noise: "geometric" (parameter: scale) or "gaussian" (variance).
        parts: (parameter, changed) of every level; changed > 0 at one level at least.

    Raises:
        ConfigError: no engine encloses this composition (A009).
    """
    n_moved = sum(changed for _, changed in parts)
    if noise == "geometric":
        loss = PureLoss.of_geometric(parts)
        epsilon = Enclosure(loss.epsilon, loss.epsilon, "exact")
        found = loss.best_guess()
        method = "binomials, 256 bit" if loss.is_exact else "pure epsilon, upper bound"
        guess = Enclosure(found.lower, found.upper, method)
        return StepCost(loss.epsilon, n_moved, "0", epsilon, guess)
    whole = Composition.of([(variance, 1, changed) for variance, changed in parts if changed])
    engine = whole.certifying()
    return StepCost(
        whole.rho, n_moved, DELTA, whole.epsilon(DELTA, engine=engine), whole.best_guess(engine=engine)
    )


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
    cost = account_step(noise.noise, [(p, n) for p, n in zip(noise.parameters, moved, strict=True) if n])
    return row | {
        "loss": str(cost.loss),
        "n_counts_moved": cost.l0_sensitivity,
        "epsilon": {cost.delta: list(cost.epsilon.texts(DIGITS))},
        "best_guess": list(cost.bayes_accuracy.texts(DIGITS)),
        "right_in_100": cost.attacker_accuracy_percent,
        "method": cost.bayes_accuracy.method,
        "sentence": step_sentence(this, cost.attacker_accuracy_percent, exact_statistics(sizes, plan.public)),
    }
