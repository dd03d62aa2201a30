"""Compiled kernels of estimates whose answers differ in precision by cell; rows are regions, columns sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def isotonic_cells(y: Floats, precision: Floats, high: Floats, out: Floats) -> None:
    """Fill each row with its weighted isotonic regression within 0..high; the last of a row is its high itself."""
    n_rows, n = y.shape
    mean, weight = np.empty(n), np.empty(n)
    last = np.empty(n, dtype=np.int64)
    for r in range(n_rows):
        k = 0
        for i in range(n - 1):
            m, w = y[r, i], precision[r, i]
            while k > 0 and mean[k - 1] >= m:
                k -= 1
                m = (m * w + mean[k] * weight[k]) / (w + weight[k])
                w += weight[k]
            mean[k], weight[k], last[k] = m, w, i
            k += 1
        i = 0
        for b in range(k):
            level = min(max(mean[b], 0.0), high[r])
            while i <= last[b]:
                out[r, i] = level
                i += 1
        out[r, n - 1] = high[r]


@kernel
def share_cells(precision: Floats, first_child: Ints, own: Floats, share: Floats) -> None:
    """Fill what least squares on the tree needs in every cell; `precision` becomes that of a node and its parts."""
    n = precision.shape[1]
    own[:] = 1.0
    share[0] = 0.0
    for g in range(first_child.shape[0] - 2, -1, -1):
        b, e = first_child[g], first_child[g + 1]
        for s in range(n):
            loose = 0.0
            for c in range(b, e):
                loose += 1.0 / precision[c, s]
            for c in range(b, e):
                share[c, s] = 1.0 / (precision[c, s] * loose)
            own[g, s] = precision[g, s] / (precision[g, s] + 1.0 / loose)
            precision[g, s] += 1.0 / loose


@kernel
def block_noise(base: Floats, own: Floats, joint: Floats, out: Floats) -> None:
    """Fill the variance of noise in every cell: of its block of equal values together, at most that of the tree."""
    for r in range(base.shape[0]):
        n = base.shape[1] - 1
        out[r, n] = 1.0 / joint[r, n]
        i = 0
        while i < n:
            j, block = i, 0.0
            while j < n and base[r, j] == base[r, i]:
                block += own[r, j]
                j += 1
            for k in range(i, j):
                out[r, k] = 1.0 / max(joint[r, k], block)
            i = j
