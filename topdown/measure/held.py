"""How many true counts the published intervals hold. The result is CONFIDENTIAL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from topdown.measure.released import damaged, positions, table_rows
from topdown.model.histogram import Histogram
from topdown.model.query import Query
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
    node, answer, table = table_rows(release, context, query, level, ("low", "high", "basis"))
    try:
        low, high = (table.column(name).cast(pa.int64()).to_numpy() for name in ("low", "high"))
        made = positions(table.column("basis"), ("exact", "tree")) == 1
    except pa.ArrowException as error:
        raise damaged(release / "tables", type(error).__name__, "a table with intervals") from None
    key = node * query.n_answers + answer
    known = np.concatenate([run.node * query.n_answers + run.cell for run in truth])
    true = np.concatenate([run.count for run in truth])
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    counts = np.where(known[at] == key, true[at], 0) if len(known) else np.zeros_like(key)
    held = (low <= counts) & (counts <= high) & made
    return {"n_intervals": int(made.sum()), "n_held": int(held.sum())}
