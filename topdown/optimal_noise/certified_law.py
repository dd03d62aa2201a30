"""A noise law with its certificate, checked by code that shares nothing with what made them.

Whoever holds an `OptimalLaw` holds one that was checked.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from topdown.errors import CertificateError
from topdown.optimal_noise.noise_request import ErrorLoss, NoiseRequest
from topdown.privacy import BitSource

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


def worst_delta(weights: Sequence[int], sensitivity: int, epsilon: Fraction) -> Fraction:
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


def certified_lower_bound(
    certificate: Certificate, promises: Sequence[tuple[Fraction, Fraction]], loss: ErrorLoss
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


@dataclass(frozen=True, repr=False)
class OptimalLaw:
    """Noise for one whole-number query, checked as it is made: weights, and multipliers that bound all other laws.

    Args:
        ask: what it was made for.
        first: the least value.
        weights: of first, first + 1, ..; whole numbers that add to 2^bits.
        bits: random bits of one draw.
        certificate: multipliers for `lower_bound`.

    Raises: CertificateError (V180) for weights that do not add up or break a promise.
    """

    ask: NoiseRequest
    first: int
    weights: tuple[int, ...]
    bits: int
    certificate: Certificate

    def __post_init__(self) -> None:
        if not self.weights or min(self.weights) < 0 or sum(self.weights) != 1 << self.bits:
            raise CertificateError(
                f"the weights of a noise law are not whole numbers that add to 2^{self.bits}",
                code="V180",
                fix="make the law again: topdown noise --help",
            )
        for promise in self.ask.promises:
            needed = worst_delta(self.weights, self.ask.sensitivity, promise.epsilon)
            if needed > promise.delta:
                raise CertificateError(
                    f"a noise law does not keep delta {promise.delta} at epsilon {promise.epsilon}",
                    code="V180",
                    fix="make the law again: topdown noise --help",
                )

    def __repr__(self) -> str:
        kept = ", ".join(f"epsilon {p.epsilon} delta {p.delta}" for p in self.ask.promises)
        return f"OptimalLaw({kept}, values {self.first} .. {self.last})"

    @property
    def last(self) -> int:
        """The largest value."""
        return self.first + len(self.weights) - 1

    @cached_property
    def loss(self) -> Fraction:
        """The expected loss, exact."""
        loss = self.ask.loss
        total = sum((w * loss.at(self.first + k) for k, w in enumerate(self.weights)), Fraction(0))
        return total / (1 << self.bits)

    @cached_property
    def bound(self) -> Fraction:
        """A loss that no noise on the integers with the same promises is below, as the certificate proves."""
        promises = [(p.epsilon, p.delta) for p in self.ask.promises]
        return max(certified_lower_bound(self.certificate, promises, self.ask.loss), Fraction(0))

    @property
    def gap(self) -> Fraction:
        """How much the loss may be above the least possible, relative to the bound; absolute where the bound is 0."""
        return (self.loss - self.bound) / (self.bound or 1)

    def mass(self, value: int) -> Fraction:
        """Return the probability of a value."""
        k = value - self.first
        return Fraction(self.weights[k], 1 << self.bits) if 0 <= k < len(self.weights) else Fraction(0)

    @cached_property
    def _sums(self) -> tuple[int, ...]:
        return tuple(accumulate(self.weights))

    def draw(self, bits: BitSource) -> int:
        """Draw one value by inversion, with bits / 8 bytes of the source; the law is exact."""
        return self.first + bisect_right(self._sums, int.from_bytes(bits.read(self.bits // 8), "big"))

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return the delta that the law needs at another epsilon, rounded up by a part in 10^40."""
        return worst_delta(self.weights, self.ask.sensitivity, epsilon)

    @cached_property
    def variance(self) -> Fraction:
        """The variance, exact."""
        values = [(self.first + k, w) for k, w in enumerate(self.weights)]
        unit = 1 << self.bits
        mean = Fraction(sum(v * w for v, w in values), unit)
        return Fraction(sum(v * v * w for v, w in values), unit) - mean * mean
