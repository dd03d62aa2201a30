"""A loss that no engine can enclose: only what follows from its rho."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from topdown.accountant.certified import ball_of, ends, precision
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Threshold, alpha_of
from topdown.accountant.zcdp import canonne_kamath_steinke

METHOD = "zCDP bound"
_BITS = 160


@dataclass(frozen=True)
class BoundedLoss:
    """A composition known by its zCDP budget: valid upper ends, trivial lower ends."""

    rho: Fraction

    def epsilon(self, delta: Threshold) -> Enclosure:
        """Return 0 and the tight zCDP conversion."""
        return Enclosure(Fraction(0), canonne_kamath_steinke(self.rho, delta).upper, METHOD)

    def best_guess(self) -> Enclosure:
        """Return 1/2 and (1 + sqrt(1 - e**-rho)) / 2.

        Divergence is at most rho (order 1 of zCDP), total variation at most sqrt(1 - e**-divergence)
        (Bretagnolle, Huber 1979).
        """
        return Enclosure(Fraction(1, 2), (1 + self._variation) / 2, METHOD)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return what total variation leaves at each alpha: misses and false alarms add to at least 1 - variation."""
        points = [alpha_of(a) for a in alphas]
        return [Enclosure(max(Fraction(0), 1 - a - self._variation), 1 - a, METHOD) for a in points]

    @property
    def _variation(self) -> Fraction:
        with precision(_BITS) as flint:
            return min(ends((1 - (-ball_of(flint, self.rho)).exp()).sqrt())[1], Fraction(1))
