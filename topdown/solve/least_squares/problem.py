"""One least-squares problem: a parent's table split over its children, or the root's table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.solve.groups import Bounds, FixedTable, Floats, Ints
from topdown.solve.least_squares.quadratics import Quadratic


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
    compared: Compared

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.allowed.shape[0], self.allowed.shape[1]


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns; `kkt` says how far it is from the optimum.

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
