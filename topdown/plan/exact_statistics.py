"""Exact statistics as a release holds them: exact.json, and beside it a table of each that is of many areas."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topdown.arrays import Ints
from topdown.formats import json_bytes
from topdown.inputs import codes_from_arrow, codes_to_arrow, write_parquet
from topdown.model import Exact
from topdown.plan.plan_values import Plan
from topdown.plan.preparation import PublicContext

MOST_LISTED = 100_000  # areas of a statistic that exact.json lists itself (docs/format.md)
MEASUREMENTS_FOLDER, EXACT_FILE = "measurements", "exact.json"
_ANSWERS_PER_GROUP = 1 << 20  # answers of a row group
_EXACT_COLUMNS = {"geocode": pa.string(), "answers": pa.list_(pa.int64())}


def exact_table_names(plan: Plan) -> dict[str, str]:
    """Return the table beside exact.json of each statistic that has one, by the name of the statistic."""
    return {
        exact.name: f"exact-{number:03d}.parquet"
        for number, exact in enumerate(plan.invariants.exact)
        if plan.level(exact.level).n_nodes > MOST_LISTED
    }


def exact_paths(plan: Plan) -> list[str]:
    """Return the paths of exact.json and its tables inside a release."""
    return [f"{MEASUREMENTS_FOLDER}/{name}" for name in (EXACT_FILE, *exact_table_names(plan).values())]


def exact_document(context: PublicContext, values: Mapping[str, Ints], sha256: Mapping[str, str]) -> bytes:
    """Return `exact.json`, from answers (n_nodes, n_answers) and SHA-256 of tables by the name of their statistic."""
    plan, tables = context.plan, exact_table_names(context.plan)
    rows: list[dict[str, object]] = []
    for exact in plan.invariants.exact:
        row: dict[str, object] = {"name": exact.name, "level": exact.level, "query": exact.query}
        if exact.name in tables:
            row |= {"file": tables[exact.name], "sha256": sha256[exact.name]}
        else:
            nodes = context.geography.levels[context.geography.index(exact.level)].codes
            row |= {"nodes": list(nodes), "answers": values[exact.name].tolist()}
        rows.append(row)
    document: dict[str, object] = {"type": "topdown.exact", "version": 1, "plan_hash": plan.plan_hash}
    return json_bytes(document | {"values": rows})


def exact_table(context: PublicContext, exact: Exact, answers: Ints) -> bytes:
    """Return the table of one statistic as a Parquet file: a row an area of its level, in order.

    Args:
        exact: the statistic.
        answers: (n_nodes, n_answers).
    """
    codes = context.geography.levels[context.geography.index(exact.level)].codes
    width = answers.shape[1]
    made, rows = io.BytesIO(), _rows_at_once(width)

    def tables() -> Iterator[pa.Table]:
        for first in range(0, len(codes), rows):
            here = np.ascontiguousarray(answers[first : first + rows])
            starts = pa.array(np.arange(0, here.size + 1, width, dtype=np.int32))
            lists = pa.ListArray.from_arrays(starts, pa.array(here.reshape(-1)))
            names = codes_to_arrow(codes[first : first + rows])
            yield pa.table([names, lists], schema=pa.schema(_EXACT_COLUMNS))

    write_parquet(made, "topdown.exact_answers", tables(), _exact_stamps(context.plan, exact), rows)
    return made.getvalue()


def most_exact_bytes(context: PublicContext, exact: Exact) -> int:
    """Return more bytes than the table of one statistic can have."""
    codes = context.geography.levels[context.geography.index(exact.level)].codes
    width = context.plan.query(exact.query).n_answers
    return (1 << 20) + int(codes_to_arrow(codes).nbytes) + len(codes) * (64 + 16 * width)


def read_exact_table(data: bytes, context: PublicContext, exact: Exact) -> Ints:
    """Return the answers of one statistic, (n_nodes, n_answers), from the bytes of its table.

    Raises:
        ValueError: it is no table of this statistic with every area of the level, in order, and whole numbers from 0.
    """
    codes = context.geography.levels[context.geography.index(exact.level)].codes
    width = context.plan.query(exact.query).n_answers
    out, first = np.empty((len(codes), width), dtype=np.int64), 0
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False) as file:
            _check_footer(file, _exact_stamps(context.plan, exact), out.shape)
            for batch in file.iter_batches(batch_size=_rows_at_once(width), use_threads=False):
                here = slice(first, first + batch.num_rows)
                out[here] = _answers_of_batch(batch, codes[here], width)
                first = here.stop
    except (pa.ArrowException, OSError, LookupError) as error:
        raise ValueError(f"it is no whole table ({type(error).__name__})") from None
    if first != len(codes) or (out < 0).any():
        raise ValueError("it lacks areas, or has a number below 0")
    return out


def _check_footer(file: pq.ParquetFile, stamps: dict[str, str], shape: tuple[int, ...]) -> None:
    """Refuse a table of something else, or one that claims other sizes, before a value is read (ValueError)."""
    footer = file.metadata
    stated = {key.decode(): value.decode() for key, value in (footer.metadata or {}).items()}
    columns = {field.name: field.type for field in file.schema_arrow}
    n_values = [
        sum(footer.row_group(g).column(i).num_values for g in range(footer.num_row_groups)) for i in (0, 1)
    ]
    if stated != stamps or columns != _EXACT_COLUMNS or n_values != [shape[0], shape[0] * shape[1]]:
        raise ValueError("it is another table")


def _answers_of_batch(batch: pa.RecordBatch, codes: object, width: int) -> Ints:
    lists, names = batch.column("answers"), batch.column("geocode")
    if names.null_count or lists.null_count or lists.flatten().null_count:
        raise ValueError("it has an empty value")
    if (
        codes_from_arrow(pa.chunked_array([names])) != codes
        or not pc.all(pc.equal(pc.list_value_length(lists), width)).as_py()
    ):
        raise ValueError("it has another area, or another number of answers")
    return np.asarray(lists.flatten().to_numpy().reshape(-1, width), dtype=np.int64)


def _rows_at_once(width: int) -> int:
    return max(_ANSWERS_PER_GROUP // max(width, 8), 1)


def _exact_stamps(plan: Plan, exact: Exact) -> dict[str, str]:
    return {
        "type": "topdown.exact_answers",
        "version": "1",
        "plan_hash": plan.measured_hash,
        "name": exact.name,
        "level": exact.level,
        "query": exact.query,
    }
