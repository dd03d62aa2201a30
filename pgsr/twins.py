"""Slow, obvious twins of the fast algorithms, for tests: enumeration, chain tables, plain pooling and splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from math import floor

import numpy as np

from pgsr.hierarchy import Ints, Tree, tree_of


def compositions(total: int, n_parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to write `total` as a sum of nonnegative integers."""
    for bars in combinations_with_replacement(range(total + 1), n_parts - 1):
        cuts = (0, *bars, total)
        yield tuple(b - a for a, b in pairwise(cuts))


def all_counts(tree: Tree, n_sizes: int, total: int) -> Iterator[Ints]:
    """Yield every consistent, valid, faithful table of counts [size][node]."""
    for cells in compositions(total, n_sizes * tree.n_leaves):
        yield tree.sums(np.array(cells, dtype=np.int64).reshape(n_sizes, tree.n_leaves))


def enumerate_model1(
    levels: Sequence[Sequence[int]] | Tree, noisy: object, total: int, weights: Sequence[int] | None = None
) -> int:
    """Return the optimal cost of Model 1 by trying everything."""
    tree, a = tree_of(levels), np.asarray(noisy)
    w = np.asarray(weights or [1] * tree.n_levels)[tree.level_of]
    return min(int((w * (x - a) ** 2).sum()) for x in all_counts(tree, len(a), total))


def enumerate_model2(levels: Sequence[Sequence[int]] | Tree, noisy: object, total: int) -> int:
    """Return the optimal cost of Model 2 by trying everything."""
    tree, a = tree_of(levels), np.asarray(noisy)
    return min(int(((np.cumsum(x, axis=0) - a) ** 2).sum()) for x in all_counts(tree, len(a), total))


def chain_by_tables(
    y: Sequence[int],
    tied: Sequence[bool],
    total: int,
    weights: Sequence[int] | None = None,
    *,
    last: bool = True,
) -> int:
    """Return the optimal cost of a chain by dynamic programming over all values 0..total (Model 3's tables)."""
    w = weights or [1] * len(y)
    best = [0] * (total + 1)
    for i, (target, weight) in enumerate(zip(y, w, strict=True)):
        if i > 0 and not tied[i - 1]:
            for v in range(1, total + 1):
                best[v] = min(best[v], best[v - 1])
        best = [cost + weight * (v - target) ** 2 for v, cost in enumerate(best)]
    return best[total] if last else min(best)


def isotonic_by_minmax(y: Sequence[int], low: int, high: int) -> list[int]:
    """Return the rounded isotonic regression by the max-min formula of means, in rationals."""
    n = len(y)
    means = [
        [Fraction(sum(y[a : b + 1]), b - a + 1) if b >= a else Fraction(0) for b in range(n)]
        for a in range(n)
    ]
    best = [max(min(means[a][b] for b in range(i, n)) for a in range(i + 1)) for i in range(n)]
    return [min(max(floor(v + Fraction(1, 2)), low), high) for v in best]


def split_by_units(target: Sequence[float], total: int) -> list[int]:
    """Return the nearest nonnegative integers that sum to `total`: one unit at a time to the cheapest place."""
    counts = [0] * len(target)
    for _ in range(total):
        cheapest = min(range(len(target)), key=lambda i: 2 * (counts[i] - target[i]) + 1)
        counts[cheapest] += 1
    return counts
