"""Tables of files and of memory, a batch at a time: CSV, Parquet, Arrow's own files, and Arrow streams.

Each kind has two functions: one returns the names of its columns, one yields some columns in batches, of which the
first has no rows. A library's own exceptions are passed on; the reader that calls makes `TableProblem`s of them.

A CSV reader that takes a quoted line break for the end of a row turns text of a column nobody reads into rows. So every
CSV is read with quoted line breaks, and its rows are counted again from the bytes alone.

Also here: columns of geocodes and labels between Arrow and arrays, and Parquet files in the one form of their kind.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.formats.caps import table_bytes
from topdown.formats.release_documents import ROWS_PER_GROUP, TABLE_OPTIONS, TABLE_VERSIONS
from topdown.inputs.sources import MemoryTable, TableProblem
from topdown.model import Codes, codes_of
from topdown.model.geography import MOST_PADDING

BATCH_ROWS = 2**17  # of a table that are read at once
MOST_BATCH_BYTES = 2**28  # of one column: two thousand a text
BUFFER_BYTES = 2**20  # of each column of a Parquet table
SEPARATORS = ",;\t"
ARROW_ENDINGS = (".arrow", ".feather", ".arrows")
PACKED = {".gz", ".bz2", ".zst", ".lz4", ".br", ".snappy"}
_HEADER_BYTES = 2**16
_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")  # rows of a pandas frame that were chosen or sorted
Columns = Mapping[str, pa.DataType]
T = TypeVar("T")


def csv_names(path: Path) -> list[str]:
    """Return the columns of a CSV, packed or not; none if it is empty.

    Cost: a packed one is unpacked once to see how large it is, a piece at a time.
    """
    if path.suffix in PACKED:
        _check_unpacked_bytes(path)
    if path.stat().st_size == 0:
        return []
    with pa_csv.open_csv(path, parse_options=_csv_options(path)) as reader:
        return list(reader.schema.names)


def csv_batches(path: Path, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read columns of a CSV as the given types; TableProblem if the rows are not the lines counted.

    Cost: 10 ns a byte for counting.
    """
    options = pa_csv.ConvertOptions(
        column_types=dict(columns), include_columns=list(columns), strings_can_be_null=False
    )
    n_rows = 0
    with pa.input_stream(str(path), compression="detect") as stream:
        counted = LineCounter(stream)
        with pa_csv.open_csv(counted, parse_options=_csv_options(path), convert_options=options) as reader:
            yield no_rows(list(columns), list(columns.values()))
            for batch in reader:
                n_rows += batch.num_rows
                yield batch
    if counted.n_lines() != n_rows + 1:
        raise TableProblem("miscounted")


def separator_of(path: Path) -> str:
    """Return what separates the fields of a CSV: the first of comma, semicolon and tab that its header has.

    One of these inside the quotation marks of a name does not count.

    Raises: OSError, pa.ArrowException: it cannot be read.
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(_HEADER_BYTES)
    bare = re.sub(rb'"[^"]*"', b"", header)
    first = re.split(rb"[\r\n]", bare.lstrip(b"\xef\xbb\xbf\r\n"), maxsplit=1)[0].decode("utf-8", "replace")
    return next((mark for mark in SEPARATORS if mark in first), SEPARATORS[0])


def _csv_options(path: Path) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(newlines_in_values=True, delimiter=separator_of(path))


def _check_unpacked_bytes(path: Path) -> None:
    """Refuse a packed file that has more bytes than `caps.table_bytes` when it is unpacked, without keeping any."""
    n_bytes, most = 0, table_bytes()
    with pa.input_stream(str(path), compression="detect") as stream:
        while piece := stream.read(2**20):
            n_bytes += len(piece)
            if n_bytes > most:
                raise TableProblem("too large")


class LineCounter(io.RawIOBase):
    """A stream of CSV that counts its rows as they pass: lines that are not blank, outside quotation marks."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._n, self._open, self._ended = 0, False, True

    def readable(self) -> bool:
        """Say so to the reader."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Pass on what is read, and count."""
        data: bytes = self._stream.read() if size is None or size < 0 else self._stream.read(size)
        if data:
            self._count(np.frombuffer(data, dtype=np.uint8), b'"' in data)
        return data

    def _count(self, data: NDArray[np.uint8], quoted: bool) -> None:
        ends = (data == ord("\n")) | (data == ord("\r"))
        if quoted:
            inside = (np.cumsum(data == ord('"')) + self._open) % 2 == 1
            self._open = bool(inside[-1])
            ends &= ~inside
        elif self._open:
            ends[:] = False
        self._n += int((ends[1:] & ~ends[:-1]).sum()) + int(ends[0] and not self._ended)
        self._ended = bool(ends[-1])

    def n_lines(self) -> int:
        """Return the number of rows, the header's with them; -1 if a quotation mark was never closed."""
        return -1 if self._open else self._n + (not self._ended)


def parquet_names(path: Path) -> list[str]:
    """Return the columns of a Parquet file; TableProblem if its values would take more than `caps.table_bytes`."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        if file.metadata.num_rows * file.metadata.num_columns * 8 > table_bytes():
            raise TableProblem("too large")
        return list(file.schema_arrow.names)


def parquet_batches(path: Path, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read columns of a Parquet file as it holds them; OSError for a page that is not what its checksum says.

    A text stands in a dictionary until it is known how many bytes a batch would have without: a file of a few kilobytes
    can hold one long text a hundred thousand times (TableProblem).
    """
    with pq.ParquetFile(path, pre_buffer=False) as file:
        kinds = {name: file.schema_arrow.field(name).type for name in columns}
    texts = [
        name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ]
    with pq.ParquetFile(
        path,
        buffer_size=BUFFER_BYTES,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=texts,
    ) as file:
        yield no_rows(list(columns), list(kinds.values()))
        # Threads are no faster, and each keeps memory; read ahead, all row groups would be held together.
        for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
            yield _with_plain_texts(batch.select(list(columns)), kinds)


