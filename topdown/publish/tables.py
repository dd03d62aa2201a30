"""Write the tables: the whole workload at every level, without zeros."""

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
from topdown.publish.microdata import labelled


def workload(plan: Plan) -> tuple[Query, ...]:
    """Return `total` and every query measured at some level, each once."""
    names = ["total"] + [m.query for level in plan.levels for m in level.measurements]
    return tuple(plan.query(name) for name in dict.fromkeys(names))


def table_path(query: Query, level: str) -> str:
    """Return where the table of a query at a level lies inside the release."""
    return f"tables/{joined(query.name.split(' * '))}/{level}.parquet"


def write_tables(release: Path, context: Context, leaves: Histogram) -> list[str]:
    """Write every table of the workload at every level; return their paths.

    Args:
        release: folder of the release.
        context: plan and public facts.
        leaves: records of every leaf and cell.

    Cost: one sort of the nonzero leaf cells a query, and less for each level above.
    """
    levels = context.geography.levels
    paths: list[str] = []
    for query in workload(context.plan):
        answers = leaves.sparse_answers(query)
        for depth in reversed(range(len(levels))):
            paths.append(table_path(query, levels[depth].name))
            _write(release / paths[-1], context, query, depth, answers)
            if depth:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))
    if len(set(paths)) != len(paths):
        raise InternalError(
            "two queries share one table folder", code="X031", fix="rename a recode of the schema"
        )
    return paths


def _write(path: Path, context: Context, query: Query, depth: int, answers: Histogram) -> None:
    level = context.geography.levels[depth]
    if query.factors:
        node, answer, count = answers.node, answers.cell, answers.count
    else:
        node = np.arange(len(level), dtype=np.int64)
        answer, count = np.zeros(len(level), dtype=np.int64), answers.totals()
    columns = {"level": labelled(np.zeros_like(node), (level.name,)), "geocode": labelled(node, level.codes)}
    shape = tuple(len(f.group_labels) for f in query.factors)
    index = np.unravel_index(answer, shape) if shape else ()
    for factor, group in zip(query.factors, index, strict=True):
        columns[factor.name] = labelled(group.astype(np.int64), factor.group_labels)
    columns["count"] = pa.array(count)
    write_parquet(path, pa.table(columns), "topdown.table", context.plan)
