"""The trade-off function from enclosures of delta alone, for engines that have no tails.

f(alpha) = sup over real epsilon of 1 - delta(epsilon) - exp(epsilon) alpha (Dong, Roth, Su 2022, proposition 5).
With x = exp(epsilon) this is a concave function h(x). Any point is a lower bound; an upper bound follows from three
points whose middle one is certainly the largest: concave functions lie below their extended chords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from topdown.accountant.enclosure import Enclosure
from topdown.accountant.gaussian import quantile
from topdown.accountant.law import Law
from topdown.accountant.tradeoff import float_exp

Deltas = Callable[[Sequence[Fraction]], list[Enclosure]]
_ONE = Fraction(1)
_FIRST_STEP, _SHRINK, _STEPS, _ENOUGH = 0.25, 5.0, 40, 1e-12


def trade_off_from_deltas(
    deltas: Deltas, law: Law, alphas: Sequence[Fraction], method: str
) -> list[Enclosure]:
    """Return the enclosure of f at each alpha, by narrowing a three-point bracket of the best epsilon."""
    return [_one(deltas, law, a, method) if 0 < a < 1 else Enclosure(1 - a, 1 - a, method) for a in alphas]


def _one(deltas: Deltas, law: Law, alpha: Fraction, method: str) -> Enclosure:
    sigma = math.sqrt(float(law.total))
    middle = Fraction(round((-quantile(float(alpha)) * sigma - float(law.half)) * 2**20), 2**20)
    step = Fraction(_FIRST_STEP)
    best = Enclosure(Fraction(0), 1 - alpha, method)
    known: dict[Fraction, Enclosure] = {}
    for _ in range(_STEPS):
        points = [middle - step, middle, middle + step]
        new = [p for p in points if p not in known]
        if not new:  # the step shrank to nothing, at a kink: no more can be told
            break
        known |= zip(new, _heights(deltas, new, alpha), strict=True)
        heights = [known[p] for p in points]
        top = max(range(3), key=lambda i: heights[i].upper)
        best = Enclosure(min(max(best.lower, heights[1].lower), best.upper), best.upper, method)
        if top != 1:
            middle = points[top]
            continue
        if heights[1].lower < max(heights[0].upper, heights[2].upper):
            break
        ceiling = _ceiling(points, heights)
        best = Enclosure(min(best.lower, ceiling), min(best.upper, ceiling), method)
        if best.relative_width <= _ENOUGH:
            break
        step = Fraction(float(step) / _SHRINK).limit_denominator(2**40)
    return best


def _heights(deltas: Deltas, points: list[Fraction], alpha: Fraction) -> list[Enclosure]:
    """Enclose 1 - delta(e) - exp(e) alpha; for e < 0 as exp(e) (1 - delta(-e) - alpha), by symmetry."""
    found = deltas([abs(e) for e in points])
    out = []
    for e, d in zip(points, found, strict=True):
        low, high = float_exp(e)
        if e >= 0:
            out.append(Enclosure(1 - d.upper - high * alpha, 1 - d.lower - low * alpha))
        else:
            rooms = (1 - d.upper - alpha, 1 - d.lower - alpha)
            out.append(Enclosure(min(rooms[0] * low, rooms[0] * high), max(rooms[1] * low, rooms[1] * high)))
    return out


def _ceiling(points: list[Fraction], heights: list[Enclosure]) -> Fraction:
    """Bound the maximum of a concave function of x = exp(e) whose middle value is the largest of three."""
    (x1, y1), (x2, y2), (x3, y3) = (float_exp(e) for e in points)
    top = heights[1].upper
    # left of x2 the chord through x2, x3 bounds it; right of x2 the chord through x1, x2
    left = (top - heights[2].lower) / (x3 - y2) * (y2 - x1) if x3 > y2 else _ONE
    right = (top - heights[0].lower) / (x2 - y1) * (y3 - x2) if x2 > y1 else _ONE
    return top + max(left, right, Fraction(0))
