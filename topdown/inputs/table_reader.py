"""The one reader of tables: the columns a table has, those that were asked for, and its rows, a batch at a time.

A CSV reader that takes a quoted line break for the end of a row turns text of a column nobody reads into rows. So every
CSV is read with quoted line breaks, and its rows are counted again from the bytes alone. Arrow files (.arrow, .feather)
and streams (.arrows), Parquet and databases are read as they hold their columns. Nothing is written.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import DataError
from topdown.formats.caps import RAISE_TABLE, table_bytes
from topdown.inputs.sources import (
    DatabaseTable,
    MemoryTable,
    MiscountedError,
    StoreError,
    TableLocation,
    TableSource,
    TooLargeError,
    UnreadableError,
    source_exists,
)
from topdown.model import Codes, codes_of
from topdown.model.geography import MOST_PADDING

ARROW_ENDINGS = (".arrow", ".feather", ".arrows")


def is_arrow_file(path: Path) -> bool:
    """Tell a file of Arrow by its name."""
    return path.suffix in ARROW_ENDINGS


def arrow_names(path: Path) -> list[str]:
    """Return the columns; ArrowInvalid if it is no file of Arrow."""
    with pa.OSFile(str(path)) as file, _open_arrow(path, file) as reader:
        return list(reader.schema.names)


def arrow_batches(path: Path, columns: Sequence[str], most_bytes: int) -> Iterator[pa.RecordBatch | None]:
    """Read columns; the first batch is empty. None, and then nothing, once more bytes were unpacked than may be.

    Raises:
        ArrowException: it cannot be read to its end, or an array in it is damaged.
    """
    n_bytes = 0
    with pa.OSFile(str(path)) as file, _open_arrow(path, file) as reader:
        yield pa.RecordBatch.from_pylist([], pa.schema([reader.schema.field(name) for name in columns]))
        for batch in _stored_batches(reader):
            n_bytes += batch.nbytes
            if n_bytes > most_bytes:
                yield None
                return
            wanted = batch.select(list(columns))
            wanted.validate(full=True)
            yield wanted


def _open_arrow(path: Path, file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(file) if path.suffix == ".arrows" else pa.ipc.open_file(file)


def _stored_batches(
    reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader,
) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
    else:
        yield from reader


class CountedLines(io.RawIOBase):
    """Counts rows: lines that are not blank, outside quotation marks."""

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


MOST_SHOWN = 60
BATCH_ROWS = 2**17  # of a Parquet table that are read at once
BUFFER_BYTES = 2**20  # of each of its columns
PACKED = {".gz", ".bz2", ".zst", ".lz4", ".br", ".snappy"}
TOO_LARGE = "the table is packed, and unpacked it has more bytes than are read"
MISCOUNTED = "the rows do not agree with the lines of the file"
MISCOUNTED_FIX = (
    'put a text with quotation marks or line breaks in quotation marks, doubling those inside ("a ""b"" c")'
)
_UNREADABLE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, ValueError)
SEPARATORS = ",;\t"
_HEADER_BYTES = 2**16


@dataclass(frozen=True)
class HeaderProblem:
    """What is wrong with a header.

    Args:
        kind: missing (a column that is read), twice (two of one name) or unasked (nobody reads it).
        name: the column; one of the file only if every needed column is there, for else the first row may be data.
        near: a column of the file that was probably meant for a missing one, or one that is read for an unasked one.
        unasked: all columns of the file that nobody reads.
    """

    kind: str
    name: str
    near: str = ""
    unasked: tuple[str, ...] = ()


def find_header_problem(
    header: list[str], needed: tuple[str, ...], ignored: tuple[str, ...] = ()
) -> HeaderProblem | None:
    """Compare a header with the columns that are read; None if it has each once and no other but `ignored`."""
    twice = [name for name in needed if header.count(name) > 1]
    if twice:
        return HeaderProblem("twice", twice[0])
    missing = [name for name in needed if name not in header]
    unasked = tuple(dict.fromkeys(name for name in header if name not in needed and name not in ignored))
    if missing:
        meant = [name for name in header if _normalized(name) == missing[0]]
        if len(missing) > 1 or len(missing) == len(needed):
            return HeaderProblem("missing", missing[0], meant[0] if meant else "")
        close = meant or difflib.get_close_matches(missing[0], unasked, n=1) or list(unasked[:1])
        return HeaderProblem("missing", missing[0], close[0] if close else "", unasked)
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        return HeaderProblem("twice", twice[0])
    if unasked:
        near = {
            name: difflib.get_close_matches(_normalized(name), needed, n=1, cutoff=0.75) for name in unasked
        }
        first = next((name for name in unasked if near[name]), unasked[0])
        return HeaderProblem("unasked", first, near[first][0] if near[first] else "", unasked)
    return None


def names_in_file(header: list[str], names: tuple[str, ...], called: Mapping[str, str]) -> tuple[str, ...]:
    """Return what columns are called in a file: what `called` says if the file has that, else their own name."""
    return tuple(called[name] if called.get(name) in header else name for name in names)


def printable(name: str, most: int = MOST_SHOWN) -> str:
    """Return a name from a file as it may stand in a message: printable and short."""
    text = "".join(c if c.isprintable() else "?" for c in name)
    return text if len(text) <= most else text[:most] + "..."


def toml_name_list(names: tuple[str, ...]) -> str:
    """Return names as the list of a run file, the first twelve of them."""
    return (
        "[" + ", ".join(f'"{printable(name)}"' for name in names[:12]) + (", ..." if names[12:] else "") + "]"
    )


def read_header(path: TableLocation) -> list[str]:
    """Return the column names of a CSV, Parquet or Arrow file or of a database's table; none if it is empty.

    Raises:
        UnreadableError: it is not a table.
        StoreError: see `topdown.stores`.
        TooLargeError: it is packed, and too large to be unpacked.

    Cost: a packed CSV is unpacked once to see how large it is, a piece at a time.
    """
    try:
        if isinstance(path, DatabaseTable):
            return list[str](_database_reader(path).names(path))
        if is_arrow_file(path):
            return arrow_names(path)
        check_unpacked(path)
        if is_parquet(path):
            with pq.ParquetFile(path, pre_buffer=False) as file:
                return list(file.schema_arrow.names)
        if path.stat().st_size == 0:
            return []
        with pa_csv.open_csv(path, parse_options=_csv_options(path)) as reader:
            return list(reader.schema.names)
    except _UNREADABLE as error:
        raise UnreadableError(printable((str(error).splitlines() or [""])[0], 160)) from None


def read_rows(path: TableLocation, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read columns of a whole table at once; see `read_batches`."""
    batches = list(read_batches(path, columns))
    return pa.Table.from_batches(batches[1:] or batches)


