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

from topdown.errors import ConfigError


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
        return reduce(_gcd, self.weights)

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
    return Law(tuple(Group(v, k, n) for (v, k), n in sorted(merged.items(), reverse=True)))


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    denominator = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * denominator), int(b * denominator)), denominator)
