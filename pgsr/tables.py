"""The paper's cost tables for Model 1 (Algorithm 1): slow twins of `tree.tree_optimum`.

`table_optimum` keeps one convex table per node and merges the children's slopes; `merge_tables` is one merge in
plain Python; `full_table_optimum` can solve each entry with an optimiser instead (M_dp^OP).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel
from pgsr.hierarchy import Ints, Tree, check_matrix, tree_of
from pgsr.numbers import scaled_weights, squared_cost
from topdown.errors import ConfigError

LARGEST_OPTION = 2_000
Units = Callable[[list[list[int]], int], list[int]]


def merge_tables(tables: list[list[int]]) -> list[int]:
    """Return phi(v) = min sum tau_c(x_c) s.t. sum x_c = v for v = 0, 1, ... (Algorithm 1, Table merge).

    Line 2 of the printed algorithm takes the slopes below a minimum in the wrong direction; merging all slopes in
    ascending order from v = 0 is the corrected reading (pgsr.md 1.3, item 4).

    Args:
        tables: convex tables tau_c(0), tau_c(1), ... of the children.
    """
    slopes = sorted(b - a for table in tables for a, b in itertools.pairwise(table))
    values = [sum(table[0] for table in tables)]
    for slope in slopes:
        values.append(values[-1] + slope)
    return values


def units_by_slope(tables: list[list[int]], v: int) -> list[int]:
    """Return the argmin x_c of phi(v): the v smallest slopes, each child's in order."""
    slopes = sorted((b - a, c) for c, table in enumerate(tables) for a, b in itertools.pairwise(table))
    counts = [0] * len(tables)
    for _, c in slopes[:v]:
        counts[c] += 1
    return counts


def units_by_optimiser(tables: list[list[int]], v: int) -> list[int]:
    """Return the argmin x_c of phi(v) from an integer program, as M_dp^OP does (PuLP; small tables only)."""
    from pgsr.programs import least_sum

    return least_sum(tables, v)


