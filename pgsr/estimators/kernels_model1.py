"""Compiled kernels of the exact tree optimum (Model 1): inverse slopes, prices, unit windows, exchange check.

All arrays are [size][node]; nodes level by level. `w` is the weight of each node's level. Source: pgsr.md 2.2.
`exact_optima.py` states what each step guarantees; the slow twin of the whole is `table_optimum` in
`tests/oracles/group_sizes.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr.estimators.kernels_isotonic import kernel
from topdown.arrays import Floats, Ints

NO_UNIT = -(2**62)


@kernel
def count_active(
    noisy: Ints, w: Floats, first_child: Ints, price_bound: float, active: NDArray[np.bool_]
) -> int:
    """Mark the leaves that can hold a unit when the root price is at most `price_bound`; return how many.

    Since x >= 0, the price reaching a child is at most the parent's price + 2 w a (pgsr.md 2.2, step 5).
    """
    n_sizes, n_nodes = noisy.shape
    n_inner = first_child.shape[0] - 1
    bound = np.empty(n_nodes)
    total = 0
    for s in range(n_sizes):
        bound[0] = price_bound
        for g in range(n_inner):
            below = bound[g] + 2.0 * w[g] * noisy[s, g]
            for c in range(first_child[g], first_child[g + 1]):
                bound[c] = below
        for c in range(n_inner, n_nodes):
            on = bound[c] + 2.0 * w[c] * noisy[s, c] > 0.0
            active[s, c - n_inner] = on
            total += on
    return total


@kernel
def merge_runs(at: Floats, rise: Floats, runs: Ints) -> tuple[Floats, Floats]:
    """Return `at` in ascending order with `rise` beside it; each runs[j]..runs[j + 1] is already ascending."""
    spare_at, spare_rise = np.empty_like(at), np.empty_like(rise)
    n_runs = runs.shape[0] - 1
    while n_runs > 1:
        half = (n_runs + 1) // 2
        for j in range(half):
            i, middle = runs[2 * j], runs[min(2 * j + 1, n_runs)]
            k, stop = middle, runs[min(2 * j + 2, n_runs)]
            for out in range(i, stop):
                if k >= stop or (i < middle and at[i] <= at[k]):
                    spare_at[out], spare_rise[out] = at[i], rise[i]
                    i += 1
                else:
                    spare_at[out], spare_rise[out] = at[k], rise[k]
                    k += 1
        for j in range(half):
            runs[j] = runs[2 * j]
        runs[half] = at.shape[0]
        n_runs = half
        at, spare_at = spare_at, at
        rise, spare_rise = spare_rise, rise
    return at, rise


@kernel
def inverse_slopes(
    noisy: Ints,
    w: Floats,
    level_of: Ints,
    first_child: Ints,
    leaf_start: Ints,
    leaf_stop: Ints,
    active: NDArray[np.bool_],
    start: Ints,
    lam: Floats,
    slope: Floats,
    value: Floats,
) -> None:
    """Fill, bottom up, the inverse derivative of every inner node's optimal cost (pgsr.md 2.2, step 1).

    The breakpoints of node g of size s lie at start[s, leaf_start[g]] .. start[s, leaf_stop[g]] of row
    level_of[g]; between breakpoint i and the next, v(p) = value[i] + slope[i] (p - lam[i]).
    """
    n_sizes = noisy.shape[0]
    n_inner = first_child.shape[0] - 1
    deepest = level_of[n_inner - 1] if n_inner > 0 else -1
    for s in range(n_sizes):
        for g in range(n_inner - 1, -1, -1):
            b, e = start[s, leaf_start[g]], start[s, leaf_stop[g]]
            if b == e:
                continue
            level = level_of[g]
            at = np.empty(e - b)
            rise = np.empty(e - b)
            k = 0
            if level == deepest:
                for c in range(first_child[g], first_child[g + 1]):
                    if active[s, c - n_inner]:
                        at[k] = -2.0 * w[c] * noisy[s, c]
                        rise[k] = 0.5 / w[c]
                        k += 1
                at.sort()
            else:
                for c in range(first_child[g], first_child[g + 1]):
                    before = 0.0
                    for i in range(start[s, leaf_start[c]], start[s, leaf_stop[c]]):
                        at[k] = lam[level + 1, i]
                        rise[k] = slope[level + 1, i] - before
                        before = slope[level + 1, i]
                        k += 1
                n_children = first_child[g + 1] - first_child[g]
                runs = np.empty(n_children + 1, dtype=np.int64)
                for j in range(n_children):
                    runs[j] = start[s, leaf_start[first_child[g] + j]] - b
                runs[n_children] = e - b
                at, rise = merge_runs(at, rise, runs)
            v = 0.0
            steep = 0.0
            two_w = 2.0 * w[g]
            for i in range(e - b):
                if i > 0:
                    v += steep * (at[i] - at[i - 1])
                steep += rise[i]
                lam[level, b + i] = at[i] + two_w * (v - noisy[s, g])
                slope[level, b + i] = steep / (1.0 + two_w * steep)
                value[level, b + i] = v


@kernel
def inverse_slope_at(lam: Floats, slope: Floats, value: Floats, b: int, e: int, price: float) -> float:
    """Return v(price) of the inverse slope stored at b..e."""
    if b == e or price <= lam[b]:
        return 0.0
    low, high = b, e - 1
    while low < high:
        middle = (low + high + 1) // 2
        if lam[middle] <= price:
            low = middle
        else:
            high = middle - 1
    found: float = value[low] + slope[low] * (price - lam[low])
    return found


@kernel
def total_supply(lam: Floats, slope: Floats, value: Floats, bounds: Ints, price: float) -> float:
    """Return the total count of all sizes at one root price."""
    total = 0.0
    for s in range(bounds.shape[0] - 1):
        total += inverse_slope_at(lam, slope, value, bounds[s], bounds[s + 1], price)
    return total


@kernel
def prices_down(
    noisy: Ints,
    w: Floats,
    level_of: Ints,
    first_child: Ints,
    leaf_start: Ints,
    leaf_stop: Ints,
    start: Ints,
    lam: Floats,
    slope: Floats,
    value: Floats,
    root_price: float,
    price: Floats,
    x: Floats,
) -> None:
    """Fill price and continuous count of every inner node (pgsr.md 2.2, step 2)."""
    n_inner = first_child.shape[0] - 1
    for s in range(noisy.shape[0]):
        price[s, 0] = root_price
        for g in range(n_inner):
            level = level_of[g]
            x[s, g] = inverse_slope_at(
                lam[level],
                slope[level],
                value[level],
                start[s, leaf_start[g]],
                start[s, leaf_stop[g]],
                price[s, g],
            )
            below = price[s, g] - 2.0 * w[g] * (x[s, g] - noisy[s, g])
            for c in range(first_child[g], min(first_child[g + 1], n_inner)):
                price[s, c] = below


@kernel
def exchange_gain(noisy: Ints, w: Ints, first_child: Ints, counts: Ints) -> tuple[int, int]:
    """Return (largest gain of moving one unit between siblings, pairs of places compared).

    A gain of 0 or less at every inner node and between the roots proves optimality (pgsr.md 2.2, step 4).
    """
    n_sizes, n_nodes = noisy.shape
    n_inner = first_child.shape[0] - 1
    add = np.empty(n_nodes, dtype=np.int64)
    take = np.empty(n_nodes, dtype=np.int64)
    best = NO_UNIT
    checks = 0
    cheapest, dearest = -NO_UNIT, NO_UNIT
    for s in range(n_sizes):
        for g in range(n_nodes - 1, -1, -1):
            step = 2 * (counts[s, g] - noisy[s, g])
            if g >= n_inner:
                add[g] = w[g] * (step + 1)
                take[g] = w[g] * (step - 1) if counts[s, g] > 0 else NO_UNIT
                continue
            least, most = -NO_UNIT, NO_UNIT
            for c in range(first_child[g], first_child[g + 1]):
                least = min(least, add[c])
                most = max(most, take[c])
            if most > NO_UNIT:
                best = max(best, most - least)
            checks += 1
            add[g] = least + w[g] * (step + 1)
            take[g] = most + w[g] * (step - 1) if most > NO_UNIT else NO_UNIT
        cheapest = min(cheapest, add[0])
        dearest = max(dearest, take[0])
    if dearest > NO_UNIT:
        best = max(best, dearest - cheapest)
    return best, checks + 1


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
            base = int(np.floor(a[c] + below / (2.0 * float(w[c]))))
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
