"""Check a law and its certificate by code that shares nothing with what made them.

Exact rationals throughout. The worst event of a shift s is {i : p(i) > e^epsilon p(i - s)}, so the delta a law needs is
the largest sum over i of (p(i) - e^epsilon p(i - s))+. It grows as e^epsilon is taken smaller, so a bound below
e^epsilon makes every delta found here an upper bound of the true one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from topdown.noise.optimal.losses import Loss

_BITS = 160


def exp_bounds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Return rationals around e^epsilon, epsilon >= 0, about 150 bits apart: the power series, rounded outward."""
    unit = 1 << _BITS
    low, high, below, above, n = 0, 0, unit, unit, 0
    while n <= 2 * epsilon or above > 1:
        low, high, n = low + below, high + above, n + 1
        below = below * epsilon.numerator // (epsilon.denominator * n)
        above = -(-above * epsilon.numerator // (epsilon.denominator * n)) if epsilon else 0
    return Fraction(low, unit), Fraction(high + 2 * above, unit)  # from n > 2 epsilon on, terms halve


def attained(weights: Sequence[int], sensitivity: int, epsilon: Fraction) -> Fraction:
    """Return the delta that the law needs at epsilon, over all shifts up to the sensitivity, both ways.

    An upper bound of it, within 10^-40 relative of e^epsilon.

    Args:
        weights: whole numbers >= 0, of neighbouring values; the law is proportional to them.
        sensitivity: >= 1.
        epsilon: >= 0.

    Raises: ValueError for weights below 0, or all 0.
    """
    if min(weights, default=0) < 0 or not sum(weights):
        raise ValueError("A law has weights of 0 or more, not all of them 0.")
    factor = exp_bounds(epsilon)[0]
    worst = max(
        _exceeding(way, shift, factor)
        for shift in range(1, sensitivity + 1)
        for way in (weights, weights[::-1])
    )
    return worst / sum(weights)


def _exceeding(weights: Sequence[int], shift: int, factor: Fraction) -> Fraction:
    """Return the sum over i of (weights[i] - factor weights[i - shift])+."""
    top, bottom = factor.numerator, factor.denominator
    shifted = (*[0] * shift, *weights)
    total = sum(max(w * bottom - top * v, 0) for w, v in zip(weights, shifted, strict=False))
    return Fraction(total, bottom)


@dataclass(frozen=True)
class Multipliers:
    """One number for each place of the line, for one promise and shift: `left` before `start`, `values`, then 0.

    For a shift below 0 places are mirrored: the multiplier of place i is that given for -i.
    """

    start: int
    left: Fraction
    values: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if any(value.numerator < 0 for value in (self.left, *self.values)):
            raise ValueError("Multipliers are 0 or more.")

    @cached_property
    def full(self) -> Fraction:
        """The largest of them."""
        return max((self.left, *self.values))

    def at(self, place: int) -> Fraction:
        """Return the multiplier of a place."""
        if place < self.start:
            return self.left
        inside = place - self.start
        return self.values[inside] if inside < len(self.values) else Fraction(0)


Certificate = Mapping[tuple[int, int], Multipliers]
"""Multipliers by (number of the promise, shift); shifts are -sensitivity .. sensitivity without 0."""


def lower_bound(
    certificate: Certificate, promises: Sequence[tuple[Fraction, Fraction]], loss: Loss
) -> Fraction:
    """Return a number that the expected loss of no law on the integers that keeps all promises is below.

    Weak duality: any multipliers 0 <= y(i) <= Y of a promise and a shift s have, for every law p that keeps it,
    sum_i y(i) (p(i) - e^epsilon p(i - s)) <= Y delta. Added to the expected loss this leaves at least the least of
    c(j) + sum y(j) - e^epsilon sum y(j + s) over all j, less sum Y delta.

    Args:
        certificate: multipliers; any that are well formed give a valid bound.
        promises: (epsilon, delta), in the order of the certificate's numbers.
        loss: c.
    """
    factors = [int(exp_bounds(epsilon)[1] * (1 << _BITS)) for epsilon, _ in promises]  # they are whole
    reach = loss.settled
    for (_, shift), one in certificate.items():
        reach = max(reach, abs(shift) + max(-one.start, one.start + len(one.values)) + 1)
    places = range(-reach, reach + 1)
    unit = math.lcm(*(y.denominator for one in certificate.values() for y in (one.left, *one.values)))
    parts = [(factors[number], shift, _whole(one, unit)) for (number, shift), one in certificate.items()]
    least = min(loss.at(place) + Fraction(_added(parts, place), unit << _BITS) for place in places)
    spent = sum((one.full * promises[number][1] for (number, _), one in certificate.items()), Fraction(0))
    # past `reach` every multiplier is constant and the loss does not fall, so the ends stand for all beyond
    return least - spent


def _whole(one: Multipliers, unit: int) -> tuple[int, int, list[int]]:
    """Return multipliers as start, left and values in whole parts of `unit`."""
    left, *values = (y.numerator * (unit // y.denominator) for y in (one.left, *one.values))
    return one.start, left, values


def _added(parts: Sequence[tuple[int, int, tuple[int, int, list[int]]]], place: int) -> int:
    """Return sum y(j) - sum e^epsilon y(j + s), 2^-160 of a part each; a mirrored shift reads its multipliers at -j.

    Args:
        parts: e^epsilon in whole 2^-160, the shift, and its multipliers.
    """
    total = 0
    for factor, shift, (start, left, values) in parts:
        here = (place if shift > 0 else -place) - start
        for at, times in ((here, 1 << _BITS), (here + abs(shift), -factor)):
            total += times * (left if at < 0 else values[at] if at < len(values) else 0)
    return total
