"""A noise law with its certificate: whoever holds one holds one that was checked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from topdown.errors import CertificateError
from topdown.noise.optimal.ask import Ask
from topdown.noise.optimal.verify import Certificate, attained, lower_bound


@dataclass(frozen=True)
class OptimalLaw:
    """Noise for one whole-number query, checked as it is made: weights, and multipliers that bound all other laws.

    Args:
        ask: what it was made for.
        first: the least value.
        weights: of first, first + 1, ..; whole numbers that add to 2^bits.
        bits: random bits of one draw.
        certificate: multipliers for `lower_bound`.

    Raises: CertificateError (V180) for weights that do not add up or break a promise.
    """

    ask: Ask
    first: int
    weights: tuple[int, ...]
    bits: int
    certificate: Certificate

    def __post_init__(self) -> None:
        if not self.weights or min(self.weights) < 0 or sum(self.weights) != 1 << self.bits:
            raise CertificateError(
                f"the weights of a noise law are not whole numbers that add to 2^{self.bits}",
                code="V180",
                fix="make the law again: topdown noise --help",
            )
        for promise in self.ask.promises:
            needed = attained(self.weights, self.ask.sensitivity, promise.epsilon)
            if needed > promise.delta:
                raise CertificateError(
                    f"a noise law does not keep delta {promise.delta} at epsilon {promise.epsilon}",
                    code="V180",
                    fix="make the law again: topdown noise --help",
                )

    @property
    def last(self) -> int:
        """The largest value."""
        return self.first + len(self.weights) - 1

    @cached_property
    def loss(self) -> Fraction:
        """The expected loss, exact."""
        loss = self.ask.loss
        total = sum((w * loss.at(self.first + k) for k, w in enumerate(self.weights)), Fraction(0))
        return total / (1 << self.bits)

    @cached_property
    def bound(self) -> Fraction:
        """A loss that no noise on the integers with the same promises is below, as the certificate proves."""
        promises = [(p.epsilon, p.delta) for p in self.ask.promises]
        return max(lower_bound(self.certificate, promises, self.ask.loss), Fraction(0))

    @property
    def gap(self) -> Fraction:
        """How much the loss may be above the least possible, relative to the bound; absolute where the bound is 0."""
        return (self.loss - self.bound) / (self.bound or 1)

    def mass(self, value: int) -> Fraction:
        """Return the probability of a value."""
        k = value - self.first
        return Fraction(self.weights[k], 1 << self.bits) if 0 <= k < len(self.weights) else Fraction(0)

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return the delta that the law needs at another epsilon, rounded up by a part in 10^40."""
        return attained(self.weights, self.ask.sensitivity, epsilon)

    @cached_property
    def variance(self) -> Fraction:
        """The variance, exact."""
        values = [(self.first + k, w) for k, w in enumerate(self.weights)]
        unit = 1 << self.bits
        mean = Fraction(sum(v * w for v, w in values), unit)
        return Fraction(sum(v * v * w for v, w in values), unit) - mean * mean
