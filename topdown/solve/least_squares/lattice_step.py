"""Steps of ADMM where each child's linear step is taken by means over product axes, on complete tables.

A bound's rows, and a fixed answer's, must be all product cells of some dense values.
"""

from __future__ import annotations

import numpy as np

from topdown.solve.groups import Floats, Ints
from topdown.solve.least_squares.admm import Iterate, Pace
from topdown.solve.least_squares.child_start import in_proportion, pace_of, plain_step
from topdown.solve.least_squares.kernels_dense import State
from topdown.solve.least_squares.kernels_lattice import Children, lattice_steps, linear_step
from topdown.solve.least_squares.on_lattice import OnLattice
from topdown.solve.least_squares.per_child import PerChild
from topdown.solve.least_squares.problem import Problem, Solution


class LatticeStep:
    """See `admm.Step`.

    Args:
        problem: without soft rules. quadratic: of it. beyond: of that.
    """

    threads: int | None = 1
    pace: Pace

    def __init__(self, problem: Problem, quadratic: PerChild, beyond: OnLattice) -> None:
        self.pace = pace_of(problem)
        self.problem, self.beyond = problem, beyond
        self._plain = plain_step(problem, quadratic)
        lattice = beyond.lattice
        self._bound_of = _by_value(problem.bounds.of, beyond.dense, lattice.n_dense)
        self._fixed_of = _by_value(problem.fixed.of, beyond.dense, lattice.n_dense)
        sizes = np.array([len(v) for v in beyond.values], dtype=np.int64)
        self._pointers = _pointers(sizes * lattice.n_product)
        outside = np.ones(self._pointers[-1], dtype=bool)
        rows, child = np.nonzero(beyond.at >= 0)
        outside[self._pointers[child] + beyond.at[rows, child]] = False
        self._outside, self._sizes = outside, sizes
        self._g = np.concatenate([b.reshape(-1) for b in beyond.linear])
        self._u = np.zeros(len(self._g))
        self._rho = 0.0
        self._pushed = np.zeros(problem.fixed.answers.shape)

    def start(self) -> Floats:
        """Return rows spread in proportion to the fixed table."""
        return in_proportion(self.problem)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty: one inverse of each component of each child."""
        if self._rho:
            self._u *= self._rho / rho
        self._rho = rho
        beyond, lattice = self.beyond, self.beyond.lattice
        k = self.problem.fixed.n_groups
        penalty = rho * self._plain.bound_ratio * lattice.n_product
        factors, gains, pushes = [], [], []
        for values, matrices in zip(beyond.values, beyond.matrices, strict=True):
            full = beyond.own[:, values[:, None], values[None, :]] + matrices + rho * np.eye(len(values))
            bound = self._bound_of[values]
            full[0] += penalty * ((bound[:, None] == bound[None, :]) & (bound >= 0)[:, None])
            inverse = np.linalg.inv(full)
            inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
            select = (np.arange(k)[:, None] == self._fixed_of[values][None, :]).astype(float)
            half = inverse[0] @ select.T
            push = np.linalg.pinv(select @ half, hermitian=True)
            factors.append(beyond.factors(inverse).reshape(-1))
            gains.append((half @ push).reshape(-1))
            pushes.append(push.reshape(-1))
        t = self._sizes
        self._children = Children(
            self._pointers, beyond.at, self._outside, self._g, self._u,
            np.concatenate(factors), _pointers(t * t * lattice.n_components),
            np.concatenate(gains), _pointers(t * k), np.concatenate(pushes), _pointers(np.full(len(t), k * k)),
            np.concatenate([self._bound_of[v] for v in beyond.values]),
            np.concatenate([self._fixed_of[v] for v in beyond.values]), _pointers(t),
            np.ascontiguousarray(self.problem.fixed.answers, dtype=np.float64),
        )  # fmt: skip

    def take(self, at: Iterate, rho: float, steps: int, tolerance: float) -> tuple[int, float, float]:
        """Take steps in place; return how many, and the primal and dual residual."""
        taken, primal, dual = lattice_steps(
            self.beyond.axes,
            self._children,
            self._plain.frame(rho),
            _state(at),
            self._pushed,
            steps,
            tolerance,
        )
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off one more linear step and the scaled duals."""
        shape, bounds = self.problem.shape, self.problem.bounds
        linear_step(
            self.beyond.axes, self._children, self._plain.frame(rho), _state(at), np.empty(shape), np.empty(shape),
            np.empty(len(self._g)), np.zeros((bounds.n_groups, shape[1])), self._pushed,
        )  # fmt: skip
        bound = bounds.signed(-rho * self._plain.bound_ratio * at.w)
        return Solution(at.z.copy(), self._pushed.copy(), bound, np.zeros_like(at.t), taken)

    def polish(self, z: Floats, taken: int) -> None:
        """Return nothing: there is no short way."""
        del z, taken


def _state(at: Iterate) -> State:
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
