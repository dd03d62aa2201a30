"""Tables of a DuckDB database, if the library is installed; nothing is written, no other file is reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from topdown.formats.caps import RAISE_TABLE, VIEW_SECONDS, table_bytes
from topdown.inputs.sources import DatabaseTable, TableProblem
from topdown.inputs.sqlite_tables import AS_TABLE, beyond_limit, no_such_table

_AT_ONCE = 2**17  # rows
_INTERRUPT_SECONDS = (
    0.05  # between two calls of its interrupt, which may come before there is anything to stop
)
_LEAST_MEMORY = 2**28  # bytes, with which the library reads any table
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
    library, most = _library(), table_bytes()
    try:
        with closing(_open_duckdb(library, table)) as connection:
            governor = _Governor(connection)
            _duckdb_names(connection, table)
            is_view = _is_view(connection, table)
            wanted = ", ".join(_quote_name(name) for name in columns)
            query = f"SELECT {wanted} FROM {_quote_name(table.table)}"  # noqa: S608 - quoted names
            reader = governor.run(lambda: connection.sql(query).to_arrow_reader(_AT_ONCE))
            yield pa.RecordBatch.from_pylist([], reader.schema)
            n_bytes = 0
            while (batch := governor.run(lambda: next(reader, None))) is not None:
                n_bytes += batch.nbytes
                if n_bytes > most and is_view:
                    raise beyond_limit(f"the view gives more than {most:,} bytes", RAISE_TABLE)
                yield batch
    except library.OutOfMemoryException:
        raise beyond_limit(f"the table takes more than {most:,} bytes of memory", RAISE_TABLE) from None
    except library.Error as error:
        raise ValueError(str(error)) from None


class _Governor:
    """Runs what a database computes in a thread of its own, and ends it at a stop, or after too long without rows."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, call: Callable[[], Any]) -> Any:
        """Return what the call returns, or raise what it raises."""
        done, found, raised = threading.Event(), list[Any](), list[Exception]()

        def work() -> None:
            try:
                found.append(call())
            except Exception as error:
                raised.append(error)
            finally:
                done.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            if not done.wait(VIEW_SECONDS):
                raise beyond_limit(f"the database gave no row within {VIEW_SECONDS:,} seconds", AS_TABLE)
        finally:
            while not done.wait(0):
                self._connection.interrupt()
                done.wait(_INTERRUPT_SECONDS)
            thread.join()
        if raised:
            raise raised[0]
        return found[0]


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
    config = _ALONE | {"memory_limit": f"{max(table_bytes(), _LEAST_MEMORY)}B"}
    return library.connect(str(table.file), read_only=True, config=config)


def _is_view(connection: Any, table: DatabaseTable) -> bool:
    found = connection.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = ?", [table.table])
    return bool(found.fetchall()[0][0])  # all: an open result would stop the next query


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
