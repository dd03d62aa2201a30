"""Noise of whole weights over 2^128: its tables are sums of its weights, with nothing to certify."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from topdown.privacy.fixed_point import TailSums
from topdown.privacy.laws.distribution import UNIT, WEIGHT_BITS, NoiseDistribution, NoiseLaw, Weights

if TYPE_CHECKING:
    from topdown.privacy.bits import BitSource

MOST_VALUES = 1 << 20  # of a table
_VARIANCE_GRID = 1 << 30


@dataclass(frozen=True)
class WeightedInteger(NoiseDistribution):
    """The law on -n .. n with P(X = k) = weights[|k|] / 2^128.

    Args:
        weights: of 0, 1, .. n; whole numbers above 0; the first, and twice each of the others, add to 2^128.

    Raises:
        TypeError: a weight that is no whole number.
        ValueError: weights that do not add up, or a law of one value only.

    Source: `optimal_noise/PROOF.md`, sections on whole weights and drawing.
    """

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(isinstance(w, bool) or not isinstance(w, int) for w in self.weights):
            raise TypeError("Weights are whole numbers. Fix: those of a law that was made and checked.")
        if len(self.weights) < 2 or min(self.weights) < 1:
            raise ValueError(
                "A law needs two weights or more, each above 0. Fix: zero noise is no mechanism."
            )
        if 2 * sum(self.weights) - self.weights[0] != UNIT:
            raise ValueError("The weights of a law add to 2^128. Fix: take them from a plan.")

    def half_width(self, n_bits: int) -> int:
        """Return the largest value, whatever the number of bits."""
        return len(self.weights) - 1

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """2^128 P(X <= k) for k = -n .. n - 1, exact."""
        return tuple(accumulate((*self.weights[:0:-1], *self.weights[:-1])))

    def exact_thresholds(self, n_bits: int) -> tuple[int, ...]:
        """Return floor(2^n_bits P(X <= k)) for k = -n .. n - 1, exact."""
        if n_bits >= WEIGHT_BITS:
            return tuple(one << (n_bits - WEIGHT_BITS) for one in self.sums)
        return tuple(one >> (WEIGHT_BITS - n_bits) for one in self.sums)

    def mass(self, k: int) -> int:
        """Return 2^128 P(X = k), exact."""
        return self.weights[abs(k)] if abs(k) < len(self.weights) else 0

    @property
    def is_too_wide(self) -> bool:
        """Whether it has too many values for a table."""
        return 2 * (len(self.weights) - 1) > MOST_VALUES

    def decides(self, n_bits: int) -> bool:
        """Tell whether thresholds have all bits of the weights."""
        return n_bits >= WEIGHT_BITS

    def tails(self, floor_bits: int) -> TailSums:
        """Refuse: thresholds are exact, so nothing is enclosed."""
        raise TypeError("whole weights have exact thresholds")

    def draw_slowly(self, bits: BitSource) -> int:
        """Draw the least k with u < 2^128 P(X <= k), u of 128 bits; one value after the other."""
        u = int.from_bytes(bits.read(WEIGHT_BITS // 8), "big")
        k = 1 - len(self.weights)
        while u >= self.mass(k):
            u -= self.mass(k)
            k += 1
        return k

    def pmf(self, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
        """Return P(X = k) twice: it is exact."""
        exact = Fraction(self.mass(k), UNIT)
        return exact, exact

    def cdf(self, k: int, n_bits: int) -> tuple[Fraction, Fraction]:
        """Return P(X <= k) twice: it is exact."""
        exact = Fraction(sum(self.mass(x) for x in range(1 - len(self.weights), k + 1)), UNIT)
        return exact, exact


@lru_cache(maxsize=512)
def variance_of(weights: Weights) -> Fraction:
    """Return the exact variance of a symmetric law, rounded up to a multiple of 2^-30: measurement files hold it."""
    exact = Fraction(2 * sum(k * k * weight for k, weight in enumerate(weights)), UNIT)
    return Fraction(-(-exact.numerator * _VARIANCE_GRID // exact.denominator), _VARIANCE_GRID)


def _moved_by_one(epsilon: Fraction, shift: int) -> Fraction:
    if shift != 1:
        raise ValueError("the weights of a law keep its promise for counts that move by 1")
    return epsilon


OPTIMAL_INTEGER = NoiseLaw(
    name="optimal_integer",
    mechanism="optimal",
    loss_name="epsilon_delta",
    parameter_name="epsilon",
    loss_of_one=_moved_by_one,  # with the delta of one count beside it (noise/optimal/PROOF.md)
    composed_as="weights",
    variance=lambda _, weights: variance_of(weights),
    own_variance=lambda _, weights: variance_of(weights),
    calibrated=lambda epsilon, l1, _: Fraction(
        epsilon, l1
    ),  # of each count that moves: epsilons and deltas add up
    most=10,
    usual="sums of epsilon and delta",
    distribution=lambda _, weights: WeightedInteger(weights),
)
