"""The one reader of tables: columns declared with name, kind, labels and range, read in batches and checked.

A new kind of file is a function for its names and one for its batches, and a line in `FORMATS`. What is wrong with a
table is a `TableProblem`; `public_error` says it of a public table, `topdown.measure` of confidential ones, without
what they hold.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.errors import DataError
from topdown.formats.caps import RAISE_TABLE, TABLE_COLUMNS, TABLE_ROWS
from topdown.inputs import file_formats
from topdown.inputs.database_tables import (
    AS_TABLE,
    duckdb_batches,
    duckdb_names,
    sqlite_batches,
    sqlite_names,
)
from topdown.inputs.reading_process import NOT_READ, library_errors_named, read_apart
from topdown.inputs.sources import (
    DatabaseTable,
    MemoryTable,
    ProblemKind,
    TableProblem,
    TableSource,
    printable,
)
from topdown.inputs.value_labels import ValueLabels
from topdown.model import narrow
from topdown.process import check_stopped

MAX_COUNT = 2**31 - 1
MOST_ROWS_KEPT = 100_000  # of those that break a rule
TOO_LARGE = "the table is packed, and unpacked it has more bytes than are read"
MISCOUNTED = "the rows do not agree with the lines of the file"
MISCOUNTED_FIX = (
    'put a text with quotation marks or line breaks in quotation marks, doubling those inside ("a ""b"" c")'
)
_MOST_COMPARED = 500  # unread columns that are compared with those that are read, for a hint
_LABEL_END = b"."  # after every label: numpy takes no notice of zero bytes at the end of one


@dataclass(frozen=True)
class TableFormat:
    """A kind of table: how it is told from others, and what reads it.

    Args:
        fits: whether a source is of this kind.
        names: of its columns, in order.
        batches: some columns, each in the header once; the first batch has no rows. CSV is read as the types given.
    """

    fits: Callable[[TableSource], bool]
    names: Callable[[Any], list[str]]
    batches: Callable[[Any, Mapping[str, pa.DataType]], Iterator[pa.RecordBatch]]


def _ends(*endings: str) -> Callable[[TableSource], bool]:
    return lambda source: isinstance(source, Path) and source.name.endswith(endings)


def _database(kind: str) -> Callable[[TableSource], bool]:
    return lambda source: isinstance(source, DatabaseTable) and source.kind == kind


CSV = TableFormat(_ends(""), file_formats.csv_names, file_formats.csv_batches)  # every other file
FORMATS = (
    TableFormat(
        lambda source: isinstance(source, MemoryTable), file_formats.memory_names, file_formats.memory_batches
    ),
    TableFormat(_database("sqlite"), sqlite_names, sqlite_batches),
    TableFormat(_database("duckdb"), duckdb_names, duckdb_batches),
    TableFormat(_ends(*file_formats.ARROW_ENDINGS), file_formats.arrow_names, file_formats.arrow_batches),
    TableFormat(_ends(".parquet"), file_formats.parquet_names, file_formats.parquet_batches),
    CSV,
)


def format_of(source: TableSource) -> TableFormat:
    """Return the kind of a table, by its name."""
    return next(kind for kind in FORMATS if kind.fits(source))


def read_header(source: TableSource, *, of_release: bool = False) -> list[str]:
    """Return the column names of a table; none if it is an empty file; TableProblem if there is none.

    Args: as `TableReader`.
    """
    header = next(_governed(source, lambda: [_header_of(source)], of_release=of_release))
    return list(header.schema.names)


def _header_of(source: TableSource) -> pa.RecordBatch:
    """Return the columns of a table without types and rows, in the process that reads it."""
    names = format_of(source).names(source)
    if len(names) > TABLE_COLUMNS:
        raise TableProblem(
            "limit",
            f"it has {len(names):,} columns; {TABLE_COLUMNS:,} are the most",
            code="D084",
            fix="give a table with the columns that are needed, and few others",
        )
    return file_formats.no_rows(names, [pa.null()] * len(names))


def header_if_readable(source: TableSource, *, of_release: bool = False) -> list[str]:
    """Return the column names of a table; none where there is none: who reads it next says what is wrong.

    Raises:
        DataError: one of NOT_READ: the table may well have columns.
    """
    try:
        return read_header(source, of_release=of_release)
    except TableProblem as problem:
        if problem.code in NOT_READ:
            raise public_error(source, problem) from None
        return []


def _governed(
    source: TableSource, batches: Callable[[], Iterable[pa.RecordBatch]], *, of_release: bool
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a table; that of a file is read in another process, which keeps limits of time and memory."""
    if not source.is_file():
        raise TableProblem("missing")
    if of_release or isinstance(source, MemoryTable):
        read = _read_here(batches)
    elif isinstance(source, DatabaseTable):
        read = read_apart(batches, "D083", AS_TABLE)
    else:
        read = read_apart(batches, "D086", "copy the file to a local disk, or write it anew, as CSV")
    n_rows = 0
    for batch in read:
        check_stopped()
        n_rows += batch.num_rows
        if n_rows > TABLE_ROWS:
            raise TableProblem(
                "limit",
                f"it has more than {TABLE_ROWS:,} rows",
                code="D088",
                fix="give rows of equal values as one row with a count",
            )
        yield batch


