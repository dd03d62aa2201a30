"""Columns of geocodes and labels, between Arrow and arrays; tables as Parquet files, in the one form of their kind."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topdown.arrays import Ints
from topdown.formats.release_documents import ROWS_PER_GROUP, TABLE_OPTIONS
from topdown.model import Codes, codes_of
from topdown.model.geography import MOST_PADDING


def codes_from_arrow(column: pa.ChunkedArray) -> Sequence[str]:
    """Return a text column without empty places as `codes_of` gives it."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    held = column.cast(pa.large_string()).combine_chunks()
    if isinstance(held, pa.ChunkedArray):
        held = pa.concat_arrays(held.chunks) if held.num_chunks else pa.array([], pa.large_string())
    sizes = pc.binary_length(held.cast(pa.large_binary())).to_numpy(zero_copy_only=False)
    most, total = int(sizes.max(initial=1)), int(sizes.sum())
    _, offsets, data = held.buffers()
    first = int(np.frombuffer(offsets, np.int64)[held.offset]) if len(held) else 0
    each = np.frombuffer(data, np.uint8)[first : first + total] if total else np.zeros(0, np.uint8)
    if not (sizes > 0).all() or not each.all() or most * len(sizes) > MOST_PADDING * total + 4_096:
        return codes_of(held.to_pylist())
    out = np.zeros((len(sizes), most), dtype=np.uint8)
    if (sizes == most).all():
        out[:] = each.reshape(-1, most)
    else:
        out[np.arange(most) < sizes[:, None]] = each
    return Codes(out.view(f"S{most}").reshape(-1))


def codes_to_arrow(codes: Sequence[str]) -> pa.Array:
    """Return geocodes as a text column."""
    if not isinstance(codes, Codes):
        return pa.array(codes, pa.string())
    width, n = codes.coded.dtype.itemsize, len(codes)
    each = np.ascontiguousarray(codes.coded).view(np.uint8).reshape(n, width)
    ends = np.zeros(n + 1, dtype=np.int64)  # Arrow's own conversion gives several pieces where there are many
    np.cumsum((each > 0).sum(axis=1), out=ends[1:])
    held = pa.py_buffer(ends), pa.py_buffer(each[each > 0])
    return pa.LargeStringArray.from_buffers(n, *held).cast(pa.string())


def label_positions(column: pa.Array | pa.ChunkedArray, labels: Sequence[str] | pa.Array) -> Ints:
    """Return the place of every text among the labels, -1 for one that is none of them."""
    known = labels if isinstance(labels, pa.Array) else codes_to_arrow(labels)
    found = pc.index_in(column.cast(pa.string()), value_set=known)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def parquet_bytes(kind: str, table: pa.Table, stamps: Mapping[str, str], rows: int = ROWS_PER_GROUP) -> bytes:
    """Return a table as a file; see `write_parquet`."""
    made = io.BytesIO()
    write_parquet(made, kind, [table], stamps, rows)
    return made.getvalue()


def write_parquet(
    file: IO[bytes],
    kind: str,
    tables: Iterable[pa.Table],
    stamps: Mapping[str, str],
    rows: int = ROWS_PER_GROUP,
) -> None:
    """Write tables of one schema, one after the other.

    Dictionaries of the file hold the texts of its rows alone, in the order of the rows, whatever those of the tables
    held; a table without rows has no pages.

    Args:
        file: open for writing.
        kind: `type` of the table, a key of `TABLE_OPTIONS`.
        tables: at least one.
        stamps: more text for the footer, beside type and version.
        rows: of a row group.
    """
    writer: Any = None
    for table in tables:
        schema = pa.schema(
            [
                pa.field(name, _without_dictionary(kind_))
                for name, kind_ in zip(table.column_names, table.schema.types, strict=True)
            ]
        )
        writer = writer or pq.ParquetWriter(file, schema, **TABLE_OPTIONS[kind])
        for first in range(0, table.num_rows, rows):
            writer.write_table(table.slice(first, rows).cast(schema), row_group_size=rows)
    writer.add_key_value_metadata(dict(sorted({"type": kind, "version": "1", **stamps}.items())))
    writer.close()


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
