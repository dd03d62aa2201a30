"""Kernels of cumulative counts: exact pooling, isotonic rows, runs of medians, least squares on the tree, variances.

Each has a plain twin in `tests/oracles/group_sizes.py`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import pow

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import (
    Bools,
    Floats,
    FloatsOut,
    FloatTable,
    FloatTableOut,
    Ints,
    IntsOut,
    IntTable,
    IntTableOut,
    SingleTable,
    Whole,
)

ISOTONIC: float = 0.2


def exceeds(sum_a: Whole, weight_a: Whole, sum_b: Whole, weight_b: Whole) -> Whole:
    """Return 1 if sum_a / weight_a >= sum_b / weight_b, exactly, else 0.

    Compares whole parts, then the reciprocals of the remainders, as Euclid's algorithm does: no product of sums.
    """
    while True:
        whole_a, whole_b = sum_a // weight_a, sum_b // weight_b
        if whole_a != whole_b:
            return 1 if whole_a > whole_b else 0
        left_a, left_b = sum_a - whole_a * weight_a, sum_b - whole_b * weight_b
        if left_b == 0:
            return 1
        if left_a == 0:
            return 0
        sum_a, weight_a, sum_b, weight_b = weight_b, left_b, weight_a, left_a


def pool(sums: Ints, weights: Ints, block_sum: IntsOut, block_weight: IntsOut, last: IntsOut) -> Whole:
    """Pool adjacent violators on exact weighted sums; return the number of blocks.

    Block k ends at item last[k] and has the mean block_sum[k] / block_weight[k]; means ascend.
    """
    n_blocks: Whole = 0
    for i in range(sums.shape[0]):
        total, weight = sums[i], weights[i]
        while n_blocks > 0 and exceeds(block_sum[n_blocks - 1], block_weight[n_blocks - 1], total, weight):
            n_blocks -= 1
            total += block_sum[n_blocks]
            weight += block_weight[n_blocks]
        block_sum[n_blocks] = total
        block_weight[n_blocks] = weight
        last[n_blocks] = i
        n_blocks += 1
    return n_blocks


def chain_values(y: Ints, w: Ints, tied: Bools, total: Whole, pinned: Whole, out: IntsOut) -> None:
    """Fill the integer optimum of a chain: collapse ties, pool, round half up, clip (pgsr.md 2.1).

    Args:
        y, w: targets and positive integer weights.
        tied: whether entry i must equal entry i + 1.
        total: upper bound; when `pinned`, also the value of the last entry and of all tied to it.
        out: filled with the optimum.
    """
    n = y.shape[0]
    stop: Whole = n
    if pinned:
        stop = n - 1
        while stop > 0 and tied[stop - 1]:
            stop -= 1
        for i in range(stop, n):
            out[i] = total
    group: IntsOut = np.empty(stop, dtype=np.int64)
    sums: IntsOut = np.zeros(stop, dtype=np.int64)
    weights: IntsOut = np.zeros(stop, dtype=np.int64)
    k: Whole = -1
    for i in range(stop):
        if i == 0 or not tied[i - 1]:
            k += 1
        group[i] = k
        sums[k] += w[i] * y[i]
        weights[k] += w[i]
    n_groups = k + 1
    block_sum: IntsOut = np.empty(n_groups, dtype=np.int64)
    block_weight: IntsOut = np.empty(n_groups, dtype=np.int64)
    last: IntsOut = np.empty(n_groups, dtype=np.int64)
    n_blocks = pool(sums[:n_groups], weights[:n_groups], block_sum, block_weight, last)
    block: Whole = 0
    for i in range(stop):
        while block < n_blocks and group[i] > last[block]:
            block += 1
        rounded = (2 * block_sum[block] + block_weight[block]) // (2 * block_weight[block])
        out[i] = min(max(rounded, 0), total)


def isotonic_rows(y: IntTable, total: Whole, out: IntTableOut) -> None:
    """Fill each row with its isotonic integer optimum in 0..total, rows independent."""
    n_rows, n = y.shape[0], y.shape[1]
    ones: IntsOut = np.ones(n, dtype=np.int64)
    block_sum: IntsOut = np.empty(n, dtype=np.int64)
    block_weight: IntsOut = np.empty(n, dtype=np.int64)
    last: IntsOut = np.empty(n, dtype=np.int64)
    for r in range(n_rows):
        n_blocks = pool(y[r], ones, block_sum, block_weight, last)
        at: Whole = 0
        for b in range(n_blocks):
            rounded = (2 * block_sum[b] + block_weight[b]) // (2 * block_weight[b])
            level = min(max(rounded, 0), total)
            while at <= last[b]:
                out[r, at] = level
                at += 1


def isotonic_rows_real(y: FloatTable, low: Floats, high: Floats, out: FloatTableOut) -> None:
    """Fill each row with its continuous isotonic regression clipped to [low, high], a bound a row."""
    n_rows, n = y.shape[0], y.shape[1]
    mean: FloatsOut = np.empty(n)
    weight: IntsOut = np.empty(n, dtype=np.int64)
    last: IntsOut = np.empty(n, dtype=np.int64)
    for r in range(n_rows):
        k: Whole = 0
        for i in range(n):
            m: float = y[r, i]
            c: Whole = 1
            while k > 0 and mean[k - 1] >= m:
                k -= 1
                m = (m * c + mean[k] * weight[k]) / (c + weight[k])
                c += weight[k]
            mean[k] = m
            weight[k] = c
            last[k] = i
            k += 1
        at: Whole = 0
        for b in range(k):
            level = min(max(mean[b], low[r]), high[r])
            while at <= last[b]:
                out[r, at] = level
                at += 1


def share_cells(
    precision: FloatTableOut, first_child: Ints, own: FloatTableOut, share: FloatTableOut
) -> None:
    """Fill what least squares on the tree needs in every cell; `precision` becomes that of a node and its parts."""
    n = precision.shape[1]
    own[:, :] = 1.0
    share[0, :] = 0.0
    for g in range(first_child.shape[0] - 2, -1, -1):
        b, e = first_child[g], first_child[g + 1]
        for s in range(n):
            loose: float = 0.0
            for c in range(b, e):
                loose += 1.0 / precision[c, s]
            for c in range(b, e):
                share[c, s] = 1.0 / (precision[c, s] * loose)
            own[g, s] = precision[g, s] / (precision[g, s] + 1.0 / loose)
            precision[g, s] += 1.0 / loose


def extreme_medians(values: Floats) -> NDArray[np.float64]:
    """Return one extreme of the solutions: the largest slopes in a heap, then a running minimum from the end."""
    n = values.shape[0]
    filled = np.empty(n)
    out: FloatsOut = filled
    heap = [-values[0]]
    out[0] = values[0]
    for i in range(1, n):
        heappush(heap, -values[i])
        if -heap[0] > values[i]:
            heappop(heap)
            heappush(heap, -values[i])
        out[i] = -heap[0]
    for i in range(n - 2, -1, -1):
        out[i] = min(out[i], out[i + 1])
    return filled


def fit_tree_rows(values: FloatTableOut, first_child: Ints, own: FloatTable, share: FloatTable) -> None:
    """Replace values [node][size] by the consistent ones nearest to them, as `TreeLeastSquares.fit` does.

    Args:
        values: changed in place.
        first_child: see `Tree.first_child`.
        own, share: of `TreeLeastSquares`, one a node, (n_nodes, 1); or of `share_cells`, one a node and size.
    """
    n_inner, n = first_child.shape[0] - 1, values.shape[1]
    by_size: Whole = 1 if own.shape[1] > 1 else 0
    sums: FloatsOut = np.empty(n)
    for g in range(n_inner - 1, -1, -1):
        sums[:] = 0.0
        for c in range(first_child[g], first_child[g + 1]):
            for s in range(n):
                sums[s] += values[c, s]
        for s in range(n):
            values[g, s] = sums[s] + own[g, s * by_size] * (values[g, s] - sums[s])
    for g in range(n_inner):
        for s in range(n):
            sums[s] = values[g, s]
        for c in range(first_child[g], first_child[g + 1]):
            for s in range(n):
                sums[s] -= values[c, s]
        for c in range(first_child[g], first_child[g + 1]):
            for s in range(n):
                values[c, s] += sums[s] * share[c, s * by_size]


def narrow_by_tree(variance: FloatTableOut, heard: SingleTable, first_child: Ints) -> None:
    """Lower the variances of counts by what regions and their parts say of each other: least squares on the tree.

    A region whose count comes from its prior says nothing new of its parent, which the prior was made from.

    Args:
        variance: [node][size], changed in place.
        heard: how far a count comes from a region's own answers, 0..1, [node][size].
        first_child: see `Tree.first_child`.
    """
    n_inner = first_child.shape[0] - 1
    for g in range(n_inner - 1, -1, -1):
        for s in range(variance.shape[1]):
            parts: float = 0.0
            for c in range(first_child[g], first_child[g + 1]):
                parts += variance[c, s]
            if variance[g, s] > 0.0:
                variance[g, s] -= heard[g, s] * (variance[g, s] * variance[g, s]) / (variance[g, s] + parts)
    for g in range(n_inner):
        for s in range(variance.shape[1]):
            parts = 0.0
            for c in range(first_child[g], first_child[g + 1]):
                parts += variance[c, s]
            if parts == 0.0:
                continue
            known = 1.0 - min(variance[g, s] / parts, 1.0)
            for c in range(first_child[g], first_child[g + 1]):
                variance[c, s] -= heard[c, s] * known * (variance[c, s] * variance[c, s]) / parts


def block_precision(base: Floats, own: float, joint: float, out: FloatsOut) -> None:
    """Fill the precision of every cumulative count of a region: of its own block of sizes, at least `joint`.

    Args:
        base: isotonic cumulative counts.
        own: precision of one answer of the region.
        joint: precision of one size from all levels together.
        out: filled; its last entry is not used.
    """
    n = base.shape[0] - 1
    out[n] = joint
    i: Whole = 0
    while i < n:
        j = i
        while j < n and base[j] == base[i]:
            j += 1
        for k in range(i, j):
            out[k] = max(joint, (j - i) * own)
        i = j


def isotonic_noise(base: FloatTable, own: Floats, noise: FloatTableOut) -> None:
    """Lower the variance of cumulative counts to what isotonic regression leaves where few groups have each size.

    Where a size has rho groups and an answer the variance v, it is some (4 v rho)^(2/3) / 5, times 0.263 / 0.2 by
    Chernoff's law; at least half of that of a block's mean.

    Args:
        base: isotonic cumulative counts [node][size].
        own: precision of one answer of every node.
        noise: variances [node][size], lowered in place.
    """
    n = base.shape[1]
    for r in range(base.shape[0]):
        i: Whole = 0
        while i < n - 1:
            j = i
            while j < n - 1 and base[r, j] == base[r, i]:
                j += 1
            block = 0.5 / ((j - i) * own[r])
            for k in range(i, j):
                low: float = base[r, k - 3] if k >= 3 else 0.0
                high = min(k + 2, n - 1)
                rho = max(base[r, high] - low, 0.0) / (high - max(k - 3, -1))
                noise[r, k] = min(noise[r, k], max(block, ISOTONIC * pow(4.0 * rho / own[r], 2.0 / 3.0)))
            i = j


def excess_of_siblings(
    answers: IntTable,
    columns: Ints,
    totals: Ints,
    base: FloatTable,
    first_child: Ints,
    first: Whole,
    stop: Whole,
    variance: float,
) -> float:
    """Return by how much cumulative shares of siblings differ beyond noise, squared, on average over the groups.

    Args:
        answers: noisy tail counts [node][size], as far as `columns` of every node.
        totals: number of groups of every node.
        base: cumulative counts [node][size].
        first_child: see `Tree.first_child`.
        first, stop: first region of the parents' level and the one after the last.
        variance: of one answer.
    """
    excess: float = 0.0
    scale: float = 0.0
    for g in range(first, stop):
        for c in range(first_child[g], first_child[g + 1]):
            if totals[c] == 0:
                continue
            random = totals[c] * (1.0 - totals[c] / totals[g])
            before: float = 0.0
            for s in range(min(columns[c], base.shape[1]) - 1):
                share = base[g, s] / totals[g]
                off = totals[c] - answers[c, s + 1] - totals[c] * share
                excess += (off * off - variance - share * (1.0 - share) * random) * (share - before)
                before = share
            scale += totals[c] * random
    return excess / scale if scale > 0.0 else 0.0
