"""Tables given in memory: anything with an Arrow C stream, held in a box that shows nothing and is never written.

pandas (2.2 on), polars, DuckDB, Arrow and others share the Arrow C data interface, so none of them is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar, final, runtime_checkable

from topdown.errors import ConfigError
from topdown.stores.place import Table

if TYPE_CHECKING:
    import pyarrow as pa

_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")  # rows of a pandas frame that were chosen or sorted
_ROWS = 2**17  # of a batch
T = TypeVar("T")


@runtime_checkable
class ArrowTable(Protocol):
    """A table in memory: a pandas or polars data frame, an Arrow table or a stream of batches."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow C stream (the Arrow PyCapsule interface)."""


@final
class HeldTable:
    """A table in memory that shows nothing of itself, as `Confidential` does.

    Args:
        table: it; not looked at before it is read. Batches that can be read only once are gone afterwards.
        what: it holds, for messages: "records", "leaves".

    Raises:
        ConfigError: C250 it is no table.
    """

    __slots__ = ("__stream", "__table", "what")
    stays_in_its_process = True  # `workers.guard` asks for it

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
        return _taken(lambda: [name for name in self._opened().schema.names if not _is_index(name)])

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
        while (batch := _taken(lambda: next(batches, None))) is not None:
            yield batch

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with self._opened() as reader:
            self.__stream = None
            kinds = [reader.schema.field(name).type for name in names]
            yield _plain(pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in kinds], names), names)
            for batch in reader:
                for at in range(0, batch.num_rows, _ROWS):
                    yield _plain(batch.slice(at, _ROWS), names)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a table in memory is not copied, compared or stored: it may be confidential")

    __reduce_ex__ = __reduce__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __array__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = _refuse


Source = Table | HeldTable


def is_there(source: Source) -> bool:
    """Tell whether there is a table to read."""
    return isinstance(source, HeldTable) or source.is_file()


def names_of(source: Source) -> list[str]:
    """Return the column names of a file or of a table in memory; as `columns.header_of`."""
    from topdown.columns import header_of

    return source.header() if isinstance(source, HeldTable) else header_of(source)


def batches_of(source: Source, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Read columns of a file or of a table in memory, which has types of its own; as `columns.read_batches`."""
    from topdown.columns import read_batches

    return source.batches(list(columns)) if isinstance(source, HeldTable) else read_batches(source, columns)


def rows_in(source: Source, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read columns of a whole table at once; see `batches_of`."""
    import pyarrow as pa

    batches = list(batches_of(source, columns))
    return pa.Table.from_batches(batches[1:] or batches)


def _taken(take: Callable[[], T]) -> T:
    """Take something of a table, of whatever library; the error carries no context and no value."""
    from topdown.columns import UnreadableError

    kind = ""
    try:
        return take()
    except Exception as error:
        kind = type(error).__name__
    raise UnreadableError(f"its library raises {kind}")


def _is_index(name: str) -> bool:
    return _NAMELESS_INDEX.fullmatch(name) is not None


def _plain(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([_decoded(batch.column(name)) for name in names], names=names)


def _decoded(column: pa.Array) -> pa.Array:
    """Return a column with text as text: polars hands out views of text, which few functions take."""
    import pyarrow as pa

    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))
    return column
