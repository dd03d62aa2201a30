"""Slow twin of `kernels_borrow`: siblings that lean on their parent, in rationals, one cell after the other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pgsr.kernels_borrow import LEAST_SPREAD, PASSES, PHI_START, ROUNDS

Row = list[Fraction]


def lean_by_rationals(
    above: Sequence[Row], base: Sequence[Row], noise: Sequence[Row], pooled: Row
) -> tuple[list[Row], list[Row]]:
    """Return cumulative counts of siblings that lean on their parent's, and their variances.

    Args:
        above: of the parent: cumulative counts before it leaned on its own parent, final ones, their variances.
        base, noise: cumulative counts and the variance of their noise, a row a child; all of them lean.
        pooled: how much siblings of the level differ at least where variances are stated, per size.
    """
    parent, final, parent_variance = above
    n, of_parent = len(parent) - 1, parent[-1]
    totals = [row[-1] for row in base]
    a = [g / of_parent for g in totals]
    edge = 1 / (2 * of_parent)
    f = [min(max(value / of_parent, edge), 1 - edge) for value in parent]
    by_chance = [[g * x * (1 - x) * (1 - part) for x in f] for g, part in zip(totals, a, strict=True)]
    scale = [g * g * (1 - part) for g, part in zip(totals, a, strict=True)]
    off = [[(row[s] - part * parent[s]) ** 2 for s in range(n)] for row, part in zip(base, a, strict=True)]
    shares = [
        max(y - x, Fraction(0)) / of_parent for x, y in zip([Fraction(0), *parent], parent, strict=False)
    ]
    k = 1 / sum((p * p for p in shares), Fraction(0))
    children = range(len(base))
    trust = [Fraction(1) for _ in children]
    spread: list[Row] = []
    for _ in range(ROUNDS):
        phi = [Fraction(PHI_START) for _ in range(n)]
        for _ in range(PASSES):
            for s in range(n):
                known = [noise[c][s] + by_chance[c][s] for c in children]
                worth = [trust[c] * scale[c] / (known[c] + phi[s] * scale[c]) ** 2 for c in children]
                below = sum(w * scale[c] for c, w in enumerate(worth))
                found = sum(w * (off[c][s] - known[c]) for c, w in enumerate(worth))
                phi[s] = max(found / below, Fraction(0)) if below else Fraction(0)
        spread = [
            [max(by_chance[c][s] + phi[s] * scale[c], Fraction(LEAST_SPREAD)) for s in range(n)]
            for c in children
        ]
        odd = [
            sum((shares[s] * off[c][s] / (noise[c][s] + spread[c][s]) for s in range(n)), Fraction(0))
            for c in children
        ]
        half = Fraction(1, 2)
        trust = [min(Fraction(1), (half + k) / (half + k * q)) for q in odd]
        # Numbers of as many digits as the steps before have made grow without end: twelve places are kept.
        trust = [t.limit_denominator(10**12) for t in trust]
    out, variance = [[*row] for row in base], [[Fraction(0)] * (n + 1) for _ in children]
    for s in range(n):
        inverse = []
        for c in children:
            w, u = 1 / noise[c][s], trust[c] ** 4 / spread[c][s]
            out[c][s] = (w * base[c][s] + u * a[c] * final[s]) / (w + u) if totals[c] else Fraction(0)
            inverse.append(1 / (w + u) if totals[c] else Fraction(0))
            wide = max((by_chance[c][s] + pooled[s] * scale[c]) * u, Fraction(1))
            own = min((w + u * wide) / (w + u) ** 2, 1 / w) if totals[c] else Fraction(0)
            variance[c][s] = own + (u * a[c] / (w + u)) ** 2 * parent_variance[s]
        lack = final[s] - sum(out[c][s] for c in children)
        for c in children:
            out[c][s] += lack * inverse[c] / sum(inverse)
    return out, variance
