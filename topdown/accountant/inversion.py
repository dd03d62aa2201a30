"""Solve delta(epsilon) = target with bounds on both sides; needs nothing but enclosures of delta."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from topdown.accountant.enclosure import Enclosure

Deltas = Callable[[Sequence[Fraction]], list[Enclosure]]
_BISECT = 25  # Newton steps before bisection
_REFINED = 5  # bisections of an end where the enclosures are wide
_WIDE = 0.5  # relative width from which an enclosure says nothing about the slope


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
    for turn in range(_BISECT + bits + 1100):
        (found,) = deltas([x])
        if found.lower >= target:
            low = max(low, x)
        elif found.upper <= target:
            high = min(high, x)
        middle = (found.lower + found.upper) / 2
        value = log_ratio(middle, target) if middle > 0 else -math.inf
        spread = float(found.width / middle) if middle > 0 else math.inf
        undecided = found.lower < target < found.upper
        if undecided or high - low <= Fraction(2, 1 << bits):
            break
        if before and before[0] != x and value != before[1]:
            slope = (value - before[1]) / float(x - before[0])
        before = (x, value)
        step = -value / slope if slope < 0 else math.inf
        if turn > _BISECT or spread > _WIDE or not math.isfinite(step):
            x = _round((low + high) / 2, bits)
            continue
        if abs(step) <= max(spread / abs(slope), 2.0**-bits):
            break
        x = x + Fraction(step) if low < x + Fraction(step) < high else (low + high) / 2
        x = _round(x, bits)

    def above(point: Fraction) -> bool:
        return deltas([point])[0].lower >= target

    def below(point: Fraction) -> bool:
        return deltas([point])[0].upper <= target

    least = Fraction(1, 1 << bits)
    width = max(_round(Fraction(2 * min(spread, 1.0) / max(-slope, 1e-3)), bits), least)
    return Enclosure(_end(above, x, low, -width, least), _end(below, x, high, width, least), found.method)


def _end(
    good: Callable[[Fraction], bool], x: Fraction, far: Fraction, step: Fraction, least: Fraction
) -> Fraction:
    """Return a good point beyond x, little farther than the nearest; `far` is known to be good.

    Args:
        good: whether the enclosure decides at a point.
        x: where the search starts; far: a good point on the side of `step`.
        step: first signed distance tried; least: smallest distance tried.
    """
    side = 1 if step > 0 else -1
    while (x + step - far) * side < 0 and not good(x + step):
        step *= 2
    if (x + step - far) * side < 0:
        far = x + step
        while abs(step) > least and good(x + step / 2):
            step /= 2
            far = x + step
    near = x + (far - x) / 2
    for _ in range(_REFINED if abs(far - x) > abs(x) / 2**30 else 0):
        middle = (near + far) / 2
        near, far = (near, middle) if good(middle) else (middle, far)
    return far


def _round(value: Fraction, bits: int) -> Fraction:
    return Fraction(round(value * (1 << bits)), 1 << bits)
