"""Steps of ADMM on a structured quadratic, compiled; and how the root is finished exactly."""

from __future__ import annotations

import numpy as np

from topdown.solve.groups import Floats, LowerBounds
from topdown.solve.least_squares.admm import Iterate, Pace
from topdown.solve.least_squares.kernels_tree import admm_steps
from topdown.solve.least_squares.problem import Problem, Solution
from topdown.solve.least_squares.structured import Structured
from topdown.solve.least_squares.tree_linear import LinearStep
from topdown.solve.least_squares.tree_polish import polish

RELAX = 1.8
MOST_STEPS = 20_000
FEW_STEPS, FEW_ENTRIES = 4_000, 1_000  # small tables, which the interior-point method solves at once


class TreeStep:
    """See `admm.Step`. The problem has no bounds.

    Args:
        problem: of a structured quadratic. power: see `tree_linear.LinearStep`.
    """

    threads: int | None = 1  # products of a step are small: more threads wait for each other

    def __init__(self, problem: Problem, quadratic: Structured, power: float) -> None:
        if not isinstance(problem.bounds, LowerBounds) or problem.bounds.n_groups:
            raise TypeError("a structured problem has no bounds: take them off the table first")
        self.problem, self.quadratic = problem, quadratic
        self.linear = LinearStep(quadratic, problem.fixed, problem.compared.rows, power)
        few = not len(problem.compared.rows) and problem.allowed.size <= FEW_ENTRIES
        self.pace = Pace(steps=20, balance=20, polish=200, most=FEW_STEPS if few else MOST_STEPS)
        self._g = -quadratic.gradient(np.zeros(problem.shape))
        self._allowed = np.ascontiguousarray(problem.allowed).reshape(-1)
        self._threshold = np.full(len(problem.sums), np.inf)
        self._multipliers = np.zeros((problem.fixed.n_groups, problem.shape[1]))

    def start(self) -> Floats:
        """Return a table that meets row and group sums."""
        return proportional(self.problem)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty.

        Raises:
            LinAlgError: weights are too far apart for float64.
        """
        self.linear.factor(rho)
        self._pull = rho * self.linear.soft_ratio

    def take(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """Take steps in place; return how many, and the primal and dual residual."""
        p, soft = self.problem, self.problem.compared
        taken, primal, dual, self._multipliers = admm_steps(
            self.linear.tree, self.linear.schur, p.fixed.answers, self._g, rho, RELAX, at.z, at.u, p.pointers, p.sums,
            self._allowed, self._threshold, soft.most, self._pull, soft.hinge / self._pull, at.s, at.t,
            steps, tolerance,
        )  # fmt: skip
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off the scaled duals."""
        del rho
        return Solution(at.z.copy(), self._multipliers, at.y, self._pull[:, None] * at.t, taken)

    def polish(self, z: Floats, taken: int) -> Solution | None:
        """Finish the root without rules exactly."""
        p = self.problem
        if p.fixed.n_groups or len(p.compared.rows) or z.shape[1] > 1 or (p.sums < 0).any():
            return None
        return Solution.without_multipliers(p, polish(p, self.quadratic, z), taken)


def proportional(problem: Problem) -> Floats:
    """Return a table that meets row and group sums, spread in proportion: the answer where nothing is measured."""
    fixed, (n, _) = problem.fixed, problem.shape
    if not fixed.n_groups:
        allowed = problem.allowed.reshape(-1).astype(np.float64)
        share = np.maximum(problem.sums, 0) / np.maximum(np.add.reduceat(allowed, problem.pointers[:-1]), 1)
        return np.ascontiguousarray((np.repeat(share, np.diff(problem.pointers)) * allowed).reshape(n, -1))
    total = np.maximum(fixed.answers.sum(axis=1), 1e-300)
    return np.ascontiguousarray(problem.sums[:, None] * (fixed.answers / total[:, None])[fixed.of])
