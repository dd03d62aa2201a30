"""Exact random decisions with rational parameters, the one seam through which an algorithm takes them, and sampling.

Decisions are fast by comparing one uniform number lazily, and have slow twins. Through the seam the auditor can take
every decision both ways. The rate of a Poisson sample and the base of the scores' weights follow from epsilon, all
rational (PROOF.md, section 1; Ghazi, Kamath, Kumar, Manurangsi, Sealfon, "Individualized Privacy Accounting via
Subsampling with Applications in Combinatorial Optimization", lemma 3.1; the larger base is PROOF.md, section 2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import final

import numpy as np
import numpy.typing as npt

from topdown.errors import ConfigError
from topdown.formats.common import Neighbours
from topdown.optimal_noise import factor_below
from topdown.privacy import BitSource
from topdown.privacy.accountant import PureDP, ReleaseEvent
from topdown.privacy.exact_values import Exact, rational
from topdown.privacy.fixed_point import divide_up, exp_neg, shift_up
from topdown.privacy.laws.distribution import bernoulli, uniform_below
from topdown.privacy.relation import Relation

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
            while self._n_bits < n_bits:
                self._prefix = self._prefix << _STEP | int.from_bytes(self._bits.read(_STEP // 8), "big")
                self._n_bits += _STEP
            low, high = enclose(n_bits)
            prefix = self._prefix >> (self._n_bits - n_bits)
            if prefix < low:  # u < (prefix + 1) / 2^n <= lo / 2^n
                return True
            if prefix >= high:
                return False
            n_bits += _STEP


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


def exponential_choice(scores: Sequence[int], base: Fraction, bits: BitSource) -> int:
    """Draw an index with probability proportional to base^score, by rejection from the uniform law. Exact.

    Cost: at most as many proposals as there are scores, on average.
    """
    best = max(scores)
    while True:
        proposed = uniform_below(len(scores), bits)
        if bernoulli_power(base, best - scores[proposed], bits):
            return proposed


def poisson_sample(n_records: int, rate: Fraction, bits: BitSource) -> npt.NDArray[np.bool_]:
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


Flags = npt.NDArray[np.bool_]


class Chance(ABC):
    """Random decisions of stated laws, independent of each other."""

    @abstractmethod
    def keep(self, n_records: int, rate: Fraction) -> Flags:
        """Keep each of n records with probability `rate`."""

    @abstractmethod
    def choose(self, scores: Sequence[int], base: Fraction) -> int:
        """Choose an index of at least one score with probability proportional to base^score."""

    @abstractmethod
    def accept(self, base: Fraction, exponent: int) -> bool:
        """Say True with probability base^-exponent, and always where the exponent is 0 or less."""

    @abstractmethod
    def coin(self, probability: Fraction) -> bool:
        """Say True with a probability that no record decides."""

    @abstractmethod
    def raised(self, count: int, base: Fraction, most: int) -> int:
        """Return min(count + G, most), with P(G = j) = (1 - 1/base) base^-j: never below min(count, most)."""

    @abstractmethod
    def first_accepted(self, n: int, base: Fraction, exponent: int) -> int:
        """Return which of n `accept` is the first True, or n."""


@final
class RealChance(Chance):
    """Draw from a source of bits, exactly.

    Args:
        bits: `AesBits()` for records; a seeded source only for made-up ones.
    """

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def keep(self, n_records: int, rate: Fraction) -> Flags:
        """Keep each record by a number of 64 bits, and more where these leave it open."""
        return poisson_sample(n_records, rate, self._bits)

    def choose(self, scores: Sequence[int], base: Fraction) -> int:
        """Choose by rejection."""
        return exponential_choice(scores, base, self._bits)

    def accept(self, base: Fraction, exponent: int) -> bool:
        """Compare one lazy uniform number with the power."""
        return exponent <= 0 or bernoulli_power(base, exponent, self._bits)

    def coin(self, probability: Fraction) -> bool:
        """Toss a rational coin."""
        return bernoulli(probability, self._bits)

    def raised(self, count: int, base: Fraction, most: int) -> int:
        """Add coins until one fails."""
        return min(count, most) + geometric(base, self._bits, max(0, most - count))

    def first_accepted(self, n: int, base: Fraction, exponent: int) -> int:
        """Skip the failures by one lazy uniform number."""
        return first_success(n, base, max(0, exponent), self._bits)


SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**6), Fraction(10)
_BITS = 64
_STEPS = 64


@dataclass(frozen=True)
class Subsampling:
    """A sampling rate p, and the base E0 = e^epsilon0 that a one-sided mechanism on the sample may use up.

    Args:
        rate: rational, 0 .. 1, below 1; each record is kept with this probability, independently.
        base: rational above 1.
        neighbours: name of the relation.

    Raises: ConfigError (C190, A013), TypeError for floats.
    """

    rate: Fraction
    base: Fraction
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not 0 <= rational(self.rate, "rate") < 1 or rational(self.base, "base") <= 1:
            raise ConfigError(
                f"the rate is {self.rate} and the base {self.base}",
                code="C190",
                fix="give a rate in 0 .. 1, below 1, and a base above 1",
            )
        Relation.named(self.neighbours)

    @property
    def exp_epsilon(self) -> Fraction:
        """Return e^epsilon of any mechanism run on such a sample that is one-sided with this base. Exact."""
        return lift(self.rate, self.base, Fraction(0), self.neighbours)[0]

    @property
    def event(self) -> ReleaseEvent:
        """Return what one run on one fresh sample costs; a rate of 0 costs nothing."""
        pure = self.exp_epsilon
        return ReleaseEvent(self.neighbours, PureDP(pure) if pure > 1 else None)


def lift(
    rate: Fraction, base: Fraction, delta: Fraction, neighbours: Neighbours
) -> tuple[Fraction, Fraction]:
    """Return (e^epsilon, delta) of a one-sided (ln base, delta) mechanism on a Poisson sample, for both directions.

    Where neighbours move two counts only delta 0 is stated.
    """
    relation = Relation.named(neighbours)
    if delta and relation.n_counts > 1:
        raise ConfigError(
            "a delta with replaced records",
            code="C190",
            fix="use neighbours that add or remove a record, or delta 0",
        )
    return relation.sampled_odds(rate, base), rate * delta


def subsampling(epsilon: Exact, neighbours: Neighbours) -> Subsampling:
    """Return the rate and the base with which one run keeps e^epsilon, as large as 64 bits say.

    Args:
        epsilon: exact, 10^-6 .. 10.
        neighbours: name of the relation. Where one count moves, the rate is just below 1 - e^-epsilon, the base
            1 + 1/(1 - rate); else the rate on a grid of 63 whose effective budget, rate x ln(base), is largest.

    Raises: ConfigError (C191, A001, A013), TypeError for floats.
    """
    asked = rational(epsilon, "epsilon")
    if not SMALLEST_EPSILON <= asked <= LARGEST_EPSILON:
        raise ConfigError(
            f"epsilon is {epsilon}, outside {SMALLEST_EPSILON} .. {LARGEST_EPSILON}",
            code="C191",
            fix="give one such as 1/2",
        )
    most = 1 - Fraction(exp_neg(asked, _BITS)[1], 1 << _BITS)
    if Relation.named(neighbours).n_counts == 1:
        return Subsampling(most, 1 + 1 / (1 - most), neighbours)
    factor = factor_below(asked)
    tried = [most * step / _STEPS for step in range(1, _STEPS)]
    plans = [(rate, 1 + ((1 - rate) * factor - 1) / rate) for rate in tried]
    with localcontext() as context:
        context.prec = 30
        # the ranking of public candidates decides which plan is used, never what the plan costs
        rate, base = max((p for p in plans if p[1] > 1), key=lambda p: _decimal(p[0]) * _decimal(p[1]).ln())
    return Subsampling(rate, base, neighbours)


def root_below(base: Fraction, parts: int) -> Fraction:
    """Return a rational r > 1 of at most 64 bits after the point with r^parts <= base; base > 1, parts >= 1.

    Weights r^q with whole scores q up to `parts` for one record, or `parts` steps of r each, stay within the base.
    """
    if parts == 1:
        return base
    unit, bits = 1 << _BITS, _BITS * parts
    ceiling = (base.numerator << bits) // base.denominator
    low, high = unit, int(base * unit) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**parts <= ceiling else (low, middle)
    if low == unit:
        raise ConfigError(
            f"the base leaves nothing for one of {parts} parts",
            code="C190",
            fix="use a coarser grid or a larger epsilon",
        )
    return Fraction(low, unit)


def least_exponent(base: Fraction, ratio: Fraction) -> int:
    """Return the least whole s >= 0 with base^s >= ratio; base > 1."""
    high = 1
    while base**high < ratio:
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if base**middle < ratio else (low, middle)
    return high


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
