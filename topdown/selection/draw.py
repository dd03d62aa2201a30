"""Exact random decisions with rational parameters: fast by comparing one uniform number lazily, and their slow twins.

A uniform u in [0, 1) is revealed 64 bits at a time, and compared with an enclosure of the threshold at that precision,
until the comparison is decided. Proof: PROOF.md, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from topdown.noise.bits import BitSource
from topdown.noise.fixed import divide_up, shift_up
from topdown.noise.rejection import bernoulli, uniform_below

_STEP = 64
_CHUNK = 1 << 20
Enclose = Callable[[int], tuple[int, int]]


class LazyUniform:
    """One uniform number in [0, 1), of which only as many bits are drawn as its comparisons need."""

    def __init__(self, bits: BitSource) -> None:
        self._bits, self._prefix, self._n_bits = bits, 0, 0

    def below(self, enclose: Enclose) -> bool:
        """Tell whether the number is below x; `enclose(n)` gives whole lo <= 2^n x <= hi, ever closer."""
        n_bits = max(self._n_bits, _STEP)
        while True:
            self._reveal(n_bits)
            low, high = enclose(n_bits)
            prefix = self._prefix >> (self._n_bits - n_bits)
            if prefix < low:  # u < (prefix + 1) / 2^n <= lo / 2^n
                return True
            if prefix >= high:
                return False
            n_bits += _STEP

    def _reveal(self, n_bits: int) -> None:
        while self._n_bits < n_bits:
            self._prefix = self._prefix << _STEP | int.from_bytes(self._bits.read(_STEP // 8), "big")
            self._n_bits += _STEP


def rational_enclosure(number: Fraction) -> Enclose:
    """Return enclosures of a rational."""
    top, bottom = number.numerator, number.denominator
    return lambda n_bits: ((top << n_bits) // bottom, divide_up(top << n_bits, bottom))


def power_enclosure(number: Enclose, exponent: int) -> Enclose:
    """Return enclosures of x^exponent, from those of an x in 0 .. 1; the exponent is whole and >= 0."""

    def enclose(n_bits: int) -> tuple[int, int]:
        inner = n_bits + 2 * exponent.bit_length() + 4
        low, high = 1 << inner, 1 << inner
        factor_low, factor_high = number(inner)
        left = exponent
        while left:
            if left & 1:
                low, high = low * factor_low >> inner, shift_up(high * factor_high, inner)
            factor_low = factor_low * factor_low >> inner
            factor_high = shift_up(factor_high * factor_high, inner)
            left >>= 1
        extra = inner - n_bits
        return low >> extra, shift_up(high, extra)

    return enclose


def complement(number: Enclose) -> Enclose:
    """Return enclosures of 1 - x."""

    def enclose(n_bits: int) -> tuple[int, int]:
        low, high = number(n_bits)
        return max(0, (1 << n_bits) - high), (1 << n_bits) - low

    return enclose


def bernoulli_power(base: Fraction, exponent: int, bits: BitSource) -> bool:
    """Draw True with probability base^-exponent; base > 1, exponent >= 0. Exact."""
    return exponent == 0 or LazyUniform(bits).below(power_enclosure(rational_enclosure(1 / base), exponent))


def bernoulli_power_by_coins(base: Fraction, exponent: int, bits: BitSource) -> bool:
    """Draw the same by `exponent` coins of 1/base, stopping at the first that fails: the slow twin."""
    return all(bernoulli(1 / base, bits) for _ in range(exponent))


def geometric(base: Fraction, bits: BitSource, most: int) -> int:
    """Draw min(G, most) with P(G = j) = (1 - 1/base) base^-j, j >= 0."""
    drawn = 0
    while drawn < most and bernoulli(1 / base, bits):
        drawn += 1
    return drawn


def first_success(n: int, base: Fraction, exponent: int, bits: BitSource) -> int:
    """Draw which of n coins of base^-exponent is the first True, 0 .. n - 1, or n if none is. Exact.

    One uniform number says how many fail before: G >= j where u < (1 - base^-exponent)^j.
    """
    if n == 0 or exponent == 0:
        return 0
    failure = complement(power_enclosure(rational_enclosure(1 / base), exponent))
    uniform = LazyUniform(bits)
    low, high = 0, n + 1  # at least `low` fail; not `high` or more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if uniform.below(power_enclosure(failure, middle)) else (low, middle)
    return low


def choose(scores: Sequence[int], base: Fraction, bits: BitSource) -> int:
    """Draw an index with probability proportional to base^score, by rejection from the uniform law. Exact.

    Cost: at most as many proposals as there are scores, on average.
    """
    best = max(scores)
    while True:
        proposed = uniform_below(len(scores), bits)
        if bernoulli_power(base, best - scores[proposed], bits):
            return proposed


def keep(n_records: int, rate: Fraction, bits: BitSource) -> npt.NDArray[np.bool_]:
    """Draw for each of n records, independently, whether it is kept, with probability `rate` exactly."""
    flags = np.empty(n_records, dtype=np.bool_)
    scaled = rate * (1 << _STEP)
    whole, rest = np.uint64(int(scaled)), scaled - int(scaled)
    for start in range(0, n_records, _CHUNK):
        part = flags[start : start + _CHUNK]
        drawn = np.frombuffer(bits.read(8 * part.size), dtype="<u8")
        np.less(drawn, whole, out=part)
        if rest:
            for i in np.flatnonzero(drawn == whole):
                part[i] = bernoulli(rest, bits)
    return flags


def keep_one_by_one(n_records: int, rate: Fraction, bits: BitSource) -> npt.NDArray[np.bool_]:
    """Draw the same, one coin a record: the slow twin."""
    return np.array([bernoulli(rate, bits) for _ in range(n_records)], dtype=np.bool_)
