"""Where a table is: a file, or a table of a database that is one file, as in sqlite:people.db?table=people."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from topdown.errors import ConfigError

_DATABASE = re.compile(r"(sqlite|duckdb):(.*)", re.DOTALL)
_MARK = "?table="


@dataclass(frozen=True)
class DatabaseTable:
    """A table or view of a database.

    Args:
        kind: sqlite or duckdb.
        file: the database.
        table: its name there, any text; never read as SQL.
    """

    kind: str
    file: Path
    table: str

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.kind}:{self.file}{_MARK}{self.table}"

    @property
    def name(self) -> str:
        """The file's name and the table's, for messages."""
        return f"{self.file.name}, table {self.table}"

    def is_file(self) -> bool:
        """Tell whether the database is there."""
        return self.file.is_file()


Table = Path | DatabaseTable


class StoreError(Exception):
    """A table cannot be had from its store.

    Args:
        code, text, fix: of the message; nothing that rows hold.
    """

    def __init__(self, code: str, text: str, fix: str) -> None:
        super().__init__(text)
        self.code, self.text, self.fix = code, text, fix


def table_at(text: str | os.PathLike[str], beside: Path | None = None, *, key: tuple[str, ...] = ()) -> Table:
    """Return the place that a text names.

    Args:
        text: a path, or KIND:FILE?table=NAME with kind sqlite or duckdb.
        beside: folder that relative paths start from; None for the current one.
        key: place in the run file, for the message.

    Raises:
        ConfigError: C240 a database without a table.
    """
    text = os.fspath(text)
    database = _DATABASE.fullmatch(text)
    if database is None:
        return Path(text) if beside is None else beside / text
    kind, rest = database.groups()
    file, mark, table = rest.partition(_MARK)
    if not (file and mark and table):
        raise ConfigError(
            f"{text!r} names no table of a database",
            code="C240",
            fix=f"write {kind}:FILE{_MARK}NAME; on a command line in quotation marks",
            key=key,
        )
    return DatabaseTable(kind, Path(file) if beside is None else beside / file, table)


def file_of(table: Table) -> Path:
    """Return the file that holds a table."""
    return table.file if isinstance(table, DatabaseTable) else table


def text_from(table: Table, folder: Path) -> str:
    """Return the text that names a table for a reader in a folder."""
    relative = os.path.relpath(file_of(table).resolve(), folder)
    return f"{table.kind}:{relative}{_MARK}{table.table}" if isinstance(table, DatabaseTable) else relative
