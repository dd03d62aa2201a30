"""Rounding as an integer program, for chains that are not laminar and for soft rules that a flow breaks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from topdown.errors import InternalError
from topdown.solve.backends.integer_program import Program
from topdown.solve.flow import floors
from topdown.solve.groups import Floats, Ints, RowGroups, signed_kinds
from topdown.solve.rounding import Rounded
from topdown.solve.rounding_problem import RoundingProblem

MAX_CUTS = 500
MOST_ENTRIES = 20_000  # of a split where entries that are whole may go up at once


def round_by_milp(problem: RoundingProblem) -> Rounded | None:
    """Round an estimate to the closest whole table, L1 over every table of the chain, up or down by less than one.

    Soft rules are kept if that is possible, else broken by as few records as possible. None if there is no whole
    table; in a large split entries that are whole stay if they can.
    """
    whole, fraction = floors(problem)
    if problem.allowed.sum() > MOST_ENTRIES and (
        found := _round(problem, whole, fraction, problem.allowed & (fraction > 0))
    ):
        return found
    return _round(problem, whole, fraction, problem.allowed)


def _round(problem: RoundingProblem, whole: Ints, fraction: Floats, may: NDArray[np.bool_]) -> Rounded | None:
    """Round with the entries that may go up."""
    m = whole.shape[1]
    row, child = np.nonzero(may)
    program = Program(problem.weights[-1] * (1 - 2 * fraction[row, child]))
    known = problem.sums >= 0
    left = (problem.sums - whole.sum(axis=1))[known]
    program.between(program.sums(np.where(known, np.cumsum(known) - 1, -1)[row], len(left)), left, left)

    def add(groups: RowGroups, low: Ints, spare: float) -> None:
        inside = np.where(groups.of[row] >= 0, groups.of[row] * m + child, -1)
        program.between(
            program.sums(inside, low.size), low.reshape(-1), np.asarray(low.reshape(-1) + spare, np.float64)
        )

    for table in (problem.totals, problem.exact):
        add(table, table.left(whole), 0.0)
    add(problem.bounds, problem.bounds.lower - problem.bounds.sums(whole), np.inf)
    for table, weight in zip(problem.chain[:-1], problem.weights[:-1], strict=True):
        if not weight:
            continue
        present, group = np.unique(table[row] * m + child, return_inverse=True)
        off = np.zeros(((int(table.max(initial=0)) + 1), m))
        np.add.at(off, table, problem.estimate - whole)
        program.near(program.sums(group.reshape(-1), len(present)), off.reshape(-1)[present], float(weight))
    soft, most = _soft_rows(problem, whole, row, child)
    for _ in range(MAX_CUTS):  # limits on kinds are added where an answer breaks them
        found = program.solve(soft, most)
        if found is None:
            return None
        counts = whole.copy()
        counts[row, child] += found.up
        picked, limit = _cuts(problem, whole, counts, row, child)
        if not len(limit):
            return Rounded(counts, found.optimal, "milp")
        program.between(picked, np.full(len(limit), -np.inf), limit)
    raise InternalError("the integer program needs too many limits on kinds of cells", code="X003")


def _soft_rows(problem: RoundingProblem, whole: Ints, row: Ints, child: Ints) -> tuple[coo_array, Floats]:
    """Return soft rules as rows over cells that may go up, one a rule and child, and what they may add up to."""
    comparisons, m, cells = problem.comparisons, whole.shape[1], np.arange(len(row))
    rule, cell = np.nonzero(comparisons[:, row])
    rows = coo_array(
        (comparisons[rule, row[cell]].astype(np.float64), (rule * m + child[cell], cells[cell])),
        shape=(len(comparisons) * m, len(row)),
    )
    return rows, (problem.most - comparisons @ whole).reshape(-1).astype(np.float64)


def _cuts(
    problem: RoundingProblem, whole: Ints, counts: Ints, row: Ints, child: Ints
) -> tuple[coo_array, Floats]:
    """Return the most broken limit of every child as rows over the cells, and what they may add up to."""
    bounds = problem.bounds
    broken, worst = bounds.worst_sets(bounds.sums(counts))
    holds = signed_kinds(worst, bounds.n_groups)
    signs = bounds.by_row(holds)[:, row] * (child[None, :] == broken[:, None])
    placed = (holds * bounds.sums(whole).T[broken]).sum(axis=1)
    most = bounds.limits[broken, worst] - placed
    return coo_array(signs.astype(np.float64)), most.astype(np.float64)
