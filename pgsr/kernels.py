"""Compiled kernels of chains and splits: exact pooling, isotonic rows, the integer split of a parent.

Each has a plain twin in `reference.py`, compared in tests. Sources: pgsr.md 2.1 (pooling), 2.3 (split).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def exceeds(sum_a: int, weight_a: int, sum_b: int, weight_b: int) -> bool:
    """Return whether sum_a / weight_a >= sum_b / weight_b, exactly.

    Compares whole parts, then the reciprocals of the remainders, as Euclid's algorithm does: no product of sums.
    """
    while True:
        whole_a, whole_b = sum_a // weight_a, sum_b // weight_b
        if whole_a != whole_b:
            return whole_a > whole_b
        left_a, left_b = sum_a - whole_a * weight_a, sum_b - whole_b * weight_b
        if left_b == 0:
            return True
        if left_a == 0:
            return False
        sum_a, weight_a, sum_b, weight_b = weight_b, left_b, weight_a, left_a


@kernel
def pool(sums: Ints, weights: Ints, block_sum: Ints, block_weight: Ints, last: Ints) -> int:
    """Pool adjacent violators on exact weighted sums; return the number of blocks.

    Block k ends at item last[k] and has the mean block_sum[k] / block_weight[k]; means ascend.
    """
    n_blocks = 0
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


@kernel
def chain_values(y: Ints, w: Ints, tied: NDArray[np.bool_], total: int, pinned: bool, out: Ints) -> None:
    """Fill the integer optimum of a chain: collapse ties, pool, round half up, clip (pgsr.md 2.1).

    Args:
        y, w: targets and positive integer weights.
        tied: whether entry i must equal entry i + 1.
        total: upper bound; when `pinned`, also the value of the last entry and of all tied to it.
        out: filled with the optimum.
    """
    n = y.shape[0]
    stop = n
    if pinned:
        stop = n - 1
        while stop > 0 and tied[stop - 1]:
            stop -= 1
        for i in range(stop, n):
            out[i] = total
    group = np.empty(stop, dtype=np.int64)
    sums = np.zeros(stop, dtype=np.int64)
    weights = np.zeros(stop, dtype=np.int64)
    k = -1
    for i in range(stop):
        if i == 0 or not tied[i - 1]:
            k += 1
        group[i] = k
        sums[k] += w[i] * y[i]
        weights[k] += w[i]
    n_groups = k + 1
    block_sum = np.empty(n_groups, dtype=np.int64)
    block_weight = np.empty(n_groups, dtype=np.int64)
    last = np.empty(n_groups, dtype=np.int64)
    n_blocks = pool(sums[:n_groups], weights[:n_groups], block_sum, block_weight, last)
    block = 0
    for i in range(stop):
        while block < n_blocks and group[i] > last[block]:
            block += 1
        rounded = (2 * block_sum[block] + block_weight[block]) // (2 * block_weight[block])
        out[i] = min(max(rounded, 0), total)


@kernel
def isotonic_rows(y: Ints, total: int, out: Ints) -> None:
    """Fill each row with its isotonic integer optimum in 0..total, rows independent."""
    n_rows, n = y.shape
    ones = np.ones(n, dtype=np.int64)
    block_sum = np.empty(n, dtype=np.int64)
    block_weight = np.empty(n, dtype=np.int64)
    last = np.empty(n, dtype=np.int64)
    for r in range(n_rows):
        n_blocks = pool(y[r], ones, block_sum, block_weight, last)
        i = 0
        for b in range(n_blocks):
            rounded = (2 * block_sum[b] + block_weight[b]) // (2 * block_weight[b])
            level = min(max(rounded, 0), total)
            while i <= last[b]:
                out[r, i] = level
                i += 1


@kernel
def isotonic_rows_real(y: Floats, low: Floats, high: Floats, out: Floats) -> None:
    """Fill each row with its continuous isotonic regression clipped to [low, high], a bound a row."""
    n_rows, n = y.shape
    mean = np.empty(n)
    weight = np.empty(n, dtype=np.int64)
    last = np.empty(n, dtype=np.int64)
    for r in range(n_rows):
        k = 0
        for i in range(n):
            m, c = y[r, i], 1
            while k > 0 and mean[k - 1] >= m:
                k -= 1
                m = (m * c + mean[k] * weight[k]) / (c + weight[k])
                c += weight[k]
            mean[k] = m
            weight[k] = c
            last[k] = i
            k += 1
        i = 0
        for b in range(k):
            level = min(max(mean[b], low[r]), high[r])
            while i <= last[b]:
                out[r, i] = level
                i += 1


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
