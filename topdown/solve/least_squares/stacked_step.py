"""Steps of ADMM with an inverse of its own for each child."""

from __future__ import annotations

import numpy as np

from topdown.solve.groups import Floats
from topdown.solve.least_squares.admm import Iterate, Pace
from topdown.solve.least_squares.child_start import in_proportion, pace_of, plain_step
from topdown.solve.least_squares.kernels_dense import State, stacked_steps
from topdown.solve.least_squares.per_child import PerChild
from topdown.solve.least_squares.problem import Problem, Solution


class StackedStep:
    """See `admm.Step`; takes n n m entries.

    Args:
        problem: without soft rules. quadratic: of it.
    """

    threads: int | None = 1
    pace: Pace

    def __init__(self, problem: Problem, quadratic: PerChild) -> None:
        self.pace = pace_of(problem)
        self.problem, self.quadratic = problem, quadratic
        self._plain = plain_step(problem, quadratic)
        n, m = problem.shape
        self._matrices = np.stack([quadratic.hessian + quadratic.beyond.block(j) for j in range(m)])
        allowed = problem.allowed.T.astype(np.float64)
        self._inside = allowed[:, :, None] * allowed[:, None, :]
        self._constant = np.zeros((n, m))

    def start(self) -> Floats:
        """Return rows spread in proportion to the fixed table."""
        return in_proportion(self.problem)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty: one inverse a child, on the rows where it may have records.

        A closed row left in would take up what a fixed answer lacks, and ADMM would need many steps to empty it.
        """
        plain, answers = self._plain, self.problem.fixed.answers
        penalty = rho * np.eye(self.problem.shape[0])
        if plain.same_bound is not None:
            penalty = penalty + rho * plain.bound_ratio * plain.same_bound
        closed = np.eye(len(penalty)) * (1.0 - self._inside)
        self._inverses = np.linalg.inv((self._matrices + penalty) * self._inside + closed) * self._inside
        if len(plain.select):
            self._half = self._inverses @ plain.select.T
            self._middle = np.linalg.pinv(plain.select @ self._half, hermitian=True)
            self._constant = np.ascontiguousarray(
                (self._half @ (self._middle @ answers.T[:, :, None]))[:, :, 0].T
            )
            self._inverses = self._inverses - self._half @ self._middle @ np.swapaxes(self._half, 1, 2)
        self._inverses = np.ascontiguousarray((self._inverses + np.swapaxes(self._inverses, 1, 2)) / 2)

    def take(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """Take steps in place; return how many, and the primal and dual residual."""
        state = State(at.z, at.u, at.y, at.w, at.s, at.t)
        taken, primal, dual = stacked_steps(
            self._inverses, self._constant, self._plain.frame(rho), state, steps, tolerance
        )
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off the scaled duals."""
        bounds, table = self.problem.bounds, self.problem.fixed.answers
        ratio = rho * self._plain.bound_ratio
        right = self.quadratic.g + rho * (at.z - at.u) + bounds.spread(ratio * (at.y - at.w))
        fixed = np.zeros(table.shape)
        if len(table):
            left = (np.swapaxes(self._half, 1, 2) @ right.T[:, :, None])[:, :, 0] - table.T
            fixed = -np.ascontiguousarray((self._middle @ left[:, :, None])[:, :, 0].T)
        return Solution(at.z.copy(), fixed, bounds.signed(-ratio * at.w), np.zeros_like(at.t), taken)

    def polish(self, z: Floats, taken: int) -> None:
        """Return nothing: there is no short way."""
        del z, taken
