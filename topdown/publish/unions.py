"""Counts and intervals of unions of areas, in the form of a table's rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from topdown.model.histogram import Histogram
from topdown.model.query import Query
from topdown.plan.prepare import Context
from topdown.plan.unions import Union
from topdown.publish.intervals import Intervals, Ints, TableRows, bounds, cells_of_answers, is_exact


def rows_of_unions(context: Context, query: Query, unions: Sequence[Union], leaves: Histogram) -> TableRows:
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
    context: Context,
    query: Query,
    unions: Sequence[Union],
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
    low, high = bounds(estimate, stddev, 1 - coverage, [])
    low, high = np.minimum(low, rows.count), np.maximum(high, rows.count)
    return Intervals(
        np.where(sure, 1000 * rows.count, estimate),
        np.where(sure, 0, stddev),
        np.where(sure, rows.count, low),
        np.where(sure, rows.count, high),
        sure,
    )


def _open_classes(context: Context, union: Union) -> np.ndarray:
    is_open = np.zeros(context.rules.open[0].shape[1], dtype=bool)
    for at, members in zip(context.rules.open, union.members, strict=True):
        is_open |= at[members].any(axis=0)
    return is_open


def _is_sure(context: Context, query: Query, union: Union) -> bool:
    return not _open_classes(context, union).any() or all(
        is_exact(context.plan, query, depth) for depth, members in enumerate(union.members) if len(members)
    )