def _with_plain_texts(batch: pa.RecordBatch, kinds: Columns) -> pa.RecordBatch:
    arrays = []
    for array, kind in zip(batch.columns, kinds.values(), strict=True):
        if array.type != kind:
            array.dictionary.validate(full=True)  # a text that is no UTF-8
            lengths = pc.binary_length(array.dictionary).cast(pa.int64())
            if (pc.sum(lengths.take(array.indices)).as_py() or 0) > MOST_BATCH_BYTES:
                raise TableProblem("too large")
            array = array.cast(kind)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def arrow_names(path: Path) -> list[str]:
    """Return the columns of a file (.arrow, .feather) or stream (.arrows); ArrowInvalid if it is none."""
    with pa.OSFile(str(path)) as file, _open_arrow(path, file) as reader:
        return list(reader.schema.names)


def arrow_batches(path: Path, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read columns of all batches up to the end mark.

    Raises:
        TableProblem: more bytes were unpacked than may be.
        pa.ArrowException: an array is damaged; a stream has no end mark, or goes on after it.

    """
    n_bytes, most = 0, table_bytes()
    with pa.OSFile(str(path)) as file, _open_arrow(path, file) as reader:
        yield no_rows(list(columns), [reader.schema.field(name).type for name in columns])
        for batch in _stored_batches(reader, file):
            n_bytes += max(
                batch.nbytes, 8 * batch.num_rows * batch.num_columns
            )  # a null has no bytes of its own
            if n_bytes > most:
                raise TableProblem("too large")
            wanted = batch.select(list(columns))
            wanted.validate(full=True)
            yield wanted


def _open_arrow(path: Path, file: pa.NativeFile) -> Any:
    return pa.ipc.open_stream(file) if path.suffix == ".arrows" else pa.ipc.open_file(file)


def _stored_batches(reader: Any, file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file, or of a stream up to its end mark.

    The library takes the end of a file for that of the stream: one that was cut between two batches would lose rows
    unseen, and so would one with another stream behind it.
    """
    if isinstance(reader, pa.RecordBatchFileReader):
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
        return
    read_to = file.tell()
    for batch in reader:
        yield batch
        read_to = file.tell()
    if file.tell() == read_to:
        raise pa.ArrowInvalid("the stream has no end mark: it was cut, or is still being written")
    if file.tell() < file.size():
        raise pa.ArrowInvalid("the file goes on after the end of the stream")


def memory_names(table: MemoryTable) -> list[str]:
    """Return the columns of a table in memory, without a frame's nameless index."""
    names = _call_library(lambda: table.open_stream().schema.names)
    return [name for name in names if not _NAMELESS_INDEX.fullmatch(name)]


def memory_batches(table: MemoryTable, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read columns of a table in memory, which has types of its own; text is decoded from views."""
    batches = _library_batches(table, list(columns))
    while (batch := _call_library(lambda: next(batches, None))) is not None:
        yield batch


def _library_batches(table: MemoryTable, names: list[str]) -> Iterator[pa.RecordBatch]:
    with table.open_stream(last=True) as reader:
        yield _decode_batch(no_rows(names, [reader.schema.field(name).type for name in names]), names)
        for batch in reader:
            for first in range(0, batch.num_rows, BATCH_ROWS):
                yield _decode_batch(batch.slice(first, BATCH_ROWS), names)


def _call_library(take: Callable[[], T]) -> T:
    """Take something of a table, of whatever library; the error carries no context and no value."""
    kind = ""
    try:
        return take()
    except Exception as error:
        kind = type(error).__name__
    raise TableProblem("unreadable", f"its library raises {kind}")


def _decode_batch(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_decode_text_views(batch.column(name)) for name in names], names=names)


def _decode_text_views(column: pa.Array) -> pa.Array:
    """Return a column with text as text: polars hands out views of text, which few functions take."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))
    return column


def no_rows(names: list[str], kinds: list[pa.DataType]) -> pa.RecordBatch:
    """Return the first batch of a table, so that there is always one to know the columns from."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in kinds], names=names)


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


def has_stamps(kind: str, data: bytes, stamps: Mapping[str, str]) -> bool:
    """Tell whether a Parquet file in memory says that it is a table of a kind, of this version, with these stamps."""
    try:
        stated = pq.read_metadata(pa.BufferReader(data)).metadata or {}
    except pa.ArrowException:
        return False
    due = {"type": kind, "version": TABLE_VERSIONS[kind], **stamps}
    return all(stated.get(key.encode()) == value.encode() for key, value in due.items())


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
                of.with_type(of.type.value_type) if pa.types.is_dictionary(of.type) else of
                for of in table.schema
            ]
        )
        writer = writer or pq.ParquetWriter(file, schema, **TABLE_OPTIONS[kind])
        for first in range(0, table.num_rows, rows):
            # as texts: the first pages of a dictionary that Arrow is given are as wide as its last
            writer.write_table(table.slice(first, rows).cast(schema), row_group_size=rows)
    writer.add_key_value_metadata(
        dict(sorted({"type": kind, "version": TABLE_VERSIONS[kind], **stamps}.items()))
    )
    writer.close()
