"""One least-squares problem, a parent's table split over its children or the root's table, and its quadratics.

A kind of quadratic is a class here or in `structured.py`; `policy.py` names the ADMM step that goes with it. In lattice
form no matrix is written out: it is applied by means over product axes, and time and memory grow with the cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Protocol, final

import numpy as np
import scipy  # which loads its parts when they are first used: a plan needs none

from topdown.arrays import Bools, Floats, Ints
from topdown.solve.group_constraints import Bounds, FixedTable, group_sums
from topdown.solve.kernels_shared import gram
from topdown.solve.lattice import Lattice
from topdown.solve.least_squares.kernels_admm import Axes, apply_sums


class Quadratic(Protocol):
    """sum over columns j of 1/2 x_j' H x_j - g_j' x_j up to a constant; H is symmetric positive semidefinite."""

    @property
    def curvature(self) -> float:
        """Smallest eigenvalue of H or a positive number below it; 0 if H is singular."""

    @property
    def scale(self) -> float:
        """Smallest weight of a query, to express gradients in persons where H is singular."""

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g, (n, m)."""

    @property
    def largest_eigenvalue(self) -> float:
        """About the largest eigenvalue of H."""

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'H^-1 r or a bound above it, for a positive curvature: any bound that is `enough`, or if none is."""


@dataclass(frozen=True, eq=False)
class Dense:
    """One dense matrix for all columns.

    Args:
        hessian: (n, n), symmetric positive semidefinite.
        g: (n, m).
        curvature, scale: see `Quadratic`.
    """

    hessian: Floats
    g: Floats
    curvature: float
    scale: float

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of the matrix of child j, which all share."""
        del j
        return np.asarray(self.hessian[np.ix_(rows, rows)])

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return np.asarray(self.hessian @ x - self.g)

    @cached_property
    def largest_eigenvalue(self) -> float:
        """About the largest eigenvalue."""
        return power_method(lambda v: np.asarray(self.hessian @ v), len(self.hessian))

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'H^-1 r, or r'r over the curvature if that is enough, or if no bound is.

        By Cauchy and Schwarz (r'r)^2 <= r'H^-1 r r'Hr: points that are far from the optimum need no factor.
        """
        square = float((r * r).sum())
        bound = square / self.curvature
        if bound <= enough or square * square > enough * float((r * (self.hessian @ r)).sum()):
            return bound
        return max(float((r * scipy.linalg.cho_solve(scipy.linalg.cho_factor(self.hessian), r)).sum()), 0.0)


def power_method(times: Callable[[Floats], Floats], n: int) -> float:
    """Return about the largest eigenvalue of a symmetric matrix: twelve steps of the power method, no bound.

    Args:
        times: the matrix times a vector. n: its length.
    """
    v = np.ones(n)
    for _ in range(12):
        v = times(v)
        v /= sqrt(v @ v)
    return float(v @ times(v))


def largest_along(times: Callable[[Floats], Floats], fixed: FixedTable, allowed: Bools) -> float:
    """Return about the largest eigenvalue of any child's matrix, along tables that keep the fixed one.

    Args:
        times: each child's matrix times its column, (n, m). fixed: on the n rows. allowed: bool (n, m).
    """
    counts = np.maximum(fixed.sums(allowed.astype(np.float64)), 1.0)
    v = image = allowed * (1.0 + 0.5 * np.cos(np.arange(len(allowed)))[:, None])
    for _ in range(12):
        v = allowed * image
        v = allowed * (v - fixed.spread(fixed.sums(v) / counts))
        norm = np.sqrt((v * v).sum(axis=0))
        v /= np.where(norm > 0, norm, 1.0)
        image = times(v)
    return float((v * image).sum(axis=0).max(initial=0.0))