def full_table_optimum(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    weights: Sequence[int | Fraction] | None = None,
    *,
    units: Units = units_by_slope,
) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of Model 1 from full tables 0..total, in plain Python.

    Args:
        levels, noisy, total, weights: as in `tree.tree_optimum`.
        units: how one entry phi(v) and its argmin are found: by slopes (the paper's merge) or by an optimiser
            (M_dp^OP, the paper's slow baseline).
    """
    tree = tree_of(levels)
    a = check_matrix("noisy", noisy, tree)
    if units is units_by_optimiser and a.size * total > LARGEST_OPTION:
        raise ConfigError(
            f"M_dp^OP would solve {a.size * total} programs; the limit is {LARGEST_OPTION}",
            code="C151",
            fix="use mechanism M_H^dp, which is exact at any size",
        )
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    w = per_level[tree.level_of]
    tables: dict[tuple[int, int], list[int]] = {}

    def phi(children: list[list[int]]) -> list[int]:
        if units is units_by_slope:
            return merge_tables(children)[: total + 1]
        rows = ((v, units(children, v)) for v in range(total + 1))
        return [sum(table[x] for table, x in zip(children, row, strict=True)) for _, row in rows]

    def below(s: int, g: int) -> list[tuple[int, int]]:
        return [(s, c) for c in range(tree.first_child[g], tree.first_child[g + 1])]

    for s in range(len(a)):
        for g in range(tree.n_nodes - 1, -1, -1):
            own = [int(w[g]) * (v - int(a[s, g])) ** 2 for v in range(total + 1)]
            if g < tree.n_inner:
                rest = phi([tables[c] for c in below(s, g)])
                own = [mine + more for mine, more in zip(own, rest, strict=True)]
            tables[s, g] = own
    counts = np.zeros_like(a)
    counts[:, 0] = units([tables[s, 0] for s in range(len(a))], total)
    for s in range(len(a)):
        for g in range(tree.n_inner):
            children = below(s, g)
            counts[s, children[0][1] : children[-1][1] + 1] = units(
                [tables[c] for c in children], int(counts[s, g])
            )
    return counts, squared_cost(w[None, :], counts - a, denominator)


def table_optimum(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    weights: Sequence[int | Fraction] | None = None,
    radius: int | None = None,
) -> tuple[Ints, int | Fraction] | None:
    """Return counts and cost by compiled cost tables, the paper's method at its best.

    Args:
        levels, noisy, total, weights: as in `tree.tree_optimum`.
        radius: keep only counts within this distance of the noisy value (the paper's 3 ceil(2 lam^2)); None
            keeps 0..total.

    Returns:
        None if the truncated domains admit no solution (pgsr.md 1.3, item 7).
    """
    tree = tree_of(levels)
    a = check_matrix("noisy", noisy, tree)
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    w = per_level[tree.level_of]
    low, high = np.zeros_like(a), np.full_like(a, total)
    if radius is not None:
        low, high = np.maximum(a - radius, 0), a + radius
        if np.any(high < low):
            return None
    counts = np.zeros_like(a)
    width = int((high - low).max()) + 1
    if not tables_down(a, w, tree.first_child, low, high, total, width, counts):
        return None
    return counts, squared_cost(w[None, :], counts - a, denominator)


@kernel
def tables_up(
    a: Ints,
    w: Ints,
    first_child: Ints,
    low: Ints,
    high: Ints,
    slopes: Ints,
    pool: Ints,
    narrowed: NDArray[np.int64],
) -> bool:
    """Fill each node's slopes tau(v + 1) - tau(v) over its domain, which shrinks to what its children allow."""
    n_nodes = a.shape[0]
    n_inner = first_child.shape[0] - 1
    for g in range(n_nodes - 1, -1, -1):
        narrowed[g, 0], narrowed[g, 1] = low[g], high[g]
        skip = 0
        if g < n_inner:
            least, k = 0, 0
            for c in range(first_child[g], first_child[g + 1]):
                least += narrowed[c, 0]
                for j in range(narrowed[c, 1] - narrowed[c, 0]):
                    pool[k] = slopes[c, j]
                    k += 1
            pool[:k].sort()
            narrowed[g, 0] = max(low[g], least)
            narrowed[g, 1] = min(high[g], least + k)
            if narrowed[g, 1] < narrowed[g, 0]:
                return False
            skip = narrowed[g, 0] - least
        for j in range(narrowed[g, 1] - narrowed[g, 0]):
            own = w[g] * (2 * (narrowed[g, 0] + j - a[g]) + 1)
            slopes[g, j] = own + (pool[skip + j] if g < n_inner else 0)
    return True


@kernel
def tables_down(
    a: Ints, w: Ints, first_child: Ints, low: Ints, high: Ints, total: int, width: int, counts: Ints
) -> bool:
    """Fill the counts: tables of all sizes, the root's merge at `total`, then the argmins top down."""
    n_sizes, n_nodes = a.shape
    n_inner = first_child.shape[0] - 1
    slopes = np.empty((n_sizes, n_nodes, width), dtype=np.int64)
    narrowed = np.empty((n_sizes, n_nodes, 2), dtype=np.int64)
    pool = np.empty(max(n_nodes, n_sizes) * width, dtype=np.int64)
    owner = np.empty(max(n_nodes, n_sizes) * width, dtype=np.int64)
    for s in range(n_sizes):
        if not tables_up(a[s], w, first_child, low[s], high[s], slopes[s], pool, narrowed[s]):
            return False
    spare, k = total, 0
    for s in range(n_sizes):
        counts[s, 0] = narrowed[s, 0, 0]
        spare -= counts[s, 0]
        for j in range(narrowed[s, 0, 1] - narrowed[s, 0, 0]):
            pool[k], owner[k] = slopes[s, 0, j], s
            k += 1
    if spare < 0 or spare > k:
        return False
    order = np.argsort(pool[:k], kind="mergesort")
    for i in range(spare):
        counts[owner[order[i]], 0] += 1
    for s in range(n_sizes):
        for g in range(n_inner):
            spare, k = counts[s, g], 0
            for c in range(first_child[g], first_child[g + 1]):
                counts[s, c] = narrowed[s, c, 0]
                spare -= counts[s, c]
                for j in range(narrowed[s, c, 1] - narrowed[s, c, 0]):
                    pool[k], owner[k] = slopes[s, c, j], c
                    k += 1
            order = np.argsort(pool[:k], kind="mergesort")
            for i in range(spare):
                counts[s, owner[order[i]]] += 1
    return True
