"""Rows and intervals of published tables and of unions of areas, in whole thousandths of a record.

docs/explanation/intervals.md derives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from statistics import NormalDist
from typing import Literal, Protocol

import numpy as np
import scipy  # which loads `special` when it is first used: by tables with intervals
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.formats.release_documents import CHANCE_OF_INTERVALS
from topdown.model import Histogram, Query, distinct_rows
from topdown.plan import Plan, PublicContext
from topdown.plan.public_tables import AreaUnion

MOST_ROWS = 1_000_000  # of a table that lists zeros
MOST_POSSIBLE = 20_000_000  # answers that are looked at where somebody asks for all that may be above 0
LEAST_ANSWERS = 16  # of a table of leaves whose intervals use those of the areas above
ANCESTORS = 2  # that they use
Place = tuple[str, int]  # name of a query, index of a level


def intervals_sentence(coverage: Fraction) -> str:
    """Return what is said of the intervals of a release, and no more than that."""
    chance = 100 * coverage
    odds = (
        f"{chance} in 100" if chance.denominator == 1 else f"{coverage.numerator} in {coverage.denominator}"
    )
    return CHANCE_OF_INTERVALS.format(odds=odds)


class EstimateSource(Protocol):
    """Whence estimates come."""

    def at(self, rows: Mapping[Place, tuple[Ints, Ints]]) -> dict[Place, tuple[Ints, Ints]]:
        """Return estimates and standard deviations, in thousandths, of rows of nodes and answers."""
        ...


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of one table.

    Args:
        listed: all: every answer that public facts leave open; nonzero: those above zero; possible: those whose
            interval does not reach from 0 to 0.
        node, answer, count: int64, one a row, by node and answer.
    """

    listed: Literal["all", "nonzero", "possible"]
    node: Ints
    answer: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class Intervals:
    """Columns of one table beside its counts.

    Args:
        estimate, stddev: int64, thousandths. low, high: int64, records. exact: bool, whether public by policy.
        listed: ends corrected for selection, where rows are listed because their count is above 0; see `listed_ends`.
    """

    estimate: Ints
    stddev: Ints
    low: Ints
    high: Ints
    exact: NDArray[np.bool_]
    listed: tuple[Ints, Ints] | None = None


def normal_quantile(tail: Fraction) -> int:
    """Return the normal quantile that leaves `tail` above it, in millionths, rounded up."""
    return ceil(Fraction(-NormalDist().inv_cdf(float(tail))) * 1_000_000)


def rows_of(
    context: PublicContext, query: Query, depth: int, answers: Histogram, *, possible: int = 0
) -> TableRows:
    """Return the rows of a table with intervals.

    Args:
        context: plan and public facts. query: of the table. depth: index of its level.
        answers: the table's nonzero answers. possible: most rows of a table of more than a million that has them all
            until `possible_rows` takes some away.
    """
    is_open, n = cells_of_answers(context, query), query.n_answers
    patterns, which = distinct_rows(context.rules.open[depth])
    open_answers = patterns.astype(np.int64) @ is_open > 0
    n_open = int(open_answers.sum(axis=1)[which].sum())
    if n_open > max(MOST_ROWS, possible):
        return TableRows("nonzero", answers.node, answers.cell, answers.count)
    node, answer = np.nonzero(open_answers[which])
    if not query.factors:  # every area has a total
        node, answer = np.arange(len(which)), np.zeros(len(which), dtype=np.int64)
    count = np.zeros(len(node), dtype=np.int64)
    count[np.searchsorted(node * n + answer, answers.node * n + answers.cell)] = answers.count
    listed: Literal["all", "possible"] = "all" if n_open <= MOST_ROWS else "possible"
    return TableRows(listed, node.astype(np.int64), answer.astype(np.int64), count)


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
        above = []
        if depth == len(plan.levels) - 1 and plan.query(name).n_answers >= LEAST_ANSWERS:
            above = _ancestor_estimates(context, tables, found, name)
        made = _around_counts(at.count, told.get((name, depth), (zero, zero)), sure, 1 - chance, above)
        if at.listed == "nonzero":
            ends = listed_ends(made.estimate, made.stddev, at.count, 1 - chance)
            listed = np.where(sure, at.count, ends[0]), np.where(sure, at.count, ends[1])
            made = replace(made, listed=listed)
        found[name, depth] = made
    return found


