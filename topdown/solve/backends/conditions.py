"""The linear system of first-order conditions, made regular, and its answer without the effect of that.

[P A' G'; A 0 0; G 0 -diag(ratio)] may be singular. Small multiples of the identity make it quasi-definite, so that
it can be factored in any order without pivoting (Friedlander, Orban 2012); iterative refinement, which is then a
proximal method, takes their effect away again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

Floats = NDArray[np.float64]
SMALL = 1e-9  # objective and persons are scaled to one


class Conditions:
    """The factored system.

    The rows of G are eliminated first, then children one after the other (P is block diagonal in them, and rows of
    G lie inside one), then A: little fills in beyond P itself.

    Args:
        p, a, g: P (n, n), positive semidefinite; A (k, n); G (m, n).
        ratio: (m,), nonnegative.

    Raises:
        RuntimeError: singular to working precision.
    """

    def __init__(self, p: sparse.csc_array, a: sparse.csc_array, g: sparse.csc_array, ratio: Floats) -> None:
        self.p, self.a, self.g, self.ratio = p, a, g, ratio
        self.stiff = 1.0 / (ratio + SMALL)
        n, k = p.shape[0], a.shape[0]
        inner = p + g.T @ (sparse.diags_array(self.stiff) @ g) + SMALL * sparse.eye_array(n)
        whole = sparse.block_array([[inner, a.T], [a, -SMALL * sparse.eye_array(k)]], format="csc")
        self.factor = splu(
            sparse.csc_matrix(whole),
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def solve(self, right: Floats, refinements: int, start: Floats | None = None) -> Floats:
        """Return (x, y, z) for a right-hand side (n + k + m,), refined from a first guess if there is one."""
        answer = self._regular(right) if start is None else start
        for _ in range(refinements):
            answer = answer + self._regular(right - self._times(answer))
        return answer

    def _regular(self, right: Floats) -> Floats:
        n, k = self.p.shape[0], self.a.shape[0]
        last = right[n + k :]
        top = self.factor.solve(
            np.concatenate([right[:n] + self.g.T @ (self.stiff * last), right[n : n + k]])
        )
        return np.concatenate([top, self.stiff * (self.g @ top[:n] - last)])

    def _times(self, answer: Floats) -> Floats:
        x, y, z = np.split(answer, [self.p.shape[0], self.p.shape[0] + self.a.shape[0]])
        top = self.p @ x + self.a.T @ y + self.g.T @ z
        return np.concatenate([top, self.a @ x, self.g @ x - self.ratio * z])
