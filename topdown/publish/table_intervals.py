"""Rows and intervals of published tables and of unions of areas, in whole thousandths of a record.

docs/explanation/intervals.md derives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from statistics import NormalDist
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.model import Histogram, Query, distinct_rows
from topdown.plan import Plan, PublicContext
from topdown.plan.public_tables import AreaUnion

MOST_ROWS = 1_000_000  # of a table that lists zeros


LEAST_ANSWERS = 16  # of a table of leaves whose intervals use those of the areas above


ANCESTORS = 2  # that they use


Place = tuple[str, int]  # name of a query, index of a level


def intervals_sentence(coverage: Fraction) -> str:
    """Return what is said of the intervals of a release, and no more than that."""
    chance = 100 * coverage
    odds = (
        f"{chance} in 100" if chance.denominator == 1 else f"{coverage.numerator} in {coverage.denominator}"
    )
    return (
        "Intervals: before the noise was drawn, the chance that this interval would contain the count in the "
        f"confidential records was at least {odds}, counting noise as normal. That is of one number chosen beforehand, "
        "not of numbers picked because they look large; of the records, not of the true population. Two intervals are "
        "not independent: those of sums do not follow from them but are made by topdown interval."
    )


class EstimateSource(Protocol):
    """Whence estimates come."""

    def at(self, rows: Mapping[Place, tuple[Ints, Ints]]) -> dict[Place, tuple[Ints, Ints]]:
        """Return estimates and standard deviations, in thousandths, of rows of nodes and answers."""
        ...


@dataclass(frozen=True, eq=False)
class TableRows:
    """TableRows of one table.

    Args:
        listed: all: every answer that public facts leave open; nonzero: those above zero.
        node, answer, count: int64, one a row, by node and answer.
    """

    listed: Literal["all", "nonzero"]
    node: Ints
    answer: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class Intervals:
    """Columns of one table beside its counts.

    Args:
        estimate, stddev: int64, thousandths. low, high: int64, records. exact: bool, whether public by policy.
    """

    estimate: Ints
    stddev: Ints
    low: Ints
    high: Ints
    exact: NDArray[np.bool_]


def normal_quantile(tail: Fraction) -> int:
    """Return the normal quantile that leaves `tail` above it, in millionths, rounded up."""
    return ceil(Fraction(-NormalDist().inv_cdf(float(tail))) * 1_000_000)


def rows_of(context: PublicContext, query: Query, depth: int, answers: Histogram) -> TableRows:
    """Return the rows of a table with intervals.

    Args:
        context: plan and public facts. query: of the table. depth: index of its level.
        answers: the table's nonzero answers.
    """
    is_open, n = cells_of_answers(context, query), query.n_answers
    patterns, which = distinct_rows(context.rules.open[depth])
    open_answers = patterns.astype(np.int64) @ is_open > 0
    if int(open_answers.sum(axis=1)[which].sum()) > MOST_ROWS:
        return TableRows("nonzero", answers.node, answers.cell, answers.count)
    node, answer = np.nonzero(open_answers[which])
    if not query.factors:  # every area has a total
        node, answer = np.arange(len(which)), np.zeros(len(which), dtype=np.int64)
    count = np.zeros(len(node), dtype=np.int64)
    count[np.searchsorted(node * n + answer, answers.node * n + answers.cell)] = answers.count
    return TableRows("all", node.astype(np.int64), answer.astype(np.int64), count)


def cells_of_answers(context: PublicContext, query: Query) -> Ints:
    """Return how many cells of each class of `Rules` an answer adds up, int64 (n_classes, n_answers)."""
    rules = context.rules
    out = np.zeros((rules.open[0].shape[1], query.n_answers), dtype=np.int64)
    np.add.at(out, (rules.class_of_cell, query.labels), 1)
    return out


def is_exact(plan: Plan, query: Query, depth: int) -> bool:
    """Tell whether every answer of a table follows from a statistic that is exact by policy."""
    order = [level.name for level in plan.levels]
    for rule in plan.invariants.exact:
        fine, n = plan.query(rule.query).labels, plan.query(rule.query).n_answers
        first = np.zeros(n, dtype=np.int64)
        first[fine] = query.labels
        if order.index(rule.level) >= depth and (first[fine] == query.labels).all():
            return True
    return False


def intervals_of(
    context: PublicContext,
    tables: Mapping[Place, TableRows],
    numbers: EstimateSource,
    coverage: Fraction | None = None,
) -> dict[Place, Intervals]:
    """Return the columns of tables beside their counts.

    Args:
        context: plan and public facts. tables: rows by query and level, every level of each query. numbers: whence
            estimates come. coverage: chance of an interval; the plan's if None.
    """
    plan = context.plan
    chance = plan.coverage if coverage is None else coverage
    if chance is None:
        raise TypeError("the plan asks for no intervals")
    exact = {(name, depth): is_exact(plan, plan.query(name), depth) for name, depth in tables}
    told = numbers.at({place: (at.node, at.answer) for place, at in tables.items() if not exact[place]})
    found: dict[Place, Intervals] = {}
    for name, depth in sorted(tables):  # parents before their children
        at = tables[name, depth]
        closed = ~context.rules.inhabited[depth][at.node]
        sure = closed | exact[name, depth]
        zero = np.zeros(len(at.node), dtype=np.int64)
        estimate, stddev = told.get((name, depth), (zero, zero))
        estimate, stddev = np.where(sure, 1000 * at.count, estimate), np.where(sure, 0, stddev)
        above = []
        if depth == len(plan.levels) - 1 and plan.query(name).n_answers >= LEAST_ANSWERS:
            above = _ancestor_estimates(context, tables, found, name)
        low, high = interval_ends(estimate, stddev, 1 - chance, above)
        low, high = np.minimum(low, at.count), np.maximum(high, at.count)
        low, high = np.where(sure, at.count, low), np.where(sure, at.count, high)
        found[name, depth] = Intervals(estimate, stddev, low, high, sure)
    return found


def _ancestor_estimates(
    context: PublicContext, tables: Mapping[Place, TableRows], found: Mapping[Place, Intervals], name: str
) -> list[tuple[Ints, Ints]]:
    """Return estimate and standard deviation of the same answer in the areas above each leaf, nearest first."""
    levels = context.geography.levels
    depth, n = len(levels) - 1, context.plan.query(name).n_answers
    node, out = tables[name, depth].node, []
    for up in range(depth - 1, max(depth - 1 - ANCESTORS, -1), -1):
        node = levels[up + 1].parent[node]
        rows = tables[name, up]
        row = np.searchsorted(rows.node * n + rows.answer, node * n + tables[name, depth].answer)
        out.append((found[name, up].estimate[row], found[name, up].stddev[row]))
    return out


def interval_ends(
    estimate: Ints, stddev: Ints, tails: Fraction, above: list[tuple[Ints, Ints]]
) -> tuple[Ints, Ints]:
    """Return the ends of intervals before they are widened to hold the counts.

    Args:
        estimate, stddev: thousandths.
        tails: chance of both tails together.
        above: estimate and standard deviation of areas that hold at least as many; they share half of the upper tail.
    """
    z = normal_quantile(tails / 2)
    low = -((z * stddev - 1_000_000 * estimate) // 10**9)
    own = z if not above else normal_quantile(tails / 4)
    high = (1_000_000 * estimate + own * stddev) // 10**9
    nearest = (estimate + 500) // 1000
    low, high = np.where(low > high, nearest, low), np.where(low > high, nearest, high)
    for up, spread in above:
        high = np.minimum(high, (1_000_000 * up + normal_quantile(tails / 4 / len(above)) * spread) // 10**9)
    return np.maximum(np.minimum(low, high), 0), np.maximum(high, 0)


def rows_of_unions(
    context: PublicContext, query: Query, unions: Sequence[AreaUnion], leaves: Histogram
) -> TableRows:
    """Return every answer that public facts leave open in each union, by number of the union.

    Args:
        context: plan and public facts. query: to answer. unions: of areas. leaves: records of every leaf and cell.
    """
    answers = leaves.sparse_answers(query)
    node, answer, count = [], [], []
    for i, union in enumerate(unions):
        inside = union.leaves(context.geography)[answers.node]
        counts = np.zeros(query.n_answers, dtype=np.int64)
        np.add.at(counts, answers.cell[inside], answers.count[inside])
        listed = _open_classes(context, union).astype(np.int64) @ cells_of_answers(context, query) > 0
        found = np.flatnonzero(listed if query.factors else [True])
        node.append(np.full_like(found, i))
        answer.append(found)
        count.append(counts[found])
    return TableRows("all", np.concatenate(node), np.concatenate(answer), np.concatenate(count))


def intervals_of_unions(
    context: PublicContext,
    query: Query,
    unions: Sequence[AreaUnion],
    rows: TableRows,
    told: Sequence[tuple[Ints, Ints]],
    coverage: Fraction,
) -> Intervals:
    """Return the columns of `rows_of_unions` beside its counts.

    Args:
        context, query, unions: as there. rows: what it returned.
        told: estimate and standard deviation of every answer over each union, thousandths.
        coverage: chance of an interval.
    """
    sure = np.array([_is_sure(context, query, union) for union in unions])[rows.node]
    estimate = np.stack([at[0] for at in told])[rows.node, rows.answer]
    stddev = np.stack([at[1] for at in told])[rows.node, rows.answer]
    low, high = interval_ends(estimate, stddev, 1 - coverage, [])
    low, high = np.minimum(low, rows.count), np.maximum(high, rows.count)
    return Intervals(
        np.where(sure, 1000 * rows.count, estimate),
        np.where(sure, 0, stddev),
        np.where(sure, rows.count, low),
        np.where(sure, rows.count, high),
        sure,
    )


def _open_classes(context: PublicContext, union: AreaUnion) -> np.ndarray:
    is_open = np.zeros(context.rules.open[0].shape[1], dtype=bool)
    for at, members in zip(context.rules.open, union.members, strict=True):
        is_open |= at[members].any(axis=0)
    return is_open


def _is_sure(context: PublicContext, query: Query, union: AreaUnion) -> bool:
    return not _open_classes(context, union).any() or all(
        is_exact(context.plan, query, depth) for depth, members in enumerate(union.members) if len(members)
    )
