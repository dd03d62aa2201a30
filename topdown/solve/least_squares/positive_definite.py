"""Linear systems of symmetric positive definite matrices, by Cholesky's method in blocks.

On NumPy alone: `scipy.linalg` takes longer to load than most releases have systems to solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from topdown.arrays import Floats

BLOCK = 64  # rows of a block on the diagonal, which is inverted; all else is products of matrices


@final
@dataclass(frozen=True, eq=False)
class Cholesky:
    """A positive definite matrix H = L L', ready to solve systems.

    Args:
        lower: L, (n, n). inverses: of its blocks on the diagonal, each with its first row.
    """

    lower: Floats
    inverses: tuple[tuple[int, Floats], ...]

    @staticmethod
    def of(matrix: Floats) -> Cholesky:
        """Factor a matrix, of which the lower half is read (LinAlgError: not positive definite in float64)."""
        lower = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        blocks = [(i, lower[i : i + BLOCK, i : i + BLOCK]) for i in range(0, len(lower), BLOCK)]
        return Cholesky(lower, tuple((i, np.asarray(np.linalg.inv(block))) for i, block in blocks))

    def solve(self, right: Floats) -> Floats:
        """Return x of H x = r for r of shape (n,) or (n, k)."""
        x, lower = right.astype(np.float64), self.lower
        for i, inverse in self.inverses:
            j = i + BLOCK
            x[i:j] = inverse @ (x[i:j] - lower[i:j, :i] @ x[:i])
        for i, inverse in reversed(self.inverses):
            j = i + BLOCK
            x[i:j] = inverse.T @ (x[i:j] - lower[j:, i:j].T @ x[j:])
        return x


def inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix (LinAlgError if it is none to working precision)."""
    np.linalg.cholesky(matrix)
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
