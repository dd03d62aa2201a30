"""A least-squares problem in the form that generic solvers take, our own interior-point method, and the polish.

The interior-point method is slower than ADMM, but neither scales nor corners of the constraints hold it up. A generic
solver's answer is made exact by solving the equalities of the limits it ends on (Stellato et al. 2020, OSQP 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from topdown.arrays import Floats
from topdown.solve.least_squares.optimality import residual_persons
from topdown.solve.least_squares.problem import Dense, LatticeQuadratic, PerChild, Problem, Solution


@dataclass(frozen=True, eq=False)
class StandardForm:
    """min 1/2 d'Pd + q'd with Ad = b, Gd <= h over the allowed entries; x = base + d, column-major entries."""

    quadratic: sparse.csc_array
    linear: Floats
    equal: sparse.csc_array
    equal_to: Floats
    below: sparse.csc_array
    limit: Floats
    base: Floats
    entries: np.ndarray[tuple[int], np.dtype[np.int64]]


def feasible_set(problem: Problem) -> StandardForm:
    """Write the constraints of a problem in the form generic solvers take: nothing to minimise, no soft rules."""
    n, m = problem.shape
    segment = np.repeat(np.arange(len(problem.sums)), np.diff(problem.pointers)).reshape(n, m)
    allowed_t = problem.allowed.T.reshape(-1)
    entries = np.flatnonzero(allowed_t)
    known = problem.sums >= 0
    counts = np.maximum(np.bincount(segment[problem.allowed], minlength=len(problem.sums)), 1)
    share = np.where(known, problem.sums, 0.0) / counts
    base_t = share[segment].T.reshape(-1)[entries]
    column, row = np.divmod(entries, n)
    which = segment.T.reshape(-1)[entries]
    position = np.cumsum(known) - 1
    inside = known[which]
    equal = [_picker(position[which[inside]], np.flatnonzero(inside), int(known.sum()), len(entries))]
    equal_to = [problem.sums[known]]
    fixed = np.flatnonzero(problem.fixed.of[row] >= 0)
    key = problem.fixed.of[row[fixed]] * m + column[fixed]
    equal.append(_picker(key, fixed, problem.fixed.answers.size, len(entries)))
    equal_to.append(problem.fixed.answers.reshape(-1))
    bounds = problem.bounds
    bounded = np.flatnonzero(bounds.of[row] >= 0)
    if len(bounds.everybody):  # base polytopes
        equal.append(_picker(column[bounded], bounded, m, len(entries)))
        equal_to.append(bounds.everybody)
    a = sparse.vstack(equal, format="csc")
    equal_to = [np.concatenate(equal_to) - a @ base_t]
    signs, child, most = bounds.explicit()
    pick = sparse.csc_array(bounds.by_row(signs)[:, row])
    g = sparse.csc_array(pick * (child[:, None] == column[None, :]))
    below = sparse.vstack([-sparse.eye_array(len(entries), format="csc"), g], format="csc")
    limit = np.concatenate([base_t, most - g @ base_t])
    nothing = sparse.csc_array((len(entries), len(entries)))
    return StandardForm(nothing, np.zeros(len(entries)), a, equal_to[0], below, limit, base_t, entries)


def standard_form(problem: Problem) -> StandardForm:
    """Write a problem of a dense quadratic in the form generic solvers take."""
    dense = problem.quadratic
    if not isinstance(dense, Dense | PerChild | LatticeQuadratic):
        raise TypeError("generic solvers take a dense quadratic")
    n, m = problem.shape
    form = feasible_set(problem)
    blocks = [sparse.csc_array(dense.block(j, np.arange(n))) for j in range(m)]
    full = sparse.block_diag(blocks, format="csc")
    quadratic = full[form.entries][:, form.entries]
    linear = quadratic @ form.base - dense.g.T.reshape(-1)[form.entries]
    form = replace(form, quadratic=quadratic, linear=linear)
    return _with_slack(problem, form) if len(problem.compared.rows) else form


def _with_slack(problem: Problem, form: StandardForm) -> StandardForm:
    """Add a variable for what each soft rule is exceeded by at each child: nonnegative, at the rule's price.

    Two blocks are put last in `below`: signs of these variables, then the rules.
    """
    soft, m, n = problem.compared, problem.shape[1], len(form.entries)
    column, row = np.divmod(form.entries, problem.shape[0])
    k = soft.most.size
    rule, entry = np.nonzero(soft.rows[:, row])
    rows = sparse.csc_array((soft.rows[rule, row[entry]], (rule * m + column[entry], entry)), shape=(k, n))
    none, own = sparse.csc_array((form.below.shape[0], k)), sparse.eye_array(k, format="csc")
    signs, rules = [sparse.csc_array((k, n)), -own], [rows, -own]
    return replace(
        form,
        quadratic=sparse.block_diag([form.quadratic, sparse.csc_array((k, k))], format="csc"),
        linear=np.concatenate([form.linear, np.full(k, soft.hinge)]),
        equal=sparse.hstack([form.equal, sparse.csc_array((form.equal.shape[0], k))], format="csc"),
        below=sparse.block_array([[form.below, none], signs, rules], format="csc"),
        limit=np.concatenate([form.limit, np.zeros(k), soft.most.reshape(-1) - rows @ form.base]),
    )


def _picker(rows: Any, columns: Any, n_rows: int, n_columns: int) -> sparse.csc_array:
    return sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=(n_rows, n_columns))


def solution_of(
    problem: Problem, standard: StandardForm, d: Floats, equal: Floats, below: Floats, steps: int
) -> Solution:
    """Return d and the multipliers of the equalities and the limits as a solution of the problem."""
    n, m = problem.shape
    z_t = np.zeros(n * m)
    x = standard.base + d[: len(standard.base)]
    size, ends = problem.compared.most.size, len(below)
    soft = below[ends - size :].reshape(problem.compared.most.shape)
    below = below[: ends - 2 * size]
    z_t[standard.entries] = np.where(below[: len(x)] >= x, 0.0, np.maximum(x, 0.0))  # one of the two is zero
    n_known = int((problem.sums >= 0).sum())
    ends = n_known + problem.fixed.answers.size
    fixed = -equal[n_known:ends].reshape(problem.fixed.answers.shape)
    bounds, pushed = problem.bounds, below[len(standard.entries) :]
    signs, child, _ = bounds.explicit()
    bound = np.zeros(bounds.lower.shape)
    if len(bounds.everybody):
        bound -= equal[ends:]
    np.add.at(bound.T, child, -signs * pushed[:, None])
    z = np.ascontiguousarray(z_t.reshape(m, n).T)
    return Solution(z, fixed, bounds.signed(bound), soft, steps)


SMALL = 1e-9  # objective and persons are scaled to one


class OptimalityConditions:
    """The factored system.

    The rows of G are eliminated first, then children one after the other (P is block diagonal in them, and rows of
    G lie inside one), then A: little fills in beyond P itself.

    Args:
        p, a, g: P (n, n), positive semidefinite; A (k, n); G (m, n).
        ratio: (m,), nonnegative.

    Raises:
        RuntimeError: singular to working precision.
    """

    def __init__(self, p: sparse.csc_array, a: sparse.csc_array, g: sparse.csc_array, ratio: Floats) -> None:
        self.p, self.a, self.g, self.ratio = p, a, g, ratio
        self.stiff = 1.0 / (ratio + SMALL)
        n, k = p.shape[0], a.shape[0]
        inner = p + g.T @ (sparse.diags_array(self.stiff) @ g) + SMALL * sparse.eye_array(n)
        whole = sparse.block_array([[inner, a.T], [a, -SMALL * sparse.eye_array(k)]], format="csc")
        self.factor = splu(
            sparse.csc_matrix(whole),
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def solve(self, right: Floats, refinements: int, start: Floats | None = None) -> Floats:
        """Return (x, y, z) for a right-hand side (n + k + m,), refined from a first guess if there is one."""
        answer = self._regular(right) if start is None else start
        for _ in range(refinements):
            answer = answer + self._regular(right - self._times(answer))
        return answer

    def _regular(self, right: Floats) -> Floats:
        n, k = self.p.shape[0], self.a.shape[0]
        last = right[n + k :]
        top = self.factor.solve(
            np.concatenate([right[:n] + self.g.T @ (self.stiff * last), right[n : n + k]])
        )
        return np.concatenate([top, self.stiff * (self.g @ top[:n] - last)])

    def _times(self, answer: Floats) -> Floats:
        x, y, z = np.split(answer, [self.p.shape[0], self.p.shape[0] + self.a.shape[0]])
        top = self.p @ x + self.a.T @ y + self.g.T @ z
        return np.concatenate([top, self.a @ x, self.g @ x - self.ratio * z])


MAX_STEPS = 100


REFINEMENTS = 4


DONE = 1e-15  # of the scaled problem; rarely reached: without progress in PATIENCE steps there is no more to gain


PATIENCE = 6


@dataclass(frozen=True, eq=False)
class _BarrierSystem:
    """The data, scaled: min 1/2 x'Px + q'x with Ax = b, Gx + s = h, s >= 0."""

    p: sparse.csc_array
    q: Floats
    a: sparse.csc_array
    b: Floats
    g: sparse.csc_array
    h: Floats


def interior_point(standard: StandardForm) -> tuple[Floats, Floats, Floats, int]:
    """Return x, the multipliers of Ax = b and Gx <= h, and the steps taken: the best iterate, however good."""
    s = standard
    persons = max(1.0, float(np.abs(s.limit).max(initial=0.0)), float(np.abs(s.equal_to).max(initial=0.0)))
    weight = max(float(np.abs(s.quadratic.diagonal()).max(initial=0.0)), 1e-300)
    cost = max(1.0, float(np.abs(s.linear).max(initial=0.0)) / (weight * persons)) * weight
    one = _BarrierSystem(
        s.quadratic / cost, s.linear / (cost * persons), s.equal, s.equal_to / persons, s.below, s.limit / persons
    )  # fmt: skip
    x, y, z, steps = _run_interior_point(one)
    return x * persons, y * (cost * persons), z * (cost * persons), steps


def _run_interior_point(one: _BarrierSystem) -> tuple[Floats, Floats, Floats, int]:
    n, k, m = len(one.q), len(one.b), len(one.h)
    x, y = np.zeros(n), np.zeros(k)
    s, z = np.maximum(one.h, 1.0), np.ones(m)
    best: tuple[float, Floats, Floats, Floats, int] = (np.inf, x, y, z, 0)
    since = 0
    for step in range(MAX_STEPS):
        dual = one.p @ x + one.q + one.a.T @ y + one.g.T @ z
        equal, below = one.a @ x - one.b, one.g @ x + s - one.h
        mu = float(s @ z) / max(m, 1)
        worst = max(mu, *(float(np.abs(r).max(initial=0.0)) for r in (dual, equal, below)))
        since += 1
        if worst < best[0]:
            best, since = (worst, x, y, z, step), 0
        if worst <= DONE or since >= PATIENCE or not np.isfinite(worst):
            break
        ratio = s / z
        try:
            system = OptimalityConditions(one.p, one.a, one.g, ratio)
        except RuntimeError:  # singular to working precision: nothing better will come
            break
        right = np.concatenate([-dual, -equal, s - below])
        dx, dy, dz = np.split(system.solve(right, REFINEMENTS), [n, n + k])
        ds = -s - ratio * dz
        most = min(_step_length(s, ds), _step_length(z, dz))
        centre = float((s + most * ds) @ (z + most * dz)) / max(m, 1)
        push = (centre / mu) ** 3 * mu - ds * dz
        right = np.concatenate([-dual, -equal, s - below - push / z])
        dx, dy, dz = np.split(system.solve(right, REFINEMENTS), [n, n + k])
        ds = (push - s * z) / z - ratio * dz
        most = 0.995 * min(_step_length(s, ds), _step_length(z, dz))
        x, y, s, z = x + most * dx, y + most * dy, s + most * ds, z + most * dz
    return best[1:]


def _step_length(value: Floats, change: Floats) -> float:
    """Return the longest step, at most 1, that keeps values positive."""
    down = change < 0
    return min(1.0, float((-value[down] / change[down]).min(initial=1.0)))


POLISH_REFINEMENTS = 30


def polish(standard: StandardForm, point: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
    """Minimise 1/2 x'Px + q'x with Ax = b and those rows of Gx <= h as equalities whose multiplier exceeds the room.

    The result is better only if these rows are the right ones: the caller compares.

    Args:
        standard: P, q, A, b, G, h.
        point: x and the multipliers of A and G, near the optimum.

    Returns:
        The same three, polished; multipliers of other rows of G are zero.
    """
    s, (x, ties, multipliers) = standard, point
    active = np.flatnonzero(multipliers > s.limit - s.below @ x)
    largest = float(s.quadratic.diagonal().max(initial=0.0)) or 1.0
    system = OptimalityConditions(s.quadratic / largest, s.equal, s.below[active], np.zeros(len(active)))
    answer = system.solve(
        np.concatenate([-s.linear / largest, s.equal_to, s.limit[active]]),
        POLISH_REFINEMENTS,
        np.concatenate([x, ties / largest, multipliers[active] / largest]),
    )
    polished, ends = np.zeros(len(s.limit)), len(x) + len(ties)
    polished[active] = answer[ends:] * largest
    return answer[: len(x)], answer[len(x) : ends] * largest, polished


POLISHES = 12  # of a near answer: each takes limits in that the one before breaks, out that it pulls at
POLISHED_PERSONS = 1e-8


def solve_by_interior_points(problem: Problem) -> Solution:
    """Solve one problem of a dense quadratic, and polish what is found.

    Raises:
        RuntimeError, LinAlgError: singular to working precision.
    """
    return solve_polished(problem, interior_point)


def solve_polished(
    problem: Problem, solver: Callable[[StandardForm], tuple[Floats, Floats, Floats, int]]
) -> Solution:
    """Return a generic solver's answer, polished until the optimality check accepts it: the best point of all.

    Args:
        problem: of a dense quadratic.
        solver: returns x, the multipliers of the equalities and of the limits, and its steps.
    """
    standard = standard_form(problem)
    with np.errstate(over="ignore", invalid="ignore"):  # of points that are then not taken
        x, equal, below, steps = solver(standard)
        point = (x, equal, below)
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
