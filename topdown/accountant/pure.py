"""The loss of pure differential privacy: epsilon adds up, holds for every delta, and bounds every test.

For composed two-sided geometric measurements epsilon is the sum of counts moved over scale, exact (Ghosh,
Roughgarden, Sundararajan 2009). Randomised response with these odds dominates them (Kairouz, Oh, Viswanath 2015,
theorem 3.3), so what is said of tests are bounds, reached where one measurement is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

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
        """Return the most an attacker can be right of two equally likely neighbours: e**epsilon / (1 + e**epsilon)."""
        low, high = self._odds
        return Enclosure(low / (1 + low), Fraction(1) if high is None else high / (1 + high), METHOD)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return max(0, 1 - e**epsilon alpha, e**-epsilon (1 - alpha)) at each alpha: no test misses less."""
        low, high = self._odds
        return [
            Enclosure(
                Fraction(0) if high is None else max(Fraction(0), 1 - high * a, (1 - a) / high),
                max(Fraction(0), 1 - low * a, (1 - a) / low),
                METHOD,
            )
            for a in map(alpha_of, alphas)
        ]

    @cached_property
    def _odds(self) -> tuple[Fraction, Fraction | None]:
        """Return ends of e**epsilon; the upper one is None, without end, where epsilon is beyond any use."""
        if not self.epsilon:
            return Fraction(1), Fraction(1)
        with precision(_BITS) as flint:
            low, high = ends(ball_of(flint, min(self.epsilon, MOST_EPSILON)).exp())
        return low, high if self.epsilon <= MOST_EPSILON else None
