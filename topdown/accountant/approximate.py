"""The loss of noise of finitely many values: an epsilon and a delta that both add up, and what composed losses say.

Each count keeps (epsilon, delta) by its law; for independent counts, also if each was chosen after the others were
seen, the sums hold together (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006). What is said of tests are bounds that
follow from the sums (Kairouz, Oh, Viswanath 2015, theorem 2.1). `delta_at` bounds the delta at a smaller epsilon, from
the exact probabilities of every law.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from topdown.accountant import pure
from topdown.accountant.dots import deltas_above
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.event import FiniteLoss
from topdown.accountant.exact import Threshold
from topdown.laws import UNIT, Weights

METHOD = "sums of epsilon and delta"
_NATS = (Fraction(2), Fraction(8))  # of the window beyond epsilon: at least, and at most
_STEPS = (1 << 10, 1 << 12)  # of the lattice up to epsilon: at least, and at most for equal parts


@dataclass(frozen=True)
class MovedCounts:
    """Counts that move by one in noise of one law.

    Args:
        weights: of the law's values 0, 1, .., over 2^128; it is symmetric.
        epsilon, delta: promise of one count.
        count: how many.
    """

    weights: Weights
    epsilon: Fraction
    delta: Fraction
    count: int


@dataclass(frozen=True)
class PairLoss:
    """Counts that move in noise of whole weights; none is a change that nothing measures."""

    moved: tuple[MovedCounts, ...]

    @property
    def coordinates(self) -> int:
        """How many counts move."""
        return sum(m.count for m in self.moved)

    @cached_property
    def epsilon(self) -> Fraction:
        """Sum of the epsilons of all counts."""
        return sum((m.count * m.epsilon for m in self.moved), Fraction(0))

    @cached_property
    def delta(self) -> Fraction:
        """Sum of the deltas of all counts, at most 1."""
        return min(sum((m.count * m.delta for m in self.moved), Fraction(0)), Fraction(1))

    def best_guess(self) -> Enclosure:
        """Return the most an attacker can be right of two equally likely neighbours, by the sums."""
        return pure.best_guess(self.epsilon, self.delta, METHOD)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha a share of misses that no test goes below, by the sums."""
        return pure.trade_off_curve(self.epsilon, self.delta, alphas, METHOD)

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """Return a delta that all counts together keep at an epsilon, from their composed losses; never too small.

        Args:
            epsilon: exact, at least 0.
        """
        return self.deltas_at((epsilon,))[0]

    def deltas_at(self, epsilons: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        """Return `delta_at` each epsilon; losses are composed once."""
        if not self.moved or not self.delta:
            return (Fraction(0),) * len(epsilons)
        return _deltas(self.moved, epsilons, self._step, min(_NATS[1], _NATS[0] + 2 * self.epsilon))

    @property
    def _step(self) -> Fraction:
        """Return a step of the lattice that divides the epsilon of every count where that needs few steps."""
        shares = [m.epsilon / self.epsilon for m in self.moved]
        equal = math.lcm(*(share.denominator for share in shares))
        n = equal * math.ceil(_STEPS[0] / equal) if equal <= _STEPS[1] else _STEPS[1]
        return self.epsilon / n


@lru_cache(maxsize=64)
def _deltas(
    moved: tuple[MovedCounts, ...], epsilons: tuple[Fraction, ...], step: Fraction, spare: Fraction
) -> tuple[Fraction, ...]:
    counts: Counter[Weights] = Counter()
    for m in moved:
        counts[m.weights] += m.count
    parts = [(_outcomes(weights), count) for weights, count in counts.items()]
    return tuple(deltas_above(parts, epsilons, step, spare))


def _outcomes(weights: Weights) -> FiniteLoss:
    """Return the probabilities of every value for two neighbours whose answers are 1 apart; the same both ways."""
    every = (*weights[:0:-1], *weights)
    return FiniteLoss(
        tuple((Fraction(p, UNIT), Fraction(q, UNIT)) for p, q in zip((*every, 0), (0, *every), strict=True))
    )
