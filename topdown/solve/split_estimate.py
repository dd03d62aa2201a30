"""One parent and its children: the least-squares estimate of a split, pass by pass.

A pass solves a table for the best fit to some queries and fixes it for the passes that follow. If the queries
are sums over the table they are fitted directly. If some are finer, the table is fitted to its unconstrained
generalised-least-squares estimate with that estimate's inverse covariance as weight, so that the noise of
many empty cells does not push the table (margin-first solving).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
from scipy.sparse import csr_array, vstack

from topdown.arrays import Bools, Floats, Ints
from topdown.model import NO_TABLE_FITS, exact_contradiction, refines
from topdown.plan import Pass
from topdown.solve.group_constraints import (
    Bounds,
    FamilyConstraints,
    FixedTable,
    LowerBounds,
    SubsetLimits,
    group_sums,
    occurring,
)
from topdown.solve.least_squares import Problem, solve
from topdown.solve.least_squares.policy import priced_rules
from topdown.solve.objectives import Objective, PassRows
from topdown.solve.release_facts import LevelModel
from topdown.solve.scipy_programs import meet_demands, minimise_linear

NEAR_LIMIT_PERSONS = 1e-3  # limits of the root closer than this are looked at together with the next table


@dataclass(frozen=True, eq=False)
class Split:
    """One parent and the children that may hold records, on the parent's nonzero cells.

    Args:
        cells: int64 (n,), cells with records in the parent (all open cells at the root).
        counts: int64 (n,), the parent's counts; None at the root.
        allowed: bool (n, m).
        objective: what the children are fitted to.
        family: what the children keep.
    """

    cells: Ints
    counts: Ints | None
    allowed: Bools
    objective: Objective
    family: FamilyConstraints

    @property
    def sums(self) -> Ints:
        """What each cell holds over all children, (n,); -1 where unknown."""
        return np.full(len(self.cells), -1, dtype=np.int64) if self.counts is None else self.counts


@singledispatch
def bounds_fit(
    bounds: Bounds, exact: FixedTable, group: Ints, values: Floats, slack: float = NEAR_LIMIT_PERSONS
) -> bool:
    """Tell whether the root can keep its bounds once a table is fixed, decided in integers.

    Args:
        bounds, exact: of the root.
        group: answer of the table each cell belongs to, 0..n_groups-1.
        values: the table, persons; only whole persons are counted on.
        slack: limits closer than this are taken for broken; 0 if `values` are whole.
    """
    raise TypeError(f"no check is known for {type(bounds).__name__}")


@bounds_fit.register
def _lower_bounds_fit(
    bounds: LowerBounds, exact: FixedTable, group: Ints, values: Floats, slack: float = NEAR_LIMIT_PERSONS
) -> bool:
    """Lower bounds: a maximum flow, or a linear program beside an exact table that the fixed one crosses."""
    del slack
    if not refines(group, exact.of):
        return _table_fits(exact, bounds, group, values)
    need, bound = bounds.lower[:, 0], bounds.of
    if not need.any():
        return True
    usable = np.zeros((len(values), len(need)), dtype=bool)
    usable[group[bound >= 0], bound[bound >= 0]] = True
    return meet_demands(np.floor(values).astype(np.int64), usable, need) is not None


@bounds_fit.register
def _subset_limits_fit(
    bounds: SubsetLimits, exact: FixedTable, group: Ints, values: Floats, slack: float = NEAR_LIMIT_PERSONS
) -> bool:
    """Limits on sets of kinds; what an exact table fixes is no near miss. The table must not cross an exact one."""
    fits = _limits_fit(bounds, group, values, slack)
    if exact.n_groups:
        fits |= _fixed_sets(bounds, group, values)
    return bool(fits.all())


def _table_fits(exact: FixedTable, bounds: LowerBounds, group: Ints, values: Floats) -> bool:
    """Tell whether some table has these sums of groups, the exact table's answers, and meets the lower bounds."""
    keys = np.unique(np.stack([group, exact.of, bounds.of]), axis=1)
    at, need = np.arange(keys.shape[1]), bounds.lower[:, 0]
    inside = keys[2] >= 0
    shape = (len(need), len(at))
    lower = csr_array((-np.ones(int(inside.sum())), (keys[2][inside], at[inside])), shape=shape)
    sums = [(keys[0], values), (keys[1], exact.answers[:, 0].astype(np.float64))]
    equal = [csr_array((np.ones(len(at)), (of, at)), shape=(len(v), len(at))) for of, v in sums]
    least = -(need + NEAR_LIMIT_PERSONS * (need > 0))
    known = np.concatenate([v for _, v in sums])
    return minimise_linear(np.zeros(len(at)), (lower, least), (vstack(equal), known)) is not None


