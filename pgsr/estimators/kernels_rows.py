"""Compiled kernels of rows for large groups: how many columns and rows a region has, its answers, and their reading.

A tail count t_c is the number of groups in row c of the sizes or past it; rank i has e_i cells from column T on.
Arithmetic of the choice is IEEE addition, multiplication, division and square root only, so that every machine
chooses alike. Slow twin: `check_choice`. Source: pgsr_next.md 6.
"""

from __future__ import annotations

import numpy as np

from pgsr.estimators.kernels_isotonic import kernel, pool
from topdown.arrays import Floats, Ints

FIXED_COST, GAIN, MORE_ROWS, SPARE_ROWS = 3.0, 0.85, 3.0, 10
LOOSE, FADING = 4.0, 5.0


@kernel
def third_root(x: float) -> float:
    """Return x to the power 85/256, by square roots alone: close to the cube root, the same on every machine."""
    a = np.sqrt(np.sqrt(x))
    b = np.sqrt(np.sqrt(a))
    c = np.sqrt(np.sqrt(b))
    root: float = a * b * c * np.sqrt(np.sqrt(c))
    return root


@kernel
def falling(values: Ints, high: int, out: Ints) -> None:
    """Fill the whole numbers nearest to `values` that descend within 0..high, rounded half up."""
    n = values.shape[0]
    sums, weights = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    last = np.empty(n, dtype=np.int64)
    n_blocks = pool(values[::-1].copy(), np.ones(n, dtype=np.int64), sums, weights, last)
    i = 0
    for b in range(n_blocks):
        level = min(max((2 * sums[b] + weights[b]) // (2 * weights[b]), 0), high)
        while i <= last[b]:
            out[n - 1 - i] = level
            i += 1


@kernel
def tails_from_rows(rows: Ints, out: Ints) -> None:
    """Fill tail counts past the last column: how many rows are longer than 0, 1, 2, ...; `rows` descend."""
    k = rows.shape[0]
    for j in range(out.shape[0]):
        while k > 0 and rows[k - 1] <= j:
            k -= 1
        out[j] = k


@kernel
def steady_tails(answers: Ints, columns: int, rows: int, total: int, out: Ints) -> None:
    """Fill the tail counts of a region that the choices of its parts are made from: descending, whole, from 0 on.

    Args:
        answers: of the region: `columns` tail counts, then `rows` rows, then nothing.
        columns, rows: how it was measured.
        total: its number of groups.
        out: filled; one more than sizes, the last 0.
    """
    n = answers.shape[0]
    falling(answers[:columns], total, out[:columns])
    out[columns:] = 0
    if rows > 0:
        long = np.empty(rows, dtype=np.int64)
        falling(answers[columns : columns + rows], n - columns, long)
        tails_from_rows(long, out[columns:n])
        for c in range(columns, n):
            out[c] = min(out[c], out[columns - 1])


@kernel
def expected_density(tails: Ints, share: float, out: Floats) -> None:
    """Fill how many groups of each size a region expects: its share of its parent's, over half as many sizes again."""
    n = tails.shape[0] - 1
    for c in range(n):
        end = min((3 * c + 4) // 2 + 1, n)
        out[c] = share * (tails[c] - tails[end]) / (end - c)


@kernel
def choose_columns_and_rows(tails: Ints, part: int, total: int, variance: float) -> tuple[int, int]:
    """Return how many columns and rows a region has; all sizes and 0 where rows are not expected to be better.

    Args:
        tails: steady tail counts of its parent.
        part, total: number of groups of the region and of its parent.
        variance: of one answer.
    """
    n = tails.shape[0] - 1
    if total <= 0 or part <= 0:
        return n, 0
    share, scale = part / total, np.sqrt(variance / 2.0)
    rho = np.empty(n)
    expected_density(tails, share, rho)
    column = np.empty(n)
    largest, alone = 0.0, 0.0
    for c in range(n):
        column[c] = min(share * tails[c], third_root(variance * rho[c]))
        largest = max(largest, column[c])
        alone += column[c]
    after = 0.0
    for c in range(n):
        rho[c] = min(min(rho[c] * scale, third_root(rho[c] * rho[c] * variance)), largest)
        after += rho[c]
    best, columns, rows, before = GAIN * alone, n, 0, 0.0
    for c in range(1, n):
        before += column[c - 1]
        after -= rho[c - 1]
        cost = before + after + FIXED_COST * scale
        if cost < best:
            k = min(int(np.ceil(MORE_ROWS * (share * tails[c - 1]))) + SPARE_ROWS, part)
            if k <= n - c:
                best, columns, rows = cost, c, k
    return columns, rows


@kernel
def fill_rows(tails: Ints, columns: int, rows: int, out: Ints) -> None:
    """Fill the exact answers of a region from its tail counts: columns, then rows, then zeros."""
    n = tails.shape[0]
    out[:] = 0
    out[:columns] = tails[:columns]
    c = n
    for i in range(rows):
        while c > columns and tails[c - 1] < i + 1:
            c -= 1
        out[columns + i] = c - columns


@kernel
def row_variance(rho: Floats, variance: float, columns: int, idle: float, out: Floats) -> None:
    """Fill the variance of the tail counts that rows give, past the last column.

    Neighbouring cells err together, which LOOSE makes up for. Rows of groups that are no longer than the columns seem
    to go on for a few cells: the squared bias is added, measured on made-up data (bench/results/pgsr_next.md).

    Args:
        rho: groups of each size that are expected.
        variance: of one answer.
        columns: of the region.
        idle: how many of its rows are expected to have no cell.
        out: filled.
    """
    scale = np.sqrt(variance / 2.0)
    for c in range(columns, rho.shape[0]):
        reach = scale if rho[c] == 0.0 else min(scale, (variance / rho[c]) ** (1.0 / 3.0))
        hit = rho[c] * reach
        own = hit + hit * hit + 0.1 + 0.5 * np.exp((columns - c - 1) / scale)
        bias = 0.5 * idle * np.exp(-FADING * (c - columns) / scale)
        out[c] = min(variance, LOOSE * own) + bias * bias