def read_batches(path: TableLocation, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Read columns of a CSV (of the given types) or another table (as it holds them), every row once, in order.

    The first batch has no rows, so that there is always one to know the columns from.

    Args:
        path: file; compressed if its name says so.
        columns: name: type; each is in the header once.

    Raises:
        UnreadableError: it cannot be read to its end.
        MiscountedError: the rows read are not the lines counted, line breaks inside quotes left out.
        TooLargeError: an Arrow file is packed, and takes more bytes than are read.
        StoreError: see `topdown.stores`.

    Cost: 10 ns a byte of CSV for counting; a few batches of memory.
    """
    try:
        if isinstance(path, DatabaseTable):
            yield from _database_reader(path).batches(path, list(columns))
        elif is_arrow_file(path):
            yield from _capped_arrow_batches(path, columns)
        else:
            yield from (_parquet_batches if is_parquet(path) else _csv_batches)(path, columns)
    except _UNREADABLE as error:
        raise UnreadableError(printable((str(error).splitlines() or [""])[0], 160)) from None


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


def _parquet_batches(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
        fields = [file.schema_arrow.field(name) for name in columns]
        yield pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in fields], names=list(columns))
        # Threads are no faster, and each keeps memory; read ahead, all row groups would be held together.
        for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
            yield batch.select(list(columns))


def _capped_arrow_batches(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    for batch in arrow_batches(path, list(columns), table_bytes()):
        if batch is None:
            raise TooLargeError
        yield batch


def _database_reader(table: DatabaseTable) -> ModuleType:
    """Return what reads a database; imported here, so that a CSV needs no library of a database."""
    if table.kind == "sqlite":
        from topdown.inputs import sqlite_tables as sqlite

        return sqlite
    from topdown.inputs import duckdb_tables as duck

    return duck


def _csv_batches(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    options = pa_csv.ConvertOptions(
        column_types=dict(columns), include_columns=list(columns), strings_can_be_null=False
    )
    n_rows = 0
    with pa.input_stream(str(path), compression="detect") as stream:
        counted = CountedLines(stream)
        with pa_csv.open_csv(counted, parse_options=_csv_options(path), convert_options=options) as reader:
            yield pa.RecordBatch.from_arrays(
                [pa.nulls(0, kind) for kind in columns.values()], names=list(columns)
            )
            for batch in reader:
                n_rows += batch.num_rows
                yield batch
    if counted.n_lines() != n_rows + 1:
        raise MiscountedError


def check_unpacked(path: Path) -> None:
    """Refuse a packed table that takes more bytes than `caps.table_bytes` when it is unpacked, without keeping any.

    A Parquet table takes eight bytes a value.

    Raises:
        TooLargeError: it does.
    """
    most = table_bytes()
    if is_parquet(path):
        found = pq.read_metadata(path)
        if found.num_rows * found.num_columns * 8 > most:
            raise TooLargeError
    elif path.suffix in PACKED:
        n_bytes = 0
        with pa.input_stream(str(path), compression="detect") as stream:
            while piece := stream.read(2**20):
                n_bytes += len(piece)
                if n_bytes > most:
                    raise TooLargeError


def is_parquet(path: Path) -> bool:
    """Tell a Parquet file by its name."""
    return path.name.endswith(".parquet")


def is_csv(path: TableLocation) -> bool:
    """Tell whether a table is text, so that a row of it is a line."""
    return isinstance(path, Path) and not is_parquet(path) and not is_arrow_file(path)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def parse_whole_numbers(column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Return a column as int64, -1 where it holds no whole number from 0 on; None unless text or integers.

    A float, a truth value, a date or a category that happens to look like a number is not one.
    """
    if is_text(column.type):
        good = pc.match_substring_regex(column, r"\A[0-9]{1,18}\z")
        numbers = pc.if_else(good, column, "-1").cast(pa.int64())
    elif pa.types.is_integer(column.type):
        numbers = column.cast(pa.int64(), safe=False)  # unsigned numbers from 2^63 on become negative
    else:
        return None
    found: NDArray[np.int64] = numbers.fill_null(-1).to_numpy().astype(np.int64)
    return np.where(found < 0, -1, found)


def _normalized(name: str) -> str:
    return name.strip().strip("\"'").strip().casefold()


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
    if isinstance(codes, Codes):
        width, n = codes.coded.dtype.itemsize, len(codes)
        each = np.ascontiguousarray(codes.coded).view(np.uint8).reshape(n, width)
        ends = np.zeros(
            n + 1, dtype=np.int64
        )  # Arrow's own conversion gives several pieces where there are many
        np.cumsum((each > 0).sum(axis=1), out=ends[1:])
        held = pa.py_buffer(ends), pa.py_buffer(each[each > 0])
        return pa.LargeStringArray.from_buffers(n, *held).cast(pa.string())
    return pa.array(codes, pa.string())


def column_names(source: TableSource) -> list[str]:
    """Return the column names of a file or of a table in memory; as `columns.header_of`."""
    return source.header() if isinstance(source, MemoryTable) else read_header(source)


def read_source_batches(source: TableSource, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Read columns of a file or of a table in memory, which has types of its own; as `columns.read_batches`."""
    return source.batches(list(columns)) if isinstance(source, MemoryTable) else read_batches(source, columns)


def read_source(source: TableSource, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read columns of a whole table at once; see `batches_of`."""
    import pyarrow as pa

    batches = list(read_source_batches(source, columns))
    return pa.Table.from_batches(batches[1:] or batches)


MAX_COUNT = 2**31 - 1


def read_table(
    path: TableSource,
    text_columns: tuple[str, ...],
    number_columns: tuple[str, ...] = (),
    *,
    ignored: tuple[str, ...] | None = (),
    called: Mapping[str, str] | None = None,
    integers: bool = False,
) -> pa.Table:
    """Read the named columns of a table as it holds them; CSV as text, with leading zeros.

    Args:
        path: the file, or a table in memory.
        text_columns: must be text, without empty values.
        number_columns: see `whole_numbers`.
        ignored: other columns that may be there; None allows any.
        called: what columns are called in the file, where that is another name (`names_in`).
        integers: whether text columns may hold integers; they are written in digits.

    Raises:
        DataError: missing, unreadable or empty file (D001-D003, D042); a column missing, there twice, not asked for
            or no text (D004-D006, D040); a database that cannot give it (D070-D073).
    """
    if not source_exists(path):
        raise DataError(f"{path} does not exist", code="D001", fix="check the path in the run file")
    named = (*text_columns, *number_columns)
    try:
        header = column_names(path)
        theirs = names_in_file(header, named, called or {})
        odd = (
            None
            if not header
            else find_header_problem(header, theirs, tuple(header) if ignored is None else ignored)
        )
        if odd is not None:
            raise _header_error(path, odd, header)
        table = read_source(path, dict.fromkeys(theirs, pa.string()))  # refuses an empty file
    except UnreadableError as error:
        raise DataError(
            f"{path} cannot be read: {error}",
            code="D002",
            file=str(path),
            fix="give a whole table",
        ) from None
    except TooLargeError:
        raise DataError(f"{path}: {TOO_LARGE}", code="D043", file=str(path), fix=RAISE_TABLE) from None
    except MiscountedError:
        raise DataError(f"{path}: {MISCOUNTED}", code="D042", file=str(path), fix=MISCOUNTED_FIX) from None
    except StoreError as error:
        raise DataError(f"{path}: {error.text}", code=error.code, file=str(path), fix=error.fix) from None
    if table.num_rows == 0:
        raise DataError(
            f"{path} has no rows", code="D003", file=str(path), fix="give a table with at least one row"
        )
    table = pa.table({name: table.column(of) for name, of in zip(named, theirs, strict=True)})
    for name in text_columns:
        column = table.column(name)
        if integers and pa.types.is_integer(column.type):
            column = column.cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, column)
        if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
            column = column.cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, column)
        if not is_text(column.type):
            raise DataError(
                f"{path}: column {name!r} holds {column.type}, not text; leading zeros may be lost",
                code="D005",
                file=str(path),
                fix="write the column as text",
            )
        if column.null_count:
            raise DataError(
                f"{path}: column {name!r} has an empty value", code="D006", file=str(path), fix="fill it in"
            )
    return table