def _read_here(batches: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    with library_errors_named():
        yield from batches()


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column that is read.

    Args:
        name: what the engine calls it.
        kind: `text`, no value empty; `whole`, numbers from 0 to `most`; `label`, each value one of `labels`; `any`,
            as the table holds it.
        labels: of a label column; a row's value is an index of it.
        most: of whole numbers.
        integers: whether a text column may hold integers; they are written in digits.
        numbers: whether it may hold numbers, written as the shortest decimal that reads back as the same number.
        values: how values of a label column become labels; they are labels if None.
    """

    name: str
    kind: Literal["text", "whole", "label", "any"] = "text"
    labels: Sequence[str] = ()
    most: int = MAX_COUNT
    integers: bool = False
    numbers: bool = False
    values: ValueLabels | None = None

    @property
    def csv_type(self) -> pa.DataType:
        """How the column of a CSV is read: text, or each text once and numbers of them."""
        return pa.string() if self.kind in ("text", "whole") else pa.dictionary(pa.int32(), pa.string())

    @cached_property
    def index(self) -> LabelIndex:
        """Where each label stands."""
        return LabelIndex(self.labels)


def text_columns(*names: str, integers: bool = False, numbers: bool = False) -> tuple[TableColumn, ...]:
    """Return columns of text."""
    return tuple(TableColumn(name, integers=integers, numbers=numbers) for name in names)


def whole_columns(*names: str) -> tuple[TableColumn, ...]:
    """Return columns of whole numbers from 0 to 2^31 - 1."""
    return tuple(TableColumn(name, "whole") for name in names)


class TableReader:
    """One pass over the columns of a table: take `batches`, then `check`.

    Args:
        source: a file, a database's table, or a table in memory.
        columns: those that are read, each once.
        ignored: other columns that may be there; None allows any.
        called: what columns are called in the table, where that is another name.
        may_be_empty: whether it may have no rows.
        of_release: whether it is a file of a release, of the form that is written here: it is read in this process.

    Raises:
        TableProblem: it is not there, not readable, or its header is not as declared.
    """

    def __init__(
        self,
        source: TableSource,
        columns: Sequence[TableColumn],
        *,
        ignored: tuple[str, ...] | None = (),
        called: Mapping[str, str] | None = None,
        may_be_empty: bool = False,
        of_release: bool = False,
    ) -> None:
        self._may_be_empty, self._values = may_be_empty, [_ColumnValues(column) for column in columns]

        def chosen() -> Iterator[pa.RecordBatch]:
            header, named = _header_of(source).schema.names, called or {}
            if not header:
                raise TableProblem("empty file", "it is empty", column=columns[0].name)
            theirs = [named[c.name] if named.get(c.name) in header else c.name for c in columns]
            check_header(header, theirs, ignored)
            types = {name: column.csv_type for name, column in zip(theirs, columns, strict=True)}
            yield from format_of(source).batches(source, types)

        self._read = _governed(source, chosen, of_release=of_release)
        self._first = next(self._read)

    def batches(self) -> Iterator[dict[str, Any]]:
        """Yield values by column, at first none: int64 of `whole` and `label` columns, -1 where wrong; else Arrow.

        Raises:
            TableProblem: it cannot be read to its end, or has no rows.
        """
        n_rows = 0
        for batch in chain((self._first,), self._read):
            pairs = zip(self._values, batch.columns, strict=True)
            yield {values.column.name: values.read(array, n_rows) for values, array in pairs}
            n_rows += batch.num_rows
        if not n_rows and not self._may_be_empty:
            raise TableProblem("no rows")

    def check(self, kind: ProblemKind | None = None) -> None:
        """Raise what is wrong with the first column that holds what is not declared; of one kind if that is given."""
        for values in self._values:
            problem = values.problem()
            if problem is not None and kind in (None, problem.kind):
                raise problem


class _ColumnValues:
    """Reads the values of one column, batch by batch, and keeps what is wrong with them."""

    def __init__(self, column: TableColumn) -> None:
        self.column = column
        self._type, self._rows = "", list[tuple[int, str]]()

    def read(self, array: pa.Array, first_row: int) -> Any:
        """Return the values of rows that begin with row `first_row` of the table."""
        match self.column.kind:
            case "text":
                return self._texts(array, first_row)
            case "whole":
                return self._whole_numbers(array, first_row)
            case "label":
                return self._positions(array, first_row)
            case "any":
                return array

    def problem(self) -> TableProblem | None:
        """Return what is wrong with the values read so far."""
        name, rows = self.column.name, tuple(self._rows)
        if self._type:
            wanted = "whole numbers" if self.column.kind == "whole" else "text"
            return TableProblem("wrong type", self._type, column=name, near=wanted)
        if not rows:
            return None
        if self.column.kind == "text":
            return TableProblem("empty value", column=name, rows=rows)
        return TableProblem(
            "no label" if self.column.kind == "label" else "no whole number", column=name, rows=rows
        )

    def _texts(self, array: pa.Array, first_row: int) -> pa.Array:
        is_whole, is_float = pa.types.is_integer(array.type), pa.types.is_floating(array.type)
        if (is_whole and self.column.integers) or ((is_whole or is_float) and self.column.numbers):
            array = array.cast(pa.string())
        if pa.types.is_dictionary(array.type) and is_text(array.type.value_type):
            array = array.cast(pa.string())
        if not is_text(array.type):
            self._type = type_name(array)
        elif array.null_count:
            self._note(array, np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)), first_row)
        return array

    def _whole_numbers(self, array: pa.Array, first_row: int) -> Ints:
        numbers = parse_whole_numbers(array)
        if numbers is None:
            self._type = type_name(array)
            return np.full(len(array), -1, dtype=np.int64)
        numbers = np.where(numbers > self.column.most, -1, numbers)
        self._note(array, np.flatnonzero(numbers < 0), first_row)
        return numbers

    def _positions(self, array: pa.Array, first_row: int) -> Ints:
        values = self.column.values
        if (values or self.column.index.takes_digits) and pa.types.is_integer(array.type):
            array = array.cast(pa.string())
        coded = pa.types.is_dictionary(array.type)
        if not is_text(array.type.value_type if coded else array.type):
            self._type = type_name(array)
            return np.full(len(array), -1, dtype=np.int64)
        array = array if coded else array.dictionary_encode()
        held, empty = array.dictionary, -1
        if values is not None:
            *labels, blank = values.labels_of([*held.to_pylist(), ""])
            held, empty = pa.array(labels, pa.string()), self.column.index.find(pa.array([blank]))[0]
        places = np.append(self.column.index.find(held), empty)
        found: Ints = places[array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]
        self._note(array, np.flatnonzero(found < 0), first_row)
        return found

    def _note(self, array: pa.Array, bad: NDArray[np.intp], first_row: int) -> None:
        for i in bad[: MOST_ROWS_KEPT - len(self._rows)].tolist():
            self._rows.append((first_row + i, str(array[i].as_py())))


class LabelIndex:
    """Where each of many labels stands, found by halving: no table of hashes is made for a batch.

    Args:
        labels: distinct texts; ten bytes of memory a label beside its own.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        coded = np.array([label.encode() + _LABEL_END for label in labels])
        self._place = np.argsort(coded, kind="stable")
        self._sorted = coded[self._place]
        # digits may stand for labels where no label has a leading zero
        self.takes_digits = not any(label.isdigit() and label[0] == "0" and label != "0" for label in labels)

    def find(self, texts: pa.Array) -> Ints:
        """Return the index of each text among the labels, -1 where there is none; int64 (len(texts),)."""
        found = np.full(len(texts), -1, dtype=np.int64)
        held = texts.cast(pa.string()).cast(pa.binary())
        short = pc.fill_null(pc.less(pc.binary_length(held), self._sorted.dtype.itemsize), False)
        wanted = np.array(
            [text + _LABEL_END for text in held.filter(short).to_pylist()], dtype=self._sorted.dtype
        )
        place = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        known: Bools = self._sorted[place] == wanted
        found[short.to_numpy(zero_copy_only=False)] = np.where(known, self._place[place], -1)
        return found


def parse_whole_numbers(column: pa.Array) -> Ints | None:
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
    found: Ints = numbers.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(found < 0, -1, found)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def type_name(column: pa.Array) -> str:
    """Return the name of a column's type, of its values if each is there once, without the names of its fields."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return str(kind).partition("<")[0].partition("[")[0]


def check_header(header: list[str], needed: Sequence[str], ignored: Sequence[str] | None = ()) -> None:
    """Refuse a header that lacks a column that is read, has one twice, or one that nobody reads (TableProblem).

    Args:
        header: of the table.
        needed: columns that are read.
        ignored: others that may be there; None allows any.
    """
    times = Counter(header)
    twice = [name for name in needed if times[name] > 1]
    if twice:
        raise TableProblem("column twice", column=twice[0])
    missing = [name for name in needed if name not in times]
    allowed = {*needed, *(header if ignored is None else ignored)}
    unread = tuple(dict.fromkeys(name for name in header if name not in allowed))
    if missing:
        meant = [name for name in header if _normalized(name) == missing[0]]
        if len(missing) > 1 or len(missing) == len(needed):
            raise TableProblem("missing column", column=missing[0], near=meant[0] if meant else "")
        close = (
            meant or difflib.get_close_matches(missing[0], unread[:_MOST_COMPARED], n=1) or list(unread[:1])
        )
        near = close[0] if close else ""
        raise TableProblem("missing column", column=missing[0], near=near, unread=unread)
    twice = [name for name in header if times[name] > 1]
    if twice:
        raise TableProblem("column twice", column=twice[0])
    if unread:
        compared = unread[:_MOST_COMPARED]
        matches = {n: difflib.get_close_matches(_normalized(n), needed, n=1, cutoff=0.75) for n in compared}
        first = next((name for name in compared if matches[name]), unread[0])
        near = matches[first][0] if matches[first] else ""
        raise TableProblem("unread column", column=first, near=near, unread=unread)


def _normalized(name: str) -> str:
    return name.strip().strip("\"'").strip().casefold()


def toml_name_list(names: Sequence[str]) -> str:
    """Return names as the list of a run file, the first twelve of them."""
    return (
        "[" + ", ".join(f'"{printable(name)}"' for name in names[:12]) + (", ..." if names[12:] else "") + "]"
    )


@dataclass(frozen=True, eq=False)
class PublicTable:
    """The columns of a public table, read and checked.

    Args:
        values: of each column, batch by batch; see `TableReader.batches`. Numbers are kept narrow.
    """

    values: Mapping[str, list[Any]] = field(default_factory=dict)

    def text(self, name: str) -> pa.ChunkedArray:
        """Return a text column."""
        return pa.chunked_array(self.values[name])

    def texts(self, name: str) -> list[str]:
        """Return a text column as texts."""
        return [text for piece in self.values[name] for text in piece.to_pylist()]

    def numbers(self, name: str) -> Ints:
        """Return a column of whole numbers, a new array."""
        return np.concatenate(self.values[name]).astype(np.int64)


def read_table(
    source: TableSource,
    columns: Sequence[TableColumn],
    *,
    ignored: tuple[str, ...] | None = (),
    called: Mapping[str, str] | None = None,
    of_release: bool = False,
    of_run: bool = True,
) -> PublicTable:
    """Read columns of a public table; CSV as text, with leading zeros.

    Args: as `TableReader`; of_run: whether a run file names the table, so that its keys can mend what is wrong.

    Raises:
        DataError: missing, unreadable or empty file (D001-D003, D042, D043); a column missing, there twice, not asked
            for, or not of its kind (D004-D007, D040); a database that cannot give it (D070-D073).
    """
    found: dict[str, list[Any]] = {column.name: [] for column in columns}
    try:
        reader = TableReader(source, columns, ignored=ignored, called=called, of_release=of_release)
        for batch in reader.batches():
            for name, values in batch.items():
                found[name].append(narrow(values) if isinstance(values, np.ndarray) else values)
        reader.check()
    except TableProblem as problem:
        raise public_error(source, problem, of_run=of_run) from None
    return PublicTable(found)


def advice_on_unreadable(source: TableSource) -> str:
    """Return what to do with a table that cannot be read, by its kind and the first bytes of its file."""
    if isinstance(source, MemoryTable):
        return "give columns that Arrow can hold, each of one type"
    if isinstance(source, DatabaseTable):
        return "close the database in other programs, or give a copy of it that is whole"
    try:
        with source.open("rb") as file:
            start = file.read(4)
    except OSError:
        start = b""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "save it as UTF-8: its first bytes are those of UTF-16, as spreadsheets write it"
    if start == b"PK\x03\x04":
        return "unpack it, or save the sheet as CSV: it is a zip archive or a spreadsheet"
    return "give a whole table, a CSV with as many fields throughout as in its header"


def public_error(source: TableSource, problem: TableProblem, *, of_run: bool = True) -> DataError:
    """Return what is wrong with a public table: file, row, column and how to mend it."""
    column, rows = printable(problem.column), problem.rows
    ignore = f"if it is not needed, say so in the run file: [input] ignore = {toml_name_list(problem.unread)}"
    needed = "add it, or choose other invariants"
    if not of_run:
        ignore, needed = "remove or rename it", "add it, or rename the column that is meant"
    text, code, fix, line = f"{source}: ", problem.code, problem.fix, None
    match problem.kind:
        case "missing":
            return DataError(
                f"{source} does not exist", code="D001", fix="check the path" + " in the run file" * of_run
            )
        case "unreadable" | "empty file":
            text, code, fix = f"{source} cannot be read: {problem.text}", "D002", advice_on_unreadable(source)
        case "too large":
            text, code, fix = text + TOO_LARGE, "D043", RAISE_TABLE
        case "miscounted":
            text, code, fix = text + MISCOUNTED, "D042", MISCOUNTED_FIX
        case "database" | "limit":
            text += problem.text
        case "no rows":
            text, code, fix = f"{source} has no rows", "D003", "give a table with at least one row"
        case "missing column":
            near = f"; it has {printable(problem.near)!r}" if problem.near else ""
            there = ", ".join(map(printable, header_if_readable(source)[:12]))
            text, code = f"{source} has no column {column!r}{near}", "D004"
            fix = f"{needed}; it has: {there}"
        case "column twice":
            text, code, fix = f"{source} has two columns called {column!r}", "D004", "keep one of them"
        case "unread column":
            text, code = f"{source} has a column {column!r} that is not read", "D040"
            fix = (
                f"rename it to {problem.near!r} if it is that; otherwise " if problem.near else ""
            ) + ignore
        case "wrong type":
            text, code = text + f"column {column!r} holds {problem.text}, not {problem.near}", "D005"
            text += "; leading zeros may be lost" if problem.near == "text" else ""
            fix = "write the column as " + (
                "text" if problem.near == "text" else "integers, or as text of digits"
            )
        case "empty value":
            text, code, fix = text + f"column {column!r} has an empty value", "D006", "fill it in"
        case "no whole number" | "no label":
            row, value = rows[0]
            text = f"{source}, row {row + 1}: {problem.column} is {printable(value)!r}, not "
            text += (
                f"a whole number from 0 to {MAX_COUNT:,}" if problem.kind == "no whole number" else "known"
            )
            code, fix = "D007", "correct the row"
            line = row + 2 if format_of(source) is CSV else None
    return DataError(text, code=code, file=str(source), line=line, fix=fix)
