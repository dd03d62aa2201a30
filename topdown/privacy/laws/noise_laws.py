"""The noise distributions: exact parameters, certified probabilities, loss, variance and calibration of each.

A law is known by its name in plans, ledgers and measurement files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from math import isqrt
from typing import Literal

from topdown.privacy.fixed_point import TailSums, exp_neg, tail_sums

LawName = Literal["discrete_gaussian", "two_sided_geometric", "optimal_integer"]
LossName = Literal["rho", "epsilon", "epsilon_delta"]
ParameterName = Literal["variance", "scale", "epsilon"]
Weights = tuple[int, ...]
"""Of the values 0, 1, 2, .. of a symmetric law, whole numbers over 2^128; none for a law with a formula."""
UNIT = 1 << 128
_VARIANCE_GRID = 1 << 30


@dataclass(frozen=True)
class NoiseLaw:
    """One law.

    Args:
        name: in plans and ledgers.
        mechanism: in run files and settings.
        loss_name: rho (zCDP), epsilon (pure differential privacy), or epsilon_delta: epsilon, and a delta that is
            added up beside it.
        parameter_name: variance, in records squared; scale, in records; or epsilon of one count.
        loss_of_one: loss of one count moved by `shift` records, from (parameter, shift).
        variance: of the noise in records squared, from (parameter, weights), as the solver weighs it.
        calibrated: parameter that makes a query cost a loss, from (loss, L1 sensitivity, squared L2 sensitivity).
        most: largest parameter; for a variance or a scale, whose noise leaves 32 bits less than once in 2^128 draws.
        usual: how others would state its loss as an epsilon.
        symbol: of its loss, on screens.
    """

    name: LawName
    mechanism: str
    loss_name: LossName
    parameter_name: ParameterName
    loss_of_one: Callable[[Fraction, int], Fraction]
    variance: Callable[[Fraction, Weights], Fraction]
    calibrated: Callable[[Fraction, int, int], Fraction]
    most: int
    usual: str
    symbol: str

    def loss(self, parameter: Fraction, shift: int, coordinates: int) -> Fraction:
        """Return the loss of counts that each move by `shift`; exact."""
        return coordinates * self.loss_of_one(parameter, shift)

    @property
    def has_delta(self) -> bool:
        """Whether its losses are pairs: an epsilon and a delta."""
        return self.loss_name == "epsilon_delta"


@lru_cache(maxsize=512)
def variance_of(weights: Weights) -> Fraction:
    """Return the exact variance of a symmetric law, rounded up to a multiple of 2^-30: measurement files hold it."""
    exact = Fraction(2 * sum(k * k * weight for k, weight in enumerate(weights)), UNIT)
    return Fraction(-(-exact.numerator * _VARIANCE_GRID // exact.denominator), _VARIANCE_GRID)


def _moved_by_one(epsilon: Fraction, shift: int) -> Fraction:
    if shift != 1:
        raise ValueError("the weights of a law keep its promise for counts that move by 1")
    return epsilon


DISCRETE_GAUSSIAN = NoiseLaw(
    name="discrete_gaussian",
    mechanism="discrete_gaussian",
    loss_name="rho",
    parameter_name="variance",
    loss_of_one=lambda variance, shift: Fraction(
        shift * shift, 2 * variance
    ),  # Canonne, Kamath, Steinke 2020, Thm 4
    variance=lambda variance, _: variance,
    calibrated=lambda rho, _, l2_squared: Fraction(l2_squared, 2 * rho),
    most=((1 << 31) // 14) * ((1 << 31) // 14),  # 14 standard deviations
    usual="rho + 2 sqrt(rho ln(1/delta))",
    symbol="ρ",
)
TWO_SIDED_GEOMETRIC = NoiseLaw(
    name="two_sided_geometric",
    mechanism="geometric",
    loss_name="epsilon",
    parameter_name="scale",
    loss_of_one=lambda scale, shift: Fraction(shift, scale),  # Ghosh, Roughgarden, Sundararajan 2009
    # 2 t^2 exceeds the exact variance 1 / (2 sinh(1/2t)^2) by at most 1/6; weights need close numbers, not exact ones.
    variance=lambda scale, _: 2 * scale * scale,
    calibrated=lambda epsilon, l1, _: Fraction(l1, epsilon),
    most=(1 << 31) // 90,  # 90 scales
    usual="epsilon",
    symbol="ε",
)
OPTIMAL_INTEGER = NoiseLaw(
    name="optimal_integer",
    mechanism="optimal",
    loss_name="epsilon_delta",
    parameter_name="epsilon",
    loss_of_one=_moved_by_one,  # with the delta of one count beside it (noise/optimal/PROOF.md)
    variance=lambda _, weights: variance_of(weights),
    calibrated=lambda epsilon, l1, _: Fraction(
        epsilon, l1
    ),  # of each count that moves: epsilons and deltas add up
    most=10,
    usual="sums of epsilon and delta",
    symbol="ε",
)
LAWS: dict[str, NoiseLaw] = {
    law.name: law for law in (DISCRETE_GAUSSIAN, TWO_SIDED_GEOMETRIC, OPTIMAL_INTEGER)
}


def law_of_mechanism(mechanism: str) -> NoiseLaw:
    """Return the law that a run file's mechanism draws (KeyError if there is none)."""
    return {law.mechanism: law for law in LAWS.values()}[mechanism]


