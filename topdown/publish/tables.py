"""Write the tables: the whole workload at every level, without zeros unless intervals ask for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from topdown.errors import InternalError
from topdown.model.histogram import Histogram
from topdown.model.query import Query
from topdown.names import joined
from topdown.plan.plan import Plan
from topdown.plan.prepare import Context
from topdown.publish.atomic import write_parquet
from topdown.publish.intervals import Intervals, Numbers, Place, TableRows, intervals_of, rows_of
from topdown.publish.microdata import labelled


def workload(plan: Plan) -> tuple[Query, ...]:
    """Return `total` and every query measured at some level, each once."""
    names = ["total"] + [m.query for level in plan.levels for m in level.measurements]
    return tuple(plan.query(name) for name in dict.fromkeys(names))


def table_path(query: Query, level: str) -> str:
    """Return where the table of a query at a level lies inside the release."""
    return f"tables/{joined(query.name.split(' * '))}/{level}.parquet"


def write_tables(
    release: Path, context: Context, leaves: Histogram, numbers: Numbers | None = None
) -> list[str]:
    """Write every table of the workload at every level; return their paths.

    Args:
        release: folder of the release.
        context: plan and public facts.
        leaves: records of every leaf and cell.
        numbers: whence estimates come, for a plan that asks for intervals; None for any other.

    Cost: one sort of the nonzero leaf cells a query, and less for each level above.
    """
    levels = context.geography.levels
    if (numbers is None) != (context.plan.coverage is None):
        raise InternalError(
            "intervals are asked for and there are no estimates, or the other way round",
            code="X031",
            fix="this is a fault of the engine; the measurements are kept",
        )
    paths: list[str] = []
    tables: dict[Place, TableRows] = {}
    for query in workload(context.plan):
        answers = leaves.sparse_answers(query)
        for depth in reversed(range(len(levels))):
            paths.append(table_path(query, levels[depth].name))
            if numbers is None:
                _write(release / paths[-1], context, (query, depth), _counted(query, answers))
            else:
                tables[query.name, depth] = rows_of(context, query, depth, answers)
            if depth:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))
    found = {} if numbers is None else intervals_of(context, tables, numbers)
    for (name, depth), intervals in found.items():
        query = context.plan.query(name)
        path = release / table_path(query, levels[depth].name)
        _write(path, context, (query, depth), tables[name, depth], intervals)
    if len(set(paths)) != len(paths):
        raise InternalError(
            "two queries share one table folder", code="X031", fix="rename a recode of the schema"
        )
    return paths


def _counted(query: Query, answers: Histogram) -> TableRows:
    """Return the rows of a table without intervals: zeros in `total` only."""
    if query.factors:
        return TableRows("nonzero", answers.node, answers.cell, answers.count)
    node = np.arange(answers.n_nodes, dtype=np.int64)
    return TableRows("nonzero", node, np.zeros_like(node), answers.totals())


def _write(
    path: Path, context: Context, of: tuple[Query, int], rows: TableRows, intervals: Intervals | None = None
) -> None:
    query, depth = of
    level = context.geography.levels[depth]
    node, answer = rows.node, rows.answer
    columns = {"level": labelled(np.zeros_like(node), (level.name,)), "geocode": labelled(node, level.codes)}
    shape = tuple(len(f.group_labels) for f in query.factors)
    index = np.unravel_index(answer, shape) if shape else ()
    for factor, group in zip(query.factors, index, strict=True):
        columns[factor.name] = labelled(group.astype(np.int64), factor.group_labels)
    columns["count"] = pa.array(rows.count)
    more = {}
    if intervals is not None:
        more = {"rows": rows.listed}
        columns["estimate"] = pa.array(intervals.estimate / 1000)
        columns["stddev"] = pa.array(intervals.stddev / 1000)
        columns["low"], columns["high"] = pa.array(intervals.low), pa.array(intervals.high)
        columns["basis"] = labelled(intervals.exact.astype(np.int64), ("tree", "exact"))
    write_parquet(path, pa.table(columns), "topdown.table", context.plan, more)
