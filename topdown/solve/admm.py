"""Structured least squares by ADMM with exact projections (the default backend).

The split x = z gives a linear step with one dense inverse per parent, shared by all children, and an exact
projection of every segment on its simplex: signs, zeros and parent sums hold at every iterate. Equalities with
a fixed table are inside the linear step; lower bounds are added only when the solution without them breaks one.
What the optimality check does not accept afterwards goes to interior points (`backends/interior.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from topdown.errors import NoSplitError
from topdown.solve.groups import Floats, LowerBounds
from topdown.solve.kernels import admm
from topdown.solve.kkt import TARGET_PERSONS, infeasibility_persons, residual_persons
from topdown.solve.problem import Problem, Solution, largest_curvature

STEPS = 40  # between two looks at the balance of the residuals
MAX_STEPS = 20_000
TOLERANCE_PERSONS = 1e-7
MOST_INTERIOR = (
    5_000_000  # entries of the dense blocks that interior points may factor: a minute, half a gigabyte
)


def solve(problem: Problem) -> Solution:
    """Solve a least-squares problem; the caller re-checks the result with `kkt.residual_persons`.

    Raises:
        NoSplitError: a linear program finds that the constraints have no common point.
    """
    found, done = _run(_without_bounds(problem))
    if problem.bounds.are_met(problem.bounds.sums(found.z)):
        found = replace(found, bound_multipliers=np.zeros_like(problem.bounds.lower))
    else:
        found, done = _run(problem)
    done = done or residual_persons(problem, found) <= TARGET_PERSONS
    return found if done else _finish(problem, found)


def _finish(problem: Problem, found: Solution) -> Solution:
    """Solve by interior points what many steps did not solve: curvatures far apart, or tables in a corner."""
    from topdown.solve.backends.feasible import have_common_point
    from topdown.solve.backends.quadratic import solve_with

    n, m = problem.shape
    if infeasibility_persons(problem, found.z) > TARGET_PERSONS and have_common_point(problem) is False:
        raise NoSplitError(
            "the constraints of this split exclude each other",
            code="I012",
            fix="check exact totals and lower bounds below this node against each other",
        )
    if n * n * m > MOST_INTERIOR:
        return found
    other = solve_with("interior", problem)
    best = min(other, found, key=lambda one: residual_persons(problem, one))
    return replace(best, iterations=found.iterations + other.iterations)


def _without_bounds(problem: Problem) -> Problem:
    return replace(problem, bounds=LowerBounds.none(*problem.shape).floats())


def _run(problem: Problem) -> tuple[Solution, bool]:
    # The second value: whether the optimality check accepts the first.
    n, m = problem.shape
    bounds = problem.bounds
    bound_of, lower, limits = bounds.of, bounds.lower, np.ascontiguousarray(bounds.limits)
    rho = first_rho = _first_penalty(problem)
    z = _start(problem)
    u = np.zeros((n, m))
    soft, rows = problem.compared, np.ascontiguousarray(problem.compared.rows)
    s, t = np.minimum(rows @ z, soft.most), np.zeros_like(soft.most)
    y = np.maximum(bounds.sums(z), lower)
    w = np.zeros_like(y)
    tolerance, taken = TOLERANCE_PERSONS, 0
    allowed = np.ascontiguousarray(problem.allowed).reshape(-1)
    step = _LinearStep(problem)
    step.factor(rho)
    while True:
        done, primal, dual = admm(
            step.inverse, step.constant, problem.g, rho, rho * step.bound_ratio, z, u, problem.pointers,
            problem.sums, allowed, bound_of, lower, y, w, limits,
            rows, soft.most, rho * step.row_ratio, soft.hinge, s, t, STEPS, tolerance,
        )  # fmt: skip
        taken += done
        if primal <= tolerance and dual <= tolerance:
            solution = step.solution(z, u, y, w, s, t, rho, taken)
            near = residual_persons(problem, solution, strict=True) <= TARGET_PERSONS
            if near or tolerance <= 1e-11:
                return solution, near
            tolerance /= 10
        elif taken >= MAX_STEPS:
            solution = step.solution(z, u, y, w, s, t, rho, taken)
            return solution, residual_persons(problem, solution) <= TARGET_PERSONS
        elif taken % (2 * STEPS) == 0:
            polished = _polish(problem, z, taken)
            if polished is not None:
                return polished, True
            ratio = primal / max(dual, 1e-300)
            factor = float(np.clip(np.sqrt(ratio), 0.2, 5.0)) if not 0.2 < ratio < 5 else 1.0
            if factor != 1.0:
                factor = float(np.clip(rho * factor, first_rho / 1e4, first_rho * 1e4)) / rho
                rho *= factor
                u /= factor
                w /= factor
                t /= factor
                step.factor(rho)


def _first_penalty(problem: Problem) -> float:
    # Geometric mean of the extreme curvatures, the best fixed penalty for a quadratic (Ghadimi et al. 2015).
    largest = largest_curvature(problem.hessian)
    smallest = problem.curvature if problem.curvature > 0 else problem.scale
    return float(np.sqrt(max(smallest, largest * 1e-5) * largest))


def _start(problem: Problem) -> Floats:
    # Every segment's sum spread evenly over its allowed entries; any start gives the same answer.
    allowed = problem.allowed.reshape(-1).astype(np.float64)
    count = np.add.reduceat(allowed, problem.pointers[:-1])
    share = np.where(problem.sums > 0, problem.sums, 0.0) / np.maximum(count, 1.0)
    z = np.repeat(share, np.diff(problem.pointers)) * allowed
    return np.ascontiguousarray(z.reshape(problem.shape))


def _polish(problem: Problem, z: Floats, taken: int) -> Solution | None:
    """Solve one column exactly on its positive entries; None unless that point passes the optimality check.

    Only for a single column without bounds (the root), where segments and a fixed table are all there is.
    """
    if z.shape[1] != 1 or problem.bounds.n_groups or len(problem.compared.rows) or problem.curvature <= 0:
        return None
    free = np.flatnonzero(z[:, 0] > 0)
    segment = np.repeat(np.arange(len(problem.sums)), np.diff(problem.pointers))[free]
    known, row = np.unique(segment[problem.sums[segment] >= 0], return_inverse=True)
    kept = np.flatnonzero(problem.sums[segment] >= 0)
    n_fixed, fixed_of = problem.fixed.n_groups, problem.fixed.of[free]
    ties = np.zeros((len(known) + n_fixed, len(free)))
    ties[row, kept] = 1.0
    ties[len(known) + fixed_of[fixed_of >= 0], np.flatnonzero(fixed_of >= 0)] = 1.0
    right = np.concatenate([problem.sums[known], problem.fixed.answers[:, 0]])
    factor = cho_factor(problem.hessian[np.ix_(free, free)])
    plain, half = cho_solve(factor, problem.g[free, 0]), cho_solve(factor, ties.T)
    x, push = plain, np.zeros(len(right))
    if n_fixed:  # a table and segments have their totals in common: any multipliers that fit will do
        push = np.linalg.lstsq(ties @ half, ties @ plain - right, rcond=None)[0]
        x = plain - half @ push
    elif len(known):
        x = plain - half @ np.linalg.solve(ties @ half, ties @ plain - right)
    if (x < 0).any():
        return None
    point = np.zeros_like(z)
    point[free, 0] = x
    none = np.zeros((0, 1))
    solution = Solution(point, -push[len(right) - n_fixed :, None], none, none, taken)
    return solution if residual_persons(problem, solution) <= TARGET_PERSONS else None


class _LinearStep:
    """x = argmin of the quadratic plus penalties subject to the fixed table, as one matrix and one constant."""

    def __init__(self, problem: Problem) -> None:
        n, m = problem.shape
        self.problem, bound_of = problem, problem.bounds.of
        inside, n_bounds = bound_of >= 0, problem.bounds.n_groups
        self.bound_ratio = 1.0 / max(1.0, float(np.sqrt(max(inside.sum(), 1) / max(n_bounds, 1))))
        self.rows = problem.compared.rows
        self.row_ratio = 1.0 / np.maximum(1.0, np.sqrt((self.rows**2).sum(axis=1)))
        self.same_bound = (bound_of[:, None] == bound_of[None, :]) & inside[:, None] if n_bounds else None
        self.select = (np.arange(problem.fixed.n_groups)[:, None] == problem.fixed.of[None, :]).astype(float)
        self.inverse = np.zeros((n, n))
        self.constant = np.zeros((n, m))

    def factor(self, rho: float) -> None:
        """Prepare the step for a penalty."""
        k = self.problem.hessian + rho * np.eye(len(self.problem.hessian))
        if self.same_bound is not None:
            k = k + rho * self.bound_ratio * self.same_bound
        if len(self.rows):
            k = k + rho * self.rows.T @ (self.row_ratio[:, None] * self.rows)
        self.plain = cho_solve(cho_factor(k), np.eye(len(k)))
        self.inverse = self.plain
        if len(self.select):
            self.half = self.plain @ self.select.T
            self.middle = np.linalg.inv(self.select @ self.half)
            self.inverse = self.plain - self.half @ self.middle @ self.half.T
            self.constant = np.ascontiguousarray(self.half @ (self.middle @ self.problem.fixed.answers))
        self.inverse = np.ascontiguousarray((self.inverse + self.inverse.T) / 2)

    def solution(
        self, z: Floats, u: Floats, y: Floats, w: Floats, s: Floats, t: Floats, rho: float, taken: int
    ) -> Solution:
        """Read the multipliers off the scaled duals."""
        bounds, table = self.problem.bounds, self.problem.fixed.answers
        right = self.problem.g + rho * (z - u) + bounds.spread(rho * self.bound_ratio * (y - w))
        if len(self.rows):
            right += self.rows.T @ (rho * self.row_ratio[:, None] * (s - t))
        fixed = -self.middle @ (self.half.T @ right - table) if len(table) else np.zeros_like(table)
        bound = bounds.signed(-rho * self.bound_ratio * w)
        return Solution(z.copy(), fixed, bound, rho * self.row_ratio[:, None] * t, taken)
