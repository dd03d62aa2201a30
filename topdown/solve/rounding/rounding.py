"""From a fractional table to whole people, with a proof that no better rounding exists.

Laminar chains go to a minimum-cost flow whose optimality is re-checked by residual cycles; other chains, and soft
rules that a flow breaks, to a mixed-integer program whose optimality is re-checked against its bound. Either way the
result is re-checked against every constraint in integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from topdown.arrays import Floats, Ints
from topdown.errors import InternalError, NoSplitError
from topdown.solve.flows import is_feasible, is_optimal, minimum_cost_flow
from topdown.solve.group_constraints import RowGroups, occurring, signed_classes
from topdown.solve.rounding.flow_network import NEAR_PERSONS, RoundingProblem, build_network, whole_parts
from topdown.solve.scipy_programs import RoundingProgram, UndecidedError

MAX_CUTS = 500


MOST_ENTRIES = 20_000  # of a split where entries that are whole may go up at once


def round_by_milp(problem: RoundingProblem) -> Rounded | None:
    """Round an estimate to the closest whole table, L1 over every table of the chain, up or down by less than one.

    Soft rules are kept if that is possible, else broken by as few records as possible. None if there is no whole
    table; in a large split entries that are whole stay if they can.
    """
    whole, fraction = whole_parts(problem)
    if problem.allowed.sum() > MOST_ENTRIES and (
        found := _round_entries(problem, whole, fraction, problem.allowed & (fraction > 0))
    ):
        return found
    return _round_entries(problem, whole, fraction, problem.allowed)


def _round_entries(
    problem: RoundingProblem, whole: Ints, fraction: Floats, may: NDArray[np.bool_]
) -> Rounded | None:
    """Round with the entries that may go up."""
    m = whole.shape[1]
    row, child = np.nonzero(may)
    program = RoundingProgram(problem.weights[-1] * (1 - 2 * fraction[row, child]))
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
        present, group = occurring(table[row] * m + child)
        off = np.zeros(((int(table.max(initial=0)) + 1), m))
        np.add.at(off, table, problem.estimate - whole)
        program.near(program.sums(group, len(present)), off.reshape(-1)[present], float(weight))
    soft, most = _soft_rule_rows(problem, whole, row, child)
    for _ in range(MAX_CUTS):  # limits on kinds are added where an answer breaks them
        found = program.solve(soft, most)
        if found is None:
            return None
        counts = whole.copy()
        counts[row, child] += found.up
        picked, limit = _broken_limits(problem, whole, counts, row, child)
        if not len(limit):
            return Rounded(counts, found.optimal, "milp")
        program.between(picked, np.full(len(limit), -np.inf), limit)
    raise InternalError("the integer program needs too many limits on kinds of cells", code="X003")


def _soft_rule_rows(
    problem: RoundingProblem, whole: Ints, row: Ints, child: Ints
) -> tuple[coo_array, Floats]:
    """Return soft rules as rows over cells that may go up, one a rule and child, and what they may add up to."""
    comparisons, m, cells = problem.comparisons, whole.shape[1], np.arange(len(row))
    rule, cell = np.nonzero(comparisons[:, row])
    rows = coo_array(
        (comparisons[rule, row[cell]].astype(np.float64), (rule * m + child[cell], cells[cell])),
        shape=(len(comparisons) * m, len(row)),
    )
    return rows, (problem.most - comparisons @ whole).reshape(-1).astype(np.float64)


def _broken_limits(
    problem: RoundingProblem, whole: Ints, counts: Ints, row: Ints, child: Ints
) -> tuple[coo_array, Floats]:
    """Return the most broken limit of every child as rows over the cells, and what they may add up to."""
    bounds = problem.bounds
    broken, worst = bounds.worst_sets(bounds.sums(counts))
    holds = signed_classes(worst, bounds.n_groups)
    signs = bounds.by_row(holds)[:, row] * (child[None, :] == broken[:, None])
    placed = (holds * bounds.sums(whole).T[broken]).sum(axis=1)
    most = bounds.limits[broken, worst] - placed
    return coo_array(signs.astype(np.float64)), most.astype(np.float64)


FIX = "check the public facts below this node for constraints that exclude each other"


@dataclass(frozen=True, eq=False)
class Rounded:
    """A rounding: int64 (n, m), whether its optimality was proved, and how it was found."""

    counts: Ints
    optimal: bool
    route: str


def round_table(problem: RoundingProblem) -> Rounded:
    """Round an estimate.

    Raises:
        NoSplitError: no whole table satisfies the constraints.
        InternalError: a solver's answer broke a constraint, or it found none and did not show that there is none.
    """
    by_flow = _by_flow(problem) if problem.is_flow else None
    # A flow knows nothing of soft rules; if it keeps them all the same it is optimal with them too.
    result = (
        by_flow
        if by_flow is not None and not problem.excess(by_flow.counts)
        else _by_program(problem, by_flow)
    )
    check_rounding(problem, result.counts)
    return result


def _by_program(problem: RoundingProblem, by_flow: Rounded | None) -> Rounded:
    """Round by an integer program; the flow's rounding stands where the program breaks soft rules no less."""
    try:
        found = round_by_milp(problem)
    except UndecidedError:
        if by_flow is None:
            raise
        found = None
    if by_flow is not None and (
        found is None or problem.excess(found.counts) >= problem.excess(by_flow.counts)
    ):
        proved = found is not None and found.optimal  # that no rounding breaks the rules less
        return replace(by_flow, optimal=by_flow.optimal and proved)
    if found is None:
        raise NoSplitError(
            "no whole table satisfies the constraints of this split (integer program)", code="I010", fix=FIX
        )
    return found


def _by_flow(problem: RoundingProblem) -> Rounded:
    whole, fraction = whole_parts(problem)
    for every_cell in (False, True):
        rounding = build_network(problem, whole, fraction, every_cell=every_cell)
        if rounding is None:
            continue
        flows = minimum_cost_flow(rounding.network, rounding.start)
        if flows is None:
            continue
        if not is_feasible(rounding.network, flows):
            raise InternalError("the flow solver returned a flow that is not feasible")
        counts = whole.reshape(-1).copy()
        counts[rounding.cell_arcs] += flows[: len(rounding.cell_arcs)]
        return Rounded(counts.reshape(whole.shape), is_optimal(rounding.network, flows), "flow")
    raise NoSplitError(
        "no whole table satisfies the constraints of this split",
        code="I010",
        fix=FIX,
    )


def check_rounding(problem: RoundingProblem, counts: Ints) -> None:
    """Re-check a rounding in integers; InternalError names the broken constraint."""
    broken = broken_constraint(problem, counts)
    if not broken and problem.is_flow and (np.abs(counts - problem.estimate) > NEAR_PERSONS).any():
        broken = "a count more than one away from its estimate"
    if broken:
        raise InternalError(f"rounding left {broken}", code="X003")


def broken_constraint(problem: RoundingProblem, counts: Ints) -> str:
    """Return in words a constraint that a whole table breaks; empty if it keeps all but soft rules."""
    if (counts < 0).any():
        return "a negative count"
    if counts[~problem.allowed].any():
        return "records where none may be"
    if ((counts.sum(axis=1) != problem.sums) & (problem.sums >= 0)).any():
        return "children that do not add up to their parent"
    if problem.totals.left(counts).any():
        return "an exact total that is missed"
    if problem.exact.left(counts).any():
        return "an exact table that is missed"
    if problem.bounds.over(problem.bounds.sums(counts)) > 0:
        return problem.bounds.broken
    return ""
