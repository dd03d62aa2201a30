"""Tables of SQLite and DuckDB, read without writing anything, not even a journal or a lock beside the database.

DuckDB is read if its library is installed, and reaches no other file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from topdown.formats.caps import RAISE_TABLE, table_bytes
from topdown.inputs.sources import DatabaseTable, TableProblem

_AT_ONCE = 2**14  # rows of SQLite; each value is a Python object
_ROWS_OF_DUCKDB = 2**17  # at once
_LEAST_MEMORY = 2**28  # bytes, with which DuckDB reads any table
_OLDEST = 2  # version of DuckDB
_ALONE = {
    "enable_external_access": "false",  # a view cannot read other files
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "temp_directory": "",  # rows are never spilled to the disk
}
_BESIDE = ("-wal", "-journal")  # what a program leaves there that has the database open, or was killed
_KINDS = {"integer": pa.int64(), "text": pa.string(), "real": pa.float64(), "blob": pa.binary()}
AS_TABLE = "store what the view gives as a table, and name that"
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
        before, n_bytes, most = _stamp(table.file), 0, table_bytes()
        with closing(_open_sqlite(table)) as connection:
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
                n_bytes += batch.nbytes
                if n_bytes > most and is_view:  # a table is no larger than its file
                    raise _beyond_limit(f"the view gives more than {most:,} bytes")
                yield batch
        if _stamp(table.file) != before:
            raise _busy_error()
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None
    except MemoryError:
        raise _beyond_limit(f"the view takes more than {table_bytes():,} bytes of memory") from None


def _beyond_limit(text: str) -> TableProblem:
    """Return the error of a database that computes without an end (D083)."""
    return TableProblem("limit", text, code="D083", fix=RAISE_TABLE)


def _open_sqlite(table: DatabaseTable) -> sqlite3.Connection:
    if any(_size_of_file(Path(f"{table.file}{end}")) for end in _BESIDE):
        raise _busy_error()
    address = f"file:{quote(str(table.file.resolve()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True)
    connection.executescript(
        "PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON; "
        f"PRAGMA hard_heap_limit = {table_bytes()}"
    )
    return connection


def _sqlite_names(connection: sqlite3.Connection, table: DatabaseTable) -> list[str]:
    there = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", (table.table,)
    )
    if not there.fetchone()[0]:
        raise _no_such_table(table)
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
    only = f"({_quote_identifier(table.table)})" if kind == "table" else ""  # a view may read anything
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


def _no_such_table(table: DatabaseTable) -> TableProblem:
    text = f"the database has no table or view {table.table!r}"
    return TableProblem("database", text, code="D070", fix="correct the name after ?table=")


def duckdb_names(table: DatabaseTable) -> list[str]:
    """Return the columns of a table or view.

    Raises:
        TableProblem: D070 no such table, D073 the library is not installed.
        ValueError: it is no database of DuckDB, or another program has it open.
    """
    library = _duckdb()
    try:
        with closing(_open_duckdb(library, table)) as connection:
            return _duckdb_names(connection, table)
    except library.Error as error:
        raise ValueError(str(error)) from None


def duckdb_batches(table: DatabaseTable, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Read columns as Arrow has them; the first batch is empty.

    Raises: as `duckdb_names`.
    """
    library, most = _duckdb(), table_bytes()
    try:
        with closing(_open_duckdb(library, table)) as connection:
            _duckdb_names(connection, table)
            found = connection.execute(
                "SELECT count(*) FROM duckdb_views() WHERE view_name = ?", [table.table]
            )
            is_view = bool(found.fetchall()[0][0])  # all: an open result would stop the next query
            wanted = ", ".join(_quote_identifier(name) for name in columns)
            query = f"SELECT {wanted} FROM {_quote_identifier(table.table)}"  # noqa: S608 - quoted names
            reader = connection.sql(query).to_arrow_reader(_ROWS_OF_DUCKDB)
            yield pa.RecordBatch.from_pylist([], reader.schema)
            n_bytes = 0
            for batch in reader:
                n_bytes += batch.nbytes
                if n_bytes > most and is_view:
                    raise _beyond_limit(f"the view gives more than {most:,} bytes")
                yield batch
    except library.OutOfMemoryException:
        raise _beyond_limit(f"the table takes more than {most:,} bytes of memory") from None
    except library.Error as error:
        raise ValueError(str(error)) from None


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise _no_duckdb("it is not installed") from None
    if int(duckdb.__version__.partition(".")[0]) < _OLDEST:
        raise _no_duckdb(f"it is {duckdb.__version__} here")
    return duckdb


def _no_duckdb(found: str) -> TableProblem:
    text = f"a table of DuckDB needs the library duckdb {_OLDEST} or newer; {found}"
    return TableProblem("database", text, code="D073", fix=f'pip install "duckdb>={_OLDEST}"')


def _open_duckdb(library: Any, table: DatabaseTable) -> Any:
    config = _ALONE | {"memory_limit": f"{max(table_bytes(), _LEAST_MEMORY)}B"}
    return library.connect(str(table.file), read_only=True, config=config)


def _duckdb_names(connection: Any, table: DatabaseTable) -> list[str]:
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = ? "
        "AND table_catalog = current_database() AND table_schema = current_schema() ORDER BY ordinal_position",
        [table.table],
    ).fetchall()
    if not found:
        raise _no_such_table(table)
    return [name for (name,) in found]
