"""Do the constraints of a problem have a common point? A linear program (HiGHS through SciPy) decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from topdown.solve.backends.standard import standard_form
from topdown.solve.problem import Compared, Problem

APART_PERSONS = (
    1e-4  # fixed tables are right to 1e-7; whole numbers that exclude each other are further apart
)


def have_common_point(problem: Problem) -> bool | None:
    """Tell whether some table breaks no constraint by more than `APART_PERSONS`; None if HiGHS cannot tell."""
    s = standard_form(replace(problem, compared=Compared.none(*problem.shape)))
    n, own = len(s.entries), len(s.entries)  # the first rows of `below` are signs, which are never given up
    give = lambda rows, sign: sparse.hstack([sign * rows, -np.ones((rows.shape[0], 1))])  # noqa: E731
    result = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=sparse.vstack([give(s.below[own:], 1.0), give(s.equal, 1.0), give(s.equal, -1.0)], format="csc"),
        b_ub=np.concatenate([s.limit[own:], s.equal_to, -s.equal_to]),
        bounds=[*zip(-s.limit[:own], [None] * own, strict=True), (0.0, None)],
    )
    return bool(result.fun <= APART_PERSONS) if result.status == 0 else None
