"""Models 1 and 2 as exact programs for small sizes, by PuLP: one integer program (M_H, M_c), or one an entry (M_dp^OP).

Slow twins of the published mechanisms, whose optima M_H^dp has at any size. Convex costs become unit segments: x = sum
of binary u_k with costs w (2 k + 1 - 2 a), which convexity fills in order. The solver works with floats, so that
callers compare costs in integers.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pulp

from pgsr.exact_arguments import scaled_weights, squared_cost
from pgsr.hierarchy import Tree, check_matrix, tree_of
from topdown.arrays import Ints

Units = Callable[[list[list[int]], int], list[int]]


def model1_exact(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of M_H: Model 1 as an integer program."""
    a = check_matrix("noisy", noisy, tree)
    counts = _program_counts(tree, a, total, cumulative=False)
    return counts, squared_cost(np.ones(1, dtype=np.int64), counts - a, 1)


def model2_exact(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of M_c: Model 2 as an integer program on noisy cumulative counts."""
    a = check_matrix("noisy", noisy, tree)
    counts = _program_counts(tree, a, total, cumulative=True)
    return counts, squared_cost(np.ones(1, dtype=np.int64), np.cumsum(counts, axis=0) - a, 1)


def _program_counts(tree: Tree, a: Ints, total: int, *, cumulative: bool) -> Ints:
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
    assert problem.solve(_cbc()) == pulp.LpStatusOptimal
    leaves = np.array([[round(v.value()) for v in row] for row in n], dtype=np.int64)
    assert leaves.min() >= 0
    assert leaves.sum() == total
    return tree.sums(leaves)


def _cbc() -> Any:
    """Return the CBC that PuLP 3 bundles, without gaps."""
    return pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, gapRel=0.0, gapAbs=0.0)


def least_sum(tables: list[list[int]], v: int) -> list[int]:
    """Return the x_c that minimise sum tau_c(x_c) s.t. sum x_c = v, one integer program (an entry of M_dp^OP)."""
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
    """
    tree = tree_of(levels)
    a = check_matrix("noisy", noisy, tree)
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
