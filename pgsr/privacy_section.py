"""What a release promises: one row for each neighbour step, read together with what is published exactly.

The numbers come from topdown's accountant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, comb, prod
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from topdown.privacy import Enclosure


DELTA = "1e-10"
MOST_ATOMS = 500
"""With more values of the loss than this, the best guess is bounded by e**epsilon / (1 + e**epsilon)."""
BITS = 256
DIGITS = 12
Parts = Sequence[tuple[Fraction, int]]


@dataclass(frozen=True)
class StepCost:
    """What one step costs.

    Args:
        loss: exact: epsilon of geometric noise, rho of Gaussian noise.
        n_counts_moved: answers that the step moves, each by one.
        delta: where epsilon is stated: "0" for geometric noise.
        epsilon: enclosure of epsilon at delta.
        best_guess: enclosure of the probability that the best attacker, between two equally likely neighbours,
            names the right one.
    """

    loss: Fraction
    n_counts_moved: int
    delta: str
    epsilon: Enclosure
    best_guess: Enclosure

    @property
    def right_in_100(self) -> int:
        """The best guess in percent, rounded up."""
        return min(ceil(100 * self.best_guess.upper), 100)


def account_step(noise: str, parts: Parts) -> StepCost:
    """Return what a step costs that moves `changed` answers by one under noise of each parameter.

    Args:
        noise: "geometric" (parameter: scale) or "gaussian" (variance).
        parts: (parameter, changed) of every level; changed > 0 at one level at least.

    Raises:
        ConfigError: no engine encloses this composition (A009).
    """
    from topdown.privacy.accountant.composition import Composition
    from topdown.privacy.exact_values import Enclosure

    n_moved = sum(changed for _, changed in parts)
    if noise == "geometric":
        loss = sum((changed / scale for scale, changed in parts), Fraction(0))
        return StepCost(loss, n_moved, "0", Enclosure(loss, loss, "exact"), geometric_guess(parts))
    whole = Composition.of([(variance, 1, changed) for variance, changed in parts if changed])
    engine = whole.certifying()
    return StepCost(
        whole.rho, n_moved, DELTA, whole.epsilon(DELTA, engine=engine), whole.best_guess(engine=engine)
    )


def geometric_guess(parts: Parts) -> Enclosure:
    """Return the best guess between two neighbours under two-sided geometric noise.

    An answer moved by one has the log-likelihood ratio 1 / scale or its negative, nothing between: it is
    randomised response that is right with probability 1 / (1 + exp(-1 / scale)). The ratios of independent
    answers add up, so that the law of the sum is a product of binomials.
    """
    from topdown.privacy.accountant.gaussian_loss import ball_of, ends, precision
    from topdown.privacy.exact_values import Enclosure

    count: Counter[Fraction] = Counter()
    for scale, changed in parts:
        count[scale] += changed
    with precision(BITS) as flint:
        if prod(n + 1 for n in count.values()) > MOST_ATOMS:
            loss = sum((n / scale for scale, n in count.items()), Fraction(0))
            high = ends(1 / (1 + (-ball_of(flint, loss)).exp()))[1]
            return Enclosure(Fraction(1, 2), min(high, Fraction(1)), "pure epsilon, upper bound")
        right = flint.arb(0)
        for loss, mass in _loss_law(flint, count):
            right += mass if loss > 0 else mass / 2 if loss == 0 else 0
        low, high = ends(right)
    return Enclosure(max(low, Fraction(1, 2)), min(high, Fraction(1)), f"binomials, {BITS} bit")


def _loss_law(flint: Any, count: Counter[Fraction]) -> Iterator[tuple[Fraction, Any]]:
    """Yield (loss, probability ball) of every combination of right and wrong answers."""
    from topdown.privacy.accountant.gaussian_loss import ball_of

    columns = []
    for scale, n in count.items():
        odds = (-ball_of(flint, 1 / scale)).exp()
        right, wrong = 1 / (1 + odds), odds / (1 + odds)
        columns.append(
            [((2 * j - n) / scale, comb(n, j) * right**j * wrong ** (n - j)) for j in range(n + 1)]
        )
    for cells in product(*columns):
        yield (
            sum((loss for loss, _ in cells), Fraction(0)),
            prod((mass for _, mass in cells), start=flint.arb(1)),
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
        "n_counts_moved": cost.n_counts_moved,
        "epsilon": {cost.delta: list(cost.epsilon.texts(DIGITS))},
        "best_guess": list(cost.best_guess.texts(DIGITS)),
        "right_in_100": cost.right_in_100,
        "method": cost.best_guess.method,
        "sentence": step_sentence(this, cost.right_in_100, exact_statistics(sizes, plan.public)),
    }
