"""Solve delta(epsilon) = target with bounds on both sides; needs nothing but enclosures of delta."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from topdown.accountant.enclosure import Enclosure

Deltas = Callable[[Sequence[Fraction]], list[Enclosure]]


def log_ratio(value: Fraction, target: Fraction) -> float:
    """Return ln(value / target) for positive exact numbers of any size."""
    ratio = value / target
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    return (math.log2(ratio.numerator) - math.log2(ratio.denominator)) * math.log(2)


def solve(deltas: Deltas, target: Fraction, guess: float, ceiling: Fraction, bits: int) -> Enclosure:
    """Return an enclosure of the smallest epsilon >= 0 with delta(epsilon) <= target.

    Certified by delta(lower) >= target >= delta(upper), read from the enclosures: delta decreases in epsilon.

    Args:
        deltas: enclosures of delta at given epsilons.
        target: delta.
        guess: start of the search.
        ceiling: an epsilon known to be large enough (zCDP bound).
        bits: resolution of epsilon, 2**-bits.
    """
    (start,) = deltas([Fraction(0)])
    if start.upper <= target:
        return Enclosure(Fraction(0), Fraction(0), start.method)
    low, high = Fraction(0), ceiling
    x = _round(Fraction(max(min(guess, float(ceiling)), 0.0)), bits)
    before: tuple[Fraction, float] | None = None
    slope, spread = -1.0, 0.0
    for _ in range(400):
        (found,) = deltas([x])
        if found.lower >= target:
            low = max(low, x)
        elif found.upper <= target:
            high = min(high, x)
        middle = (found.lower + found.upper) / 2
        if middle <= 0:
            x = _round((low + high) / 2, bits)
            continue
        value = log_ratio(middle, target)
        spread = float(found.width / middle)
        if before and before[0] != x and value != before[1]:
            slope = (value - before[1]) / float(x - before[0])
        if not (found.lower >= target or found.upper <= target) or high - low <= Fraction(2, 1 << bits):
            break
        step = Fraction(-value / slope) if slope < 0 else high - low
        before = (x, value)
        if abs(step) <= max(spread / abs(slope), 2.0**-bits):
            break
        x = x + step if low < x + step < high else (low + high) / 2
        x = _round(x, bits)
    ends = _certify(deltas, target, x, (low, high), bits, 2 * spread / max(-slope, 1e-3))
    return Enclosure(*ends, found.method)


def _certify(
    deltas: Deltas, target: Fraction, x: Fraction, bracket: tuple[Fraction, Fraction], bits: int, pad: float
) -> tuple[Fraction, Fraction]:
    """Return the tightest pair around x that the enclosures certify, widening until they do."""
    low, high = bracket
    width = _round(Fraction(pad), bits) + Fraction(1, 1 << bits)
    for _ in range(200):
        below, above = max(x - width, low), min(x + width, high)
        one, two = deltas([below, above])
        if one.lower >= target:
            low = max(low, below)
        if two.upper <= target:
            high = min(high, above)
        if low >= x - width and high <= x + width:
            break
        width *= 2
    return low, high


def _round(value: Fraction, bits: int) -> Fraction:
    return Fraction(round(value * (1 << bits)), 1 << bits)
