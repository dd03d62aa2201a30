"""The quadratic that a least-squares problem minimises: what a solver and the optimality check ask of it.

A kind of quadratic is a class here or in a file of its own; `policy.step_of` names the ADMM step that goes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from topdown.solve.groups import Floats, Ints


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

    def largest(self) -> float:
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

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return np.asarray(self.hessian @ x - self.g)

    def largest(self) -> float:
        """Return about the largest eigenvalue."""
        return power_method(lambda v: np.asarray(self.hessian @ v), len(self.hessian))

    def inverse_norm(self, r: Floats, enough: float) -> float:
        """Return r'H^-1 r."""
        del enough
        return max(float((r * cho_solve(cho_factor(self.hessian), r)).sum()), 0.0)


def power_method(times: Callable[[Floats], Floats], n: int) -> float:
    """Return about the largest eigenvalue of a symmetric matrix: twelve steps of the power method, no bound.

    Args:
        times: the matrix times a vector. n: its length.
    """
    v = np.ones(n)
    for _ in range(12):
        v = times(v)
        v /= np.linalg.norm(v)
    return float(v @ times(v))
