"""Models 1 and 2 as exact programs for small sizes, by PuLP: one integer program (M_H, M_c), or one an entry (M_dp^OP).

Convex costs become unit segments: x = sum of binary u_k with costs w (2 k + 1 - 2 a), which convexity fills in
order. Every answer is checked in integers by the caller; the solver works with floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgsr.exact_arguments import scaled_weights, squared_cost
from pgsr.hierarchy import Tree, check_matrix, tree_of
from topdown.arrays import Ints
from topdown.errors import ConfigError, InternalError

LARGEST_PROGRAM = 20_000
LARGEST_TABLES = 2_000
Units = Callable[[list[list[int]], int], list[int]]


def model1_exact(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of M_H: Model 1 as an integer program.

    Raises:
        ConfigError: the instance is too large (C151); the message names what to use instead.
    """
    a = check_matrix("noisy", noisy, tree)
    counts = _program_counts(tree, a, total, cumulative=False)
    return counts, squared_cost(np.ones(1, dtype=np.int64), counts - a, 1)


def model2_exact(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of M_c: Model 2 as an integer program on noisy cumulative counts.

    Raises:
        ConfigError: the instance is too large (C151); the message names what to use instead.
    """
    a = check_matrix("noisy", noisy, tree)
    counts = _program_counts(tree, a, total, cumulative=True)
    return counts, squared_cost(np.ones(1, dtype=np.int64), np.cumsum(counts, axis=0) - a, 1)


def _program_counts(tree: Tree, a: Ints, total: int, *, cumulative: bool) -> Ints:
    import pulp

    n_segments = a.size * total
    if n_segments > LARGEST_PROGRAM:
        instead = "mechanism tracking" if cumulative else "mechanism M_H^dp, which is exact at any size"
        raise ConfigError(
            f"the exact program has {n_segments} unit segments; the limit is {LARGEST_PROGRAM}",
            code="C151",
            fix=f"use {instead} for this size",
        )
    problem = pulp.LpProblem("groups", pulp.LpMinimize)
    n = [
        [problem.add_variable(f"n_{s}_{i}", 0, total, "Integer") for i in range(tree.n_leaves)]
        for s in range(len(a))
    ]
    costs = []
    for s in range(len(a)):
        sizes = range(s + 1) if cumulative else range(s, s + 1)
        for g in range(tree.n_nodes):
            units = [problem.add_variable(f"u_{s}_{g}_{k}", 0, 1) for k in range(total)]
            costs += [(2 * k + 1 - 2 * int(a[s, g])) * u for k, u in enumerate(units)]
            below = [n[t][i] for t in sizes for i in range(tree.leaf_start[g], tree.leaf_stop[g])]
            problem += pulp.lpSum(below) == pulp.lpSum(units)
    problem += pulp.lpSum(costs)
    problem += pulp.lpSum(v for row in n for v in row) == total
    if problem.solve(_cbc()) != pulp.LpStatusOptimal:
        raise InternalError("PuLP found no optimum", code="X143")
    leaves = np.array([[round(v.value()) for v in row] for row in n], dtype=np.int64)
    if leaves.min() < 0 or leaves.sum() != total:
        raise InternalError("PuLP returned counts that are not a solution", code="X142")
    return tree.sums(leaves)


def _cbc() -> Any:
    """Return the CBC that PuLP 3 bundles, without gaps."""
    import pulp

    return pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, gapRel=0.0, gapAbs=0.0)


def least_sum(tables: list[list[int]], v: int) -> list[int]:
    """Return the x_c that minimise sum tau_c(x_c) s.t. sum x_c = v, one integer program (an entry of M_dp^OP)."""
    import pulp

    problem = pulp.LpProblem("entry", pulp.LpMinimize)
    units = [
        [
            (table[k + 1] - table[k], problem.add_variable(f"u_{c}_{k}", 0, 1))
            for k in range(min(v, len(table) - 1))
        ]
        for c, table in enumerate(tables)
    ]
    problem += pulp.lpSum(slope * u for row in units for slope, u in row)
    problem += pulp.lpSum(u for row in units for _, u in row) == v
    if v:
        problem.solve(_cbc())
    return [sum(round(u.value()) for _, u in row) for row in units] if v else [0] * len(tables)


def full_table_optimum(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    weights: Sequence[int | Fraction] | None = None,
    *,
    units: Units = least_sum,
) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of Model 1 from full tables 0..total (Algorithm 1; M_dp^OP, the paper's slow baseline).

    Args:
        levels, noisy, total, weights: as in `tree_optimum`.
        units: returns the argmin of one entry phi(v) = min sum tau_c(x_c) s.t. sum x_c = v.

    Raises:
        ConfigError: too many programs (C151).
    """
    tree = tree_of(levels)
    a = check_matrix("noisy", noisy, tree)
    if units is least_sum and a.size * total > LARGEST_TABLES:
        raise ConfigError(
            f"M_dp^OP would solve {a.size * total} programs; the limit is {LARGEST_TABLES}",
            code="C151",
            fix="use mechanism M_H^dp, which is exact at any size",
        )
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    w = per_level[tree.level_of]
    tables: dict[tuple[int, int], list[int]] = {}

    def below(s: int, g: int) -> list[list[int]]:
        return [tables[s, c] for c in range(tree.first_child[g], tree.first_child[g + 1])]

    for s in range(len(a)):
        for g in range(tree.n_nodes - 1, -1, -1):
            own = [int(w[g]) * (v - int(a[s, g])) ** 2 for v in range(total + 1)]
            if g < tree.n_inner:
                children = below(s, g)
                for v in range(total + 1):
                    found = units(children, v)
                    own[v] += sum(table[x] for table, x in zip(children, found, strict=True))
            tables[s, g] = own
    counts = np.zeros_like(a)
    counts[:, 0] = units([tables[s, 0] for s in range(len(a))], total)
    for s in range(len(a)):
        for g in range(tree.n_inner):
            counts[s, tree.first_child[g] : tree.first_child[g + 1]] = units(below(s, g), int(counts[s, g]))
    return counts, squared_cost(w[None, :], counts - a, denominator)
