"""Generic quadratic solvers behind the least-squares seam: our own, piqp, clarabel, gurobi (extras).

They see the problem in centred, condensed form: rows x columns variables measured from an even share of each
segment, so that an absolute tolerance means persons. A solver must say that it is done; its answer is polished and
then checked like the default's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from topdown.errors import ConfigError, InternalError
from topdown.model.kinds import NO_LIMIT
from topdown.solve.backends.interior import interior_point
from topdown.solve.backends.polish import polish
from topdown.solve.kkt import residual_persons
from topdown.solve.problem import Floats, Problem, Solution

GUROBI_FREE_VARIABLES = 200  # of a quadratic program under the licence that pip installs
NAMES = ("admm", "interior", "piqp", "clarabel", "gurobi")
POLISHES = 12  # of a near answer: each takes limits in that the one before breaks, out that it pulls at
POLISHED_PERSONS = 1e-8
# Asked for in turn: past the reach of float64 a solver drifts away from what it had.
TOLERANCES = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


@dataclass(frozen=True, eq=False)
class Standard:
    """min 1/2 d'Pd + q'd with Ad = b, Gd <= h over the allowed entries; x = base + d, column-major entries."""

    quadratic: sparse.csc_array
    linear: Floats
    equal: sparse.csc_array
    equal_to: Floats
    below: sparse.csc_array
    limit: Floats
    base: Floats
    entries: np.ndarray[tuple[int], np.dtype[np.int64]]


def solve_with(name: str, problem: Problem) -> Solution:
    """Solve one problem with the named backend.

    Raises:
        ConfigError: unknown or missing backend, or a problem too large for its licence.
        InternalError: the backend does not claim to have solved the problem.
    """
    if name == "admm":
        from topdown.solve import admm

        return admm.solve(problem)
    if name not in NAMES:
        raise ConfigError(
            f"no least-squares backend {name!r}", code="C080", fix="use one of: " + ", ".join(NAMES)
        )
    standard = standard_form(problem)
    try:
        solvers = {"interior": _interior, "piqp": _piqp, "clarabel": _clarabel, "gurobi": _gurobi}
        x, equal, below, steps = solvers[name](standard)
    except ImportError:
        extra = "gurobi" if name == "gurobi" else "reference"
        raise ConfigError(
            f"backend {name!r} is not installed", code="C081", fix=f"pip install 'census-topdown[{extra}]'"
        ) from None
    best = _solution(problem, standard, x, equal, below, steps)
    residual = residual_persons(problem, best)
    for _ in range(POLISHES):
        try:
            x, equal, below = polish(
                standard.quadratic, standard.linear, standard.equal, standard.equal_to, standard.below,
                standard.limit, (x, equal, below),
            )  # fmt: skip
        except RuntimeError:  # singular to working precision
            break
        polished = _solution(problem, standard, x, equal, below, steps)
        if (found := residual_persons(problem, polished)) < residual:
            best, residual = polished, found
        if residual <= POLISHED_PERSONS:
            break
    return best


def standard_form(problem: Problem) -> Standard:
    """Write a problem in the form generic solvers take."""
    n, m = problem.shape
    segment = np.repeat(np.arange(len(problem.sums)), np.diff(problem.pointers)).reshape(n, m)
    allowed_t = problem.allowed.T.reshape(-1)
    entries = np.flatnonzero(allowed_t)
    known = problem.sums >= 0
    counts = np.maximum(np.bincount(segment[problem.allowed], minlength=len(problem.sums)), 1)
    share = np.where(known, problem.sums, 0.0) / counts
    base_t = share[segment].T.reshape(-1)[entries]
    column, row = np.divmod(entries, n)
    full = sparse.block_diag([sparse.csc_array(problem.hessian)] * m, format="csc")
    quadratic = full[entries][:, entries]
    linear = quadratic @ base_t - problem.g.T.reshape(-1)[entries]
    which = segment.T.reshape(-1)[entries]
    position = np.cumsum(known) - 1
    inside = known[which]
    equal = [_picker(position[which[inside]], np.flatnonzero(inside), int(known.sum()), len(entries))]
    equal_to = [problem.sums[known]]
    if problem.fixed_of is not None:
        key = problem.fixed_of[row] * m + column
        equal.append(_picker(key, np.arange(len(entries)), len(problem.fixed) * m, len(entries)))
        equal_to.append(problem.fixed.reshape(-1))
    if problem.limits is not None and _whole(problem):  # base polytopes: everybody is known
        inside = problem.bound_of[row] >= 0
        equal.append(_picker(column[inside], np.flatnonzero(inside), m, len(entries)))
        equal_to.append(problem.limits[:, -1])
    a = sparse.vstack(equal, format="csc")
    below = [-sparse.eye_array(len(entries), format="csc")]
    limit = [base_t]
    if problem.limits is not None:
        groups, sets, child = _limited_sets(problem)
        pick = sparse.csc_array(
            (groups[:, np.maximum(problem.bound_of, 0)] * (problem.bound_of >= 0))[:, row]
        )
        g = sparse.csc_array(pick * (child[:, None] == column[None, :]))
        below.append(g)
        limit.append(problem.limits[child, sets] - g @ base_t)
    elif len(problem.lower):
        bounded = problem.bound_of[row] >= 0
        key = problem.bound_of[row][bounded] * m + column[bounded]
        g = _picker(key, np.flatnonzero(bounded), len(problem.lower) * m, len(entries))
        below.append(-g)
        limit.append(g @ base_t - problem.lower.reshape(-1))
    return Standard(
        quadratic,
        linear,
        a,
        np.concatenate(equal_to) - a @ base_t,
        sparse.vstack(below, format="csc"),
        np.concatenate(limit),
        base_t,
        entries,
    )


def _limited_sets(problem: Problem) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Return every limit but that of everybody: (signed groups it adds up, its set, its child)."""
    limits, k = problem.limits, len(problem.lower)
    if limits is None:
        raise InternalError("a problem without limits was asked for them")
    sets = np.arange(limits.shape[1])
    holds = ((sets[:, None] >> np.arange(k)) & 1).astype(np.float64)
    holds[sets >> k == 1] -= 1.0  # the slack entry is minus the sum of all groups
    child, chosen = np.nonzero(limits < NO_LIMIT)
    told = np.abs(holds[chosen]).sum(axis=1) > 0
    told &= (chosen < limits.shape[1] - 1) | (not _whole(problem))
    return holds[chosen[told]], chosen[told], child[told]


