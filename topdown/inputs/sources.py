"""Where a table is: a file, a table of a database that is one file (sqlite:people.db?table=people), or memory.

pandas (2.2 on), polars, DuckDB, Arrow and others share the Arrow C data interface, so none of them is imported here. A
table in memory is held in a box that shows nothing and is never written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar, final, runtime_checkable

from topdown.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


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


TableLocation = Path | DatabaseTable


class StoreError(Exception):
    """A table cannot be had from its store.

    Args:
        code, text, fix: of the message; nothing that rows hold.
    """

    def __init__(self, code: str, text: str, fix: str) -> None:
        super().__init__(text)
        self.code, self.text, self.fix = code, text, fix


def locate_table(
    text: str | os.PathLike[str], beside: Path | None = None, *, key: tuple[str, ...] = ()
) -> TableLocation:
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


def containing_file(table: TableLocation) -> Path:
    """Return the file that holds a table."""
    return table.file if isinstance(table, DatabaseTable) else table


def location_text(table: TableLocation, folder: Path) -> str:
    """Return the text that names a table for a reader in a folder."""
    relative = os.path.relpath(containing_file(table).resolve(), folder)
    return f"{table.kind}:{relative}{_MARK}{table.table}" if isinstance(table, DatabaseTable) else relative


_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")  # rows of a pandas frame that were chosen or sorted
_ROWS = 2**17  # of a batch
T = TypeVar("T")


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

    def header(self) -> list[str]:
        """Return the names of its columns.

        Raises:
            UnreadableError: the library that holds it raises something, whose words may quote a value.
        """
        return _call_library(
            lambda: [name for name in self._opened().schema.names if not _is_nameless_index(name)]
        )

    def _opened(self) -> pa.RecordBatchReader:
        """Return the stream that is open, or open one: a table may be converted for it, and some give only one."""
        import pyarrow as pa

        if self.__stream is None:
            self.__stream = pa.RecordBatchReader.from_stream(self.__table)
        return self.__stream

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns, 131,072 at a time; the first batch has no rows. Text is decoded from views.

        Args:
            names: of `header`, each there once.

        Raises: as `header`.
        """
        batches = self._batches(names)
        while (batch := _call_library(lambda: next(batches, None))) is not None:
            yield batch

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with self._opened() as reader:
            self.__stream = None
            kinds = [reader.schema.field(name).type for name in names]
            yield _decode_batch(
                pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in kinds], names), names
            )
            for batch in reader:
                for at in range(0, batch.num_rows, _ROWS):
                    yield _decode_batch(batch.slice(at, _ROWS), names)

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


def source_exists(source: TableSource) -> bool:
    """Tell whether there is a table to read."""
    return isinstance(source, MemoryTable) or source.is_file()


def _call_library(take: Callable[[], T]) -> T:
    """Take something of a table, of whatever library; the error carries no context and no value."""
    kind = ""
    try:
        return take()
    except Exception as error:
        kind = type(error).__name__
    raise UnreadableError(f"its library raises {kind}")


def _is_nameless_index(name: str) -> bool:
    return _NAMELESS_INDEX.fullmatch(name) is not None


def _decode_batch(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([_decode_text_views(batch.column(name)) for name in names], names=names)


def _decode_text_views(column: pa.Array) -> pa.Array:
    """Return a column with text as text: polars hands out views of text, which few functions take."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))
    return column


class UnreadableError(Exception):
    """The file is not a whole table. The reader's words may quote the file: only for public ones."""


class TooLargeError(Exception):
    """The file is packed, and unpacked it is larger than is read."""


class MiscountedError(Exception):
    """The reader and the count of lines disagree on the number of rows."""
