"""One least-squares problem: a parent's table split over its children, or the root's table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.solve.groups import Bounds, FixedTable, Floats, Ints


@dataclass(frozen=True, eq=False)
class Compared:
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
    def none(n: int, m: int) -> Compared:
        """Return no rules."""
        return Compared(np.zeros((0, n)), np.zeros((0, m)), 0.0)


@dataclass(frozen=True, eq=False)
class Problem:
    """min over x >= 0 of sum_j 1/2 x_j' H x_j - g_j' x_j under linear constraints (Census TopDown, Eq. 6 and 9).

    Rows are cells or groups of cells, columns are children (one column at the root). A *segment* is a run of
    entries of the flattened (row-major) array whose sum is known: a row over the children, or at the root a
    group of rows. Every entry lies in one segment.

    Args:
        hessian: (n, n), symmetric positive semidefinite; shared by all columns.
        g: (n, m).
        pointers: (n_segments + 1,), runs of the flattened array.
        sums: (n_segments,) in persons; negative where a segment has no known sum.
        allowed: (n, m) bool, False where no record may be.
        fixed: the already fixed table.
        bounds: what the children can hold: lower bounds of disjoint groups of rows, or limits on sets of kinds.
        curvature: smallest eigenvalue of `hessian` or a positive number below it; 0 if it is singular.
        scale: smallest weight of a query, to express gradients in persons when the Hessian is singular.
        compared: soft rules between sums of rows.
    """

    hessian: Floats
    g: Floats
    pointers: Ints
    sums: Floats
    allowed: NDArray[np.bool_]
    fixed: FixedTable
    bounds: Bounds
    compared: Compared
    curvature: float
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.g.shape[0], self.g.shape[1]


@dataclass(frozen=True, eq=False)
class Solution:
    """What a least-squares backend returns.

    Args:
        z: (n, m), nonnegative, zero where not allowed, segment sums exact to rounding error.
        fixed_multipliers: (n_fixed, m), of the equalities with the fixed table.
        bound_multipliers: (n_bounds, m), nonnegative for lower bounds, of any sign for limits.
        compared_multipliers: (k, m), 0..hinge, of the soft rules.
        iterations: of the backend.
    """

    z: Floats
    fixed_multipliers: Floats
    bound_multipliers: Floats
    compared_multipliers: Floats
    iterations: int


def largest_curvature(hessian: Floats) -> float:
    """Return about the largest eigenvalue of a symmetric matrix: twelve steps of the power method, no bound."""
    v = np.ones(len(hessian))
    for _ in range(12):
        v = hessian @ v
        v /= np.linalg.norm(v)
    return float(v @ hessian @ v)