def _whole(problem: Problem) -> bool:
    """Tell whether limits say how many people there are: they do without an entry that takes up the slack."""
    return problem.limits is not None and problem.limits.shape[1] == 1 << len(problem.lower)


def _picker(rows: Any, columns: Any, n_rows: int, n_columns: int) -> sparse.csc_array:
    return sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=(n_rows, n_columns))


def _solution(
    problem: Problem, standard: Standard, d: Floats, equal: Floats, below: Floats, steps: int
) -> Solution:
    n, m = problem.shape
    z_t = np.zeros(n * m)
    x = standard.base + d
    z_t[standard.entries] = np.where(below[: len(x)] >= x, 0.0, np.maximum(x, 0.0))  # one of the two is zero
    n_known = int((problem.sums >= 0).sum())
    ends = n_known + problem.fixed.size
    fixed = -equal[n_known:ends].reshape(problem.fixed.shape)
    if problem.limits is not None:
        groups, _, child = _limited_sets(problem)
        bound = np.zeros_like(problem.lower)
        if _whole(problem):
            bound -= equal[ends:]
        np.add.at(bound.T, child, -groups * below[len(standard.entries) :, None])
        return Solution(np.ascontiguousarray(z_t.reshape(m, n).T), fixed, bound, steps)
    bound = below[len(standard.entries) :].reshape(problem.lower.shape)
    return Solution(np.ascontiguousarray(z_t.reshape(m, n).T), fixed, np.maximum(bound, 0.0), steps)


def _interior(s: Standard) -> tuple[Floats, Floats, Floats, int]:
    return interior_point(s.quadratic, s.linear, s.equal, s.equal_to, s.below, s.limit)


def _piqp(s: Standard) -> tuple[Floats, Floats, Floats, int]:
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


def _clarabel(s: Standard) -> tuple[Floats, Floats, Floats, int]:
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


def _gurobi(s: Standard) -> tuple[Floats, Floats, Floats, int]:
    if len(s.entries) > GUROBI_FREE_VARIABLES:  # checked before a model is built
        raise ConfigError(
            f"{len(s.entries)} variables exceed the {GUROBI_FREE_VARIABLES} that Gurobi's free licence allows",
            code="C082",
            fix="use the default backend, which has no limit",
        )
    import gurobipy as gp

    with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as model:
        x = model.addMVar(len(s.entries), lb=-gp.GRB.INFINITY)
        model.setObjective(0.5 * (x @ sparse.csr_matrix(s.quadratic) @ x) + s.linear @ x)
        equal = model.addConstr(sparse.csr_matrix(s.equal) @ x == s.equal_to)
        below = model.addConstr(sparse.csr_matrix(s.below) @ x <= s.limit)
        model.Params.BarConvTol = 1e-12
        model.Params.OptimalityTol = model.Params.FeasibilityTol = 1e-9
        model.optimize()
        if model.Status != gp.GRB.OPTIMAL:
            raise InternalError(f"gurobi stopped with status {model.Status}")
        return np.array(x.X), -np.array(equal.Pi), -np.array(below.Pi), int(model.BarIterCount)
