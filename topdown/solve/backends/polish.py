"""A generic solver's answer made exact: solve the equalities of the limits it ends on (Stellato et al. 2020, OSQP 4).

Interior-point answers leave entries at 1e-9 instead of zero, which the optimality check rightly takes for positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

Floats = NDArray[np.float64]
SMALL = 1e-9  # of the largest curvature: makes the system regular; refinement takes its effect away again
REFINEMENTS = 30


def polish(
    quadratic: sparse.csc_array,
    linear: Floats,
    equal: sparse.csc_array,
    equal_to: Floats,
    below: sparse.csc_array,
    limit: Floats,
    point: tuple[Floats, Floats, Floats],
) -> tuple[Floats, Floats, Floats]:
    """Minimise 1/2 x'Px + q'x with Ax = b and those rows of Gx <= h as equalities whose multiplier exceeds the room.

    The result is better only if these rows are the right ones: the caller compares.

    Args:
        quadratic, linear, equal, equal_to, below, limit: P, q, A, b, G, h.
        point: x and the multipliers of A and G, near the optimum.

    Returns:
        The same three, polished; multipliers of other rows of G are zero.
    """
    x, ties, multipliers = point
    active = np.flatnonzero(multipliers > limit - below @ x)
    rows = sparse.vstack([equal, below[active]], format="csc")
    n, k = len(x), rows.shape[0]
    largest = float(quadratic.diagonal().max(initial=0.0)) or 1.0
    exact = sparse.block_array([[quadratic / largest, rows.T], [rows, None]], format="csc")
    shift = sparse.diags_array(np.concatenate([np.full(n, SMALL), np.full(k, -SMALL)]))
    right = np.concatenate([-linear / largest, equal_to, limit[active]])
    factor = splu(sparse.csc_matrix(exact + shift))
    answer = np.concatenate([x, ties / largest, multipliers[active] / largest])
    for _ in range(REFINEMENTS):  # proximal steps: they converge although rows may depend on each other
        answer = answer + factor.solve(right - exact @ answer)
    polished = np.zeros(len(limit))
    polished[active] = answer[n + len(ties) :] * largest
    return answer[:n], answer[n : n + len(ties)] * largest, polished
