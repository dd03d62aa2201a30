"""What choices add to the noise of a ledger, computed anew: between the noise alone and noise with random response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from topdown.accountant.enclosure import Enclosure
from topdown.publish.verify.privacy.decimals import ROUNDED, digits_of, exp, tight_formula
from topdown.publish.verify.privacy.losses import Gaussian, Loss, Pure

METHOD = "noise and choices: between noise alone and randomised response"
SLACK = Fraction(1, 10**6)  # by this part of itself an end may differ from the one found here


@dataclass(frozen=True, eq=False)
class WithChoices:
    """The loss of noise, and of choices of a pure epsilon in all; `rho` is None in a ledger of epsilon."""

    noise: Loss
    pure: Fraction
    rho: Fraction | None

    @property
    def counts(self) -> int:
        """How many counts behind noise move."""
        return self.noise.counts

    @property
    def delta(self) -> None:
        """No ledger of pairs books choices."""

    @property
    def powers(self) -> list[Enclosure]:
        """No curve is stated of it."""
        raise ValueError("no curve is stated of a ledger")

    def epsilon(self, delta: str) -> Enclosure:
        """Return [noise alone, noise and choices], the upper end by sums of epsilon or of rho."""
        box = self.noise.epsilon(delta)
        high = box.upper + self.pure
        if self.rho is not None:
            high = min(high, tight_formula(self.rho, digits_of(delta)))
        return Enclosure(box.lower, max(high, box.lower), METHOD)

    @property
    def guess(self) -> Enclosure:
        """Return [noise alone, (r + delta(epsilon)) / (1 + r)], r = e**epsilon of the choices."""
        alone = self.noise.guess
        if isinstance(self.noise, Pure):
            odds = exp(self.noise.total + self.pure)
            return Enclosure(alone.lower, min(odds / (1 + odds) * (1 + ROUNDED), Fraction(1)), METHOD)
        odds, high = exp(self.pure), Fraction(1)
        if isinstance(self.noise, Gaussian):
            composition = self.noise.composition
            (box,) = self.noise.first(lambda engine: [composition.delta(self.pure, engine=engine)])
            high = (odds + box.upper) / (1 + odds) * (1 + ROUNDED)
        return Enclosure(alone.lower, max(alone.lower, min(high, Fraction(1))), METHOD)


def with_choices(noise: Loss, choices: Sequence[tuple[Fraction, Fraction]]) -> Loss:
    """Return the loss of noise together with the (epsilon, rho) of choices; that of the noise if there are none."""
    if not choices:
        return noise
    rho = None if noise.rho is None else noise.rho + sum((rho for _, rho in choices), Fraction(0))
    return WithChoices(noise, sum((epsilon for epsilon, _ in choices), Fraction(0)), rho)


def holds(low: Fraction, high: Fraction, mine: Enclosure) -> bool:
    """Tell whether stated ends are those found here, but for rounding outward and what other engines leave open."""
    near = SLACK * mine.upper + Fraction(1, 10**12)
    return mine.lower - near <= low <= mine.lower + near and mine.upper - near <= high <= mine.upper + near
