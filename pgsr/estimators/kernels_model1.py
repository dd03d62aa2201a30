"""Kernels of the exact tree optimum (Model 1): inverse slopes, prices, unit windows, exchange check.

All arrays are [size][node]; nodes level by level. `w` is the weight of each node's level. Source: pgsr.md 2.2.
`exact_optima.py` states what each step guarantees; the slow twin of the whole is `table_optimum` in
`tests/oracles/group_sizes.py`.
"""

from __future__ import annotations

from math import floor

import numpy as np

from topdown.arrays import (
    BoolTable,
    BoolTableOut,
    Floats,
    FloatsOut,
    FloatTable,
    FloatTableOut,
    Ints,
    IntsOut,
    IntTable,
    IntTableOut,
    NumbersOut,
    Whole,
)

NO_UNIT: Whole = -(2**62)
"""What a unit costs that is not there."""


def count_active(
    noisy: IntTable, w: Floats, first_child: Ints, price_bound: float, active: BoolTableOut
) -> Whole:
    """Mark the leaves that can hold a unit when the root price is at most `price_bound`; return how many.

    Since x >= 0, the price reaching a child is at most the parent's price + 2 w a (pgsr.md 2.2, step 5).
    """
    n_sizes, n_nodes = noisy.shape[0], noisy.shape[1]
    n_inner = first_child.shape[0] - 1
    bound: FloatsOut = np.empty(n_nodes)
    total: Whole = 0
    for s in range(n_sizes):
        bound[0] = price_bound
        for g in range(n_inner):
            below = bound[g] + 2.0 * w[g] * noisy[s, g]
            for c in range(first_child[g], first_child[g + 1]):
                bound[c] = below
        for c in range(n_inner, n_nodes):
            on: Whole = 1 if bound[c] + 2.0 * w[c] * noisy[s, c] > 0.0 else 0
            active[s, c - n_inner] = on
            total += on
    return total


def merge_runs(
    at: NumbersOut, beside: NumbersOut, runs: IntsOut, spare: NumbersOut, spare_beside: NumbersOut
) -> None:
    """Bring `at` into ascending order, with what stands beside it; each runs[j]..runs[j + 1] is already ascending.

    Of equal numbers the earlier one stays the earlier one.

    Args:
        runs, spare, spare_beside: overwritten.
    """
    n, n_runs = at.shape[0], runs.shape[0] - 1
    while n_runs > 1:
        half = (n_runs + 1) // 2
        for j in range(half):
            i, middle = runs[2 * j], runs[min(2 * j + 1, n_runs)]
            k, stop = middle, runs[min(2 * j + 2, n_runs)]
            for out in range(i, stop):
                if k >= stop or (i < middle and at[i] <= at[k]):
                    spare[out], spare_beside[out] = at[i], beside[i]
                    i += 1
                else:
                    spare[out], spare_beside[out] = at[k], beside[k]
                    k += 1
        for j in range(half):
            runs[j] = runs[2 * j]
        runs[half] = n
        n_runs = half
        for out in range(n):
            at[out], beside[out] = spare[out], spare_beside[out]


