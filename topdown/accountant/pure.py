"""The loss of pure differential privacy: epsilon adds up, holds for every delta, and bounds every test.

For composed two-sided geometric measurements epsilon is the sum of counts moved over scale, exact (Ghosh,
Roughgarden, Sundararajan 2009). Randomised response with these odds dominates them (Kairouz, Oh, Viswanath 2015,
theorem 3.3), so what is said of tests are bounds, reached where one measurement is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from topdown.accountant.certified import ball_of, ends, precision
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Threshold, alpha_of

METHOD = "pure epsilon"
_BITS = 160
MOST_EPSILON = Fraction(10_000)


@dataclass(frozen=True)
class PureLoss:
    """An exact epsilon at least 0, how many counts move, and the law of the release they are measured in.

    Epsilon 0 is a change that nothing measures, whatever the law.
    """

    epsilon: Fraction
    coordinates: int
    law: str = "two_sided_geometric"

    def best_guess(self) -> Enclosure:
        """Return the most an attacker can be right of two equally likely neighbours."""
        return best_guess(self.epsilon, Fraction(0), METHOD)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha a share of misses that no test goes below."""
        return trade_off_curve(self.epsilon, Fraction(0), alphas, METHOD)


def best_guess(epsilon: Fraction, delta: Fraction, method: str) -> Enclosure:
    """Return 1 - (1 - delta) / (1 + e**epsilon) of whatever keeps a pair (Kairouz, Oh, Viswanath 2015, theorem 2.1).

    Args:
        epsilon: at least 0. delta: 0..1.
    """
    low, high = _odds(epsilon)
    least = 1 - (1 - delta) / (1 + low)
    return Enclosure(least, Fraction(1) if high is None else 1 - (1 - delta) / (1 + high), method)


def trade_off_curve(
    epsilon: Fraction, delta: Fraction, alphas: Iterable[Threshold], method: str
) -> list[Enclosure]:
    """Return max(0, 1 - delta - e**epsilon alpha, e**-epsilon (1 - delta - alpha)) at each: no test misses less.

    Args:
        epsilon: at least 0. delta: 0..1. alphas: shares of false alarms, 0..1.
    """
    low, high = _odds(epsilon)

    def misses(a: Fraction, odds: Fraction) -> Fraction:
        return max(Fraction(0), 1 - delta - odds * a, (1 - delta - a) / odds)

    return [
        Enclosure(Fraction(0) if high is None else misses(a, high), misses(a, low), method)
        for a in map(alpha_of, alphas)
    ]


@lru_cache(maxsize=64)
def _odds(epsilon: Fraction) -> tuple[Fraction, Fraction | None]:
    """Return ends of e**epsilon; the upper one is None, without end, where epsilon is beyond any use."""
    if not epsilon:
        return Fraction(1), Fraction(1)
    with precision(_BITS) as flint:
        low, high = ends(ball_of(flint, min(epsilon, MOST_EPSILON)).exp())
    return low, high if epsilon <= MOST_EPSILON else None
