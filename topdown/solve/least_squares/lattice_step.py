"""Steps of ADMM on problems in lattice form: a child's linear step goes over its complete table, by means."""

from __future__ import annotations

import numpy as np

from topdown.arrays import Floats, Ints
from topdown.solve.least_squares.admm import Iterate, PenaltySchedule, Step
from topdown.solve.least_squares.dense_steps import (
    bound_ratio,
    penalty_frame,
    penalty_schedule,
    proportional_start,
)
from topdown.solve.least_squares.kernels_admm import (
    Children,
    Frame,
    LatticeRoom,
    State,
    lattice_steps,
    linear_step,
    project_segments,
)
from topdown.solve.least_squares.problem import LatticeQuadratic, Problem, Solution


class LatticeStep(Step):
    """See `admm.Step`.

    Args:
        problem: without soft rules; a split, or a root of one column. quadratic: of it.
    """

    pace: PenaltySchedule

    def __init__(self, problem: Problem, quadratic: LatticeQuadratic) -> None:
        self.pace = penalty_schedule(problem)
        self.problem, self.quadratic = problem, quadratic
        self._bound_ratio = bound_ratio(problem)
        lattice = quadratic.lattice
        self._bound_of = _by_value(problem.bounds.of, quadratic.dense, lattice.n_dense)
        self._fixed_of = _by_value(problem.fixed.of, quadratic.dense, lattice.n_dense)
        sizes = np.array([len(v) for v in quadratic.values], dtype=np.int64)
        self._pointers = _pointers(sizes * lattice.n_product)
        outside = np.ones(self._pointers[-1], dtype=bool)
        rows, child = np.nonzero(quadratic.at >= 0)
        outside[self._pointers[child] + quadratic.at[rows, child]] = False
        self._outside, self._sizes = outside, sizes
        self._g = np.concatenate([b.reshape(-1) for b in quadratic.linear])
        self._u = np.zeros(len(self._g))
        self._rho = 0.0
        self._pushed = np.zeros(problem.fixed.answers.shape)

    def start(self) -> Floats:
        """Return rows spread in proportion to the fixed table; of a root, what is nearest to its fit without signs."""
        p, q = self.problem, self.quadratic
        if p.shape[1] > 1:
            return proportional_start(p)
        free, z = np.zeros(p.shape), np.empty(p.allowed.size)
        for j, b in enumerate(q.linear):
            fit = q.lattice.apply(q.inverse(j)[None], b[None])[0].reshape(-1)
            free[:, j] = np.append(fit, 0.0)[q.at[:, j]]
        allowed = np.ascontiguousarray(p.allowed).reshape(-1)
        project_segments(free.reshape(-1), p.pointers, p.sums, allowed, z)
        return z.reshape(p.shape)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty: one inverse of each component of each child."""
        if self._rho:
            self._u *= self._rho / rho
        self._rho = rho
        quadratic, lattice = self.quadratic, self.quadratic.lattice
        k = self.problem.fixed.n_groups
        penalty = rho * self._bound_ratio * lattice.n_product
        factors, gains, pushes = [], [], []
        for j, values in enumerate(quadratic.values):
            full = quadratic.whole(j) + rho * np.eye(len(values))
            bound = self._bound_of[values]
            full[0] += penalty * ((bound[:, None] == bound[None, :]) & (bound >= 0)[:, None])
            inverse = np.linalg.inv(full)
            inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
            select = (np.arange(k)[:, None] == self._fixed_of[values][None, :]).astype(float)
            half = inverse[0] @ select.T
            push = np.linalg.pinv(select @ half, hermitian=True)
            factors.append(quadratic.factors(inverse).reshape(-1))
            gains.append((half @ push).reshape(-1))
            pushes.append(push.reshape(-1))
        t = self._sizes
        self._children = Children(
            self._pointers, quadratic.at, self._outside, self._g, self._u,
            np.concatenate(factors), _pointers(t * t * lattice.n_components),
            np.concatenate(gains), _pointers(t * k), np.concatenate(pushes), _pointers(np.full(len(t), k * k)),
            np.concatenate([self._bound_of[v] for v in quadratic.values]),
            np.concatenate([self._fixed_of[v] for v in quadratic.values]), _pointers(t),
            np.ascontiguousarray(self.problem.fixed.answers, dtype=np.float64),
        )  # fmt: skip

    def iterate(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """See `admm.Step.iterate`."""
        taken, primal, dual = lattice_steps(
            self.quadratic.axes,
            self._children,
            self._frame(rho),
            _step_state(at),
            self._pushed,
            steps,
            tolerance,
        )
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off one more linear step and the scaled duals."""
        shape, bounds, quadratic = self.problem.shape, self.problem.bounds, self.quadratic
        largest, n_places = int(np.diff(self._pointers).max()), int(quadratic.axes.starts[-1])
        linear_step(
            self.quadratic.axes, self._children, self._frame(rho), _step_state(at), np.empty(shape), np.empty(shape),
            np.empty(len(self._g)), np.zeros((bounds.n_groups, shape[1])), self._pushed,
            LatticeRoom(len(self._pushed), largest, largest // quadratic.lattice.n_product * n_places),
        )  # fmt: skip
        bound = bounds.signed(-rho * self._bound_ratio * at.w)
        return Solution(at.z.copy(), self._pushed.copy(), bound, np.zeros_like(at.t), taken)

    def _frame(self, rho: float) -> Frame:
        return penalty_frame(self.problem, self.quadratic.g, rho, np.zeros(0))


def _step_state(at: Iterate) -> State:
    return State(at.z, at.u, at.y, at.w, at.s, at.t)


def _pointers(sizes: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _by_value(of_row: Ints, dense: Ints, n_dense: int) -> Ints:
    """Return the group of each dense value, -1 for none; TypeError if rows of one value are in two."""
    out = np.full(n_dense, -1, dtype=np.int64)
    out[dense] = of_row
    if (out[dense] != of_row).any():
        raise TypeError("a group of rows cuts across product cells")
    return out
