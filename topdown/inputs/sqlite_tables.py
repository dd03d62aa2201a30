"""Tables of an SQLite database, read without writing anything, not even a journal or a lock beside it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from topdown.formats.caps import RAISE_TABLE, VIEW_SECONDS, table_bytes
from topdown.inputs.sources import DatabaseTable, TableProblem
from topdown.process import check_stopped, was_stopped

_AT_ONCE = 2**14  # rows; each value is a Python object
_BESIDE = ("-wal", "-journal")  # what a program leaves there that has the database open, or was killed
_KINDS = {"integer": pa.int64(), "text": pa.string(), "real": pa.float64(), "blob": pa.binary()}
_STEPS = 100_000  # of SQLite's machine
AS_TABLE = "store what the view gives as a table, and name that"
_CLOSE = "close the database in other programs, or give a copy (.backup, or VACUUM INTO)"


def sqlite_names(table: DatabaseTable) -> list[str]:
    """Return the columns of a table or view.

    Raises:
        TableProblem: D070 no such table, D071 the database is being written.
        ValueError: it is no database of SQLite.
    """
    try:
        with closing(_open_sqlite(table)) as connection, _Governor(connection):
            return _sqlite_names(connection, table)
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None


def sqlite_batches(table: DatabaseTable, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Read columns in the order of the table: the first batch is empty, and each has the same types.

    A column of whole numbers is int64, one of texts is text. Empty values may stand in both.

    Raises:
        TableProblem: as above; D072 a column holds values of several kinds; D071 the file was changed meanwhile.
        ValueError: it cannot be read to its end.
    """
    try:
        before = _stamp(table.file)
        with closing(_open_sqlite(table)) as connection, _Governor(connection) as governor:
            _sqlite_names(connection, table)
            is_view = _check_whole(connection, table) == "view"
            source = f"FROM {_quote_identifier(table.table)}"
            kinds = {name: _column_type(connection, name, source) for name in columns}
            schema = pa.schema(list(kinds.items()))
            yield pa.RecordBatch.from_pylist([], schema)
            wanted = ", ".join(_quote_identifier(name) for name in columns)
            cursor = connection.execute(f"SELECT {wanted} {source}")
            while rows := cursor.fetchmany(_AT_ONCE):
                made = zip(zip(*rows, strict=True), schema, strict=True)
                arrays = [pa.array(values, field.type) for values, field in made]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                governor.count(batch.nbytes if is_view else 0)
                yield batch
                governor.begin()
        if _stamp(table.file) != before:
            raise _busy_error()
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None


class _Governor:
    """Ends what a database computes: at a stop, after too long without a row, or with too many bytes.

    A view may recurse without an end, or join tables with themselves. SQLite asks every hundred thousand steps.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.begin()
        self._n_bytes, self._most = 0, table_bytes()
        connection.execute(f"PRAGMA hard_heap_limit = {self._most}")
        connection.set_progress_handler(lambda: int(was_stopped() or self._is_late()), _STEPS)

    def begin(self) -> None:
        """Begin to wait for rows."""
        self._end = time.monotonic() + VIEW_SECONDS

    def count(self, n_bytes: int) -> None:
        """Count what a view gave; a table is no larger than its file."""
        self._n_bytes += n_bytes
        if self._n_bytes > self._most:
            raise beyond_limit(f"the view gives more than {self._most:,} bytes", RAISE_TABLE)

    def _is_late(self) -> bool:
        return time.monotonic() > self._end

    def __enter__(self) -> _Governor:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say which limit ended it."""
        check_stopped()
        if isinstance(error, sqlite3.OperationalError) and self._is_late():
            raise beyond_limit(
                f"the database gave no row within {VIEW_SECONDS:,} seconds", AS_TABLE
            ) from None
        if isinstance(error, MemoryError):
            text = f"the view takes more than {self._most:,} bytes of memory"
            raise beyond_limit(text, RAISE_TABLE) from None


def beyond_limit(text: str, fix: str) -> TableProblem:
    """Return the error of a database that computes without an end (D083)."""
    return TableProblem("limit", text, code="D083", fix=fix)


def _open_sqlite(table: DatabaseTable) -> sqlite3.Connection:
    if any(_size_of_file(Path(f"{table.file}{end}")) for end in _BESIDE):
        raise _busy_error()
    address = f"file:{quote(str(table.file.resolve()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True)
    connection.executescript(
        "PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON"
    )
    return connection


def _sqlite_names(connection: sqlite3.Connection, table: DatabaseTable) -> list[str]:
    there = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", (table.table,)
    )
    if not there.fetchone()[0]:
        raise no_such_table(table)
    return [
        row[1]
        for row in connection.execute(f"PRAGMA table_xinfo({_quote_identifier(table.table)})")
        if row[6] != 1
    ]


def _check_whole(connection: sqlite3.Connection, table: DatabaseTable) -> str:
    """Refuse a database that was cut or damaged: pages that are missing read as zeros, and their rows as empty.

    Returns: "table" or "view".
    """
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    if _size_of_file(table.file) < pages * size:
        raise ValueError("the database is not as long as it says")
    kind = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (table.table,)).fetchone()[0]
    only = (
        f"({_quote_identifier(table.table)})" if kind == "table" else ""
    )  # what a view reads may lie anywhere
    found = connection.execute(f"PRAGMA quick_check{only}")
    if found.fetchone()[0] != "ok":
        raise ValueError("the database is damaged")
    return str(kind)


def _column_type(connection: sqlite3.Connection, column: str, source: str) -> pa.DataType:
    name = _quote_identifier(column)
    query = f"SELECT DISTINCT typeof({name}) {source} WHERE {name} IS NOT NULL LIMIT 2"
    found = [_KINDS[row[0]] for row in connection.execute(query)]
    if len(found) > 1:
        raise TableProblem(
            "database",
            f"column {column!r} holds values of several kinds, such as texts and numbers",
            code="D072",
            fix="store the column as text, or give a view that does: CAST(column AS TEXT)",
        )
    return found[0] if found else pa.null()


def _quote_identifier(name: str) -> str:
    """Return a name as SQL has it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def _size_of_file(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _busy_error() -> TableProblem:
    return TableProblem(
        "database", "the database is being written, or was not closed", code="D071", fix=_CLOSE
    )


def no_such_table(table: DatabaseTable) -> TableProblem:
    """Return the error of a table that the database lacks."""
    text = f"the database has no table or view {table.table!r}"
    return TableProblem("database", text, code="D070", fix="correct the name after ?table=")