def _limits_fit(bounds: SubsetLimits, group: Ints, values: Floats, slack: float) -> Bools:
    """Tell for each set of the root's kinds whether it can keep its limits once a table is fixed (Rado's theorem).

    A group whose cells are of kinds A only counts towards every set that holds A. Near misses count as misses.
    """
    limits = bounds.limits[0].astype(np.float64)
    n_sets, inside = 1 << bounds.n_kinds, _people_inside(bounds, group, values)
    everybody = values.sum()
    fits = (inside <= limits[:n_sets] - slack) | (
        (inside >= everybody - slack) & (limits[:n_sets] >= everybody - 1e-6)
    )
    fits[inside <= 0] = True
    if len(limits) > n_sets:  # at least so many people in every set: -limits of the rest with the slack entry
        least = -limits[n_sets:][::-1]
        touching = everybody - inside[::-1]
        fits &= (least <= 0) | (touching >= least + slack)
    return np.asarray(fits, dtype=bool)


def _fixed_sets(bounds: SubsetLimits, group: Ints, values: Floats) -> Bools:
    """Tell which sets of kinds have one possible number of people, and hold no more."""
    if not bounds.is_whole:
        return np.zeros(1 << bounds.n_kinds, dtype=bool)
    limits = bounds.limits[0].astype(np.float64)
    fixed = limits + limits[::-1] == limits[-1]
    return np.asarray(fixed & (_people_inside(bounds, group, values) <= limits + 1e-6), dtype=bool)


def _people_inside(bounds: SubsetLimits, group: Ints, values: Floats) -> Floats:
    """Return the people of the groups whose cells are all of kinds in a set, for every set."""
    kinds = np.zeros(len(values), dtype=np.int64)
    np.bitwise_or.at(kinds, group, 1 << bounds.of)
    inside = np.zeros(1 << bounds.n_kinds)
    np.add.at(inside, kinds, values)
    for k in range(bounds.n_kinds):
        have = (np.arange(len(inside)) >> k) & 1 == 1
        inside[have] += inside[np.arange(len(inside))[have] - (1 << k)]
    return inside


def check_exact_fits(split: Split) -> None:
    """Refuse a root whose exact table does not go together with everything below it; whole numbers, exact (I013)."""
    exact = split.family.exact.floats()
    if exact.n_groups and not bounds_fit(
        split.family.bounds, split.family.exact, exact.of, exact.answers[:, 0], 0.0
    ):
        raise exact_contradiction(NO_TABLE_FITS, None)


@dataclass(frozen=True)
class Fit:
    """How the passes of one split went; `unique`: whether every pass has one optimum only."""

    residual_persons: float
    iterations: int
    n_problems: int
    n_variables: int
    unique: bool = True


def estimate(level: LevelModel, split: Split, *, over_persons: float = 0.0) -> tuple[Floats, Fit]:
    """Return the constrained least-squares table of one split, float64 (n, m), and how it was found.

    Args:
        level, split: what is to be solved.
        over_persons: by how much the table without soft rules breaks one; 0 leaves them out.

    Raises:
        InternalError: two passes that must nest do not.
    """
    family = split.family
    fixed = (family.exact if family.exact.n_groups else family.totals).floats()
    worst, iterations, n_problems, n_variables, unique = 0.0, 0, 0, 0, True
    z = np.zeros(split.allowed.shape)
    for step in level.passes:
        last = step is level.passes[-1]
        table = level.tables[step.table][split.cells]
        known = (split.counts is not None or family.exact.n_groups) and fixed.n_groups and not last
        if known and refines(fixed.of, table):
            continue  # exact statistics fix this table already
        answers, group = occurring(table)
        # At the root, bounds rarely matter before the last pass: leave them out, look, and refine if they do.
        for refine in (False, True) if split.counts is None and not last and not over_persons else (True,):
            problem, row_of_cell, back = _pass_problem(
                level, split, step, fixed, refine=refine, over_persons=over_persons
            )
            solution, residual = solve(problem)
            z = solution.z[back]
            if last:
                break
            row_table = np.zeros(len(z), dtype=np.int64)
            row_table[row_of_cell] = group
            values = group_sums(z, row_table, len(answers))
            rows = (row_of_cell, z) if _keeps_exact(split, table) else (group, values)
            if refine or bounds_fit(family.bounds, family.exact, rows[0], rows[1][:, 0]):
                break
        worst = max(worst, residual)
        iterations += solution.iterations
        n_problems += 1
        n_variables += problem.allowed.size
        # Then its optimum is a single table.
        unique &= step.table in level.single_valued or level.tells_apart(step, split.cells)
        if not last:
            fixed = FixedTable(group, values)
    return z, Fit(worst, iterations, n_problems, n_variables, unique)


