"""One part as the bytes of a Parquet file: one row a node and query, as docs/format.md says."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import InternalError
from topdown.measure.draw import DrawnAnswers, PartPlan
from topdown.plan.plan import Plan
from topdown.plan.prepare import Context


def _metadata(plan: Plan, part: PartPlan) -> dict[str, str]:
    level = plan.levels[part.depth]
    return {
        "type": "topdown.measurements",
        "version": "1",
        "plan_hash": plan.plan_hash,
        "level": level.name,
        "queries": json.dumps([m.query for m in level.measurements], ensure_ascii=False),
    }


def encode(context: Context, part: PartPlan, drawn: DrawnAnswers) -> bytes:
    """Return the Parquet file of a part.

    Measured on Rhode Island's numbers: delta packing with zstd 1 takes 0.76 bytes a number, a third less time
    than plain, dictionary or split bytes, and reads as fast.

    Args:
        context: plan and public facts.
        part: the part.
        drawn: noisy answers of the part's nodes.

    Raises:
        InternalError: X045 a seed decided the noise; no measurement file holds such numbers.

    """
    if not drawn.is_release:
        raise InternalError(
            "noise of a simulation cannot become a measurement",
            code="X045",
            fix="nothing was written; to simulate, use topdown simulate",
        )
    level = context.plan.levels[part.depth]
    codes = context.geography.levels[part.depth].codes
    n_nodes, n_queries = len(part.nodes), len(level.measurements)
    offsets = np.concatenate(([0], np.cumsum(drawn.sizes))).astype(np.int32)
    table = pa.table(
        {
            "level": _labels(np.zeros(n_nodes * n_queries), [level.name]),
            "node": _labels(np.repeat(np.arange(n_nodes), n_queries), [codes[i] for i in part.nodes]),
            "query": _labels(np.tile(np.arange(n_queries), n_nodes), [m.query for m in level.measurements]),
            "answers": pa.ListArray.from_arrays(pa.array(offsets), pa.array(drawn.answers)),
            "variance_numerator": _repeat([m.variance.numerator for m in level.measurements], n_nodes),
            "variance_denominator": _repeat([m.variance.denominator for m in level.measurements], n_nodes),
        }
    )
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=["level", "node", "query", "variance_numerator", "variance_denominator"],
        column_encoding={"answers.list.element": "DELTA_BINARY_PACKED"},
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.write_table(table, row_group_size=part.n_group * n_queries)
        # store_schema=False keeps Arrow's own types out of the file, and with them the table's metadata.
        writer.add_key_value_metadata(_metadata(context.plan, part))
    return buffer.getvalue()


def _labels(index: NDArray[np.generic], labels: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), pa.array(labels, pa.string()))


def _repeat(values: list[int], n_nodes: int) -> pa.Array:
    return pa.array(np.tile(np.array(values, dtype=np.int64), n_nodes))
