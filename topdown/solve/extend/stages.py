"""The stages of a split: which table each fixes, what the measurements say about it, how it is rounded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.errors import InternalError
from topdown.model import Query, Support, common_refinement, refines
from topdown.plan import LevelPlan, PublicContext
from topdown.solve.group_constraints import FixedTable, LowerBounds, group_sums
from topdown.solve.least_squares import Partition, Problem, SoftRules, Structured
from topdown.solve.least_squares.structured import inside_supergroups
from topdown.solve.rounding import RoundingProblem

Measured = list[list[tuple[Ints, NDArray[np.int32]]]]  # per child, per query: answers listed, noisy values


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of a level.

    Args:
        table: what it fixes; None for the classes with reserves.
        queries: (position among the level's queries, query, weight) it is fitted to.
        rounding: tables of the rounding chain with their weights.
        before, known: partitions of all cells, fixed before it and once it is done: base cells, and tables so far.
        like: a stage of another level with the same queries, `before` and `known`, if there is one.
    """

    table: Query | None
    queries: tuple[tuple[int, Query, float], ...]
    rounding: tuple[tuple[Query, int], ...]
    before: Ints
    known: Ints
    like: Stage | None = None

    @cached_property
    def nests(self) -> tuple[bool | None, ...]:
        """Which queries are sums over what is known, and of these, whether answers nest with those of finer ones.

        None for a query that is no such sum. Follows from the schema alone, so it is the same in every split.
        """
        if self.like is not None:
            return self.like.nests
        queries = [query for _, query, _ in self.queries]
        found: list[bool | None] = [None] * len(queries)
        chain: list[Query] = []
        for i in sorted(range(len(queries)), key=lambda i: -int(queries[i].labels.max())):
            query = queries[i]
            if refines(self.known, query.labels):
                nests = all(fine.refines(query) for fine in chain) and bool(
                    inside_supergroups(query.labels, self.before).any()
                )
                chain += [query] if nests else []
                found[i] = nests
        return tuple(found)

    def labels(self, cells: Ints) -> Ints:
        """Return the answer of some cells in the stage's table."""
        if self.table is None:
            return np.zeros(len(cells), dtype=np.int64)
        return self.table.labels[cells].astype(np.int64)


@lru_cache(maxsize=2)  # of a plan and its preflight's, before anything is spent and when they are solved
def release_stages(context: PublicContext) -> tuple[tuple[Stage, ...], ...]:
    """Return the stages of every level of an extension: classes with reserves first, then its passes.

    Partitions of all cells are made once for all levels that have them, and so is what nests.
    """
    support = context.support
    if support is None:
        raise InternalError("this plan extends no release")
    known: dict[tuple[str, ...], Ints] = {(): support.of_cell}
    made: dict[tuple[tuple[str, ...], ...], Stage] = {}
    return tuple(_level_stages(support, level, known, made) for level in context.plan.levels)


def _level_stages(
    support: Support,
    level: LevelPlan,
    known: dict[tuple[str, ...], Ints],
    made: dict[tuple[tuple[str, ...], ...], Stage],
) -> tuple[Stage, ...]:
    """Return the stages of a level; `known` by the tables done, `made` by those and the queries."""
    place = {m.query: i for i, m in enumerate(level.measurements)}
    weight = {m.query: float(1 / m.variance) for m in level.measurements}
    rounding = tuple((support.query(r.table), r.weight) for r in level.rounding)

    def stage(names: tuple[str, ...], before: tuple[str, ...], done: tuple[str, ...]) -> Stage:
        queries = tuple((place[name], support.query(name), weight[name]) for name in names)
        table, like = (support.query(done[-1]) if done else None), made.get((names, done))
        found = Stage(table, queries, rounding if done else (), known[before], known[done], like)
        return made.setdefault((names, done), found) if like is None else found

    out, before = [stage(tuple(place), (), ())], tuple[str, ...]()
    for step in level.passes:
        done = (*before, step.table)
        if done not in known:
            labels = support.query(step.table).labels.astype(np.int64)
            known[done] = common_refinement(known[before], labels)[0]
        out.append(stage(step.queries, before, done))
        before = done
    return tuple(out)


def stage_rules(rows: Ints, table: Ints, group: Ints) -> Ints:
    """Return the rules that a stage decides, int64 (n_rules, n).

    A rule is the stage's business if its number is the same for all cells of one answer of the stage's table, but not
    for all cells of one answer of the table fixed before: coarser stages cannot tell its cells apart, and after finer
    ones nothing is left to decide.

    Args:
        rows: int64 (n_rules, n), soft rules on the rows of a split.
        table, group: int64 (n,), the stage's table and the one before.
    """
    return rows[[refines(table, row) and not refines(group, row) for row in rows]]


@dataclass(frozen=True, eq=False)
class StageRows:
    """The rows of a parent as one stage sees them.

    Args:
        cells, sums: of every row; what it holds over all children, -1 where unknown.
        before: the table fixed before, (n_before, m).
        supergroup: the table before without patterns, for every row.
        table: answer of every row in the stage's table.
        first: one row of every answer of the stage's table.
        public: the stage's table without patterns, for every row.
        floor: reserved in each answer of the stage's table, int64 (n_table, m).
        soft: rules that the stage decides, int64 (n_rules, n).
    """

    cells: Ints
    sums: Ints
    before: FixedTable
    supergroup: Ints
    table: Ints
    first: Ints
    public: Ints
    floor: Ints
    soft: Ints


