"""Do the constraints of a problem have a common point? A linear program (HiGHS through SciPy) decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from topdown.solve.backends import linear_program
from topdown.solve.backends.standard import standard_form
from topdown.solve.least_squares.problem import Compared, Problem

APART_PERSONS = (
    1e-4  # fixed tables are right to 1e-7; whole numbers that exclude each other are further apart
)


def have_common_point(problem: Problem) -> bool | None:
    """Tell whether some table breaks no constraint by more than `APART_PERSONS`; None if HiGHS cannot tell."""
    s = standard_form(replace(problem, compared=Compared.none(*problem.shape)))
    n, own = len(s.entries), len(s.entries)  # the first rows of `below` are signs, which are never given up
    give = lambda rows, sign: sparse.hstack([sign * rows, -np.ones((rows.shape[0], 1))])  # noqa: E731
    rows = sparse.vstack([give(s.below[own:], 1.0), give(s.equal, 1.0), give(s.equal, -1.0)], format="csc")
    most = np.concatenate([s.limit[own:], s.equal_to, -s.equal_to])
    none = (sparse.csr_array((0, n + 1)), np.zeros(0))
    found = linear_program.minimise(
        np.append(np.zeros(n), 1.0), (rows, most), none, np.append(-s.limit[:own], 0.0)
    )
    return found.cost <= APART_PERSONS if found is not None else None
