"""Rounding as an integer program, for chains that are not laminar and for soft rules that a flow breaks."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from topdown.errors import InternalError, NoSplitError
from topdown.solve.backends.integer_program import Program
from topdown.solve.flow import floors
from topdown.solve.groups import Floats, Ints, LowerBounds, RowGroups, subset_sums
from topdown.solve.rounding import Rounded
from topdown.solve.rounding_problem import RoundingProblem

MAX_CUTS = 500


def round_by_milp(problem: RoundingProblem) -> Rounded:
    """Round an estimate to the closest whole table, L1 over every table of the chain, up or down by less than one.

    Soft rules are kept if that is possible, else broken by as few records as possible.

    Raises:
        NoSplitError: no whole table satisfies the constraints.
    """
    m = problem.estimate.shape[1]
    whole, fraction = floors(problem)
    row, child = np.nonzero(problem.allowed)
    program = Program(problem.weights[-1] * (1 - 2 * fraction[row, child]))
    if problem.sums is not None:
        left = problem.sums - whole.sum(axis=1)
        program.between(program.sums(row, len(problem.sums)), left, left)

    def add(groups: RowGroups, low: Ints, spare: float) -> None:
        for group, need in enumerate(low):
            inside = np.where(groups.of[row] == group, child, -1)
            program.between(program.sums(inside, m), need, need + spare)

    for table in (problem.totals, problem.exact):
        add(table, table.left(whole), 0.0)
    if isinstance(problem.bounds, LowerBounds):
        add(problem.bounds, problem.bounds.lower - problem.bounds.sums(whole), np.inf)
    for table, weight in zip(problem.chain[:-1], problem.weights[:-1], strict=True):
        code = table[:, None] * m + np.arange(m)[None, :]
        present, group = np.unique(code[row, child], return_inverse=True)
        place = np.searchsorted(present, code)
        known = (place < len(present)) & (present[np.minimum(place, len(present) - 1)] == code)
        target = np.zeros(len(present))
        np.add.at(target, place[known], problem.estimate[known] - whole[known])
        program.near(program.sums(group.reshape(-1), len(present)), target, float(weight))
    soft, most = soft_rows(problem.comparisons, whole, row, child)
    for _ in range(MAX_CUTS):  # limits on kinds are added where an answer breaks them
        found = program.solve(soft, most)
        if found is None:
            raise NoSplitError(
                "no whole table satisfies the constraints of this split (integer program)",
                code="I010",
                fix="check the public facts below this node for constraints that exclude each other",
            )
        counts = whole.copy()
        counts[row, child] += found.up
        picked, limit = _cuts(problem, whole, counts, row, child)
        if not len(limit):
            return Rounded(counts, found.optimal, "milp")
        program.between(picked, np.full(len(limit), -np.inf), limit)
    raise InternalError("the integer program needs too many limits on kinds of cells", code="X003")


def soft_rows(comparisons: Ints, whole: Ints, row: Ints, child: Ints) -> tuple[coo_array, Floats]:
    """Return soft rules as rows over cells that may go up, one a rule and child, and what they may add up to."""
    m, cells = whole.shape[1], np.arange(len(row))
    rule, cell = np.nonzero(comparisons[:, row])
    rows = coo_array(
        (comparisons[rule, row[cell]].astype(np.float64), (rule * m + child[cell], cells[cell])),
        shape=(len(comparisons) * m, len(row)),
    )
    return rows, -(comparisons @ whole).reshape(-1).astype(np.float64)


def _cuts(
    problem: RoundingProblem, whole: Ints, counts: Ints, row: Ints, child: Ints
) -> tuple[coo_array, Floats]:
    """Return the most broken limit of every child as rows over the cells, and what they may add up to."""
    bounds = problem.bounds
    if isinstance(bounds, LowerBounds):
        return coo_array((0, len(row))), np.zeros(0)
    over = subset_sums(bounds.limits, bounds.sums(counts)) - bounds.limits
    worst = over.argmax(axis=1)
    broken = np.flatnonzero(over.max(axis=1) > 0)
    k = bounds.n_kinds
    holds = ((worst[broken, None] >> np.arange(k)) & 1) - (worst[broken, None] >> k)  # slack: minus all kinds
    signs = holds[:, bounds.of[row]] * (child[None, :] == broken[:, None])
    placed = subset_sums(bounds.limits, bounds.sums(whole))[broken, worst[broken]]
    most = bounds.limits[broken, worst[broken]] - placed
    return coo_array(signs.astype(np.float64)), most.astype(np.float64)
