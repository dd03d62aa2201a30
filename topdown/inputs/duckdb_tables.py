"""Tables of a DuckDB database, if the library is installed; nothing is written, no other file is reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from topdown.inputs.sources import DatabaseTable, TableProblem
from topdown.inputs.sqlite_tables import no_such_table

_AT_ONCE = 2**17  # rows
_OLDEST = 2  # version of the library
_ALONE = {
    "enable_external_access": "false",  # a view cannot read other files
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "temp_directory": "",  # rows are never spilled to the disk
}


def duckdb_names(table: DatabaseTable) -> list[str]:
    """Return the columns of a table or view.

    Raises:
        TableProblem: D070 no such table, D073 the library is not installed.
        ValueError: it is no database of DuckDB, or another program has it open.
    """
    library = _library()
    try:
        with closing(_open_duckdb(library, table)) as connection:
            return _duckdb_names(connection, table)
    except library.Error as error:
        raise ValueError(str(error)) from None


def duckdb_batches(table: DatabaseTable, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Read columns as Arrow has them; the first batch is empty.

    Raises: as `duckdb_names`.
    """
    library = _library()
    try:
        with closing(_open_duckdb(library, table)) as connection:
            _duckdb_names(connection, table)
            wanted = ", ".join(_quote_name(name) for name in columns)
            query = f"SELECT {wanted} FROM {_quote_name(table.table)}"  # noqa: S608 - quoted names
            reader = connection.sql(query).to_arrow_reader(_AT_ONCE)
            yield pa.RecordBatch.from_pylist([], reader.schema)
            yield from reader
    except library.Error as error:
        raise ValueError(str(error)) from None


def _library() -> Any:
    try:
        import duckdb
    except ImportError:
        raise _library_error("it is not installed") from None
    if int(duckdb.__version__.partition(".")[0]) < _OLDEST:
        raise _library_error(f"it is {duckdb.__version__} here")
    return duckdb


def _library_error(found: str) -> TableProblem:
    text = f"a table of DuckDB needs the library duckdb {_OLDEST} or newer; {found}"
    return TableProblem("database", text, code="D073", fix=f'pip install "duckdb>={_OLDEST}"')


def _open_duckdb(library: Any, table: DatabaseTable) -> Any:
    return library.connect(str(table.file), read_only=True, config=_ALONE)


def _duckdb_names(connection: Any, table: DatabaseTable) -> list[str]:
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = ? "
        "AND table_catalog = current_database() AND table_schema = current_schema() ORDER BY ordinal_position",
        [table.table],
    ).fetchall()
    if not found:
        raise no_such_table(table)
    return [name for (name,) in found]


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
