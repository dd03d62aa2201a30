"""Linear programs (HiGHS through SciPy); whoever asks judges the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from topdown.solve.groups import Floats


@dataclass(frozen=True, eq=False)
class Optimum:
    """A minimiser and its cost."""

    x: Floats
    cost: float


def minimise(
    cost: Floats, below: tuple[Any, Floats], equal: tuple[Any, Floats], low: Floats | None = None
) -> Optimum | None:
    """Minimise cost . x over x >= low; None if HiGHS does not find an optimum.

    Args:
        cost: (n,).
        below, equal: sparse rows and right sides: rows @ x <= right, rows @ x = right; there may be no rows.
        low: (n,), zero if None.
    """
    sides = [(csr_array(rows), right) if rows.shape[0] else (None, None) for rows, right in (below, equal)]
    bounds = [(0.0 if low is None else float(low[i]), None) for i in range(len(cost))]
    result = linprog(np.asarray(cost), *sides[0], *sides[1], bounds=bounds)
    return Optimum(result.x, float(result.fun)) if result.status == 0 else None
