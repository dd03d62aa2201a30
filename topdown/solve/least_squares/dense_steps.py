"""Steps of ADMM on dense matrices: one inverse shared by all children, or one of its own for each child."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from topdown.arrays import Bools, Floats
from topdown.solve.kernels_shared import solve_small_split
from topdown.solve.least_squares.admm import (
    SMALL_FINISH,
    SMALL_ROWS,
    TOLERANCE_PERSONS,
    Iterate,
    PenaltySchedule,
    Step,
)
from topdown.solve.least_squares.kernels_admm import Frame, State, matrix_steps
from topdown.solve.least_squares.optimality import TARGET_PERSONS, residual_persons
from topdown.solve.least_squares.problem import Dense, PerChild, Problem, Solution

SMALL = 2_000_000  # multiplications of a step, up to which one compiled call takes all steps


def solve_small(problem: Problem) -> tuple[Solution, float] | None:
    """Solve a small split on a dense matrix in one compiled call; returns it and its residual in persons.

    Returns:
        None for any other problem, and where the first point that ADMM holds for solved is not certified.
    """
    n, m = problem.shape
    quadratic, fixed = problem.quadratic, problem.fixed
    if not isinstance(quadratic, Dense) or n > SMALL_ROWS or n * n * m > SMALL or m < 2:
        return None
    if problem.bounds.n_groups or len(problem.compared.rows):
        return None
    found = solve_small_split(
        quadratic.hessian,
        quadratic.g,
        quadratic.curvature if quadratic.curvature > 0 else quadratic.scale,
        problem.sums,
        problem.pointers,
        problem.allowed.reshape(-1),
        fixed.of,
        fixed.answers,
        TOLERANCE_PERSONS,
        SMALL_PACE,
    )
    if found is None:
        return None
    z, multipliers, steps = found
    bounds, rules = np.zeros((0, m)), np.zeros((0, m))
    solution = Solution(z, multipliers, bounds, rules, steps)
    residual = residual_persons(problem, solution, strict=True)
    return (solution, residual) if residual <= TARGET_PERSONS else None


def bound_ratio(problem: Problem) -> float:
    """Return the penalty of bounded groups relative to that of entries: smaller the more rows a group has."""
    inside = int((problem.bounds.of >= 0).sum())
    return 1.0 / max(1.0, float(np.sqrt(max(inside, 1) / max(problem.bounds.n_groups, 1))))


def same_bound(problem: Problem) -> Bools | None:
    """Return which two rows are in one bounded group, (n, n); None without bounds."""
    of = problem.bounds.of
    return (of[:, None] == of[None, :]) & (of >= 0)[:, None] if problem.bounds.n_groups else None


def penalty_frame(problem: Problem, g: Floats, rho: float, rho_row: Floats) -> Frame:
    """Return what all steps of a penalty share; `rho_row` are those of soft rules."""
    p, soft = problem, problem.compared
    allowed, rows = np.ascontiguousarray(p.allowed).reshape(-1), np.ascontiguousarray(soft.rows)
    return Frame(
        g, rho, rho * bound_ratio(p), p.pointers, p.sums, allowed, p.bounds.of, p.bounds.lower,
        np.ascontiguousarray(p.bounds.limits), rows, soft.most, rho_row, soft.hinge,
    )  # fmt: skip


class DenseStep(Step):
    """x = argmin of the quadratic plus penalties subject to the fixed table, as a matrix and a constant (`admm.Step`).

    Args:
        problem: of a dense quadratic. power: penalties of soft rules are divided by this power of their squared norm.
    """

    pace = PenaltySchedule(steps=40, balance=80, polish=20_000, most=20_000)

    def __init__(self, problem: Problem, quadratic: Dense, power: float) -> None:
        n, m = problem.shape
        self.problem, self.quadratic = problem, quadratic
        self.bound_ratio = bound_ratio(problem)
        self.rows = np.ascontiguousarray(problem.compared.rows)
        self.row_ratio = np.maximum(1.0, (self.rows**2).sum(axis=1)) ** -power
        self.same_bound = same_bound(problem)
        self.select = (np.arange(problem.fixed.n_groups)[:, None] == problem.fixed.of[None, :]).astype(float)
        self.inverse = np.zeros((n, n))
        self.constant = np.zeros((n, m))

    def start(self) -> Floats:
        """Return rows spread in proportion to the fixed table; of a root or a small split, spread evenly."""
        p = self.problem
        if p.shape[1] > 1 and p.shape[0] > SMALL_ROWS:
            return proportional_start(p)
        allowed = np.ascontiguousarray(p.allowed).reshape(-1).astype(np.float64)
        count = np.add.reduceat(allowed, p.pointers[:-1])
        share = np.where(p.sums > 0, p.sums, 0.0) / np.maximum(count, 1.0)
        return np.ascontiguousarray((np.repeat(share, np.diff(p.pointers)) * allowed).reshape(p.shape))

    def factor(self, rho: float) -> None:
        """Prepare for a penalty."""
        hessian, answers = self.quadratic.hessian, self.problem.fixed.answers
        k = hessian + rho * np.eye(len(hessian))
        if self.same_bound is not None:
            k = k + rho * self.bound_ratio * self.same_bound
        if len(self.rows):
            k = k + rho * self.rows.T @ (self.row_ratio[:, None] * self.rows)
        self.inverse = plain = cho_solve(cho_factor(k), np.eye(len(k)))
        if len(self.select):
            self.half = plain @ self.select.T
            self.middle = np.linalg.inv(self.select @ self.half)
            self.inverse = plain - self.half @ self.middle @ self.half.T
            self.constant = np.ascontiguousarray(self.half @ (self.middle @ answers))
        self.inverse = np.ascontiguousarray((self.inverse + self.inverse.T) / 2)

    def iterate(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """See `admm.Step.iterate`."""
        taken, primal, dual = matrix_steps(
            self.inverse[None],
            self.constant,
            penalty_frame(self.problem, self.quadratic.g, rho, rho * self.row_ratio),
            State(at.z, at.u, at.y, at.w, at.s, at.t),
            steps,
            tolerance,
        )
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off the scaled duals."""
        bounds, table = self.problem.bounds, self.problem.fixed.answers
        right = self.quadratic.g + rho * (at.z - at.u) + bounds.spread(rho * self.bound_ratio * (at.y - at.w))
        if len(self.rows):
            right += self.rows.T @ (rho * self.row_ratio[:, None] * (at.s - at.t))
        fixed = -self.middle @ (self.half.T @ right - table) if len(table) else np.zeros_like(table)
        bound = bounds.signed(-rho * self.bound_ratio * at.w)
        return Solution(at.z.copy(), fixed, bound, rho * self.row_ratio[:, None] * at.t, taken)