WEIGHT_BITS = 128


@dataclass(frozen=True)
class WeightedInteger:
    """The law on -n .. n with P(X = k) = weights[|k|] / 2^128.

    Args:
        weights: of 0, 1, .. n; whole numbers above 0; the first, and twice each of the others, add to 2^128.

    Raises:
        TypeError: a weight that is no whole number.
        ValueError: weights that do not add up, or a law of one value only.

    Source: `noise/optimal/PROOF.md`, sections on whole weights and drawing.

    """

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(isinstance(w, bool) or not isinstance(w, int) for w in self.weights):
            raise TypeError("Weights are whole numbers. Fix: those of a law that was made and checked.")
        if len(self.weights) < 2 or min(self.weights) < 1:
            raise ValueError(
                "A law needs two weights or more, each above 0. Fix: zero noise is no mechanism."
            )
        if 2 * sum(self.weights) - self.weights[0] != 1 << WEIGHT_BITS:
            raise ValueError("The weights of a law add to 2^128. Fix: take them from a plan.")

    def half_width(self, n_bits: int) -> int:
        """Return the largest value, whatever the number of bits."""
        return len(self.weights) - 1

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """2^128 P(X <= k) for k = -n .. n - 1, exact."""
        return tuple(accumulate((*self.weights[:0:-1], *self.weights[:-1])))

    def thresholds(self, n_bits: int) -> tuple[int, ...]:
        """Return floor(2^n_bits P(X <= k)) for k = -n .. n - 1, exact."""
        if n_bits >= WEIGHT_BITS:
            return tuple(one << (n_bits - WEIGHT_BITS) for one in self.sums)
        return tuple(one >> (WEIGHT_BITS - n_bits) for one in self.sums)

    def mass(self, k: int) -> int:
        """Return 2^128 P(X = k), exact."""
        return self.weights[abs(k)] if abs(k) < len(self.weights) else 0


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


FormulaDistribution = DiscreteGaussian | TwoSidedGeometric
NoiseDistribution = FormulaDistribution | WeightedInteger


@lru_cache(maxsize=2)
def law_tails(law: FormulaDistribution, floor_bits: int) -> TailSums:
    """Return enclosures of the law's unnormalised tail sums. Cost: proportional to the standard deviation."""
    slope = law.energy(1)
    return tail_sums(slope, law.energy(2) - 2 * slope, floor_bits)


def pmf_interval(law: NoiseDistribution, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
    """Enclose P(X = k) between two rationals at most about 2^-n_bits apart.

    Args:
        law: the noise law.
        k: any integer outcome.
        n_bits: accuracy, >= 1.

    Returns:
        (lo, hi) with lo <= P(X = k) <= hi.

    """
    if isinstance(law, WeightedInteger):
        exact = Fraction(law.mass(k), 1 << WEIGHT_BITS)
        return exact, exact
    tails = law_tails(law, n_bits + 2)
    lo, hi = exp_neg(law.energy(k), tails.precision)
    total_lo, total_hi = tails.total
    return Fraction(lo, total_hi), Fraction(hi, total_lo)


def cdf_interval(law: NoiseDistribution, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
    """Enclose P(X <= k) between two rationals at most about 2^-n_bits apart.

    Args:
        law: the noise law.
        k: any integer outcome.
        n_bits: accuracy, >= 1.

    Returns:
        (lo, hi) with lo <= P(X <= k) <= hi.

    """
    if isinstance(law, WeightedInteger):
        exact = Fraction(sum(law.mass(x) for x in range(-law.half_width(n_bits), k + 1)), 1 << WEIGHT_BITS)
        return exact, exact
    tails = law_tails(law, n_bits + 2)
    total_lo, total_hi = tails.total
    lo, hi = tails.at(k + 1 if k >= 0 else -k)
    below, above = Fraction(lo, total_hi), min(Fraction(hi, total_lo), Fraction(1, 2))
    return (1 - above, 1 - below) if k >= 0 else (below, above)
