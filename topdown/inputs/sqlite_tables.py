"""Tables of an SQLite database, read without writing anything, not even a journal or a lock beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from topdown.inputs.sources import DatabaseTable, TableProblem

_AT_ONCE = 2**14  # rows; each value is a Python object
_BESIDE = ("-wal", "-journal")  # what a program leaves there that has the database open, or was killed
_KINDS = {"integer": pa.int64(), "text": pa.string(), "real": pa.float64(), "blob": pa.binary()}
_CLOSE = "close the database in other programs, or give a copy (.backup, or VACUUM INTO)"


def sqlite_names(table: DatabaseTable) -> list[str]:
    """Return the columns of a table or view.

    Raises:
        TableProblem: D070 no such table, D071 the database is being written.
        ValueError: it is no database of SQLite.
    """
    try:
        with closing(_open_sqlite(table)) as connection:
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
        with closing(_open_sqlite(table)) as connection:
            _sqlite_names(connection, table)
            _check_whole(connection, table)
            source = f"FROM {_quote_identifier(table.table)}"
            kinds = {name: _column_type(connection, name, source) for name in columns}
            schema = pa.schema(list(kinds.items()))
            yield pa.RecordBatch.from_pylist([], schema)
            wanted = ", ".join(_quote_identifier(name) for name in columns)
            cursor = connection.execute(f"SELECT {wanted} {source}")
            while rows := cursor.fetchmany(_AT_ONCE):
                made = zip(zip(*rows, strict=True), schema, strict=True)
                arrays = [pa.array(values, field.type) for values, field in made]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if _stamp(table.file) != before:
            raise _busy_error()
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None


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


def _check_whole(connection: sqlite3.Connection, table: DatabaseTable) -> None:
    """Refuse a database that was cut or damaged: pages that are missing read as zeros, and their rows as empty."""
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
