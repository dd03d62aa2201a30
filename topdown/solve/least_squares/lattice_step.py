"""What areas below each child add, in lattice form, and steps of ADMM with it, on complete tables.

Matrices are never written out but applied by means over product axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from topdown.arrays import Floats, Ints
from topdown.solve.lattice import Lattice
from topdown.solve.least_squares.admm import Iterate, PenaltySchedule, Step
from topdown.solve.least_squares.dense_steps import penalty_schedule, plain_step, proportional_start
from topdown.solve.least_squares.kernels_admm import (
    Axes,
    Children,
    LatticeRoom,
    State,
    apply_sums,
    lattice_steps,
    linear_step,
)
from topdown.solve.least_squares.problem import PerChild, Problem, Solution


@final
@dataclass(frozen=True, eq=False)
class LatticeQuadratic:
    """K_j by components on each child's open dense values; see `SubtreeQuadratic`.

    Args:
        lattice: in whose terms.
        dense, product: int64 (n,), dense value and product cell of each row.
        values: per child, its open dense values.
        matrices: per child, K by components, (n_components, t, t).
        own: what all children share, (n_components, n_dense, n_dense): the matrix A on complete tables.
        linear: per child, the linear term on complete tables, (t, n_product).
    """

    lattice: Lattice
    dense: Ints
    product: Ints
    values: tuple[Ints, ...]
    matrices: tuple[Floats, ...]
    own: Floats
    linear: tuple[Floats, ...]

    @cached_property
    def at(self) -> Ints:
        """Place of each row in each child's complete table, int64 (n, m); -1 where it is closed."""
        columns = []
        for values in self.values:
            local = np.full(self.lattice.n_dense, -1, dtype=np.int64)
            local[values] = np.arange(len(values))
            here = local[self.dense]
            columns.append(np.where(here >= 0, here * self.lattice.n_product + self.product, -1))
        return np.ascontiguousarray(np.stack(columns, axis=1))

    @cached_property
    def axes(self) -> Axes:
        """Where product cells go when axes are summed over."""
        return kernel_axes(self.lattice)

    def factors(self, matrices: Floats) -> Floats:
        """Return what `apply_sums` takes, of component matrices (n_components, t, t)."""
        return np.asarray(self.lattice.factors(matrices) / self.lattice.averaged[:, None, None])

    @cached_property
    def _factors(self) -> tuple[Floats, ...]:
        return tuple(np.ascontiguousarray(self.factors(k)) for k in self.matrices)

    def times(self, z: Floats) -> Floats:
        """Return K_j z_j in column j."""
        out = np.zeros(z.shape)
        n_product = self.lattice.n_product
        for j, factors in enumerate(self._factors):
            open_rows = np.flatnonzero(self.at[:, j] >= 0)
            at = self.at[open_rows, j]
            full = np.zeros(len(factors[0]) * n_product)
            full[at] = z[open_rows, j]
            image, sums, of_sums = np.empty_like(full), np.empty_like(full), np.empty_like(full)
            apply_sums(factors.reshape(-1), self.axes, full, image, sums, of_sums)
            out[open_rows, j] = image[at]
        return out

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of K_j."""
        cells = self.product[rows]
        equal = self.lattice.equal_axes(cells, cells)
        return written_out(self.lattice, self.matrices[j], self.values[j], self.dense[rows], equal)


def kernel_axes(lattice: Lattice) -> Axes:
    """Return where product cells go when the axes of each set are summed over."""
    place = np.zeros((lattice.n_components, lattice.n_product), dtype=np.int64)
    sizes = np.ones(lattice.n_components, dtype=np.int64)
    for s in range(lattice.n_components):
        for a, n in enumerate(lattice.sizes):
            if not s >> a & 1:
                place[s] = place[s] * n + lattice.coordinates[a]
                sizes[s] *= n
    return Axes(place, sizes)


def written_out(lattice: Lattice, matrices: Floats, values: Ints, dense: Ints, equal: Ints) -> Floats:
    """Return a matrix on rows, (n, n); zero where a row's dense value is closed.

    Args:
        matrices: by components on the open dense values, (n_components, t, t). values: those values.
        dense: int64 (n,), of the rows. equal: int64 (n, n), axes on which two rows' product cells agree.
    """
    local = np.full(lattice.n_dense, len(values), dtype=np.int64)
    local[values] = np.arange(len(values))
    entries = np.pad(lattice.entries(matrices), ((0, 0), (0, 1), (0, 1)))
    here = local[dense]
    return np.ascontiguousarray(entries[equal, here[:, None], here[None, :]])


class LatticeStep(Step):
    """See `admm.Step`.

    Args:
        problem: without soft rules. quadratic: of it. beyond: of that.
    """

    threads: int | None = 1
    pace: PenaltySchedule

    def __init__(self, problem: Problem, quadratic: PerChild, beyond: LatticeQuadratic) -> None:
        self.pace = penalty_schedule(problem)
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
        return proportional_start(self.problem)

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
            _step_state(at),
            self._pushed,
            steps,
            tolerance,
        )
        return taken, primal, dual

    def solution(self, at: Iterate, rho: float, taken: int) -> Solution:
        """Read the multipliers off one more linear step and the scaled duals."""
        shape, bounds = self.problem.shape, self.problem.bounds
        linear_step(
            self.beyond.axes, self._children, self._plain.frame(rho), _step_state(at), np.empty(shape), np.empty(shape),
            np.empty(len(self._g)), np.zeros((bounds.n_groups, shape[1])), self._pushed,
            LatticeRoom(len(self._pushed), len(self._g)),
        )  # fmt: skip
        bound = bounds.signed(-rho * self._plain.bound_ratio * at.w)
        return Solution(at.z.copy(), self._pushed.copy(), bound, np.zeros_like(at.t), taken)


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
