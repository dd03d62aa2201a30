"""The seam to topdown's accountant: what the noise of the levels tells about one neighbour step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, comb, prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topdown.accountant.enclosure import Enclosure

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


def account(noise: str, parts: Parts) -> StepCost:
    """Return what a step costs that moves `changed` answers by one under noise of each parameter.

    Args:
        noise: "geometric" (parameter: scale) or "gaussian" (variance).
        parts: (parameter, changed) of every level; changed > 0 at one level at least.

    Raises:
        ConfigError: no engine encloses this composition (A009).
    """
    from topdown.accountant.composition import Composition
    from topdown.accountant.enclosure import Enclosure

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
    from topdown.accountant.certified import ball_of, ends, precision
    from topdown.accountant.enclosure import Enclosure

    count: Counter[Fraction] = Counter()
    for scale, changed in parts:
        count[scale] += changed
    with precision(BITS) as flint:
        if prod(n + 1 for n in count.values()) > MOST_ATOMS:
            loss = sum((n / scale for scale, n in count.items()), Fraction(0))
            high = ends(1 / (1 + (-ball_of(flint, loss)).exp()))[1]
            return Enclosure(Fraction(1, 2), min(high, Fraction(1)), "pure epsilon, upper bound")
        right = flint.arb(0)
        for loss, mass in _law(flint, count):
            right += mass if loss > 0 else mass / 2 if loss == 0 else 0
        low, high = ends(right)
    return Enclosure(max(low, Fraction(1, 2)), min(high, Fraction(1)), f"binomials, {BITS} bit")


def _law(flint: Any, count: Counter[Fraction]) -> Iterator[tuple[Fraction, Any]]:
    """Yield (loss, probability ball) of every combination of right and wrong answers."""
    from topdown.accountant.certified import ball_of

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
