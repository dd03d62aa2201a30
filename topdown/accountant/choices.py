"""Noise and choices together: what measurements and selections of a pure epsilon tell between them.

A mechanism that keeps a pure epsilon tells no more than randomised response of it (Kairouz, Oh, Viswanath 2015,
theorem 3.3), and no less than nothing, so what is said here lies between the noise alone and noise with responses.
Proof: PROOF.md, section 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from topdown.accountant import zcdp
from topdown.accountant.composition import Composition
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Threshold
from topdown.accountant.pure import PureLoss

METHOD = "noise and choices: between noise alone and randomised response"


@dataclass(frozen=True)
class WithChoices:
    """Noise, if any was drawn, and the choices beside it.

    Args:
        noise: what was measured; None if nothing was.
        epsilon: sum of the choices' epsilons, exact.
        rho: sum of the choices' zCDP, exact; 0 in a ledger of epsilon.
    """

    noise: Composition | PureLoss | None
    epsilon: Fraction
    rho: Fraction

    @property
    def total_rho(self) -> Fraction:
        """Loss of everything as zCDP, exact."""
        return self.rho + (self.noise.rho if isinstance(self.noise, Composition) else 0)

    @property
    def coordinates(self) -> int:
        """How many counts behind noise move."""
        if isinstance(self.noise, Composition):
            return self.noise.law.coordinates
        return self.noise.coordinates if self.noise else 0

    def epsilon_at(self, delta: Threshold, engine: str = "auto") -> Enclosure:
        """Return ends of epsilon at a delta; pure noise holds for every delta.

        The upper end is the noise's epsilon plus the choices', or what all of it implies as zCDP, if that is less.
        """
        if isinstance(self.noise, PureLoss):
            return Enclosure(self.noise.epsilon, self.noise.epsilon + self.epsilon, METHOD)
        none = Enclosure(Fraction(0), Fraction(0))
        box = none if self.noise is None else self.noise.epsilon(delta, engine=engine)
        high = box.upper + self.epsilon
        if self.rho:
            high = min(high, zcdp.canonne_kamath_steinke(self.total_rho, delta).upper)
        return Enclosure(box.lower, max(high, box.lower), METHOD)

    def best_guess(self, engine: str = "auto") -> Enclosure:
        """Return ends of the chance of the best guess between two equally likely neighbours.

        With r = e^epsilon and the noise's delta(epsilon): at most (r + delta(epsilon)) / (1 + r).
        """
        if not isinstance(self.noise, Composition):
            pure = self.noise or PureLoss(Fraction(0), 0)
            return Enclosure(pure.best_guess().lower, self._pure(pure.epsilon).upper, METHOD)
        alone = self.noise.best_guess(engine=engine)
        odds = self._pure(Fraction(0))  # r / (1 + r)
        more = self.noise.delta(self.epsilon, engine=engine).upper * (1 - odds.lower)
        return Enclosure(alone.lower, max(alone.lower, min(odds.upper + more, Fraction(1))), METHOD)

    def _pure(self, more: Fraction) -> Enclosure:
        return PureLoss(self.epsilon + more, 0).best_guess()
