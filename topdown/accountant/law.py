"""The law of the privacy loss of composed discrete Gaussian measurements.

Coordinate i has noise N_Z(0, v_i) and moves by k_i between neighbours. With S = sum (k_i / v_i) X_i and
P = sum k_i**2 / v_i the log-likelihood ratio is S + P/2 under the first hypothesis and S - P/2 under the
second, X_i ~ N_Z(0, v_i) (Su, Su, Wang, arXiv 2606.29835, section 3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

from topdown.accountant.exact import LARGEST
from topdown.errors import ConfigError

_MOST_BITS = 12_000


class EngineLimitError(ConfigError):
    """An engine cannot hold the composition; another one can."""

    default_code = "A009"


@dataclass(frozen=True, order=True)
class Group:
    """`count` equal coordinates: noise N_Z(0, variance), moved by the integer `shift`."""

    variance: Fraction
    shift: int
    count: int

    @property
    def weight(self) -> Fraction:
        """Factor of X in the privacy loss: shift / variance."""
        return self.shift / self.variance


@dataclass(frozen=True)
class Law:
    """Sum of independent discrete Gaussian losses, exact.

    total = P, the variance proxy of S; half = R = P/2; spacing = g, S lies in gZ; integers = weights / g.
    """

    groups: tuple[Group, ...]

    @cached_property
    def weights(self) -> tuple[Fraction, ...]:
        """Weight of each group."""
        return tuple(g.weight for g in self.groups)

    @cached_property
    def total(self) -> Fraction:
        """P = sum of shift**2 / variance."""
        return sum((g.count * g.shift * g.weight for g in self.groups), Fraction(0))

    @cached_property
    def half(self) -> Fraction:
        """R = P / 2."""
        return self.total / 2

    @cached_property
    def spacing(self) -> Fraction:
        """Largest g with every weight in gZ."""
        return reduce(common_spacing, self.weights)

    @cached_property
    def integers(self) -> tuple[int, ...]:
        """Weights in units of the spacing, coprime."""
        return tuple(int(w / self.spacing) for w in self.weights)

    @property
    def coordinates(self) -> int:
        """How many coordinates move."""
        return sum(g.count for g in self.groups)

    def first_above(self, point: Fraction) -> tuple[int, Fraction]:
        """Return the index of the first lattice point strictly above `point`, and its exact distance."""
        index = math.floor(point / self.spacing) + 1
        return index, index * self.spacing - point


def law_of(coordinates: Iterable[tuple[Fraction, int, int]]) -> Law:
    """Return the law of (variance, shift, count) coordinates; equal ones are merged, zero shifts dropped."""
    merged: Counter[tuple[Fraction, int]] = Counter()
    for variance, shift, count in coordinates:
        if shift and count:
            merged[variance, abs(shift)] += count
    if not merged:
        raise ConfigError(
            "nothing is measured: the total budget is zero", code="A007", fix="give one rho above 0"
        )
    law = Law(tuple(Group(v, k, n) for (v, k), n in sorted(merged.items(), reverse=True)))
    _check_range(law)
    return law


def _check_range(law: Law) -> None:
    """Refuse numbers beyond 10**300 or below 10**-300, and a total that cannot be written down."""
    for name, numbers in (
        ("variance", [g.variance for g in law.groups]),
        ("shift", [Fraction(g.shift) for g in law.groups]),
        ("number of counts moved", [Fraction(law.coordinates)]),
        ("total budget", [law.total]),
    ):
        for number in numbers:
            if not 1 / LARGEST <= number <= LARGEST:
                raise ConfigError(
                    f"a {name} is {'above 10**300' if number > 1 else 'below 10**-300'}",
                    code="A040",
                    fix="no release needs such a number: look for a slip in its exponent",
                )
    if law.total.numerator.bit_length() + law.total.denominator.bit_length() > _MOST_BITS:
        raise ConfigError(
            f"the total budget is a fraction of over {_MOST_BITS * 3 // 10:,} digits",
            code="A040",
            fix="round the budgets to a common denominator, e.g. all rho in 1/10000",
        )


def common_spacing(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest number of which both are whole multiples."""
    divisor = math.gcd(a.denominator, b.denominator)
    whole = a.denominator // divisor
    top = math.gcd(a.numerator * (b.denominator // divisor), b.numerator * whole)
    return Fraction(top, whole * b.denominator)