SMALL_PACE = np.array([DenseStep.pace.steps, DenseStep.pace.balance, SMALL_FINISH])
ROUNDS = 10


ROUNDING = 5e-16  # what many steps leave of a residual, relative to the largest sum of a row


def penalty_schedule(problem: Problem) -> PenaltySchedule:
    """Return the penalty schedule of steps with a system for each child; TypeError for soft rules, which they lack."""
    if len(problem.compared.rows):
        raise TypeError("a linear step of each child takes no soft rules")
    floor = ROUNDING * float(problem.sums.max(initial=0.0))
    return PenaltySchedule(steps=40, balance=80, polish=20_000, most=20_000, floor=floor)


def proportional_start(problem: Problem) -> Floats:
    """Return a table with the rows' sums, and nearly the fixed answers, spread over allowed entries in proportion.

    A child that must hold few gets few from the start: emptying it takes ADMM hundreds of steps.

    Args:
        problem: a split, rows over children.
    """
    fixed, z = problem.fixed, problem.allowed.astype(np.float64)
    sums = problem.sums[:, None]
    for _ in range(ROUNDS if fixed.n_groups else 0):
        z = z * sums / np.maximum(z.sum(axis=1, keepdims=True), 1e-12)
        held = fixed.sums(z)
        ratio = np.where(held > 0, fixed.answers / np.maximum(held, 1e-12), 1.0)
        z = np.where(fixed.of[:, None] >= 0, z * fixed.spread(ratio), z)
    held = z.sum(axis=1, keepdims=True)
    z = np.where(held > 0, z, problem.allowed)
    return np.ascontiguousarray(z * sums / np.maximum(z.sum(axis=1, keepdims=True), 1e-12))


class StackedStep(Step):
    """See `admm.Step`; takes n n m entries.

    Args:
        problem: without soft rules. quadratic: of it.
    """

    pace: PenaltySchedule

    def __init__(self, problem: Problem, quadratic: PerChild) -> None:
        self.pace = penalty_schedule(problem)
        self.problem, self.quadratic = problem, quadratic
        n, m = problem.shape
        self._same_bound, self._bound_ratio = same_bound(problem), bound_ratio(problem)
        fixed = problem.fixed
        self._select = (np.arange(fixed.n_groups)[:, None] == fixed.of[None, :]).astype(float)
        self._matrices = quadratic.hessian + quadratic.beyond
        allowed = problem.allowed.T.astype(np.float64)
        self._inside = allowed[:, :, None] * allowed[:, None, :]
        self._constant = np.zeros((n, m))

    def start(self) -> Floats:
        """Return rows spread in proportion to the fixed table."""
        return proportional_start(self.problem)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty: one inverse a child, on the rows where it may have records.

        A closed row left in would take up what a fixed answer lacks, and ADMM would need many steps to empty it.
        """
        answers = self.problem.fixed.answers
        penalty = rho * np.eye(self.problem.shape[0])
        if self._same_bound is not None:
            penalty = penalty + rho * self._bound_ratio * self._same_bound
        closed = np.eye(len(penalty)) * (1.0 - self._inside)
        self._inverses = np.linalg.inv((self._matrices + penalty) * self._inside + closed) * self._inside
        if len(self._select):
            self._half = self._inverses @ self._select.T
            self._middle = np.linalg.pinv(self._select @ self._half, hermitian=True)
            self._constant = np.ascontiguousarray(
                (self._half @ (self._middle @ answers.T[:, :, None]))[:, :, 0].T
            )
            self._inverses = self._inverses - self._half @ self._middle @ np.swapaxes(self._half, 1, 2)
        self._inverses = np.ascontiguousarray((self._inverses + np.swapaxes(self._inverses, 1, 2)) / 2)

    def iterate(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """See `admm.Step.iterate`."""
        state = State(at.z, at.u, at.y, at.w, at.s, at.t)
        frame = penalty_frame(self.problem, self.quadratic.g, rho, np.zeros(0))
        taken, primal, dual = matrix_steps(self._inverses, self._constant, frame, state, steps, tolerance)
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off the scaled duals."""
        bounds, table = self.problem.bounds, self.problem.fixed.answers
        ratio = rho * self._bound_ratio
        right = self.quadratic.g + rho * (at.z - at.u) + bounds.spread(ratio * (at.y - at.w))
        fixed = np.zeros(table.shape)
        if len(table):
            left = (np.swapaxes(self._half, 1, 2) @ right.T[:, :, None])[:, :, 0] - table.T
            fixed = -np.ascontiguousarray((self._middle @ left[:, :, None])[:, :, 0].T)
        return Solution(at.z.copy(), fixed, bounds.signed(-ratio * at.w), np.zeros_like(at.t), taken)
