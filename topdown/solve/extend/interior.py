"""The interior-point method for a stage that ADMM does not bring to an optimum, written without its structure."""

from __future__ import annotations

import numpy as np

from topdown.errors import TopdownError
from topdown.solve.backends.quadratic import solve_with
from topdown.solve.extend.fit import StageProblem
from topdown.solve.groups import FixedTable, Floats, Ints, LowerBounds
from topdown.solve.problem import Problem

MOST_ROWS, MOST_ENTRIES = 1_500, 20_000  # a dense Hessian, and a sparse factor of all entries


def solve_by_interior_point(
    problem: StageProblem, pointers: Ints, sums: Floats, least: float
) -> tuple[Floats, Floats | None] | None:
    """Return a table near the optimum, (n, m), and the multipliers of its group sums; None if it is too large.

    Weights far apart (a query of much smaller variance than another) hold ADMM up, but not this.

    Args:
        problem: of one stage, without soft rules.
        pointers, sums: runs of the flattened table with known sums, and these.
        least: a lower bound on the smallest eigenvalue of the Hessian.
    """
    n, m = problem.shape
    if n > MOST_ROWS or problem.allowed.sum() > MOST_ENTRIES or len(problem.compared.rows):
        return None
    root = bool((problem.row_sums < 0).any())
    matrix, weight, target = problem.all_answers()
    dense = matrix.toarray()
    plain = Problem(
        hessian=dense.T @ (weight[:, None] * dense),
        g=dense.T @ (weight[:, None] * target),
        pointers=pointers,
        sums=sums,
        allowed=problem.allowed,
        fixed=FixedTable.none(n, m).floats() if root else FixedTable(problem.group, problem.fixed),
        bounds=LowerBounds.none(n, m).floats(),
        compared=problem.compared,
        curvature=least,
        scale=float(weight.min()),
    )
    try:
        found = solve_with("interior", plain)
    except (TopdownError, RuntimeError, np.linalg.LinAlgError):
        return None
    return found.z, None if root else found.fixed_multipliers
