"""Discrete Gaussian noise: zCDP; drawn by rejection from a discrete Laplace where no table can be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

from topdown.privacy.fixed_point import exp_neg
from topdown.privacy.laws.distribution import (
    LN2_ABOVE,
    FormulaDistribution,
    NoiseLaw,
    bernoulli_exp,
    refuse_inexact,
)
from topdown.privacy.laws.geometric import discrete_laplace

if TYPE_CHECKING:
    from topdown.privacy.bits import BitSource

_PRECISION, _REACH = 192, 48  # bits; at variance 8 the weight of 48 is below 2^-200
MAX_VARIANCE = 1 << 54  # then P(|X| >= 2^31) < 2^-180, so the int32 guard never shapes the law


@dataclass(frozen=True, repr=False)
class DiscreteGaussian(FormulaDistribution):
    """The law on all integers with pmf(x) proportional to exp(-x^2 / (2 variance)).

    `variance` is the parameter sigma^2; the variance of the law itself is slightly below it when small.

    Args:
        variance: rational > 0, in persons squared. An integer is taken as exact.

    Raises:
        TypeError: a float, bool or other inexact type.
        ValueError: not positive.

    Source: Canonne, Kamath, Steinke (2020), definition 1.
    """

    variance: Fraction

    def __post_init__(self) -> None:
        refuse_inexact(self.variance, "DiscreteGaussian", "variance")

    def energy(self, k: int) -> Fraction:
        """Return -log of pmf(k) / pmf(0), exactly."""
        return Fraction(k * k, 2 * self.variance)

    def half_width(self, n_bits: int) -> int:
        """Return a k past which the tail is below about 2^-n_bits (for sizes and routes, not for proofs)."""
        widest = 2 * n_bits * LN2_ABOVE * self.variance
        return isqrt(widest.numerator // widest.denominator) + 1

    def __repr__(self) -> str:
        return f"DiscreteGaussian {self.variance.numerator}/{self.variance.denominator}"

    @property
    def is_too_wide(self) -> bool:
        """Whether an outcome leaves 32 bits with a probability of 2^-180 or more."""
        return self.variance > MAX_VARIANCE

    def draw_slowly(self, bits: BitSource) -> int:
        """Draw one outcome by rejection. Cost: about 50 microseconds, whatever the width."""
        return discrete_gaussian(self.variance, bits)


def discrete_gaussian(variance: Fraction, bits: BitSource) -> int:
    """Draw X with P(X = x) proportional to exp(-x^2 / (2 variance)), variance > 0 (algorithm 3)."""
    t = isqrt(variance.numerator // variance.denominator) + 1
    while True:
        y = discrete_laplace(Fraction(t), bits)
        if bernoulli_exp(acceptance_exponent(variance, t, y), bits):
            return y


def acceptance_exponent(variance: Fraction, t: int, y: int) -> Fraction:
    """Return the gamma for which a discrete Laplace(t) proposal y is kept with probability exp(-gamma)."""
    excess = abs(y) - Fraction(variance, t)
    return Fraction(excess * excess, 2 * variance)


def _variance_of_draws(variance: Fraction) -> Fraction:
    """Return the variance of the law itself; from 8 on the parameter exceeds it by less than one in 10^60."""
    if variance >= 8:
        return variance
    weights = [exp_neg(Fraction(x * x, 2 * variance), _PRECISION)[0] for x in range(1, _REACH)]
    squares = sum(2 * x * x * weight for x, weight in enumerate(weights, start=1))
    return Fraction(squares, (1 << _PRECISION) + 2 * sum(weights))


DISCRETE_GAUSSIAN = NoiseLaw(
    name="discrete_gaussian",
    mechanism="discrete_gaussian",
    loss_name="rho",
    parameter_name="variance",
    loss_of_one=lambda variance, shift: Fraction(
        shift * shift, 2 * variance
    ),  # Canonne, Kamath, Steinke 2020, Thm 4
    composed_as="gaussian",
    variance=lambda variance, _: variance,
    own_variance=lambda variance, _: _variance_of_draws(variance),
    calibrated=lambda rho, _, l2_squared: Fraction(l2_squared, 2 * rho),
    most=((1 << 31) // 14) * ((1 << 31) // 14),  # 14 standard deviations
    usual="rho + 2 sqrt(rho ln(1/delta))",
    distribution=lambda variance, _: DiscreteGaussian(variance),
)
