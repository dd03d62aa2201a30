"""Where a table is: a file, a table of a database that is one file (sqlite:people.db?table=people), or memory.

pandas (2.2 on), polars, DuckDB, Arrow and others share the Arrow C data interface, so none of them is imported here. A
table in memory is held in a box that shows nothing and is never written.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, final, runtime_checkable

from topdown.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

DATABASES = ("sqlite", "duckdb")
_DATABASE = re.compile(rf"({'|'.join(DATABASES)}):(.*)", re.DOTALL)
_MARK = "?table="
_SHA256 = re.compile("[0-9a-f]{64}")
ProblemKind = Literal[
    "missing", "empty file", "unreadable", "too large", "limit", "miscounted", "database", "no rows",
    "missing column", "column twice", "unread column", "wrong type", "empty value", "no whole number", "no label",
    "control totals",
]  # fmt: skip


MOST_SHOWN = 60


def printable(name: str, most: int = MOST_SHOWN) -> str:
    """Return a name from a file as it may stand in a message: printable and short."""
    text = "".join(c if c.isprintable() else "?" for c in name)
    return text if len(text) <= most else text[:most] + "..."


class TableProblem(Exception):  # noqa: N818 - becomes an error in the words of who reads
    """What is wrong with a table. Who reads it says it in an error; only a public table's may quote values.

    Args:
        kind: the rule that is broken.
        text: of an unreadable table, the reader's words, which may quote the file; of a database, the message; of a
            wrong type, the type.
        column: the one concerned; of the file only if all needed ones are there: else the first row may be data.
        near: a column of the file that was probably meant for a missing one, or one that is read for an unread one;
            of a wrong type, what is read there.
        unread: all columns of the file that nobody reads.
        rows: the first rows concerned, counted from 0, and what is in them. CONFIDENTIAL if the table is.
        code, fix: of the message of a database or a limit.
    """

    def __init__(
        self,
        kind: ProblemKind,
        text: str = "",
        *,
        column: str = "",
        near: str = "",
        unread: tuple[str, ...] = (),
        rows: tuple[tuple[int, str], ...] = (),
        code: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(kind)
        self.kind, self.text, self.column, self.near = kind, text, column, near
        self.unread, self.rows, self.code, self.fix = unread, rows, code, fix


@dataclass(frozen=True)
class DatabaseTable:
    """A table or view of a database.

    Args:
        kind: one of `DATABASES`.
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


TableLocation = Path | DatabaseTable


def locate_table(
    text: str | os.PathLike[str], beside: Path | None = None, *, key: tuple[str, ...] = ()
) -> TableLocation:
    """Return the place that a text names.

    Args:
        text: a path, or KIND:FILE?table=NAME with one of the kinds of `DATABASES`.
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


def containing_file(table: TableLocation) -> Path:
    """Return the file that holds a table."""
    return table.file if isinstance(table, DatabaseTable) else table


def location_text(table: TableLocation, folder: Path) -> str:
    """Return the text that names a table for a reader in a folder."""
    relative = os.path.relpath(containing_file(table).resolve(), folder)
    return f"{table.kind}:{relative}{_MARK}{table.table}" if isinstance(table, DatabaseTable) else relative


@runtime_checkable
class ArrowTable(Protocol):
    """A table in memory: a pandas or polars data frame, an Arrow table or a stream of batches."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow C stream (the Arrow PyCapsule interface)."""


@final
class MemoryTable:
    """A table in memory that shows nothing of itself, as `Confidential` does.

    Args:
        table: it; not looked at before it is read. Batches that can be read only once are gone afterwards.
        what: it holds, for messages: "records", "leaves".

    Raises:
        ConfigError: C250 it is no table.
    """

    __slots__ = ("__stream", "__table", "what")
    stays_in_its_process = True  # `workers.tasks` asks for it

    def __init__(self, table: ArrowTable, what: str) -> None:
        if not isinstance(table, ArrowTable):
            raise ConfigError(
                f"a {type(table).__name__[:60]} was given for the {what}, which is no table",
                code="C250",
                fix="give a pandas or polars data frame, an Arrow table, or anything with __arrow_c_stream__; "
                f"files are named in the run file: input.{what}",
            )
        self.__table, self.what = table, what
        self.__stream: pa.RecordBatchReader | None = None

    @property
    def name(self) -> str:
        """What messages call it; files have a name too."""
        return f"the {self.what} given as a data frame"

    def open_stream(self, *, last: bool = False) -> pa.RecordBatchReader:
        """Return the stream that is open, or open one: a table may be converted for it, and some give only one.

        Args:
            last: its rows are taken from it, so that the next call opens another.

        Raises: whatever its library raises, in words that may quote a value.
        """
        import pyarrow as pa

        stream = self.__stream or pa.RecordBatchReader.from_stream(self.__table)
        self.__stream = None if last else stream
        return stream

    def is_file(self) -> bool:
        """Tell whether there is a table to read."""
        return True

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a table in memory is not copied, compared or stored: it may be confidential")

    __reduce_ex__ = __reduce__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __array__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = _refuse


TableSource = TableLocation | MemoryTable


@dataclass(frozen=True)
class ControlTotals:
    """What the owner of a confidential table says of it, each None or "" if nothing; as confidential as the table.

    Args:
        rows, people: of the table that is read.
        sha256: of its file, in hexadecimal.
    """

    rows: int | None = None
    people: int | None = None
    sha256: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of those that are given."""
        given = {"rows": self.rows, "people": self.people, "sha256": self.sha256 or None}
        return tuple(name for name, value in given.items() if value is not None)

    @property
    def malformed(self) -> tuple[str, ...]:
        """Names of those that are no number of rows or people, or no SHA-256."""
        wrong = [name for name in ("rows", "people") if (getattr(self, name) or 0) < 0]
        return (*wrong, *(["sha256"] if self.sha256 and not _SHA256.fullmatch(self.sha256) else []))

    def check_file(self, source: TableSource | None) -> None:
        """Refuse another file than the one named (TableProblem D080), or a table in memory (None; D082)."""
        if not self.sha256:
            return
        if source is None or isinstance(source, MemoryTable):
            raise TableProblem(
                "control totals",
                "the run file gives the sha256 of a file, and the records are a table in memory",
                code="D082",
                fix="leave sha256 out of the run file, or read the records from their file",
            )
        path = containing_file(source)
        if not path.is_file():
            return  # the reader says so
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise TableProblem(
                "control totals",
                "the file of the records is not the one whose sha256 the run file gives",
                code="D080",
                fix="ask whoever made the file whether it was changed, cut or replaced on its way",
            )

    def check_read(self, n_rows: int, n_people: int) -> None:
        """Refuse another number of rows or people, without saying which it is (TableProblem D081)."""
        read = (("rows", self.rows, n_rows), ("people", self.people, n_people))
        wrong = [name for name, said, found in read if said not in (None, found)]
        if wrong:
            raise TableProblem(
                "control totals",
                f"the records have other {' and '.join(wrong)} than the run file says",
                column=", ".join(wrong),
                code="D081",
                fix="compare the table with what its owner delivered: it may be cut, doubled or another one",
            )


NO_TOTALS = ControlTotals()
