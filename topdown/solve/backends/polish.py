"""A generic solver's answer made exact: solve the equalities of the limits it ends on (Stellato et al. 2020, OSQP 4).

Interior-point answers leave entries at 1e-9 instead of zero, which the optimality check rightly takes for positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from topdown.solve.backends.conditions import Conditions

Floats = NDArray[np.float64]
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
    largest = float(quadratic.diagonal().max(initial=0.0)) or 1.0
    system = Conditions(quadratic / largest, equal, below[active], np.zeros(len(active)))
    answer = system.solve(
        np.concatenate([-linear / largest, equal_to, limit[active]]),
        REFINEMENTS,
        np.concatenate([x, ties / largest, multipliers[active] / largest]),
    )
    polished, ends = np.zeros(len(limit)), len(x) + len(ties)
    polished[active] = answer[ends:] * largest
    return answer[: len(x)], answer[len(x) : ends] * largest, polished
