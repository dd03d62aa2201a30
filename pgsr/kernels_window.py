"""Compiled kernels that turn the continuous tree optimum into integers: unit windows and the way down.

Source: pgsr.md 2.2, step 3. All arrays are [size][node]; `w` is the integer weight of each node's level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def leaf_position(price: float, weight: float, target: int) -> float:
    """Return the unclipped continuous position of a leaf at the price that reaches it."""
    return target + price / (2.0 * weight)


@kernel
def windows_of_size(
    a: Ints,
    w: Ints,
    first_child: Ints,
    price: Floats,
    x: Floats,
    h: int,
    low: Ints,
    width: Ints,
    units: Ints,
) -> None:
    """Fill the integer windows and the marginal costs of their units for one size (pgsr.md 2.2, step 3).

    Args:
        a, price, x: targets of all nodes; price and continuous count of the inner nodes.
        low, width, units: per node the smallest count of its window, the number of further units, and their
            costs in ascending order; units has shape (n_nodes, 2 h + 1).
    """
    n_nodes = a.shape[0]
    n_inner = first_child.shape[0] - 1
    for g in range(n_inner):
        below = price[g] - 2.0 * w[g] * (x[g] - a[g])
        for c in range(max(first_child[g], n_inner), max(first_child[g + 1], n_inner)):
            base = int(np.floor(leaf_position(below, float(w[c]), a[c])))
            low[c] = max(0, base - h)
            width[c] = max(0, base + 1 + h) - low[c]
            for k in range(width[c]):
                units[c, k] = w[c] * (2 * (low[c] + k) + 1 - 2 * a[c])
    pool = np.empty(n_nodes * units.shape[1], dtype=np.int64)
    for g in range(n_inner - 1, -1, -1):
        bottom = 0
        k = 0
        for c in range(first_child[g], first_child[g + 1]):
            bottom += low[c]
            for j in range(width[c]):
                pool[k] = units[c, j]
                k += 1
        if k > 1:
            pool[:k].sort()
        base = int(np.floor(x[g]))
        low[g] = min(max(bottom, base - h), bottom + k)
        width[g] = max(0, min(bottom + k, base + 1 + h) - low[g])
        skip = low[g] - bottom
        for j in range(width[g]):
            units[g, j] = pool[skip + j] + w[g] * (2 * (low[g] + j) + 1 - 2 * a[g])


@kernel
def root_windows(
    noisy: Ints,
    w: Ints,
    first_child: Ints,
    price: Floats,
    x: Floats,
    h: int,
    low: Ints,
    width: Ints,
    units: Ints,
) -> None:
    """Fill the windows of all subtrees' roots: low, width of shape (n_sizes,), units (n_sizes, 2 h + 1)."""
    n_sizes, n_nodes = noisy.shape
    node_low = np.empty(n_nodes, dtype=np.int64)
    node_width = np.empty(n_nodes, dtype=np.int64)
    node_units = np.empty((n_nodes, 2 * h + 1), dtype=np.int64)
    for s in range(n_sizes):
        windows_of_size(noisy[s], w, first_child, price[s], x[s], h, node_low, node_width, node_units)
        low[s] = node_low[0]
        width[s] = node_width[0]
        units[s] = node_units[0]


@kernel
def assign_down(
    noisy: Ints, w: Ints, first_child: Ints, price: Floats, x: Floats, h: int, root: Ints, counts: Ints
) -> None:
    """Give every node its integer count, from the root counts of each size down (pgsr.md 2.2, step 3)."""
    n_sizes, n_nodes = noisy.shape
    n_inner = first_child.shape[0] - 1
    low = np.empty(n_nodes, dtype=np.int64)
    width = np.empty(n_nodes, dtype=np.int64)
    units = np.empty((n_nodes, 2 * h + 1), dtype=np.int64)
    pool = np.empty(n_nodes * (2 * h + 1), dtype=np.int64)
    owner = np.empty(n_nodes * (2 * h + 1), dtype=np.int64)
    for s in range(n_sizes):
        windows_of_size(noisy[s], w, first_child, price[s], x[s], h, low, width, units)
        counts[s, 0] = root[s]
        for g in range(n_inner):
            spare = counts[s, g]
            k = 0
            for c in range(first_child[g], first_child[g + 1]):
                counts[s, c] = low[c]
                spare -= low[c]
                for j in range(width[c]):
                    pool[k] = units[c, j]
                    owner[k] = c
                    k += 1
            if spare > 0:
                order = np.argsort(pool[:k], kind="mergesort")
                for i in range(spare):
                    counts[s, owner[order[i]]] += 1
