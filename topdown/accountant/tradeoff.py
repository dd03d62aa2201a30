"""The trade-off function f(alpha) = smallest false-negative rate of a test with false-alarm rate alpha.

With z the smallest lattice point such that P[S > z] <= alpha (Neyman-Pearson, randomised at z),
f = P[S <= z - 2R] - (alpha - P[S > z]) exp(z - R): piecewise linear with slope -exp(z - R). Both tails use
integer lattice indices (2R is one), so ties are exact (Dong, Roth, Su 2022; Su, Su, Wang, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from topdown.accountant.enclosure import Enclosure
from topdown.accountant.gaussian import quantile
from topdown.accountant.law import Law

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
        self, law: Law, tails: Tails, method: str, exp: Callable[[Fraction], tuple[Fraction, Fraction]]
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
        known = self._known({i for zs in points for z in zs for i in self._needed(z)})
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
        return self._narrow(levels, low, high)

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

    def _narrow(self, levels: list[Fraction], low: list[int], high: list[int]) -> list[tuple[int, int]]:
        """Bisect each bracket as long as the enclosures decide."""
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

    def _needed(self, z: int) -> tuple[int, int]:
        return self.mirror - z, z + 1 if z >= 0 else -z

    def _known(self, indices: set[int]) -> dict[int, Enclosure]:
        """Return P[S >= index * spacing] at any index; the law is symmetric."""
        order = sorted(indices)
        values = self.tails([i if i > 0 else 1 - i for i in order])
        return {
            i: v if i > 0 else Enclosure(_ONE - v.upper, _ONE - v.lower)
            for i, v in zip(order, values, strict=True)
        }

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


def float_exp(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return outward float bounds of exp(x), assuming libm within 8 units in the last place."""
    value, slack = math.exp(float(x)), (abs(float(x)) + 12) * 2.0**-52
    return Fraction(value * (1 - slack)), Fraction(value * (1 + slack))


def ball_exp(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return outward ball bounds of exp(x)."""
    from topdown.accountant.certified import ball_of, ends, precision

    with precision(bits) as flint:
        return ends(ball_of(flint, x).exp())
