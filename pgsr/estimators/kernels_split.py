"""Compiled kernels that split whole numbers among the parts of a region: nearest, bounded, tracked, and matched.

Slow twins: `tests/oracles/group_sizes.py` and enumeration in the tests. Source: cumulative tracking, pgsr.md 2.3.
"""

from __future__ import annotations

import numpy as np

from pgsr.estimators.kernels_isotonic import kernel
from topdown.arrays import Floats, Ints


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


@kernel
def split(target: Floats, total: int, out: Ints) -> None:
    """Fill `out` with the nonnegative integers nearest to `target` (least squares) that sum to `total`.

    Projection on the simplex, floors, then the largest remainders: optimal, since a unit added to an entry
    with remainder f costs 1 - 2 (threshold + f), never less for an entry at 0 below the threshold.
    """
    n = target.shape[0]
    if total == 0:
        out[:] = 0
        return
    if n == 1:
        out[0] = total
        return
    down = np.sort(target)[::-1]
    run = 0.0
    shift = 0.0
    for k in range(n):
        run += down[k]
        candidate = (run - total) / (k + 1)
        if down[k] <= candidate:
            break
        shift = candidate
    left = total
    remainder = np.empty(n)
    for i in range(n):
        at = max(target[i] - shift, 0.0)
        out[i] = int(np.floor(at))
        left -= out[i]
        remainder[i] = out[i] - at if at > 0.0 else np.inf
    if left == 0:
        return
    order = np.argsort(remainder, kind="mergesort")
    i = 0
    while left > 0:
        out[order[i % n]] += 1
        left -= 1
        i += 1
    while left < 0:
        if out[order[n - 1 - i % n]] > 0:
            out[order[n - 1 - i % n]] -= 1
            left += 1
        i += 1


@kernel
def split_down(noisy: Floats, root: Ints, first_child: Ints, counts: Ints) -> None:
    """Fill counts level by level: each parent's count of one size split nearest to its children's answers."""
    n_inner = first_child.shape[0] - 1
    for s in range(noisy.shape[0]):
        counts[s, 0] = root[s]
        for g in range(n_inner):
            b, e = first_child[g], first_child[g + 1]
            split(noisy[s, b:e], counts[s, g], counts[s, b:e])


@kernel
def match_runs(
    runs: tuple[Ints, Ints, Ints, Ints], variances: tuple[Floats, Floats], child: Ints, out: Floats
) -> int:
    """Fill rows (child, mean size, variance, groups) of matched groups; return how many.

    Children with groups of one size share the parent's in proportion to what they have left.

    Args:
        runs: size and count of the parent's groups; size and count of the children's, ascending; the last is used up.
        variances: of both.
        child: whose each of the children's runs is.
    """
    size_p, count_p, size_c, left = runs
    var_p, var_c = variances
    n, i, have = 0, 0, 0
    start = 0
    while start < size_c.shape[0]:
        stop, tied = start, 0
        while stop < size_c.shape[0] and size_c[stop] == size_c[start]:
            tied += left[stop]
            stop += 1
        while tied > 0:
            if have == 0:
                have = count_p[i]
                i += 1
            m = min(have, tied)
            given = 0
            fraction = np.full(stop - start, -1.0)
            take = np.zeros(stop - start, dtype=np.int64)
            for j in range(start, stop):
                exact = m * (left[j] / tied)
                take[j - start] = min(int(exact), left[j])
                given += take[j - start]
                if take[j - start] < left[j]:
                    fraction[j - start] = exact - take[j - start]
            while given < m:
                best = int(np.argmax(fraction))
                take[best] += 1
                fraction[best] = fraction[best] - 1.0 if take[best] < left[start + best] else -1e300
                given += 1
            for j in range(start, stop):
                if take[j - start] > 0:
                    wp, wc = 1.0 / var_p[i - 1], 1.0 / var_c[j]
                    out[n, 0] = child[j]
                    out[n, 1] = (wp * size_p[i - 1] + wc * size_c[j]) / (wp + wc)
                    out[n, 2] = 1.0 / (wp + wc)
                    out[n, 3] = take[j - start]
                    left[j] -= take[j - start]
                    n += 1
            have -= m
            tied -= m
        start = stop
    return n