def _pass_problem(
    level: LevelModel,
    split: Split,
    step: Pass,
    fixed: FixedTable,
    *,
    refine: bool,
    over_persons: float,
) -> tuple[Problem, Ints, Ints]:
    """Set up one pass, whose unknowns are rows: groups of cells that it cannot tell apart.

    Args:
        fixed: what earlier passes fixed. refine: whether rows are fine enough for the bounds.

    Returns: the problem; the row of each cell, int64 (cells,); the problem's row of each of these, int64 (rows,).
    """
    n, m = split.allowed.shape
    last = step is level.passes[-1]
    bounds: Bounds = split.family.bounds.floats()
    table = level.tables[step.table][split.cells]
    if last:
        row_of_cell = np.arange(n)
    elif not refine:  # rows are the table's answers, with those of the exact table where it is kept
        kept = [split.family.exact.of] if _keeps_exact(split, table) else []
        if not kept and fixed.of is split.family.exact.of:
            fixed = FixedTable.total(n, fixed.answers.sum(axis=0))
        row_of_cell = np.unique(np.stack([table, *kept]), axis=1, return_inverse=True)[1].reshape(-1)
        bounds = LowerBounds.none(n, m).floats()
    else:
        # Rows: the table, refined so that bounds and open cells can still be told apart.
        soft = level.comparisons[:, split.cells] if over_persons else np.zeros((0, n), dtype=np.int64)
        classes = level.class_of_cell[split.cells]
        keys = np.vstack([table, bounds.of, classes, fixed.of, soft, split.family.exact.of])
        row_of_cell = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    n_rows = int(row_of_cell.max()) + 1
    if not (bounds.of >= 0).any():
        bounds = LowerBounds.none(n, m).floats()
    first = np.zeros(n_rows, dtype=np.int64)
    first[row_of_cell[::-1]] = np.arange(n)[::-1]  # one cell of each row
    back, plain = np.arange(n_rows), not bounds.n_groups and not over_persons and fixed.n_groups <= 1
    if split.counts is None and fixed.n_groups:  # root: its rows by group of the fixed table
        order = np.argsort(fixed.of[first], kind="stable")
        first, back = first[order], np.argsort(order)
    allowed = split.allowed[first]
    rows = PassRows(step, last, split.cells, split.counts, table, first, fixed, allowed, plain)
    if last and split.counts is None:  # rows are the cells, in this order
        rows = replace(
            rows, cells=rows.cells[first], table=table[first], first=np.arange(n), fixed=fixed.at(first)
        )
    quadratic = split.objective.quadratic(level, rows)
    # Segments are entries with a known sum; below the root, a row's children, which sum to the parent's count.
    if split.counts is not None:
        sums = np.zeros(n_rows)
        np.add.at(sums, row_of_cell, split.counts.astype(np.float64))
        pointers = np.arange(0, n_rows * m + 1, m, dtype=np.int64)
    elif fixed.n_groups:  # root: the fixed table's groups are the segments
        pointers = np.searchsorted(fixed.of[first], np.arange(fixed.n_groups + 1)).astype(np.int64)
        sums = fixed.answers[:, 0].copy()
        beside = (last or refine or _keeps_exact(split, table)) and not refines(
            fixed.of, split.family.exact.of
        )
        fixed = split.family.exact.floats() if beside else FixedTable.none(n, m).floats()
    else:  # root, nothing known: one segment with no sum
        pointers, sums = np.array([0, n_rows], dtype=np.int64), np.array([-1.0])
    soft = level.comparisons[: None if over_persons else 0, split.cells[first]]
    if split.counts is None or not last:  # else rows are the cells as they are
        bounds, fixed = bounds.at(first), fixed.at(first)
    bounds, fixed = bounds.with_single_values_fixed(fixed)
    problem = Problem(
        quadratic=quadratic,
        pointers=pointers,
        sums=sums,
        allowed=np.ascontiguousarray(allowed),
        fixed=fixed,
        bounds=bounds,
        compared=priced_rules(soft, np.zeros((len(soft), m), dtype=np.int64), quadratic, over_persons),
    )
    return problem, row_of_cell, back


def _keeps_exact(split: Split, table: Ints) -> bool:
    """Tell whether a root's pass that leaves bounds out keeps the exact table: where it is free, or the check needs it.

    A table that crosses the exact one is solved without it too, and looked at together with it afterwards.
    """
    family = split.family
    return bool(family.exact.n_groups) and (refines(table, family.exact.of) or family.checks_exact)
