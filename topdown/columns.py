"""The columns of a table file: which it has, which were asked for, and its rows, counted a second way.

A CSV reader that takes a quoted line break for the end of a row turns text of a column nobody reads into rows.
So every table is read with quoted line breaks, and its rows are counted again from the bytes alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.caps import table_bytes
from topdown.stores import arrow_file
from topdown.stores.counted import CountedLines
from topdown.stores.place import DatabaseTable, Table

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


class UnreadableError(Exception):
    """The file is not a whole table. The reader's words may quote the file: only for public ones."""


class TooLargeError(Exception):
    """The file is packed, and unpacked it is larger than is read."""


class MiscountedError(Exception):
    """The reader and the count of lines disagree on the number of rows."""


@dataclass(frozen=True)
class Odd:
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


def find_odd(header: list[str], needed: tuple[str, ...], ignored: tuple[str, ...] = ()) -> Odd | None:
    """Compare a header with the columns that are read; None if it has each once and no other but `ignored`."""
    twice = [name for name in needed if header.count(name) > 1]
    if twice:
        return Odd("twice", twice[0])
    missing = [name for name in needed if name not in header]
    unasked = tuple(dict.fromkeys(name for name in header if name not in needed and name not in ignored))
    if missing:
        meant = [name for name in header if _plain(name) == missing[0]]
        if len(missing) > 1 or len(missing) == len(needed):
            return Odd("missing", missing[0], meant[0] if meant else "")
        close = meant or difflib.get_close_matches(missing[0], unasked, n=1) or list(unasked[:1])
        return Odd("missing", missing[0], close[0] if close else "", unasked)
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        return Odd("twice", twice[0])
    if unasked:
        near = {name: difflib.get_close_matches(_plain(name), needed, n=1, cutoff=0.75) for name in unasked}
        first = next((name for name in unasked if near[name]), unasked[0])
        return Odd("unasked", first, near[first][0] if near[first] else "", unasked)
    return None


def names_in(header: list[str], names: tuple[str, ...], called: Mapping[str, str]) -> tuple[str, ...]:
    """Return what columns are called in a file: what `called` says if the file has that, else their own name."""
    return tuple(called[name] if called.get(name) in header else name for name in names)


def shown(name: str, most: int = MOST_SHOWN) -> str:
    """Return a name from a file as it may stand in a message: printable and short."""
    text = "".join(c if c.isprintable() else "?" for c in name)
    return text if len(text) <= most else text[:most] + "..."


def listed(names: tuple[str, ...]) -> str:
    """Return names as the list of a run file, the first twelve of them."""
    return "[" + ", ".join(f'"{shown(name)}"' for name in names[:12]) + (", ..." if names[12:] else "") + "]"


def header_of(path: Table) -> list[str]:
    """Return the column names of a CSV, Parquet or Arrow file or of a database's table; none if it is empty.

    Raises:
        UnreadableError: it is not a table.
        StoreError: see `topdown.stores`.
        TooLargeError: it is packed, and too large to be unpacked.

    Cost: a packed CSV is unpacked once to see how large it is, a piece at a time.
    """
    try:
        if isinstance(path, DatabaseTable):
            return list[str](_store_of(path).names(path))
        if arrow_file.is_arrow(path):
            return arrow_file.names(path)
        check_unpacked(path)
        if is_parquet(path):
            with pq.ParquetFile(path, pre_buffer=False) as file:
                return list(file.schema_arrow.names)
        if path.stat().st_size == 0:
            return []
        with pa_csv.open_csv(path, parse_options=_parsing(path)) as reader:
            return list(reader.schema.names)
    except _UNREADABLE as error:
        raise UnreadableError(shown((str(error).splitlines() or [""])[0], 160)) from None


def read_rows(path: Table, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read columns of a whole table at once; see `read_batches`."""
    batches = list(read_batches(path, columns))
    return pa.Table.from_batches(batches[1:] or batches)


def read_batches(path: Table, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
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
            yield from _store_of(path).batches(path, list(columns))
        elif arrow_file.is_arrow(path):
            yield from _arrow_batches(path, columns)
        else:
            yield from (_parquet_batches if is_parquet(path) else _csv_batches)(path, columns)
    except _UNREADABLE as error:
        raise UnreadableError(shown((str(error).splitlines() or [""])[0], 160)) from None


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


def _parsing(path: Path) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(newlines_in_values=True, delimiter=separator_of(path))


def _parquet_batches(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
        fields = [file.schema_arrow.field(name) for name in columns]
        yield pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in fields], names=list(columns))
        # Threads are no faster, and each keeps memory; read ahead, all row groups would be held together.
        for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
            yield batch.select(list(columns))


def _arrow_batches(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    for batch in arrow_file.batches(path, list(columns), table_bytes()):
        if batch is None:
            raise TooLargeError
        yield batch


def _store_of(table: DatabaseTable) -> ModuleType:
    """Return what reads a database; imported here, so that a CSV needs no library of a database."""
    if table.kind == "sqlite":
        from topdown.stores import sqlite

        return sqlite
    from topdown.stores import duck

    return duck


def _csv_batches(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    options = pa_csv.ConvertOptions(
        column_types=dict(columns), include_columns=list(columns), strings_can_be_null=False
    )
    n_rows = 0
    with pa.input_stream(str(path), compression="detect") as stream:
        counted = CountedLines(stream)
        with pa_csv.open_csv(counted, parse_options=_parsing(path), convert_options=options) as reader:
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


def has_lines(path: Table) -> bool:
    """Tell whether a table is text, so that a row of it is a line."""
    return isinstance(path, Path) and not is_parquet(path) and not arrow_file.is_arrow(path)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def whole_numbers(column: pa.ChunkedArray) -> NDArray[np.int64] | None:
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


def _plain(name: str) -> str:
    return name.strip().strip("\"'").strip().casefold()
