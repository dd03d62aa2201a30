"""Models 1 and 2 as exact programs for small sizes: PuLP, gurobi where its licence allows, tables and an optimiser.

Convex costs become unit segments: x = sum of binary u_k with costs w (2 k + 1 - 2 a), which convexity fills in
order. Every answer is checked in integers by the caller; solvers work with floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from pgsr.exact_arguments import scaled_weights, squared_cost
from pgsr.hierarchy import Tree, check_matrix, tree_of
from topdown.arrays import Ints
from topdown.errors import ConfigError, InternalError

Solver = Literal["pulp", "gurobi"]


LARGEST_PROGRAM = 20_000


GUROBI_QP_VARIABLES = 200


def model1_exact(
    tree: Tree, noisy: object, total: int, solver: Solver = "pulp"
) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of M_H: Model 1 as an integer program.

    Raises:
        ConfigError: the instance is too large for the solver; the message names what to use instead.
    """
    a = check_matrix("noisy", noisy, tree)
    counts = _solve(tree, a, total, cumulative=False, solver=solver)
    return counts, squared_cost(np.ones(1, dtype=np.int64), counts - a, 1)


def model2_exact(
    tree: Tree, noisy: object, total: int, solver: Solver = "pulp"
) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of M_c: Model 2 as an integer program on noisy cumulative counts.

    Raises:
        ConfigError: the instance is too large for the solver; the message names what to use instead.
    """
    a = check_matrix("noisy", noisy, tree)
    counts = _solve(tree, a, total, cumulative=True, solver=solver)
    return counts, squared_cost(np.ones(1, dtype=np.int64), np.cumsum(counts, axis=0) - a, 1)


def _solve(tree: Tree, a: Ints, total: int, *, cumulative: bool, solver: Solver) -> Ints:
    leaves = _gurobi(tree, a, total, cumulative) if solver == "gurobi" else _pulp(tree, a, total, cumulative)
    if leaves.min() < 0 or leaves.sum() != total:
        raise InternalError(f"{solver} returned counts that are not a solution", code="X142")
    return tree.sums(leaves)


def _too_large(what: str, limit: int, instead: str) -> ConfigError:
    return ConfigError(
        f"the exact program has {what}; the limit is {limit}", code="C151", fix=f"use {instead} for this size"
    )


def _pulp(tree: Tree, a: Ints, total: int, cumulative: bool) -> Ints:
    import pulp

    n_segments = a.size * total
    if n_segments > LARGEST_PROGRAM:
        instead = "mechanism tracking" if cumulative else "mechanism M_H^dp, which is exact at any size"
        raise _too_large(f"{n_segments} unit segments", LARGEST_PROGRAM, instead)
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
            held = [n[t][i] for t in sizes for i in range(tree.leaf_start[g], tree.leaf_stop[g])]
            problem += pulp.lpSum(held) == pulp.lpSum(units)
    problem += pulp.lpSum(costs)
    problem += pulp.lpSum(v for row in n for v in row) == total
    if problem.solve(_cbc()) != pulp.LpStatusOptimal:
        raise InternalError("PuLP found no optimum", code="X143")
    return np.array([[round(v.value()) for v in row] for row in n], dtype=np.int64)


def _gurobi(tree: Tree, a: Ints, total: int, cumulative: bool) -> Ints:
    n_variables = len(a) * tree.n_leaves
    if n_variables > GUROBI_QP_VARIABLES:
        raise _too_large(f"{n_variables} variables", GUROBI_QP_VARIABLES, 'solver="pulp"')
    try:
        import gurobipy as gp
    except ImportError as error:
        raise ConfigError("gurobipy is not installed", code="C152", fix='use solver="pulp"') from error
    with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as model:
        model.Params.MIPGap = 0.0
        model.Params.Threads = 1
        n = model.addMVar((len(a), tree.n_leaves), vtype=gp.GRB.INTEGER, lb=0.0, ub=float(total))
        model.addConstr(n.sum() == total)
        cost: Any = 0
        for g in range(tree.n_nodes):
            held = n[:, tree.leaf_start[g] : tree.leaf_stop[g]].sum(axis=1)
            for s in range(len(a)):
                x = held[: s + 1].sum() if cumulative else held[s]
                cost = cost + (x - int(a[s, g])) * (x - int(a[s, g]))
        model.setObjective(cost, gp.GRB.MINIMIZE)
        model.optimize()
        if model.Status != gp.GRB.OPTIMAL:
            raise InternalError(f"gurobi stopped with status {model.Status}", code="X143")
        found: Ints = np.rint(n.X).astype(np.int64)
        return found


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
