"""Two-sided geometric noise, the discrete Laplace: pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from topdown.privacy.fixed_point import exp_neg
from topdown.privacy.laws.distribution import (
    LN2_ABOVE,
    FormulaDistribution,
    NoiseLaw,
    bernoulli,
    bernoulli_exp,
    refuse_inexact,
    uniform_below,
)

if TYPE_CHECKING:
    from topdown.privacy.bits import BitSource

_PRECISION = 192
MAX_SCALE = 1 << 24  # then P(|X| >= 2^31) < 2^-180, so the int32 guard never shapes the law


@dataclass(frozen=True, repr=False)
class TwoSidedGeometric(FormulaDistribution):
    """The law on all integers with pmf(x) proportional to exp(-|x| / scale): the discrete Laplace.

    Args:
        scale: rational > 0, in persons. An integer is taken as exact.

    Raises:
        TypeError: a float, bool or other inexact type.
        ValueError: not positive.

    Source: Ghosh, Roughgarden, Sundararajan (2009), the geometric mechanism with alpha = exp(-1 / scale).
    """

    scale: Fraction

    def __post_init__(self) -> None:
        refuse_inexact(self.scale, "TwoSidedGeometric", "scale")

    def energy(self, k: int) -> Fraction:
        """Return -log of pmf(k) / pmf(0), exactly."""
        return Fraction(abs(k), self.scale)

    def half_width(self, n_bits: int) -> int:
        """Return a k past which the tail is below about 2^-n_bits (for sizes and routes, not for proofs)."""
        widest = n_bits * LN2_ABOVE * self.scale
        return widest.numerator // widest.denominator + 1

    def __repr__(self) -> str:
        return f"TwoSidedGeometric {self.scale.numerator}/{self.scale.denominator}"

    @property
    def is_too_wide(self) -> bool:
        """Whether an outcome leaves 32 bits with a probability of 2^-180 or more."""
        return self.scale > MAX_SCALE

    def draw_slowly(self, bits: BitSource) -> int:
        """Draw one outcome by rejection. Cost: about 50 microseconds, whatever the width."""
        return discrete_laplace(self.scale, bits)


def discrete_laplace(scale: Fraction, bits: BitSource) -> int:
    """Draw X with P(X = x) proportional to exp(-|x| / scale), scale = t / s > 0 (algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = uniform_below(t, bits)
        if not bernoulli_exp(Fraction(u, t), bits):
            continue
        v = 0
        while bernoulli_exp(Fraction(1), bits):
            v += 1
        magnitude = (u + t * v) // s
        negative = bernoulli(Fraction(1, 2), bits)
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def _own_variance(scale: Fraction) -> Fraction:
    """Return 2 a / (1 - a)^2, a = exp(-1 / scale)."""
    a = Fraction(exp_neg(Fraction(1, scale), _PRECISION)[0], 1 << _PRECISION)
    return Fraction(2 * a, (1 - a) * (1 - a))


TWO_SIDED_GEOMETRIC = NoiseLaw(
    name="two_sided_geometric",
    mechanism="geometric",
    loss_name="epsilon",
    parameter_name="scale",
    loss_of_one=lambda scale, shift: Fraction(shift, scale),  # Ghosh, Roughgarden, Sundararajan 2009
    composed_as="geometric",
    # 2 t^2 exceeds the exact variance 1 / (2 sinh(1/2t)^2) by at most 1/6; weights need close numbers, not exact ones.
    variance=lambda scale, _: 2 * scale * scale,
    own_variance=lambda scale, _: _own_variance(scale),
    calibrated=lambda epsilon, l1, _: Fraction(l1, epsilon),
    most=(1 << 31) // 90,  # 90 scales
    usual="epsilon",
    distribution=lambda scale, _: TwoSidedGeometric(scale),
    adds_over_records=True,
)
