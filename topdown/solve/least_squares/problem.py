"""One least-squares problem, a parent's table split over its children or the root's table, and its quadratics.

A kind of quadratic is a class here, in `lattice_step.py` or `structured.py`; `policy.py` names the ADMM step that goes
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Protocol, final

import numpy as np
import scipy  # which loads its parts when they are first used: a plan needs none
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.solve.group_constraints import Bounds, FixedTable


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

    def largest_eigenvalue(self) -> float:
        """Return about the largest eigenvalue of H."""

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'H^-1 r or a bound above it, for a positive curvature; any bound up to `enough` will do."""


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

    def in_order(self, order: Ints) -> Dense:
        """Return the same with its rows in another order."""
        hessian = np.ascontiguousarray(self.hessian[np.ix_(order, order)])
        return Dense(hessian, np.ascontiguousarray(self.g[order]), self.curvature, self.scale)

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of the matrix of child j, which all share."""
        del j
        return np.asarray(self.hessian[np.ix_(rows, rows)])

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return np.asarray(self.hessian @ x - self.g)

    def largest_eigenvalue(self) -> float:
        """Return about the largest eigenvalue."""
        return power_method(lambda v: np.asarray(self.hessian @ v), len(self.hessian))

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'H^-1 r, or r'r over the curvature if that is enough."""
        bound = float((r * r).sum()) / self.curvature
        if bound <= enough:
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


class SubtreeQuadratic(Protocol):
    """Symmetric positive semidefinite K_j for each of m children, on n rows."""

    def times(self, z: Floats) -> Floats:
        """Return K_j z_j in column j, (n, m)."""

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of K_j."""


@final
@dataclass(frozen=True, eq=False)
class Stacked:
    """All matrices written out, (m, n, n)."""

    blocks: Floats

    def times(self, z: Floats) -> Floats:
        """Return K_j z_j in column j."""
        return np.ascontiguousarray((self.blocks @ z.T[:, :, None])[:, :, 0].T)

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of K_j."""
        return np.asarray(self.blocks[j][np.ix_(rows, rows)])


@final
@dataclass(frozen=True, eq=False)
class PerChild:
    """sum over children j of 1/2 x_j'(A + K_j)x_j - g_j'x_j; see `Quadratic`.

    Args:
        hessian: A, (n, n), positive semidefinite.
        beyond: K_j; nothing where records may not be.
        g: (n, m).
        curvature: a number below the smallest eigenvalue of every A + K_j, 0 if one is singular.
        scale: see `Quadratic`.
        fixed: the fixed table; curvature along its answers plays no part.
        allowed: bool (n, m), where records may be.
        least_beyond: a number below the smallest eigenvalue of every K_j where records may be.
    """

    hessian: Floats
    beyond: SubtreeQuadratic
    g: Floats
    curvature: float
    scale: float
    fixed: FixedTable
    allowed: NDArray[np.bool_]
    least_beyond: float = 0.0

    def block(self, j: int, rows: Ints) -> Floats:
        """Return some rows and columns of the matrix of child j, A + K_j."""
        return np.asarray(self.hessian[np.ix_(rows, rows)] + self.beyond.block(j, rows))

    def times(self, x: Floats) -> Floats:
        """Return (A + K_j) x_j in column j, (n, m)."""
        return np.asarray(self.hessian @ x + self.beyond.times(x))

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return self.times(x) - self.g

    def largest_eigenvalue(self) -> float:
        """Return about the largest eigenvalue of any child's matrix, along tables that keep the fixed one."""
        counts = np.maximum(self.fixed.sums(self.allowed.astype(np.float64)), 1.0)
        v = self.allowed * (1.0 + 0.5 * np.cos(np.arange(len(self.hessian)))[:, None])
        largest = np.zeros(1)
        for _ in range(12):
            v = self.allowed * v
            v = self.allowed * (v - self.fixed.spread(self.fixed.sums(v) / counts))
            norm = np.linalg.norm(v, axis=0)
            v = v / np.where(norm > 0, norm, 1.0)
            image = self.times(v)
            largest = (v * image).sum(axis=0)
            v = image
        return max(float(largest.max(initial=0.0)), self.scale)

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'(A + k)^-1 r with k = `least_beyond`, a bound above r'(A + K)^-1 r for r where records may be."""
        del enough
        lower = self.hessian + self.least_beyond * np.eye(len(self.hessian))
        return max(float((r * scipy.linalg.cho_solve(scipy.linalg.cho_factor(lower), r)).sum()), 0.0)


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
    allowed: NDArray[np.bool_]
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