def inverse_slopes(
    noisy: IntTable,
    w: Floats,
    level_of: Ints,
    first_child: Ints,
    leaf_start: Ints,
    leaf_stop: Ints,
    active: BoolTable,
    start: IntTable,
    lam: FloatTableOut,
    slope: FloatTableOut,
    value: FloatTableOut,
) -> None:
    """Fill, bottom up, the inverse derivative of every inner node's optimal cost (pgsr.md 2.2, step 1).

    The breakpoints of node g of size s lie at start[s, leaf_start[g]] .. start[s, leaf_stop[g]] of row
    level_of[g]; between breakpoint i and the next, v(p) = value[i] + slope[i] (p - lam[i]).
    """
    n_sizes = noisy.shape[0]
    n_inner = first_child.shape[0] - 1
    deepest: Whole = level_of[n_inner - 1] if n_inner > 0 else -1
    most: Whole = 0
    for s in range(n_sizes):
        for g in range(n_inner):
            most = max(most, start[s, leaf_stop[g]] - start[s, leaf_start[g]])
    at: FloatsOut = np.empty(most)
    rise: FloatsOut = np.empty(most)
    spare_at: FloatsOut = np.empty(most)
    spare_rise: FloatsOut = np.empty(most)
    runs: IntsOut = np.empty(max(noisy.shape[1], most) + 1, dtype=np.int64)
    for s in range(n_sizes):
        for g in range(n_inner - 1, -1, -1):
            b, e = start[s, leaf_start[g]], start[s, leaf_stop[g]]
            if b == e:
                continue
            level = level_of[g]
            k: Whole = 0
            if level == deepest:
                for c in range(first_child[g], first_child[g + 1]):
                    if active[s, c - n_inner]:
                        at[k] = -2.0 * w[c] * noisy[s, c]
                        rise[k] = 0.5 / w[c]
                        k += 1
                n_runs: Whole = k
                for j in range(n_runs + 1):
                    runs[j] = j
            else:
                for c in range(first_child[g], first_child[g + 1]):
                    before = 0.0
                    for i in range(start[s, leaf_start[c]], start[s, leaf_stop[c]]):
                        at[k] = lam[level + 1, i]
                        rise[k] = slope[level + 1, i] - before
                        before = slope[level + 1, i]
                        k += 1
                n_runs = first_child[g + 1] - first_child[g]
                for j in range(n_runs):
                    runs[j] = start[s, leaf_start[first_child[g] + j]] - b
                runs[n_runs] = e - b
            merge_runs(at[: e - b], rise[: e - b], runs[: n_runs + 1], spare_at, spare_rise)
            v: float = 0.0
            steep: float = 0.0
            two_w = 2.0 * w[g]
            for i in range(e - b):
                if i > 0:
                    v += steep * (at[i] - at[i - 1])
                steep += rise[i]
                lam[level, b + i] = at[i] + two_w * (v - noisy[s, g])
                slope[level, b + i] = steep / (1.0 + two_w * steep)
                value[level, b + i] = v


def inverse_slope_at(lam: Floats, slope: Floats, value: Floats, b: Whole, e: Whole, price: float) -> float:
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


def total_supply(lam: Floats, slope: Floats, value: Floats, bounds: Ints, price: float) -> float:
    """Return the total count of all sizes at one root price."""
    total = 0.0
    for s in range(bounds.shape[0] - 1):
        total += inverse_slope_at(lam, slope, value, bounds[s], bounds[s + 1], price)
    return total


