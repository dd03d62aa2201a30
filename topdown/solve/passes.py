"""The least-squares estimate of one split, pass by pass.

A pass solves a table for the best fit to some queries and fixes it for the passes that follow. If the queries
are sums over the table they are fitted directly. If some are finer, the table is fitted to its unconstrained
generalised-least-squares estimate with that estimate's inverse covariance as weight, so that the noise of
many empty cells does not push the table (margin-first solving).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from topdown.model.labels import refines
from topdown.plan.plan import Pass
from topdown.solve.groups import Bounds, FixedTable, Floats, Ints, KindLimits, LowerBounds, group_sums
from topdown.solve.least_squares import policy
from topdown.solve.least_squares.problem import Problem, Solution
from topdown.solve.least_squares.quadratics import Dense
from topdown.solve.least_squares.soft import priced
from topdown.solve.least_squares.structured import Structured
from topdown.solve.level import LevelModel
from topdown.solve.split import Split, bounds_fit
from topdown.solve.statistics import PassRows

LeastSquares = Callable[[Problem], tuple[Solution, float]]  # and its residual in persons, from `kkt`


@dataclass(frozen=True)
class Fit:
    """How the passes of one split went; `unique`: whether every pass has one optimum only."""

    residual_persons: float
    iterations: int
    n_problems: int
    n_variables: int
    unique: bool = True


def estimate(
    level: LevelModel, split: Split, least_squares: LeastSquares = policy.solve, *, over_persons: float = 0.0
) -> tuple[Floats, Fit]:
    """Return the constrained least-squares table of one split, float64 (n, m), and how it was found.

    Args:
        level, split: what is to be solved.
        least_squares: the backend.
        over_persons: by how much the table without soft rules breaks one; 0 leaves them out.

    Raises:
        InternalError: two passes that must nest do not.
    """
    fixed = (split.exact if split.exact.n_groups else split.totals).floats()
    worst, iterations, n_problems, n_variables, unique = 0.0, 0, 0, 0, True
    z = np.zeros(split.allowed.shape)
    for step in level.passes:
        last = step is level.passes[-1]
        table = level.tables[step.table][split.cells]
        told = (split.counts is not None or split.exact.n_groups) and fixed.n_groups and not last
        if told and refines(fixed.of, table):
            continue  # exact statistics fix this table already
        answers, group = np.unique(table, return_inverse=True)
        # At the root, bounds rarely matter before the last pass: leave them out, look, and refine if they do.
        for refine in (False, True) if split.counts is None and not last and not over_persons else (True,):
            problem, row_of_cell, back = _problem(
                level, split, step, fixed, refine=refine, over_persons=over_persons
            )
            solution, residual = least_squares(problem)
            z = solution.z[back]
            row_table = np.zeros(len(z), dtype=np.int64)
            row_table[row_of_cell] = group
            values = group_sums(z, row_table, len(answers))
            rows = (row_of_cell, z) if _keeps_exact(split, table) else (group, values)
            if refine or bounds_fit(split, rows[0], rows[1][:, 0]):
                break
        worst = max(worst, residual)
        iterations += solution.iterations
        n_problems += 1
        n_variables += problem.allowed.size
        unique &= _tells_apart(level, split, step, table)
        fixed = FixedTable(group.reshape(-1).astype(np.int64), values)
    return z, Fit(worst, iterations, n_problems, n_variables, unique)


def _tells_apart(level: LevelModel, split: Split, step: Pass, table: Ints) -> bool:
    """Tell whether some query of a pass tells all answers of its table apart: then its optimum is a single table."""
    labels = level.labels[[level.query_names.index(name) for name in step.queries]][:, split.cells]
    return any(refines(query, table) for query in labels)


def _problem(
    level: LevelModel,
    split: Split,
    step: Pass,
    fixed: FixedTable,
    *,
    refine: bool,
    over_persons: float,
) -> tuple[Problem, Ints, Ints]:
    """Set up one pass; returns it, the row of each cell, and the order that puts rows back."""
    n, m = split.allowed.shape
    last = step is level.passes[-1]
    bounds: Bounds = split.bounds.floats()
    table = level.tables[step.table][split.cells]
    if last:
        row_of_cell = np.arange(n)
    elif not refine:
        told = [split.exact.of] if _keeps_exact(split, table) else []
        if not told and fixed.of is split.exact.of:
            fixed = FixedTable.total(n, fixed.answers.sum(axis=0))
        row_of_cell = np.unique(np.stack([table, *told]), axis=1, return_inverse=True)[1].reshape(-1)
        bounds = LowerBounds.none(n, m).floats()
    else:
        # Rows: the table, refined so that bounds and open cells can still be told apart.
        soft = level.comparisons[:, split.cells] if over_persons else np.zeros((0, n), dtype=np.int64)
        classes = level.class_of_cell[split.cells]
        keys = np.vstack([table, bounds.of, classes, fixed.of, soft, split.exact.of])
        row_of_cell = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    n_rows = int(row_of_cell.max()) + 1
    if not (bounds.of >= 0).any():
        bounds = LowerBounds.none(n, m).floats()
    first = np.zeros(n_rows, dtype=np.int64)
    first[row_of_cell[::-1]] = np.arange(n)[::-1]  # one cell of each row
    allowed = split.allowed[first]
    plain = not bounds.n_groups and not over_persons and fixed.n_groups <= 1
    rows = PassRows(step, last, split.cells, split.counts, table, first, fixed, allowed, plain)
    quadratic = split.objective.quadratic(level, rows)
    order = np.arange(n_rows)
    if split.counts is not None:
        sums = np.zeros(n_rows)
        np.add.at(sums, row_of_cell, split.counts.astype(np.float64))
        pointers = np.arange(0, n_rows * m + 1, m, dtype=np.int64)
    elif fixed.n_groups:  # root: the fixed table's groups are the segments
        order = np.argsort(fixed.of[first], kind="stable")
        pointers = np.searchsorted(fixed.of[first][order], np.arange(fixed.n_groups + 1)).astype(np.int64)
        sums = fixed.answers[:, 0].copy()
        beside = (last or refine or _keeps_exact(split, table)) and not refines(fixed.of, split.exact.of)
        fixed = split.exact.floats() if beside else FixedTable.none(n, m).floats()
    else:
        pointers, sums = np.array([0, n_rows], dtype=np.int64), np.array([-1.0])
    soft = level.comparisons[:, split.cells[first][order]][: None if over_persons else 0]
    problem = Problem(
        quadratic=quadratic.in_order(order) if isinstance(quadratic, Dense | Structured) else quadratic,
        pointers=pointers,
        sums=sums,
        allowed=np.ascontiguousarray(allowed[order]),
        fixed=fixed.at(first[order]),
        bounds=bounds.at(first[order]),
        compared=priced(soft, np.zeros((len(soft), m), dtype=np.int64), quadratic, over_persons),
    )
    back = np.empty(n_rows, dtype=np.int64)
    back[order] = np.arange(n_rows)
    return _pinned(problem), row_of_cell, back


def _keeps_exact(split: Split, table: Ints) -> bool:
    """Tell whether a root's pass that leaves bounds out keeps the exact table: where it is free, or the check needs it.

    A table that crosses the exact one is solved without it too, and looked at together with it afterwards.
    """
    if not split.exact.n_groups:
        return False
    return refines(table, split.exact.of) or (isinstance(split.bounds, KindLimits) and not split.exact_told)


def _pinned(problem: Problem) -> Problem:
    """Write limits that leave one value for every kind (an exact table) as a fixed table, which is solved faster."""
    bounds = problem.bounds
    if not isinstance(bounds, KindLimits) or not bounds.is_whole:
        return problem
    alone = bounds.limits[:, 1 << np.arange(bounds.n_kinds)]
    free = (alone.sum(axis=1) != bounds.limits[:, -1]).any()
    if free or not refines(bounds.of, problem.fixed.of):
        return problem
    present, fixed_of = np.unique(bounds.of, return_inverse=True)
    table = FixedTable(fixed_of.reshape(-1).astype(np.int64), np.ascontiguousarray(alone.T[present]))
    return replace(problem, fixed=table, bounds=LowerBounds.none(*problem.shape).floats())