@final
@dataclass(frozen=True, eq=False)
class PerChild:
    """sum over children j of 1/2 x_j'(A + K_j)x_j - g_j'x_j with all matrices written out; see `Quadratic`.

    Args:
        hessian: A, (n, n), positive semidefinite.
        beyond: K_j, (m, n, n); zero where records may not be.
        g: (n, m).
        curvature: a number below the smallest eigenvalue of every A + K_j, 0 if one is singular.
        scale: see `Quadratic`.
        fixed: the fixed table; curvature along its answers plays no part.
        allowed: bool (n, m), where records may be.
        least_beyond: a number below the smallest eigenvalue of every K_j where records may be.
    """

    hessian: Floats
    beyond: Floats
    g: Floats
    curvature: float
    scale: float
    fixed: FixedTable
    allowed: Bools
    least_beyond: float = 0.0

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of the matrix of child j, A + K_j."""
        return np.asarray(self.hessian[np.ix_(rows, rows)] + self.beyond[j][np.ix_(rows, rows)])

    def times(self, x: Floats) -> Floats:
        """Return (A + K_j) x_j in column j, (n, m)."""
        return np.asarray(self.hessian @ x + (self.beyond @ x.T[:, :, None])[:, :, 0].T)

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return self.times(x) - self.g

    @cached_property
    def largest_eigenvalue(self) -> float:
        """About the largest eigenvalue of any child's matrix, along tables that keep the fixed one."""
        return max(largest_along(self.times, self.fixed, self.allowed), self.scale)

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'(A + k)^-1 r with k = `least_beyond`, a bound above r'(A + K)^-1 r for r where records may be."""
        del enough
        lower = self.hessian + self.least_beyond * np.eye(len(self.hessian))
        return max(float((r * scipy.linalg.cho_solve(scipy.linalg.cho_factor(lower), r)).sum()), 0.0)


@final
@dataclass(frozen=True, eq=False)
class LatticeQuadratic:
    """sum over children j of 1/2 x_j'(A + K_j)x_j - g_j'x_j, with A by labels and K_j by components; see `Quadratic`.

    Args:
        lattice: in whose terms.
        dense, product: int64 (n,), dense value and product cell of each row.
        values: per child, its open dense values.
        matrices: per child, K by components, (n_components, t, t).
        labels, weights: A, the sum over queries of weight times Q'Q, by the answer of each row, int64 (n_queries, n).
        own: A on complete tables, (n_components, n_dense, n_dense).
        linear: per child, the linear term on complete tables, (t, n_product).
        curvature: a number below the smallest eigenvalue of every A + K_j, 0 if one is singular.
        scale: see `Quadratic`.
        fixed: the fixed table; curvature along its answers plays no part.
        allowed: bool (n, m), where records may be.
    """

    lattice: Lattice
    dense: Ints
    product: Ints
    values: tuple[Ints, ...]
    matrices: tuple[Floats, ...]
    labels: Ints
    weights: Floats
    own: Floats
    linear: tuple[Floats, ...]
    curvature: float
    scale: float
    fixed: FixedTable
    allowed: Bools

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
    def g(self) -> Floats:
        """The linear term of every row, (n, m); 0 where it is closed."""
        padded = [np.append(b.reshape(-1), 0.0) for b in self.linear]
        return np.stack([b[at] for b, at in zip(padded, self.at.T, strict=True)], axis=1)

    def whole(self, j: int) -> Floats:
        """Return A + K_j by components on child j's open dense values, (n_components, t, t)."""
        values = self.values[j]
        return np.asarray(self.own[:, values[:, None], values[None, :]] + self.matrices[j])

    def inverse(self, j: int) -> Floats:
        """Return its inverse by components."""
        return np.asarray(np.linalg.inv(self.whole(j)), dtype=np.float64)

    def times(self, z: Floats) -> Floats:
        """Return (A + K_j) z_j in column j, (n, m)."""
        out = self._by_means(z, self._beyond)
        for of, weight in zip(self.labels, self.weights, strict=True):
            out += weight * group_sums(z, of, int(of.max(initial=-1)) + 1)[of]
        return out

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return self.times(x) - self.g

    @cached_property
    def largest_eigenvalue(self) -> float:
        """About the largest eigenvalue of any child's matrix, along tables that keep the fixed one."""
        return max(largest_along(self.times, self.fixed, self.allowed), self.scale)

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return a bound above r'H^-1 r for r where records may be: that of complete tables, of which H is a part."""
        bound = float((r * r).sum()) / self.curvature
        if bound <= enough:
            return bound
        inverses = tuple(self.factors(self.inverse(j)).reshape(-1) for j in range(len(self.values)))
        return min(max(float((r * self._by_means(r, inverses)).sum()), 0.0), bound)

    @cached_property
    def _beyond(self) -> tuple[Floats, ...]:
        return tuple(self.factors(matrix).reshape(-1) for matrix in self.matrices)

    @cached_property
    def _open_rows(self) -> tuple[tuple[Ints, Ints], ...]:
        """Per child, its open rows and their places in its complete table."""
        found = [np.flatnonzero(at >= 0) for at in self.at.T]
        return tuple((rows, self.at[rows, j]) for j, rows in enumerate(found))

    def _by_means(self, z: Floats, factors: tuple[Floats, ...]) -> Floats:
        """Return each child's matrix times its column of z, on complete tables that are 0 elsewhere, (n, m)."""
        out = np.zeros(z.shape)
        for j, (open_rows, at) in enumerate(self._open_rows):
            full = np.zeros(len(self.values[j]) * self.lattice.n_product)
            full[at] = z[open_rows, j]
            image, sums = np.empty_like(full), np.empty((2, len(self.values[j]) * self.axes.starts[-1]))
            apply_sums(factors[j], self.axes, full, image, sums[0], sums[1])
            out[open_rows, j] = image[at]
        return out

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of A + K_j."""
        cells = self.product[rows]
        equal = self.lattice.equal_axes(cells, cells)
        below = written_out(self.lattice, self.matrices[j], self.values[j], self.dense[rows], equal)
        return gram(np.ascontiguousarray(self.labels[:, rows]), self.weights) + below


def kernel_axes(lattice: Lattice) -> Axes:
    """Return how tables are summed over sets of axes: each from the one that is not summed over its shortest axis."""
    n_sets, shape = lattice.n_components, lattice.sizes
    place, finer = np.zeros((n_sets, lattice.n_product), dtype=np.int64), np.zeros(n_sets, dtype=np.int64)
    kept = [tuple(1 if s >> a & 1 else n for a, n in enumerate(shape)) for s in range(n_sets)]
    for s in range(1, n_sets):
        _, shortest = min((n, a) for a, n in enumerate(shape) if s >> a & 1)
        finer[s] = s ^ 1 << shortest
        cells = np.arange(np.prod(kept[s], dtype=np.int64)).reshape(kept[s])
        spread = np.broadcast_to(cells, kept[finer[s]]).reshape(-1)
        place[s, : len(spread)] = spread
    sizes = [int(np.prod(of, dtype=np.int64)) for of in kept]
    return Axes(finer, place, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))


def written_out(lattice: Lattice, matrices: Floats, values: Ints, dense: Ints, equal: Ints) -> Floats:
    """Return matrices on rows, (..., n, n); zero where a row's dense value is closed.

    Args:
        matrices: by components on the open dense values, (..., n_components, t, t). values: those values.
        dense: int64 (n,), of the rows. equal: int64 (n, n), axes on which two rows' product cells agree.
    """
    t = len(values)
    local = np.full(lattice.n_dense, t, dtype=np.int64)
    local[values] = np.arange(t)
    entries = np.zeros((*matrices.shape[:-2], t + 1, t + 1))
    entries[..., :t, :t] = lattice.entries(matrices)
    here = local[dense]
    return np.ascontiguousarray(entries[..., equal, here[:, None], here[None, :]])


@dataclass(frozen=True, eq=False)
class SoftRules:
    """Soft rules of a problem: the objective gains hinge * sum of max(0, rows @ x - most), an exact penalty.

    There may be none (k = 0).

    Args:
        rows: (k, n), largest absolute value 1 in every row.
        most: (k, m), persons.
        hinge: objective per person; larger than the multipliers wherever the rules can be kept.
    """

    rows: Floats
    most: Floats
    hinge: float

    @staticmethod
    def none(n: int, m: int) -> SoftRules:
        """Return no rules."""
        return SoftRules(np.zeros((0, n)), np.zeros((0, m)), 0.0)


@dataclass(frozen=True, eq=False)
class Problem:
    """min over x >= 0 of a quadratic under linear constraints (Census TopDown, Eq. 6 and 9).

    Rows are cells or groups of cells, columns are children (one column at the root). A *segment* is a run of
    entries of the flattened (row-major) array whose sum is known: a row over the children, or at the root a
    group of rows. Every entry lies in one segment.

    Args:
        quadratic: on (n, m).
        pointers: (n_segments + 1,), runs of the flattened array.
        sums: (n_segments,) in persons; negative where a segment has no known sum.
        allowed: (n, m) bool, False where no record may be.
        fixed: the already fixed table.
        bounds: what the children can hold: lower bounds of disjoint groups of rows, or limits on sets of kinds.
        compared: soft rules between sums of rows.
    """

    quadratic: Quadratic
    pointers: Ints
    sums: Floats
    allowed: Bools
    fixed: FixedTable
    bounds: Bounds
    compared: SoftRules

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.allowed.shape[0], self.allowed.shape[1]


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns; `optimality.py` says how far it is from the optimum.

    Args:
        z: (n, m), nonnegative, zero where not allowed, segment sums exact to rounding error.
        fixed_multipliers: (n_fixed, m), of the equalities with the fixed table.
        bound_multipliers: (n_bounds, m), nonnegative for lower bounds, of any sign for limits.
        compared_multipliers: (k, m), 0..hinge, of the soft rules.
        iterations: of the solver.
    """

    z: Floats
    fixed_multipliers: Floats
    bound_multipliers: Floats
    compared_multipliers: Floats
    iterations: int

    @staticmethod
    def without_multipliers(problem: Problem, z: Floats, iterations: int) -> Solution:
        """Return a point whose multipliers are all zero."""
        m = z.shape[1]
        bounds, rules = np.zeros((problem.bounds.n_groups, m)), np.zeros_like(problem.compared.most)
        return Solution(z, np.zeros((problem.fixed.n_groups, m)), bounds, rules, iterations)