def stage_queries(
    stage: Stage, rows: StageRows, known: Ints, free: Ints, measured: Measured
) -> tuple[Partition, ...]:
    """Return what the stage's queries say about its free rows, with what is known taken off.

    A query that is constant on every group says nothing and is left out; one that is a sum over the table's
    rows is used as it is; a finer one is added up to the table over the parent's cells, with the variance of
    that sum; one that does neither is left to a later stage.

    Args:
        stage, rows: the stage and the rows of the parent.
        known: what is known of the stage's table, (n_table, m); lower bounds on its free answers.
        free: answers of the table that are not known yet.
        measured: answers of the children.
    """
    out, first = [], rows.first
    for (q, query, weight), nests in zip(stage.queries, stage.nests, strict=True):
        label = query.labels[rows.cells].astype(np.int64)
        answers, of_cell = np.unique(label, return_inverse=True)
        of_cell = of_cell.reshape(-1).astype(np.int64)
        of_row = of_cell[first]
        values = _noisy_values(measured, q, answers)
        weights = np.full(len(answers), weight)
        if not np.array_equal(of_row[rows.table], of_cell):
            above = np.full(len(answers), -1)
            above[of_cell] = rows.public
            if not np.array_equal(above[of_cell], rows.public):
                continue
            _, up = np.unique(above, return_inverse=True)
            up = up.reshape(-1).astype(np.int64)
            n_up = int(up.max()) + 1
            total = np.zeros((n_up, values.shape[1]))
            np.add.at(total, up, values)
            values, weights = total, weight / np.bincount(up, minlength=n_up)
            of_row, nests = up[of_cell[first]], True  # by the table itself
        if refines(rows.before.of[first][free], of_row[free]):
            continue
        taken = group_sums(known.astype(np.float64), of_row, len(values))
        used, here = np.unique(of_row[free], return_inverse=True)
        out.append(Partition(here.reshape(-1).astype(np.int64), weights[used], (values - taken)[used], nests))
    return tuple(out)


def _noisy_values(measured: Measured, q: int, answers: Ints) -> Floats:
    """Return the noisy answers of one query at every child; 0 where an answer is not listed, as it must be."""
    out = np.zeros((len(answers), len(measured)))
    for j, child in enumerate(measured):
        listed, values = child[q]
        place = np.searchsorted(listed, answers)
        inside = place < len(listed)
        inside[inside] = listed[place[inside]] == answers[inside]
        out[inside, j] = values[place[inside]]
    return out


def stage_rounding(
    stage: Stage,
    cells: Ints,
    before: FixedTable,
    estimate: tuple[Floats, NDArray[np.bool_], Ints],
    soft: tuple[Ints, Ints],
) -> RoundingProblem:
    """Return what a stage rounds: the table before is mandatory flow, the plan's tables between it and the rows cost.

    Args:
        stage: of the split. cells: of every row. before: the table fixed before.
        estimate: (n, m), where records may be, and what each row holds over all children (-1 at the root).
        soft: rules on the rows, and what they may add up to.
    """
    values, allowed, sums = estimate
    chain, weights = [np.zeros(len(cells), dtype=np.int64), before.of], [0, 0]
    n_before, last = before.n_groups, 1
    for query, weight in stage.rounding:
        table, n_table = common_refinement(chain[-1], query.labels[cells].astype(np.int64))
        last = weight
        if n_table == n_before:
            continue
        if n_table == len(cells) or stage.table is None or not stage.table.refines(query):
            break
        chain.append(table)
        weights.append(weight)
        n_before = n_table
    n, m = values.shape
    return RoundingProblem(
        estimate=values,
        allowed=allowed,
        sums=sums,
        chain=np.stack([*chain, np.arange(n)]),
        weights=(*weights, last),
        totals=FixedTable.total(n, before.answers.sum(axis=0)),
        exact=before,
        exact_place=1,
        bounds=LowerBounds.none(n, m),
        bound_places=(),
        arcs=(),
        comparisons=soft[0],
        most=soft[1],
    )


def stage_problem(
    quadratic: Structured, left: Ints, fixed: FixedTable, allowed: NDArray[np.bool_]
) -> Problem:
    """Return the problem of a stage.

    Args:
        quadratic: of its queries.
        left: int64 (n,), what each row holds over all children; -1 at the root, whose groups are in a row.
        fixed: the table before. allowed: (n, m).
    """
    n, m = allowed.shape
    if (left < 0).any():
        pointers = np.flatnonzero(np.diff(fixed.of, prepend=-1, append=-1)).astype(np.int64)
        sums, fixed = fixed.answers[fixed.of[pointers[:-1]], 0], FixedTable.none(n, m)
    else:
        pointers, sums = np.arange(0, n * m + 1, m, dtype=np.int64), left
    return Problem(
        quadratic=quadratic,
        pointers=pointers,
        sums=sums.astype(np.float64),
        allowed=allowed,
        fixed=fixed.floats(),
        bounds=LowerBounds.none(n, m).floats(),
        compared=SoftRules.none(n, m),
    )