def _around_counts(
    count: Ints,
    told: tuple[Ints, Ints],
    sure: NDArray[np.bool_],
    tails: Fraction,
    above: list[tuple[Ints, Ints]],
) -> Intervals:
    """Return intervals of estimates and deviations, widened to hold the counts; exact where a count is sure."""
    low, high = interval_ends(*told, tails, above)
    low, high = np.minimum(low, count), np.maximum(high, count)
    estimate, stddev = np.where(sure, 1000 * count, told[0]), np.where(sure, 0, told[1])
    return Intervals(estimate, stddev, np.where(sure, count, low), np.where(sure, count, high), sure)


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


def possible_rows(rows: TableRows, intervals: Intervals) -> tuple[TableRows, Intervals]:
    """Return the rows, and their intervals, whose interval does not reach from 0 to 0.

    Args:
        rows: every answer that public facts leave open. intervals: of them.
    """
    kept = intervals.high > 0
    estimate, stddev, low, high = (
        column[kept] for column in (intervals.estimate, intervals.stddev, intervals.low, intervals.high)
    )
    return (
        TableRows("possible", rows.node[kept], rows.answer[kept], rows.count[kept]),
        Intervals(estimate, stddev, low, high, intervals.exact[kept]),
    )


BELOW_COUNT = 850  # thousandths


def listed_ends(estimate: Ints, stddev: Ints, count: Ints, tails: Fraction) -> tuple[Ints, Ints]:
    """Return the ends of intervals of rows that are listed because their count is above 0.

    A row is taken to be listed where its estimate is above a border, count - 0.85 below the estimate: released counts
    are estimates moved by an amount that the areas around decide, and rounded. Given that, the estimate of a true count
    x exceeds what was found with chance R(x) = Q(a) / Q(a - d), a = (estimate - x) / stddev, d = (count - 0.85) /
    stddev, Q the normal upper tail. The interval has the x with tails / 2 <= R(x) <= 1 - tails / 2, and 0 and 1, which
    never lie above it, down to R(x) = tails. It holds as often as that model is right, which was measured
    (docs/explanation/intervals.md).

    Args:
        estimate, stddev: thousandths; a deviation below 1 is taken as 1.
        count: above 0. tails: chance of both tails together.

    Returns:
        low, at most the count, and high, at least the count.
    """
    half = float(tails / 2)
    least, high = np.zeros_like(count), count.copy()
    while len(at := np.flatnonzero(least < high)):  # the least x with R(x) above its bound; R increases
        middle = (least[at] + high[at]) // 2
        above = _chance_above(estimate[at], stddev[at], count[at], middle) > np.where(
            middle <= 1, 2 * half, half
        )
        least[at], high[at] = np.where(above, least[at], middle + 1), np.where(above, middle, high[at])
    most = count.copy()
    high = np.maximum(count, (1_000_000 * estimate + normal_quantile(tails / 2) * stddev) // 10**9)
    while len(at := np.flatnonzero(most < high)):  # the greatest x with R(x) at most 1 - half
        middle = (most[at] + high[at] + 1) // 2
        below = _chance_above(estimate[at], stddev[at], count[at], middle) <= 1 - half
        most[at], high[at] = np.where(below, middle, most[at]), np.where(below, high[at], middle - 1)
    return least, most


def _chance_above(estimate: Ints, stddev: Ints, count: Ints, x: Ints) -> Floats:
    """Return R(x) of `listed_ends`."""
    unit = np.maximum(stddev, 1).astype(np.float64) * 2**0.5
    a = (estimate - 1000 * x) / unit
    d = (1000 * count - BELOW_COUNT) / unit
    b = a - d
    found, far = np.empty(len(a)), b > 0  # where both tails may be too small for a float
    erfc, scaled = scipy.special.erfc, scipy.special.erfcx
    found[far] = scaled(a[far]) / scaled(b[far]) * np.exp(-(d * (a + b))[far])
    found[~far] = erfc(a[~far]) / erfc(b[~far])
    return found


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
    return _around_counts(rows.count, (estimate, stddev), sure, 1 - coverage, [])


def _open_classes(context: PublicContext, union: AreaUnion) -> np.ndarray:
    is_open = np.zeros(context.rules.open[0].shape[1], dtype=bool)
    for at, members in zip(context.rules.open, union.members, strict=True):
        is_open |= at[members].any(axis=0)
    return is_open


def _is_sure(context: PublicContext, query: Query, union: AreaUnion) -> bool:
    """Tell whether a query has no noise over a union: nobody can be there, or it is exact at all of its areas."""
    return not _open_classes(context, union).any() or all(
        is_exact(context.plan, query, depth) for depth, members in enumerate(union.members) if len(members)
    )
