"""The noise laws, with exact parameters and certified probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from topdown.noise.fixed import TailSums, exp_neg, tail_sums
from topdown.noise.weighted import BITS, WeightedInteger

_LN2_ABOVE = Fraction(7, 10)


def _exact_positive(value: object, owner: str, name: str) -> Fraction:
    """Return the value as a Fraction; refuse whatever is not an exact positive rational."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise TypeError(
            f"{owner} needs an exact {name}, not {type(value).__name__} {value!r}. "
            f"Fix: {owner}(Fraction(numerator, denominator)), e.g. Fraction('2.5') or Fraction(5, 2)."
        )
    if value <= 0:
        raise ValueError(f"{owner} needs a {name} > 0, not {value}. Fix: zero noise is not a mechanism.")
    return Fraction(value)


@dataclass(frozen=True)
class DiscreteGaussian:
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
        object.__setattr__(self, "variance", _exact_positive(self.variance, "DiscreteGaussian", "variance"))

    def energy(self, k: int) -> Fraction:
        """Return -log of pmf(k) / pmf(0), exactly."""
        return Fraction(k * k, 2 * self.variance)

    def half_width(self, n_bits: int) -> int:
        """Return a k past which the tail is below about 2^-n_bits (for sizes and routes, not for proofs)."""
        widest = 2 * n_bits * _LN2_ABOVE * self.variance
        return isqrt(widest.numerator // widest.denominator) + 1


@dataclass(frozen=True)
class TwoSidedGeometric:
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
        object.__setattr__(self, "scale", _exact_positive(self.scale, "TwoSidedGeometric", "scale"))

    def energy(self, k: int) -> Fraction:
        """Return -log of pmf(k) / pmf(0), exactly."""
        return Fraction(abs(k), self.scale)

    def half_width(self, n_bits: int) -> int:
        """Return a k past which the tail is below about 2^-n_bits (for sizes and routes, not for proofs)."""
        widest = n_bits * _LN2_ABOVE * self.scale
        return widest.numerator // widest.denominator + 1


Formula = DiscreteGaussian | TwoSidedGeometric
Law = Formula | WeightedInteger


@lru_cache(maxsize=2)
def law_tails(law: Formula, floor_bits: int) -> TailSums:
    """Return enclosures of the law's unnormalised tail sums. Cost: proportional to the standard deviation."""
    slope = law.energy(1)
    return tail_sums(slope, law.energy(2) - 2 * slope, floor_bits)


def pmf_interval(law: Law, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
    """Enclose P(X = k) between two rationals at most about 2^-n_bits apart.

    Args:
        law: the noise law.
        k: any integer outcome.
        n_bits: accuracy, >= 1.

    Returns:
        (lo, hi) with lo <= P(X = k) <= hi.

    """
    if isinstance(law, WeightedInteger):
        exact = Fraction(law.mass(k), 1 << BITS)
        return exact, exact
    tails = law_tails(law, n_bits + 2)
    lo, hi = exp_neg(law.energy(k), tails.precision)
    total_lo, total_hi = tails.total
    return Fraction(lo, total_hi), Fraction(hi, total_lo)


def cdf_interval(law: Law, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
    """Enclose P(X <= k) between two rationals at most about 2^-n_bits apart.

    Args:
        law: the noise law.
        k: any integer outcome.
        n_bits: accuracy, >= 1.

    Returns:
        (lo, hi) with lo <= P(X <= k) <= hi.

    """
    if isinstance(law, WeightedInteger):
        exact = Fraction(sum(law.mass(x) for x in range(-law.half_width(n_bits), k + 1)), 1 << BITS)
        return exact, exact
    tails = law_tails(law, n_bits + 2)
    total_lo, total_hi = tails.total
    lo, hi = tails.at(k + 1 if k >= 0 else -k)
    below, above = Fraction(lo, total_hi), min(Fraction(hi, total_lo), Fraction(1, 2))
    return (1 - above, 1 - below) if k >= 0 else (below, above)
