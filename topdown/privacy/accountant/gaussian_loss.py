"""The distribution of the privacy loss of composed discrete Gaussian measurements, and balls to compute with it.

Coordinate i has noise N_Z(0, v_i) and moves by k_i between neighbours. With S = sum (k_i / v_i) X_i and
P = sum k_i**2 / v_i the log-likelihood ratio is S + P/2 under the first hypothesis and S - P/2 under the
second, X_i ~ N_Z(0, v_i) (Su, Su, Wang, arXiv 2606.29835, section 3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

from topdown.errors import ConfigError
from topdown.privacy.exact_values import LARGEST

_MOST_BITS = 12_000
_SMALLEST = 1 / LARGEST

OUTWARD = 1e-9
"""Relative: far more than the floating-point error of any bound here; each is moved by it to the safe side."""


class EngineLimitError(ConfigError):
    """An engine cannot hold the composition; another one can."""

    default_code = "A009"


@dataclass(frozen=True, order=True)
class CoordinateGroup:
    """`count` equal coordinates: noise N_Z(0, variance), moved by the integer `shift`."""

    variance: Fraction
    shift: int
    count: int

    @property
    def weight(self) -> Fraction:
        """Factor of X in the privacy loss: shift / variance."""
        return Fraction(self.shift * self.variance.denominator, self.variance.numerator)


@dataclass(frozen=True)
class LossDistribution:
    """Sum of independent discrete Gaussian losses, exact.

    total = P, the variance proxy of S; half = R = P/2; spacing = g, S lies in gZ; integers = weights / g.
    """

    groups: tuple[CoordinateGroup, ...]

    @cached_property
    def weights(self) -> tuple[Fraction, ...]:
        """Weight of each group."""
        return tuple(g.weight for g in self.groups)

    @cached_property
    def total(self) -> Fraction:
        """P = sum of shift**2 / variance."""
        bottom = math.lcm(*(g.variance.numerator for g in self.groups))
        parts = (
            g.count * g.shift**2 * g.variance.denominator * (bottom // g.variance.numerator)
            for g in self.groups
        )
        return Fraction(sum(parts), bottom)

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
        top, bottom = self.spacing.as_integer_ratio()
        return tuple(w.numerator * bottom // (w.denominator * top) for w in self.weights)

    @property
    def coordinates(self) -> int:
        """How many coordinates move."""
        return sum(g.count for g in self.groups)

    def first_above(self, point: Fraction) -> tuple[int, Fraction]:
        """Return the index of the first lattice point strictly above `point`, and its exact distance."""
        (top, bottom), (step, per) = point.as_integer_ratio(), self.spacing.as_integer_ratio()
        index = top * per // (bottom * step) + 1
        return index, Fraction(index * step * bottom - top * per, bottom * per)


def loss_distribution(coordinates: Iterable[tuple[Fraction, int, int]]) -> LossDistribution:
    """Return the law of (variance, shift, count) coordinates; equal ones are merged, zero shifts dropped."""
    merged: Counter[tuple[Fraction, int]] = Counter()
    for variance, shift, count in coordinates:
        if shift and count:
            merged[variance, abs(shift)] += count
    if not merged:
        raise ConfigError(
            "nothing is measured: the total budget is zero", code="A007", fix="give one rho above 0"
        )
    law = LossDistribution(
        tuple(CoordinateGroup(v, k, merged[v, k]) for v, k in sorted(merged, key=_by_variance, reverse=True))
    )
    _check_range(law)
    return law


def _by_variance(group: tuple[Fraction, int]) -> tuple[int, Fraction, int]:
    """Return a key that sorts by variance and shift, whole numbers first: comparing fractions takes long."""
    variance, shift = group
    return (variance.numerator << 64) // variance.denominator, variance, shift


def is_between(number: Fraction, least: Fraction, most: Fraction) -> bool:
    """Tell whether least <= number <= most; numbers above 0, compared in whole numbers."""
    (top, bottom), (low, per), (high, of) = (x.as_integer_ratio() for x in (number, least, most))
    return low * bottom <= top * per and top * of <= high * bottom


def _check_range(law: LossDistribution) -> None:
    """Refuse numbers beyond 10**300 or below 10**-300, and a total that cannot be written down."""
    for name, numbers in (
        ("variance", [g.variance for g in law.groups]),
        ("shift", [Fraction(g.shift) for g in law.groups]),
        ("number of counts moved", [Fraction(law.coordinates)]),
        ("total budget", [law.total]),
    ):
        for number in numbers:
            if not is_between(number, _SMALLEST, LARGEST):
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


SMALLEST_EXPONENT = 65_536
Ball = Any  # flint.arb and flint.acb carry no type information


@contextmanager
def precision(bits: int) -> Iterator[Any]:
    """Set the working precision of python-flint for a block and give its module."""
    import flint

    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield flint
    finally:
        flint.ctx.prec = before


def ball_of(flint: Any, value: Fraction) -> Ball:
    """Return the ball of an exact rational."""
    return flint.arb(quotient(flint, value))


def quotient(flint: Any, value: Fraction) -> Ball:
    """Return an exact rational as python-flint's."""
    return flint.fmpq(value.numerator, value.denominator)


def ends(ball: Ball) -> tuple[Fraction, Fraction]:
    """Return the end points of a real ball: exact, or moved outward to 0 or 2**-65536 where they are nearer to 0."""
    if not ball.is_finite():
        raise EngineLimitError("a ball lost all its digits", fix='give more digits, or use engine "auto"')
    return -_dyadic_up(-ball.lower()), _dyadic_up(ball.upper())


def _dyadic_up(exact: Ball) -> Fraction:
    """Return a dyadic number, rounded up where its exponent is far below anything that is asked for."""
    mantissa, exponent = exact.man_exp()
    if exponent < -SMALLEST_EXPONENT:
        size = int(mantissa).bit_length() + exponent
        if size < -SMALLEST_EXPONENT:
            return Fraction(int(mantissa > 0), 1 << SMALLEST_EXPONENT)
    mantissa, exponent = int(mantissa), int(exponent)
    if exponent > SMALLEST_EXPONENT:
        raise EngineLimitError("a ball lost all its digits", fix='give more digits, or use engine "auto"')
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def float_exp(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return outward float bounds of exp(x), assuming libm within 8 units in the last place."""
    value, slack = math.exp(float(x)), (abs(float(x)) + 12) * 2.0**-52
    return Fraction(value * (1 - slack)), Fraction(value * (1 + slack))


def ball_exp(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return outward ball bounds of exp(x)."""
    with precision(bits) as flint:
        return ends(ball_of(flint, x).exp())
