"""The trade-off function f(alpha) = smallest false-negative rate of a test with false-alarm rate alpha.

With z the smallest lattice point such that P[S > z] <= alpha (Neyman-Pearson, randomised at z),
f = P[S <= z - 2R] - (alpha - P[S > z]) exp(z - R): piecewise linear with slope -exp(z - R). Both tails use
integer lattice indices (2R is one), so ties are exact (Dong, Roth, Su 2022; Su, Su, Wang, section 2).

For engines that have no tails, from enclosures of delta alone: f(alpha) = sup over real epsilon of
1 - delta(epsilon) - exp(epsilon) alpha (Dong, Roth, Su 2022, proposition 5). With x = exp(epsilon) this is a concave
function h(x). Any point is a lower bound; an upper bound follows from three points whose middle one is certainly the
largest: concave functions lie below their extended chords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from topdown.privacy.accountant.conversions import quantile
from topdown.privacy.accountant.gaussian_loss import LossDistribution, float_exp
from topdown.privacy.exact_values import Enclosure

Tails = Callable[[Sequence[int]], list[Enclosure]]
_ONE = Fraction(1)


class TradeOff:
    """Trade-off curve of one law from enclosures of its tails.

    Args:
        law: the composition.
        tails: enclosures of P[S >= index * spacing] at indices >= 0.
        method: label of the results.
        exp: outward bounds of exp at an exact rational.
    """

    def __init__(
        self,
        law: LossDistribution,
        tails: Tails,
        method: str,
        exp: Callable[[Fraction], tuple[Fraction, Fraction]],
    ) -> None:
        self.law, self.tails, self.method, self.exp = law, tails, method, exp
        self.mirror = int(law.total / law.spacing)

    def at(self, alphas: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of f at each alpha in [0, 1]."""
        inner = [a for a in dict.fromkeys(alphas) if 0 < a < 1]
        found = dict(zip(inner, self._inner(inner), strict=True)) if inner else {}
        found |= {
            Fraction(0): Enclosure(_ONE, _ONE, self.method),
            _ONE: Enclosure(Fraction(0), Fraction(0), self.method),
        }
        return [found[a] for a in alphas]

    def _inner(self, alphas: list[Fraction]) -> list[Enclosure]:
        # smallest y >= 1 with P[S >= y] <= min(alpha, 1 - alpha); then z = y - 1, or 1 - y by symmetry
        edges = self._edges([min(a, 1 - a) for a in alphas])
        points = [
            range(low - 1, high) if alpha <= Fraction(1, 2) else range(1 - high, 2 - low)
            for alpha, (low, high) in zip(alphas, edges, strict=True)
        ]
        order = sorted({i for zs in points for z in zs for i in self._needed(z)})
        values = self.tails([i if i > 0 else 1 - i for i in order])
        known = {  # P[S >= index * spacing]; the law is symmetric
            i: v if i > 0 else Enclosure(_ONE - v.upper, _ONE - v.lower)
            for i, v in zip(order, values, strict=True)
        }
        out = []
        for alpha, zs in zip(alphas, points, strict=True):
            lines = [self._line(z, alpha, known) for z in zs]
            lower = max(max(line.lower for line in lines), Fraction(0))
            upper = max(line.upper for line in lines)
            out.append(Enclosure(min(lower, 1 - alpha), max(min(upper, 1 - alpha), Fraction(0)), self.method))
        return out

    def _edges(self, levels: list[Fraction]) -> list[tuple[int, int]]:
        """Return for each level (a, b), b - a <= 1, with certified P[S >= a - 1] >= level >= P[S >= b], a >= 1."""
        scale = math.sqrt(float(self.law.total)) / float(self.law.spacing)
        guess = [math.ceil(-quantile(float(a)) * scale) for a in levels]
        high = [max(1, g + 1) for g in guess]
        self._gallop(high, 1, lambda i, value: value.upper <= levels[i], 0)
        low = [max(1, g - 1) for g in guess]
        self._gallop(low, -1, lambda i, value: value.lower >= levels[i], 1)
        # bisect each bracket as long as the enclosures decide
        todo = [i for i in range(len(levels)) if high[i] > low[i]]
        while todo:
            middle = {i: (low[i] + high[i] - 1) // 2 for i in todo}
            values = self.tails([middle[i] for i in todo])
            rest = []
            for i, value in zip(todo, values, strict=True):
                if value.upper <= levels[i]:
                    high[i] = middle[i]
                elif value.lower >= levels[i]:
                    low[i] = middle[i] + 1
                else:
                    # a tie within the enclosure: keep both neighbours, f is the larger line
                    low[i], high[i] = max(low[i], middle[i]), min(high[i], middle[i] + 1)
                    continue
                if high[i] > low[i]:
                    rest.append(i)
            todo = rest
        return list(zip(low, high, strict=True))

    def _gallop(
        self, places: list[int], direction: int, good: Callable[[int, Enclosure], bool], before: int
    ) -> None:
        """Move each place, in growing steps and not below 1, until the tail at place - before is good."""
        todo, step = [i for i, p in enumerate(places) if p - before > 0], 2
        while todo:
            values = self.tails([places[i] - before for i in todo])
            todo = [i for i, value in zip(todo, values, strict=True) if not good(i, value)]
            for i in todo:
                places[i] = max(1, places[i] + direction * step)
            todo = [i for i in todo if places[i] - before > 0]
            step *= 4

    def _needed(self, z: int) -> tuple[int, int]:
        return self.mirror - z, z + 1 if z >= 0 else -z

    def _line(self, z: int, alpha: Fraction, known: dict[int, Enclosure]) -> Enclosure:
        """Return the value at alpha of the supporting line of slope -exp(z - R)."""
        slope_low, slope_high = self.exp(z * self.law.spacing - self.law.half)
        beta, part = (known[i] for i in self._needed(z))
        if z >= 0:
            low, high = alpha - part.upper, alpha - part.lower
        else:
            low, high = part.lower - (1 - alpha), part.upper - (1 - alpha)
        products = (low * slope_low, low * slope_high, high * slope_low, high * slope_high)
        return Enclosure(beta.lower - max(products), beta.upper - min(products))


Deltas = Callable[[Sequence[Fraction]], list[Enclosure]]
_FIRST_STEP, _SHRINK, _STEPS, _ENOUGH = 0.25, 5.0, 40, 1e-12


def trade_off_from_deltas(
    deltas: Deltas, law: LossDistribution, alphas: Sequence[Fraction], method: str
) -> list[Enclosure]:
    """Return the enclosure of f at each alpha, by narrowing a three-point bracket of the best epsilon."""
    return [_one(deltas, law, a, method) if 0 < a < 1 else Enclosure(1 - a, 1 - a, method) for a in alphas]


def _one(deltas: Deltas, law: LossDistribution, alpha: Fraction, method: str) -> Enclosure:
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
