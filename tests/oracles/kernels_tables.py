"""The paper's cost tables of Model 1, one size after the other: a twin in tests; a benchmark compiles it."""

import numpy as np

from topdown.arrays import Ints, IntsOut, IntTable, IntTableOut, Whole


def tables_up(
    a: Ints,
    w: Ints,
    first_child: Ints,
    low: Ints,
    high: Ints,
    slopes: IntTableOut,
    pool: IntsOut,
    narrowed: IntTableOut,
) -> Whole:
    """Fill each node's slopes tau(v + 1) - tau(v) over a domain that shrinks to what its children allow; 0: none."""
    n_nodes = a.shape[0]
    n_inner = first_child.shape[0] - 1
    for g in range(n_nodes - 1, -1, -1):
        narrowed[g, 0], narrowed[g, 1] = low[g], high[g]
        skip: Whole = 0
        if g < n_inner:
            least: Whole = 0
            k: Whole = 0
            for c in range(first_child[g], first_child[g + 1]):
                least += narrowed[c, 0]
                for j in range(narrowed[c, 1] - narrowed[c, 0]):
                    pool[k] = slopes[c, j]
                    k += 1
            np.asarray(pool[:k]).sort()
            narrowed[g, 0] = max(low[g], least)
            narrowed[g, 1] = min(high[g], least + k)
            if narrowed[g, 1] < narrowed[g, 0]:
                return 0
            skip = narrowed[g, 0] - least
        for j in range(narrowed[g, 1] - narrowed[g, 0]):
            own = w[g] * (2 * (narrowed[g, 0] + j - a[g]) + 1)
            slopes[g, j] = own + (pool[skip + j] if g < n_inner else 0)
    return 1


def tables_down(
    a: IntTable,
    w: Ints,
    first_child: Ints,
    low: IntTable,
    high: IntTable,
    total: Whole,
    width: Whole,
    counts: IntTableOut,
) -> Whole:
    """Fill the counts: tables of all sizes, the root's merge at `total`, then argmins top down; 0: there are none."""
    n_sizes, n = a.shape[0], a.shape[1]
    n_inner = first_child.shape[0] - 1
    slopes: IntTableOut = np.empty((n_sizes * n, width), dtype=np.int64)
    narrowed: IntTableOut = np.empty((n_sizes * n, 2), dtype=np.int64)
    pool: IntsOut = np.empty(max(n, n_sizes) * width, dtype=np.int64)
    owner: IntsOut = np.empty(max(n, n_sizes) * width, dtype=np.int64)
    for s in range(n_sizes):
        own, of_own = slopes[s * n : (s + 1) * n], narrowed[s * n : (s + 1) * n]
        if not tables_up(a[s], w, first_child, low[s], high[s], own, pool, of_own):
            return 0
    spare: Whole = total
    k: Whole = 0
    for s in range(n_sizes):
        counts[s, 0] = narrowed[s * n, 0]
        spare -= counts[s, 0]
        for j in range(narrowed[s * n, 1] - narrowed[s * n, 0]):
            pool[k], owner[k] = slopes[s * n, j], s
            k += 1
    if spare < 0 or spare > k:
        return 0
    order: Ints = np.argsort(np.asarray(pool[:k]), kind="stable")
    for i in range(spare):
        counts[owner[order[i]], 0] += 1
    for s in range(n_sizes):
        for g in range(n_inner):
            spare = counts[s, g]
            k = 0
            for c in range(first_child[g], first_child[g + 1]):
                counts[s, c] = narrowed[s * n + c, 0]
                spare -= counts[s, c]
                for j in range(narrowed[s * n + c, 1] - narrowed[s * n + c, 0]):
                    pool[k], owner[k] = slopes[s * n + c, j], c
                    k += 1
            order = np.argsort(np.asarray(pool[:k]), kind="stable")
            for i in range(spare):
                counts[s, owner[order[i]]] += 1
    return 1