def _header_error(path: TableSource, odd: HeaderProblem, header: list[str]) -> DataError:
    name = printable(odd.name)
    if odd.kind == "missing":
        near = f"; it has {printable(odd.near)!r}" if odd.near else ""
        text, code = f"{path} has no column {name!r}{near}", "D004"
        fix = f"add it, or choose other invariants; it has: {', '.join(map(printable, header[:12]))}"
    elif odd.kind == "twice":
        text, code, fix = f"{path} has two columns called {name!r}", "D004", "keep one of them"
    else:
        text, code = f"{path} has a column {name!r} that is not read", "D040"
        fix = f"rename it to {odd.near!r} if it is that; " if odd.near else ""
        fix += f"if it is not needed, say so in the run file: [input] ignore = {toml_name_list(odd.unasked)}"
    return DataError(text, code=code, file=str(path), fix=fix)


def whole_number_column(table: pa.Table, name: str, path: TableSource) -> NDArray[np.int64]:
    """Return a column as int64.

    Raises:
        DataError: it is no text and no integers (D005), or a value is not a whole number in 0..2^31-1 (D007).
    """
    column = table.column(name)
    numbers = parse_whole_numbers(column)
    if numbers is None:
        raise DataError(
            f"{path}: column {name!r} holds {column.type}, not whole numbers",
            code="D005",
            file=str(path),
            fix="write the column as integers, or as text of digits",
        )
    bad = np.flatnonzero((numbers < 0) | (numbers > MAX_COUNT))
    if len(bad):
        row = int(bad[0])
        raise DataError(
            f"{path}, row {row + 1}: {name} is {printable(str(column[row].as_py()))!r}, "
            f"not a whole number from 0 to {MAX_COUNT:,}",
            code="D007",
            file=str(path),
            line=row + 2 if not isinstance(path, MemoryTable) and is_csv(path) else None,
            fix="correct the row",
        )
    return numbers
