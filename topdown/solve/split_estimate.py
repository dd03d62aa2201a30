"""One parent and its children: the least-squares estimate of a split, pass by pass.

A pass solves a table for the best fit to some queries and fixes it for the passes that follow. If the queries
are sums over the table they are fitted directly. If some are finer, the table is fitted to its unconstrained
generalised-least-squares estimate with that estimate's inverse covariance as weight, so that the noise of
many empty cells does not push the table (margin-first solving).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from topdown.arrays import Floats, Ints
from topdown.model import refines
from topdown.plan import Pass
from topdown.solve.backends import scipy_programs as bipartite_flow
from topdown.solve.backends import scipy_programs as linear_program
from topdown.solve.group_constraints import Bounds, FixedTable, LowerBounds, SubsetLimits, group_sums
from topdown.solve.least_squares import Dense, Problem, Solution, Structured, policy
from topdown.solve.least_squares.policy import priced_rules
from topdown.solve.node_totals import no_table_fits
from topdown.solve.objectives import Objective, PassRows
from topdown.solve.release_facts import LevelModel

NEAR_LIMIT_PERSONS = 1e-3  # limits of the root closer than this are looked at together with the next table


@dataclass(frozen=True, eq=False)
class Split:
    """One parent and the children that may hold records, on the parent's nonzero cells.

    Args:
        cells: int64 (n,), cells with records in the parent (all open cells at the root).
        counts: int64 (n,), the parent's counts; None at the root.
        allowed: bool (n, m).
        objective: what the children are fitted to.
        totals: exact totals of the children.
        exact: an exact table of the children that tells more than their totals.
        exact_told: whether limits tell that table too.
        bounds: what each child can hold: lower bounds of disjoint cells, or limits on sets of kinds of cells.
    """

    cells: Ints
    counts: Ints | None
    allowed: NDArray[np.bool_]
    objective: Objective
    totals: FixedTable
    exact: FixedTable
    exact_told: bool
    bounds: Bounds

    @property
    def sums(self) -> Ints:
        """What each cell holds over all children, (n,); -1 where unknown."""
        return np.full(len(self.cells), -1, dtype=np.int64) if self.counts is None else self.counts


def bounds_fit(split: Split, group: Ints, values: Floats, slack: float = NEAR_LIMIT_PERSONS) -> bool:
    """Tell whether the root's lower bounds can be met once a table is fixed: a maximum flow, decided in integers.

    Beside an exact table that the fixed one crosses it is a linear program. Then `limits`, if any, must tell the
    exact table.

    Args:
        split: of the root.
        group: answer of the table each cell belongs to, 0..n_groups-1.
        values: the table, persons; only whole persons are counted on.
        slack: limits closer than this are taken for broken; 0 if `values` are whole.
    """
    bounds = split.bounds
    if isinstance(bounds, SubsetLimits):
        fits = _limits_fit(bounds, group, values, slack)
        if split.exact.n_groups:  # what an exact table fixes is no near miss
            fits |= _fixed_sets(bounds, group, values)
        return bool(fits.all())
    if not refines(group, split.exact.of):
        return _table_fits(split.exact, bounds, group, values)
    need, bound = bounds.lower[:, 0], bounds.of
    if not need.any():
        return True
    usable = np.zeros((len(values), len(need)), dtype=bool)
    usable[group[bound >= 0], bound[bound >= 0]] = True
    return bipartite_flow.meet_demands(np.floor(values).astype(np.int64), usable, need) is not None


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
    told = np.concatenate([v for _, v in sums])
    return (
        linear_program.minimise_linear(np.zeros(len(at)), (lower, least), (vstack(equal), told)) is not None
    )


def _limits_fit(bounds: SubsetLimits, group: Ints, values: Floats, slack: float) -> NDArray[np.bool_]:
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


def _fixed_sets(bounds: SubsetLimits, group: Ints, values: Floats) -> NDArray[np.bool_]:
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
    exact = split.exact.floats()
    if exact.n_groups and not bounds_fit(split, exact.of, exact.answers[:, 0], slack=0.0):
        raise no_table_fits()


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
            problem, row_of_cell, back = _pass_problem(
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


def _pass_problem(
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
        compared=priced_rules(soft, np.zeros((len(soft), m), dtype=np.int64), quadratic, over_persons),
    )
    back = np.empty(n_rows, dtype=np.int64)
    back[order] = np.arange(n_rows)
    return _pin_single_values(problem), row_of_cell, back


def _keeps_exact(split: Split, table: Ints) -> bool:
    """Tell whether a root's pass that leaves bounds out keeps the exact table: where it is free, or the check needs it.

    A table that crosses the exact one is solved without it too, and looked at together with it afterwards.
    """
    if not split.exact.n_groups:
        return False
    return refines(table, split.exact.of) or (isinstance(split.bounds, SubsetLimits) and not split.exact_told)


def _pin_single_values(problem: Problem) -> Problem:
    """Write limits that leave one value for every kind (an exact table) as a fixed table, which is solved faster."""
    bounds = problem.bounds
    if not isinstance(bounds, SubsetLimits) or not bounds.is_whole:
        return problem
    alone = bounds.limits[:, 1 << np.arange(bounds.n_kinds)]
    free = (alone.sum(axis=1) != bounds.limits[:, -1]).any()
    if free or not refines(bounds.of, problem.fixed.of):
        return problem
    present, fixed_of = np.unique(bounds.of, return_inverse=True)
    table = FixedTable(fixed_of.reshape(-1).astype(np.int64), np.ascontiguousarray(alone.T[present]))
    return replace(problem, fixed=table, bounds=LowerBounds.none(*problem.shape).floats())
