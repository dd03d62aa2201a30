"""Write the tables: the whole workload at every level, without zeros unless intervals ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from topdown.errors import InternalError
from topdown.model.histogram import Histogram
from topdown.model.query import Query
from topdown.model.sections import Sections
from topdown.names import joined
from topdown.plan.plan import Plan
from topdown.plan.prepare import Context
from topdown.publish.atomic import parquet_bytes
from topdown.publish.intervals import Intervals, Numbers, Place, TableRows, intervals_of, rows_of
from topdown.publish.microdata import labelled


def workload(plan: Plan) -> tuple[Query, ...]:
    """Return `total` and every query measured at some level, each once."""
    names = ["total"] + [m.query for level in plan.levels for m in level.measurements]
    return tuple(plan.query(name) for name in dict.fromkeys(names))


def table_path(query: Query, level: str) -> str:
    """Return where the table of a query at a level lies inside the release."""
    return f"tables/{joined(query.name.split(' * '))}/{level}.parquet"


def all_paths(context: Context, sections: Sections) -> list[str]:
    """Return the path of every table file of a release (InternalError X031 if two are one)."""
    paths = [
        path
        for query in workload(context.plan)
        for depth, level in enumerate(context.geography.levels)
        for path in sections.paths(table_path(query, level.name), depth)
    ]
    if len(set(paths)) != len(paths):
        raise InternalError(
            "two queries share one table folder", code="X031", fix="rename a recode of the schema"
        )
    return paths


def tables_up(
    context: Context, leaves: Histogram, nodes: Sequence[slice], bottom: int
) -> Iterator[tuple[str, bytes]]:
    """Yield path, as of one section, and bytes of every table without intervals of some nodes and those above them.

    Args:
        context: plan and public facts.
        leaves: records of nodes of level `bottom`, by the whole tree's numbers.
        nodes: those of each level from the highest one that is made down to `bottom`.
        bottom: index of the lowest level.

    Cost: one sort of the nonzero cells a query, and less for each level above.
    """
    top = bottom + 1 - len(nodes)
    levels = context.geography.levels
    for query in workload(context.plan):
        answers = leaves.sparse_answers(query)
        for depth in range(bottom, top - 1, -1):
            rows = _counted(query, answers, nodes[depth - top])
            yield (
                table_path(query, levels[depth].name),
                table_bytes(context, (query, depth), rows, nodes[depth - top]),
            )
            if depth > top:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))


def tables_with_intervals(
    context: Context, leaves: Histogram, numbers: Numbers, sections: Sections
) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of every table of a plan that asks for intervals; all of them are held at once."""
    levels = context.geography.levels
    tables: dict[Place, TableRows] = {}
    for query in workload(context.plan):
        answers = leaves.sparse_answers(query)
        for depth in reversed(range(len(levels))):
            tables[query.name, depth] = rows_of(context, query, depth, answers)
            if depth:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))
    for (name, depth), intervals in intervals_of(context, tables, numbers).items():
        query = context.plan.query(name)
        paths = sections.paths(table_path(query, levels[depth].name), depth)
        for number, path in enumerate(paths):
            here = slice(0, len(levels[depth])) if len(paths) == 1 else sections.nodes(number, depth)
            yield path, table_bytes(context, (query, depth), tables[name, depth], here, intervals)


def _counted(query: Query, answers: Histogram, nodes: slice) -> TableRows:
    """Return the rows of a table without intervals: zeros in `total` only."""
    if query.factors:
        return TableRows("nonzero", answers.node, answers.cell, answers.count)
    node = np.arange(nodes.start, nodes.stop, dtype=np.int64)
    count = np.zeros_like(node)
    count[answers.node - nodes.start] = answers.count
    return TableRows("nonzero", node, np.zeros_like(node), count)


def table_bytes(
    context: Context,
    of: tuple[Query, int],
    rows: TableRows,
    nodes: slice,
    intervals: Intervals | None = None,
) -> bytes:
    """Return the rows of some nodes as a file.

    Args:
        context: plan and public facts. of: query and index of the level. rows: of the table, by node; `intervals` of
            them. nodes: to write.
    """
    query, depth = of
    level = context.geography.levels[depth]
    here = slice(*np.searchsorted(rows.node, (nodes.start, nodes.stop)).tolist())
    node, answer = rows.node[here] - nodes.start, rows.answer[here]
    columns = {
        "level": labelled(np.zeros_like(node), (level.name,)),
        "geocode": labelled(node, level.codes[nodes]),
    }
    shape = tuple(len(f.group_labels) for f in query.factors)
    index = np.unravel_index(answer, shape) if shape else ()
    for factor, group in zip(query.factors, index, strict=True):
        columns[factor.name] = labelled(group.astype(np.int64), factor.group_labels)
    columns["count"] = pa.array(rows.count[here])
    more = {}
    if intervals is not None:
        more = {"rows": rows.listed}
        columns["estimate"] = pa.array(intervals.estimate[here] / 1000)
        columns["stddev"] = pa.array(intervals.stddev[here] / 1000)
        columns["low"], columns["high"] = pa.array(intervals.low[here]), pa.array(intervals.high[here])
        columns["basis"] = labelled(intervals.exact[here].astype(np.int64), ("tree", "exact"))
    return parquet_bytes(pa.table(columns), "topdown.table", context.plan, more)
