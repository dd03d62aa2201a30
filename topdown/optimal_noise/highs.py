"""The adapter of a linear-programming solver: floats out, which others round, repair and check exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.optimal_noise.linear_programs import FloatSolution, LinearProgram, NoSolutionError, Row

_TOLERANCE = 1e-10
_LARGEST_SCALE = 1e6
_SECONDS = 600.0


def solve_linear_program(program: LinearProgram, *, scale: float | None = None) -> FloatSolution:
    """Solve the program with HiGHS (dual simplex) in floats.

    Args:
        program: coefficients within the range of floats.
        scale: the columns are computed `scale` times as large, so that small right sides survive the solver's
            tolerances; by default one over the smallest right side above 0, at most 10^6.

    Raises: NoSolutionError (X050).
    """
    from scipy.optimize import linprog

    smallest = min((b for _, b in (*program.at_most, *program.equal) if b.numerator > 0), default=Fraction(1))
    by = scale if scale is not None else min(max(1.0, float(1 / smallest)), _LARGEST_SCALE)
    upper, upper_right = _matrix(program.at_most, len(program.costs))
    exact, exact_right = _matrix(program.equal, len(program.costs))
    found: Any = linprog(
        np.array([float(c) for c in program.costs]),
        A_ub=upper,
        b_ub=upper_right * by,
        A_eq=exact,
        b_eq=exact_right * by,
        bounds=(0, None),
        method="highs-ds",
        options={
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
            "time_limit": _SECONDS,
        },
    )
    if found.status != 0:
        raise NoSolutionError(
            f"the linear program has no optimum that the solver found ({found.message})",
            fix="a wider window, a larger delta or a smaller sensitivity makes it easier",
        )
    return FloatSolution(
        np.maximum(found.x, 0.0) / by,
        np.maximum(-found.ineqlin.marginals, 0.0),
        np.asarray(found.eqlin.marginals),
        float(found.fun) / by,
    )


def _matrix(rows: tuple[Row, ...], n_columns: int) -> tuple[Any, NDArray[np.float64]]:
    """Return the rows as a sparse float matrix, and their right sides."""
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *(len(entries) for entries, _ in rows)])
    columns = np.array([c for entries, _ in rows for c, _ in entries], dtype=np.int64)
    values = np.array([float(v) for entries, _ in rows for _, v in entries])
    right = np.array([float(b) for _, b in rows])
    return csr_array((values, columns, starts), shape=(len(rows), n_columns)), right
