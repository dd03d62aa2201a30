"""Enclosures of exponentials and of tail sums, in integer fixed point with directed rounding.

An enclosure at `precision` p of a real x is a pair of integers (lo, hi) with lo <= 2^p x <= hi.
Proofs: PROOF.md, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

_SPARE_BITS = 16


def shift_up(value: int, n_bits: int) -> int:
    """Return value / 2^n_bits rounded up."""
    return -(-value >> n_bits)


def divide_up(numerator: int, denominator: int) -> int:
    """Return numerator / denominator rounded up; denominator > 0."""
    return -(-numerator // denominator)


def exp_neg(exponent: Fraction, precision: int) -> tuple[int, int]:
    """Enclose exp(-exponent) by an alternating series at exponent / 2^h <= 1/2, squared h times.

    Guarantees lo >= 0, hi <= 2^precision, and an exact pair at exponent 0.

    Args:
        exponent: any rational >= 0.
        precision: binary digits after the point, >= 1.

    Raises:
        ValueError: negative exponent.
    """
    if exponent < 0:
        raise ValueError(f"exp_neg needs an exponent >= 0, not {exponent}.")
    if exponent == 0:
        return 1 << precision, 1 << precision
    halvings = (2 * exponent.numerator // exponent.denominator).bit_length()
    inner = precision + halvings + _SPARE_BITS
    lo, hi = _alternating_series(exponent.numerator, exponent.denominator << halvings, inner)
    for _ in range(halvings):
        lo, hi = lo * lo >> inner, shift_up(hi * hi, inner)
    extra = inner - precision
    return lo >> extra, min(shift_up(hi, extra), 1 << precision)


def _alternating_series(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Enclose exp(-r), 0 < r = numerator / denominator <= 1/2, by the partial sums of (-r)^k / k!."""
    unit = 1 << precision
    r_lo, r_hi = (numerator << precision) // denominator, divide_up(numerator << precision, denominator)
    sum_lo = sum_hi = term_lo = term_hi = unit
    k = 0
    while term_hi > 1:
        k += 1
        term_lo = term_lo * r_lo // (k << precision)
        term_hi = divide_up(term_hi * r_hi, k << precision)
        if k & 1:
            sum_lo, sum_hi = sum_lo - term_hi, sum_hi - term_lo
        else:
            sum_lo, sum_hi = sum_lo + term_lo, sum_hi + term_hi
    return max(sum_lo - term_hi, 0), min(sum_hi + term_hi, unit)


@dataclass(frozen=True, eq=False)
class TailSums:
    """Enclosures at `precision` of S(k) = sum over j >= k of w(j), for k = 1 .. len(lo); w(0) = 1.

    `lo[k - 1] <= 2^precision S(k) <= hi[k - 1]`; past the end, S(k) is between 0 and `rest` / 2^precision.
    """

    precision: int
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    rest: int

    @property
    def total(self) -> tuple[int, int]:
        """Enclosure of the normaliser, 1 + 2 S(1)."""
        unit = 1 << self.precision
        return unit + 2 * self.lo[0], unit + 2 * self.hi[0]

    def at(self, k: int) -> tuple[int, int]:
        """Enclosure of S(k), k >= 1."""
        return (self.lo[k - 1], self.hi[k - 1]) if k <= len(self.lo) else (0, self.rest)


def tail_sums(slope: Fraction, curvature: Fraction, floor_bits: int) -> TailSums:
    """Enclose the tail sums of w(k) = exp(-(slope k + curvature k (k - 1) / 2)).

    The weights come from the recurrence w(k + 1) = w(k) r(k), r(k + 1) = r(k) exp(-curvature). It stops
    when the rest, bounded by a geometric series, is below 2^-floor_bits.

    Args:
        slope: energy of the first step, > 0.
        curvature: second difference of the energy, >= 0.
        floor_bits: absolute accuracy wanted of the rest, in bits.
    """
    precision = floor_bits + 32 + 2 * divide_up(slope.denominator, slope.numerator).bit_length()
    unit = 1 << precision
    ratio_lo, ratio_hi = exp_neg(slope, precision)
    step_lo, step_hi = exp_neg(curvature, precision)
    if ratio_hi >= unit:
        raise ValueError("tail_sums needs a slope large enough to see at this precision.")
    weight_lo = weight_hi = unit
    weights: list[tuple[int, int]] = []
    while True:
        previous = weight_hi
        weight_lo, weight_hi = weight_lo * ratio_lo >> precision, shift_up(weight_hi * ratio_hi, precision)
        weights.append((weight_lo, weight_hi))
        ratio_lo, ratio_hi = ratio_lo * step_lo >> precision, shift_up(ratio_hi * step_hi, precision)
        # a stall is rounding noise: the bound below still holds, and the caller asks for more precision
        if weight_hi << floor_bits <= unit - ratio_hi or weight_hi >= previous:
            break
    rest = divide_up(weight_hi * ratio_hi, unit - ratio_hi)
    lo, hi = [], []
    sum_lo, sum_hi = 0, rest
    for weight_lo, weight_hi in reversed(weights):
        sum_lo, sum_hi = sum_lo + weight_lo, sum_hi + weight_hi
        lo.append(sum_lo)
        hi.append(sum_hi)
    return TailSums(precision, tuple(reversed(lo)), tuple(reversed(hi)), rest)
