"""Models 1 and 2 as exact programs for small sizes: PuLP, gurobi where its licence allows, networkx as flow.

Convex costs become unit segments: x = sum of binary u_k with costs w (2 k + 1 - 2 a), which convexity fills in
order. Every answer is checked in integers by the caller; solvers work with floats.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np

from pgsr.hierarchy import Ints, Tree, check_matrix
from pgsr.numbers import squared_cost
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


def model1_by_flow(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of Model 1 as a minimum-cost flow (networkx), the readable twin of M_H.

    Every region of every size is an arc bundle of unit segments from its parent's place to its own; leaves
    drain into one sink. Small sizes only.
    """
    import networkx as nx

    a = check_matrix("noisy", noisy, tree)
    graph = nx.MultiDiGraph()
    graph.add_node("groups", demand=-total)
    graph.add_node("sink", demand=total)
    for s in range(len(a)):
        for g in range(tree.n_nodes):
            above = "groups" if g == 0 else (s, int(tree.parent[g]))
            for k in range(total):
                graph.add_edge(above, (s, g), key=k, capacity=1, weight=2 * k + 1 - 2 * int(a[s, g]))
            if g >= tree.n_inner:
                graph.add_edge((s, g), "sink", capacity=total, weight=0)
    _, flow = nx.network_simplex(graph)
    counts = (
        np.array(
            [
                [
                    sum(flow["groups" if g == 0 else (s, int(tree.parent[g]))][s, g].values())
                    for g in range(tree.n_nodes)
                ]
                for s in range(len(a))
            ],
            dtype=np.int64,
        ).reshape(a.shape)
        if total
        else np.zeros_like(a)
    )
    return counts, squared_cost(np.ones(1, dtype=np.int64), counts - a, 1)


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
