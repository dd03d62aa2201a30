"""Compiled kernels of tracking: splits with upper bounds, size by size.

Slow twin of the split: enumeration in tests/unit/pgsr/test_pgsr_informed.py. Source: cumulative tracking, pgsr.md 2.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel
from pgsr.kernels import split

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def clipped_sum(target: Floats, cap: Ints, shift: float) -> float:
    """Return the sum of target - shift, each clipped to 0..cap."""
    total = 0.0
    for i in range(target.shape[0]):
        total += min(max(target[i] - shift, 0.0), float(cap[i]))
    return total


@kernel
def split_bounded(target: Floats, cap: Ints, total: int, out: Ints) -> None:
    """Fill `out` with the integers in 0..cap nearest to `target` (least squares) that sum to `total` <= sum cap.

    The optimum without caps is taken if it keeps them. Otherwise target - t is clipped, t found by bisection,
    floored, and the units left go one after the other to the largest target - out below its cap, which is optimal.
    """
    n = target.shape[0]
    split(target, total, out)
    kept = True
    for i in range(n):
        kept = kept and out[i] <= cap[i]
    if kept:
        return
    low, high = np.inf, -np.inf
    for i in range(n):
        low = min(low, target[i] - cap[i])
        high = max(high, target[i])
    for _ in range(64):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if clipped_sum(target, cap, middle) > total:
            low = middle
        else:
            high = middle
    left = total
    for i in range(n):
        out[i] = int(np.floor(min(max(target[i] - high, 0.0), float(cap[i]))))
        left -= out[i]
    while left > 0:
        best = -1
        for i in range(n):
            if out[i] < cap[i] and (best < 0 or target[i] - out[i] > target[best] - out[best]):
                best = i
        out[best] += 1
        left -= 1


@kernel
def track_down(target: Floats, root: Ints, totals: Ints, first_child: Ints, counts: Ints) -> None:
    """Fill counts size by size: each parent's count split towards what its children's cumulative targets lack.

    What is still to come of a region, totals - running, bounds each count. Where the totals of siblings sum to their
    parent's, every split has a solution and every region ends at its total; where every total is the root's, no bound
    is met.

    Args:
        target: cumulative targets, (n_sizes, n_nodes).
        root: counts of the root per size, which sum to totals[0].
        totals: number of groups of every node, consistent; or the root's at every node.
        first_child: see `Tree.first_child`.
        counts: filled; (n_sizes, n_nodes).

    Source: cumulative tracking, pgsr.md 2.3.
    """
    n_sizes, n_nodes = target.shape
    n_inner = first_child.shape[0] - 1
    running = np.zeros(n_nodes, dtype=np.int64)
    lacking = np.empty(n_nodes)
    cap = np.empty(n_nodes, dtype=np.int64)
    for s in range(n_sizes):
        counts[s, 0] = root[s]
        for g in range(n_inner):
            b, e = first_child[g], first_child[g + 1]
            if counts[s, g] == 0:
                counts[s, b:e] = 0
                continue
            for c in range(b, e):
                lacking[c] = target[s, c] - running[c]
                cap[c] = totals[c] - running[c]
            split_bounded(lacking[b:e], cap[b:e], counts[s, g], counts[s, b:e])
            for c in range(b, e):
                running[c] += counts[s, c]
