"""A quadratic with a matrix of its own for each child: what all share, and what the areas below each child add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from topdown.solve.groups import FixedTable, Floats


class Beyond(Protocol):
    """Symmetric positive semidefinite K_j for each of m children, on n rows."""

    def times(self, z: Floats) -> Floats:
        """Return K_j z_j in column j, (n, m)."""

    def block(self, j: int) -> Floats:
        """Return K_j, (n, n)."""


@final
@dataclass(frozen=True, eq=False)
class Stacked:
    """All matrices written out, (m, n, n)."""

    blocks: Floats

    def times(self, z: Floats) -> Floats:
        """Return K_j z_j in column j."""
        return np.ascontiguousarray((self.blocks @ z.T[:, :, None])[:, :, 0].T)

    def block(self, j: int) -> Floats:
        """Return K_j."""
        return np.asarray(self.blocks[j])


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
        told: the fixed table; curvature along its answers plays no part.
        allowed: bool (n, m), where records may be.
        least_beyond: a number below the smallest eigenvalue of every K_j where records may be.
    """

    hessian: Floats
    beyond: Beyond
    g: Floats
    curvature: float
    scale: float
    told: FixedTable
    allowed: NDArray[np.bool_]
    least_beyond: float = 0.0

    def times(self, x: Floats) -> Floats:
        """Return (A + K_j) x_j in column j, (n, m)."""
        return np.asarray(self.hessian @ x + self.beyond.times(x))

    def gradient(self, x: Floats) -> Floats:
        """Return Hx - g."""
        return self.times(x) - self.g

    def largest(self) -> float:
        """Return about the largest eigenvalue of any child's matrix, along tables that keep the fixed one."""
        counts = np.maximum(self.told.sums(self.allowed.astype(np.float64)), 1.0)
        v = self.allowed * (1.0 + 0.5 * np.cos(np.arange(len(self.hessian)))[:, None])
        largest = np.zeros(1)
        for _ in range(12):
            v = self.allowed * v
            v = self.allowed * (v - self.told.spread(self.told.sums(v) / counts))
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
        return max(float((r * cho_solve(cho_factor(lower), r)).sum()), 0.0)
