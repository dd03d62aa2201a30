"""How many true counts the published intervals hold. The result is CONFIDENTIAL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topdown.measure.released import damaged, positions
from topdown.model.histogram import Histogram
from topdown.model.query import Query
from topdown.names import joined
from topdown.plan.prepare import Context


def intervals_held(
    release: Path, context: Context, query: Query, level: str, truth: list[Histogram]
) -> dict[str, int]:
    """Count the rows of a published table with an interval, and those whose interval holds the true count.

    Rows that are exact by policy or by public facts are left out.

    Args:
        release: folder of a release whose plan asks for intervals. context: its plan and public facts.
        query: of a published table. level: of the table.
        truth: the query's nonzero true answers at that level, a run of nodes each, in order.

    Raises:
        CertificateError: V090 the table is damaged.
    """
    path = release / "tables" / joined(query.name.split(" * ")) / f"{level}.parquet"
    codes = context.geography.levels[context.geography.level_names.index(level)].codes
    names = [factor.name for factor in query.factors]
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=["geocode", *names, "low", "high", "basis"])
        node = positions(table.column("geocode"), pa.array(codes, pa.string()))
        values = [positions(table.column(f.name), pa.array(f.group_labels, pa.string())) for f in query.factors]
        low, high = (table.column(name).cast(pa.int64()).to_numpy() for name in ("low", "high"))
        made = positions(table.column("basis"), pa.array(["exact", "tree"], pa.string())) == 1
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise damaged(path, type(error).__name__, "a table with intervals") from None
    if any((index < 0).any() for index in (node, *values)):
        raise damaged(path, "a geocode or label that the plan does not know", "a table with intervals")
    shape = tuple(len(f.group_labels) for f in query.factors)
    answer = np.ravel_multi_index(tuple(values), shape) if shape else np.zeros_like(node)
    key = node * query.n_answers + answer
    known = np.concatenate([run.node * query.n_answers + run.cell for run in truth])
    true = np.concatenate([run.count for run in truth])
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    counts = np.where(known[at] == key, true[at], 0) if len(known) else np.zeros_like(key)
    held = (low <= counts) & (counts <= high) & made
    return {"n_intervals": int(made.sum()), "n_held": int(held.sum())}
