"""Generic quadratic solvers that least squares are held against: piqp, clarabel and gurobi (extras), and our own two.

They see the problem as `standard_form` writes it. A solver must say that it is done; its answer is polished and then
checked like that of `solve`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from topdown.arrays import Floats
from topdown.errors import InternalError
from topdown.solve.least_squares import (
    Problem,
    Solution,
    StandardForm,
    residual_persons,
    solve,
    solve_by_interior_points,
    solve_polished,
)

NAMES = ("admm", "interior", "piqp", "clarabel", "gurobi")
# Asked for in turn: past the reach of float64 a solver drifts away from what it had.
TOLERANCES = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


def solve_with(name: str, problem: Problem) -> tuple[Solution, float]:
    """Return the answer of the solver of that name, and its residual in persons.

    Raises:
        InternalError: the solver does not claim to have solved the problem.
    """
    if name == "admm":
        return solve(problem)
    if name == "interior":
        found = solve_by_interior_points(problem)
    else:
        found = solve_polished(problem, {"piqp": by_piqp, "clarabel": by_clarabel, "gurobi": by_gurobi}[name])
    return found, residual_persons(problem, found)


def solve_splits_by(patch: pytest.MonkeyPatch, name: str) -> None:
    """Let the solver of that name solve every split of a tree, small ones too."""
    patch.setattr("topdown.solve.split_estimate.solve", lambda problem: solve_with(name, problem))
    patch.setattr("topdown.solve.top_down.SMALL_ROWS", 0)


def by_piqp(s: StandardForm) -> tuple[Floats, Floats, Floats, int]:
    """Return x, both multipliers and the steps that piqp took."""
    import piqp

    for tolerance in TOLERANCES:
        solver = piqp.SparseSolver()
        solver.settings.eps_abs = tolerance
        solver.settings.eps_rel = 0.0
        solver.settings.check_duality_gap = False
        free = np.full(len(s.limit), -np.inf)
        solver.setup(
            sparse.csc_matrix(s.quadratic), s.linear, sparse.csc_matrix(s.equal), s.equal_to,
            sparse.csc_matrix(s.below), free, s.limit,
        )  # fmt: skip
        status = solver.solve()
        result = solver.result
        if status == piqp.PIQP_SOLVED:
            return np.array(result.x), np.array(result.y), np.array(result.z_u), int(result.info.iter)
    raise InternalError(f"piqp stopped with {status}")


def by_clarabel(s: StandardForm) -> tuple[Floats, Floats, Floats, int]:
    """Return x, both multipliers and the steps that clarabel took."""
    import clarabel

    matrix = sparse.csc_matrix(sparse.vstack([s.equal, s.below], format="csc"))
    cones = [clarabel.ZeroConeT(len(s.equal_to)), clarabel.NonnegativeConeT(len(s.limit))]
    for tolerance in TOLERANCES:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_feas = settings.tol_gap_abs = tolerance
        settings.tol_gap_rel = 1e-14
        result = clarabel.DefaultSolver(
            sparse.csc_matrix(sparse.triu(s.quadratic)), s.linear, matrix,
            np.concatenate([s.equal_to, s.limit]), cones, settings,
        ).solve()  # fmt: skip
        if str(result.status) == "Solved":
            z = np.array(result.z)
            return np.array(result.x), z[: len(s.equal_to)], z[len(s.equal_to) :], int(result.iterations)
    raise InternalError(f"clarabel stopped with {result.status}")


def by_gurobi(s: StandardForm) -> tuple[Floats, Floats, Floats, int]:
    """Return x, both multipliers and the steps that gurobi took."""
    import gurobipy as gp

    with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as model:
        x = model.addMVar(len(s.linear), lb=-gp.GRB.INFINITY)
        model.setObjective(0.5 * (x @ sparse.csr_matrix(s.quadratic) @ x) + s.linear @ x)
        equal = model.addConstr(sparse.csr_matrix(s.equal) @ x == s.equal_to)
        below = model.addConstr(sparse.csr_matrix(s.below) @ x <= s.limit)
        model.Params.BarConvTol = 1e-12
        model.Params.OptimalityTol = model.Params.FeasibilityTol = 1e-9
        model.optimize()
        if model.Status != gp.GRB.OPTIMAL:
            raise InternalError(f"gurobi stopped with status {model.Status}")
        return np.array(x.X), -np.array(equal.Pi), -np.array(below.Pi), int(model.BarIterCount)
