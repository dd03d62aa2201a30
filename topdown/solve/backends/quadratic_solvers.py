"""Generic quadratic solvers behind the least-squares seam: our own, piqp, clarabel, gurobi (extras).

They see the problem as `standard_form` writes it. A solver must say that it is done; its answer is polished and then
checked like the default's.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from topdown.arrays import Floats
from topdown.errors import ConfigError, InternalError
from topdown.solve.least_squares import (
    Problem,
    Solution,
    StandardForm,
    polish,
    residual_persons,
    standard_form,
)
from topdown.solve.least_squares.interior_point import interior_point, solution_of

GUROBI_FREE_VARIABLES = 200  # of a quadratic program under the licence that pip installs
NAMES = ("admm", "interior", "piqp", "clarabel", "gurobi")
POLISHES = 12  # of a near answer: each takes limits in that the one before breaks, out that it pulls at
POLISHED_PERSONS = 1e-8
# Asked for in turn: past the reach of float64 a solver drifts away from what it had.
TOLERANCES = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


def solve_by_backend(name: str, problem: Problem) -> Solution:
    """Solve one problem of a dense quadratic with the named backend, not with ADMM (`least_squares.policy`).

    Raises:
        ConfigError: unknown or missing backend, or a problem too large for its licence.
        InternalError: the backend does not claim to have solved the problem.
    """
    if name not in NAMES:
        raise ConfigError(
            f"no least-squares backend {name!r}", code="C080", fix="use one of: " + ", ".join(NAMES)
        )
    standard = standard_form(problem)
    solvers = {"interior": interior_point, "piqp": _piqp, "clarabel": _clarabel, "gurobi": _gurobi}
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of points that are then not taken
            x, equal, below, steps = solvers[name](standard)
            return _polished(problem, standard, (x, equal, below), steps)
    except ImportError:
        extra = "gurobi" if name == "gurobi" else "reference"
        raise ConfigError(
            f"backend {name!r} is not installed", code="C081", fix=f"pip install 'census-topdown[{extra}]'"
        ) from None


def _polished(
    problem: Problem, standard: StandardForm, point: tuple[Floats, Floats, Floats], steps: int
) -> Solution:
    """Polish a near answer until the optimality check accepts it; the best point of all is returned."""
    best = solution_of(problem, standard, *point, steps)
    residual = residual_persons(problem, best)
    for _ in range(POLISHES):
        try:
            point = polish(standard, point)
        except RuntimeError:  # singular to working precision
            break
        polished = solution_of(problem, standard, *point, steps)
        if (found := residual_persons(problem, polished)) < residual:
            best, residual = polished, found
        if residual <= POLISHED_PERSONS:
            break
    return best


def _piqp(s: StandardForm) -> tuple[Floats, Floats, Floats, int]:
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


def _clarabel(s: StandardForm) -> tuple[Floats, Floats, Floats, int]:
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


def _gurobi(s: StandardForm) -> tuple[Floats, Floats, Floats, int]:
    if len(s.linear) > GUROBI_FREE_VARIABLES:  # checked before a model is built
        raise ConfigError(
            f"{len(s.linear)} variables exceed the {GUROBI_FREE_VARIABLES} that Gurobi's free licence allows",
            code="C082",
            fix="use the default backend, which has no limit",
        )
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