def prices_down(
    noisy: IntTable,
    w: Floats,
    level_of: Ints,
    first_child: Ints,
    leaf_start: Ints,
    leaf_stop: Ints,
    start: IntTable,
    lam: FloatTable,
    slope: FloatTable,
    value: FloatTable,
    root_price: float,
    price: FloatTableOut,
    x: FloatTableOut,
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


def exchange_gain(noisy: IntTable, w: Ints, first_child: Ints, counts: IntTable) -> tuple[int, int]:
    """Return (largest gain of moving one unit between siblings, pairs of places compared).

    A gain of 0 or less at every inner node and between the roots proves optimality (pgsr.md 2.2, step 4). Of a size,
    `add` is by how much one unit more below a node raises the cost at least, `take` by how much one fewer lowers it
    at most.
    """
    n_sizes, n_nodes = noisy.shape[0], noisy.shape[1]
    n_inner = first_child.shape[0] - 1
    add: IntsOut = np.empty(n_nodes, dtype=np.int64)
    take: IntsOut = np.empty(n_nodes, dtype=np.int64)
    best: Whole = NO_UNIT
    checks: Whole = 0
    cheapest: Whole = -NO_UNIT
    dearest: Whole = NO_UNIT
    for s in range(n_sizes):
        for g in range(n_nodes - 1, -1, -1):
            step = 2 * (counts[s, g] - noisy[s, g])
            if g >= n_inner:
                add[g] = w[g] * (step + 1)
                take[g] = w[g] * (step - 1) if counts[s, g] > 0 else NO_UNIT
                continue
            least: Whole = -NO_UNIT
            most: Whole = NO_UNIT
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
    return int(best), checks + 1  # where this is not compiled, a NumPy integer, which JSON refuses


class Pool:
    """Costs of the units of siblings with their owners, and what bringing them into order overwrites.

    Args:
        n_nodes: of the tree. n_units: most units of a node.
    """

    cost: IntsOut
    owner: IntsOut
    runs: IntsOut
    spare_cost: IntsOut
    spare_owner: IntsOut

    def __init__(self, n_nodes: Whole, n_units: Whole) -> None:
        n = n_nodes * n_units
        self.cost, self.owner = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        self.spare_cost, self.spare_owner = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        self.runs = np.empty(n_nodes + 1, dtype=np.int64)


def pool_units(first: Whole, stop: Whole, width: Ints, units: IntTable, pool: Pool) -> Whole:
    """Fill the pool with the units of the nodes first..stop, ascending; of equal costs the earlier node's; return k."""
    k: Whole = 0
    for c in range(first, stop):
        pool.runs[c - first] = k
        for j in range(width[c]):
            pool.cost[k] = units[c, j]
            pool.owner[k] = c
            k += 1
    pool.runs[stop - first] = k
    if k > 1:
        merge_runs(
            pool.cost[:k], pool.owner[:k], pool.runs[: stop - first + 1], pool.spare_cost, pool.spare_owner
        )
    return k


def windows_of_size(
    a: Ints, w: Ints, first_child: Ints, price: Floats, x: Floats, h: Whole,
    low: IntsOut, width: IntsOut, units: IntTableOut, pool: Pool,
) -> None:  # fmt: skip
    """Fill the integer windows and the marginal costs of their units for one size (pgsr.md 2.2, step 3).

    Args:
        a, price, x: targets of all nodes; price and continuous count of the inner nodes.
        low, width, units: per node the smallest count of its window, the number of further units, and their
            costs in ascending order; units has shape (n_nodes, 2 h + 1).
        pool: overwritten.
    """
    n_inner = first_child.shape[0] - 1
    for g in range(n_inner):
        below = price[g] - 2.0 * w[g] * (x[g] - a[g])
        for c in range(max(first_child[g], n_inner), max(first_child[g + 1], n_inner)):
            base = int(floor(a[c] + below / (2.0 * float(w[c]))))
            low[c] = max(0, base - h)
            width[c] = max(0, base + 1 + h) - low[c]
            for k in range(width[c]):
                units[c, k] = w[c] * (2 * (low[c] + k) + 1 - 2 * a[c])
    for g in range(n_inner - 1, -1, -1):
        bottom: Whole = 0
        for c in range(first_child[g], first_child[g + 1]):
            bottom += low[c]
        k = pool_units(first_child[g], first_child[g + 1], width, units, pool)
        base = int(floor(x[g]))
        low[g] = min(max(bottom, base - h), bottom + k)
        width[g] = max(0, min(bottom + k, base + 1 + h) - low[g])
        skip = low[g] - bottom
        for j in range(width[g]):
            units[g, j] = pool.cost[skip + j] + w[g] * (2 * (low[g] + j) + 1 - 2 * a[g])


def root_windows(
    noisy: IntTable, w: Ints, first_child: Ints, price: FloatTable, x: FloatTable, h: Whole,
    low: IntsOut, width: IntsOut, units: IntTableOut,
) -> None:  # fmt: skip
    """Fill the windows of all subtrees' roots: low, width of shape (n_sizes,), units (n_sizes, 2 h + 1)."""
    n_sizes, n_nodes = noisy.shape[0], noisy.shape[1]
    node_low: IntsOut = np.empty(n_nodes, dtype=np.int64)
    node_width: IntsOut = np.empty(n_nodes, dtype=np.int64)
    node_units: IntTableOut = np.empty((n_nodes, 2 * h + 1), dtype=np.int64)
    pool = Pool(n_nodes, 2 * h + 1)
    for s in range(n_sizes):
        windows_of_size(noisy[s], w, first_child, price[s], x[s], h, node_low, node_width, node_units, pool)
        low[s] = node_low[0]
        width[s] = node_width[0]
        units[s, :] = node_units[0, :]


def assign_down(
    noisy: IntTable, w: Ints, first_child: Ints, price: FloatTable, x: FloatTable, h: Whole, root: Ints,
    counts: IntTableOut,
) -> None:  # fmt: skip
    """Give every node its integer count, from the root counts of each size down (pgsr.md 2.2, step 3)."""
    n_sizes, n_nodes = noisy.shape[0], noisy.shape[1]
    n_inner = first_child.shape[0] - 1
    low: IntsOut = np.empty(n_nodes, dtype=np.int64)
    width: IntsOut = np.empty(n_nodes, dtype=np.int64)
    units: IntTableOut = np.empty((n_nodes, 2 * h + 1), dtype=np.int64)
    pool = Pool(n_nodes, 2 * h + 1)
    for s in range(n_sizes):
        windows_of_size(noisy[s], w, first_child, price[s], x[s], h, low, width, units, pool)
        counts[s, 0] = root[s]
        for g in range(n_inner):
            spare: Whole = counts[s, g]
            for c in range(first_child[g], first_child[g + 1]):
                counts[s, c] = low[c]
                spare -= low[c]
            if spare > 0:
                pool_units(first_child[g], first_child[g + 1], width, units, pool)
                for i in range(spare):
                    counts[s, pool.owner[i]] += 1
