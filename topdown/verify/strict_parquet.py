"""Read Parquet that nobody attests: footer, stamps, columns and sizes are checked before any value is read.

The footer is read by ourselves (Apache Thrift's compact protocol, as far as is needed): Arrow ends the whole process,
and with it every check, when it is asked for a column chunk whose metadata is left out.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.formats.release_documents import ROWS_PER_GROUP, TABLE_OPTIONS, TABLE_VERSIONS
from topdown.formats.verify_documents import Finding
from topdown.verify.packed_answers import ANSWERS, IS_COMPILED, KnownRows, has_due_bytes, has_lengths
from topdown.verify.strict_reader import (
    LIST,
    STRUCT,
    Fields,
    Items,
    ThriftReader,
    UnreadableError,
    open_inside,
    read_bytes,
    read_footer,
    signed,
    unreadable,
    zigzag,
)

_I32 = 5


# a field of another kind than the format's is skipped by Arrow, so a field is its number and its kind
_SCHEMA, _ROW_GROUPS = (2, LIST), (4, LIST)  # of FileMetaData

_COLUMNS, _META_DATA, _SIZES = (
    (1, LIST),
    (3, STRUCT),
    (16, STRUCT),
)  # of RowGroup, ColumnChunk, ColumnMetaData

_HISTOGRAMS = (2, LIST), (3, LIST)  # of SizeStatistics
_REPETITION, _CHILDREN = (3, _I32), (5, _I32)  # of SchemaElement


def describes_every_column(footer: bytes) -> bool:
    """Tell whether every row group has metadata for every column, with as many sizes as the column has levels.

    Args:
        footer: without its length and the magic at the end.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is no footer.
    """
    whole = ThriftReader(footer).struct(0)
    levels = _levels(whole.get(_SCHEMA, []))
    return all(
        len(group.get(_COLUMNS, [])) == len(levels)
        and all(
            _sizes_fit(chunk.get(_META_DATA), most)
            for chunk, most in zip(group[_COLUMNS], levels, strict=True)
        )
        for group in whole.get(_ROW_GROUPS, [])
    )


def _levels(schema: list[Fields]) -> list[tuple[int, int]]:
    """Return (repetition, definition) levels of each column, from the schema in depth-first order."""
    found: list[tuple[int, int]] = []
    open_: list[list[int]] = []  # [children left, repetition, definition] of the groups around
    for number, element in enumerate(schema):
        kind = signed(element[_REPETITION]) if number else 0
        if kind not in (0, 1, 2):
            raise ValueError("a column is neither required, optional nor repeated")
        _, repeated, defined = open_[-1] if open_ else (0, 0, 0)
        repeated, defined = repeated + (kind == 2), defined + (kind != 0)
        if open_:
            open_[-1][0] -= 1
        if _CHILDREN in element:
            open_.append([signed(element[_CHILDREN]), repeated, defined])
        else:
            found.append((repeated, defined))
        while open_ and open_[-1][0] == 0:
            open_.pop()
    return found


def _sizes_fit(column: Fields | None, levels: tuple[int, int]) -> bool:
    if not isinstance(column, dict):
        return False
    sizes = column.get(_SIZES, {})
    return all(
        len(sizes.get(field, [])) in (0, most + 1) for field, most in zip(_HISTOGRAMS, levels, strict=True)
    )


MAX_ROWS = 2**30
MOST_BYTES_AT_ONCE = 2**26  # of a file that is read whole
_WHY = "what its rows do not say could be a message, or show other rows to a reader that filters"
BYTES_A_VALUE = 256
ROWS_A_BYTE = 200  # run-length coding of a true table never packs more
MAGIC = b"PAR1"
GROUPS_OF_THEIR_OWN = ("topdown.measurements", "topdown.exact_answers")
"""Kinds whose row groups have as many rows as their check says."""

WRITER = re.compile(r"parquet-cpp-arrow version [0-9]+(\.[0-9]+){0,3}(-SNAPSHOT)?")
TEXT = pa.string()
WHOLE = pa.int64()
REAL = pa.float64()
THIS_WRITER = f"parquet-cpp-arrow version {pa.cpp_version}"
_ROWS_AND_COLUMNS, _CREATED_BY = (4, 1), (6,)  # paths of field numbers in a footer

_OF_PAGES = {
    _CREATED_BY,
    (4, 2),
    (4, 5),
    (4, 6),
    *((4, 1, 3, field) for field in (6, 7, 9, 11)),
    (4, 1, 3, 13, 3),
}
"""What follows from how pages are cut and compressed: sizes, offsets, numbers of pages; and the writer's name."""

_LATER = {(4, 1, 3, 12, 7), (4, 1, 3, 12, 8), (4, 1, 3, 16)}
"""What earlier versions of Arrow do not write: whether statistics are exact, and sizes of texts."""


def says_the_same(data: bytes, again: bytes) -> bool:
    """Tell whether a file of another version of Arrow says what this version writes for its rows.

    Footer and dictionaries must be the same; pages must fill the file, each with its checksum, a single frame of zstd
    where its kind is compressed.
    How pages are cut, and how their values are packed, is the writer's choice.
    """
    footer, due = read_footer(data), read_footer(again)
    if not _same_fields(footer, due, ()):
        return False
    place = place_due = len(MAGIC)
    for group, group_due in zip(footer.get(_ROW_GROUPS, []), due.get(_ROW_GROUPS, []), strict=True):
        first = place
        for chunk, chunk_due in zip(group[_COLUMNS], group_due[_COLUMNS], strict=True):
            pages, place = _pages(data, place, chunk[_META_DATA])
            pages_due, place_due = _pages(again, place_due, chunk_due[_META_DATA])
            if not _same_pages(pages, pages_due, chunk[_META_DATA]):
                return False
        sums = [sum(chunk[_META_DATA][field, 6] for chunk in group[_COLUMNS]) for field in (6, 7)]
        if [group[2, 6], group[6, 6], group[5, 6]] != [*sums, zigzag(first)]:
            return False
    return place + len(data[place:]) == len(data)


def _same_fields(found: Any, due: Any, path: tuple[int, ...]) -> bool:
    """Compare values of a footer, but for those that differ between versions."""
    if path in _OF_PAGES:
        return type(found) is type(due)
    if isinstance(due, dict):
        left_out = set(due) - set(found)
        return (
            set(found) <= set(due)
            and all((*path, field) in _LATER for field, _ in left_out)
            and all(_same_fields(found[key], due[key], (*path, key[0])) for key in found)
        )
    if isinstance(due, Items):
        same_kind = isinstance(found, Items) and (found.kind, len(found)) == (due.kind, len(due))
        return same_kind and all(map(_same_fields, found, due, [path] * len(due)))
    return bool(found == due)


Page = tuple[Fields, bytes]  # header and what it unpacks to
_CODEC, _UNCOMPRESSED = (4, 5), 0  # of ColumnMetaData


def _pages(data: bytes, place: int, column: Fields) -> tuple[list[Page], int]:
    """Return the pages of a column that begins at a place, and where they end; ValueError if they are not whole."""
    # (field, type) of Parquet's ColumnMetaData: 6 and 7 sizes before and after compression, 9 and 11 offsets of data
    # and dictionary; of PageHeader: 2 and 3 the sizes, 4 the CRC
    found, unpacked = list[Page](), 0
    end = place + signed(column[7, 6])
    starts = [place]
    while place < end:
        reader = ThriftReader(memoryview(data)[place:end])
        header = reader.struct(0)
        size, whole = signed(header[3, 5]), signed(header[2, 5])
        body = data[place + reader.n_read : place + reader.n_read + size]
        is_plain = column[_CODEC] == _UNCOMPRESSED
        is_whole = size == whole if is_plain else _is_one_frame(body)
        if len(body) != size or zlib.crc32(body) != signed(header[4, 5]) % 2**32 or not is_whole:
            raise ValueError("a page is not whole")
        found.append((header, body if is_plain else pa.decompress(body, whole, codec="zstd", asbytes=True)))
        place, unpacked = place + reader.n_read + size, unpacked + reader.n_read + whole
        starts.append(place)
    has_dictionary = (11, 6) in column
    offsets = [signed(column[key]) for key in ((11, 6), (9, 6)) if key in column]
    if place != end or offsets != starts[: 1 + has_dictionary] or signed(column[6, 6]) != unpacked:
        raise ValueError("its pages are not where its footer says")
    return found, place


def _is_one_frame(body: bytes) -> bool:
    """Tell whether bytes are a frame of zstd alone, without a checksum of its own (RFC 8878, 3.1.1)."""
    if body[:4] != b"\x28\xb5\x2f\xfd" or body[4] & 0b11111:
        return False
    single, flag = body[4] >> 5 & 1, body[4] >> 6
    place, last = 5 + (1 - single) + (single if flag == 0 else 1 << flag), 0
    while not last:
        head = int.from_bytes(body[place : place + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        place += 3 + (1 if kind == 1 else size)
        if place > len(body):
            return False
    return place == len(body)


def _same_pages(pages: list[Page], due: list[Page], column: Fields) -> bool:
    """Compare dictionaries, and the headers of pages as far as they do not say how pages are cut."""
    dictionary = [page for page in pages if _DICTIONARY in page[0]]
    if dictionary != pages[: len(dictionary)] or len(dictionary) > 1:
        return False
    heads = [(header[_DICTIONARY], content) for header, content in dictionary]
    if heads != [(header[_DICTIONARY], content) for header, content in due if _DICTIONARY in header]:
        return False
    data = [header[_DATA] for header, _ in pages[len(dictionary) :]]
    known = [set(header) for header, _ in pages] == [_PAGE_KEYS | {_DICTIONARY}] * len(dictionary) + [
        _PAGE_KEYS | {_DATA}
    ] * len(data)
    forms = [{key: value for key, value in head.items() if key[0] in (2, 3, 4)} for head in data]
    form = next(
        {k: v for k, v in header[_DATA].items() if k[0] in (2, 3, 4)} for header, _ in due if _DATA in header
    )
    n_values = sum(signed(head[1, 5]) for head in data)
    told = {(one[1, 5], one[2, 5]): signed(one[3, 5]) for one in column.get((13, 9), [])}
    return (
        known
        and all(one == form for one in forms)
        and all(set(head) <= {(1, 5), (2, 5), (3, 5), (4, 5), (5, 12)} for head in data)
        and n_values == signed(column[5, 6])
        and sum(told.values()) == len(pages)
        and (
            len(data) > 1 or all((head.get((5, 12)) or None) in (None, column.get((12, 12))) for head in data)
        )
    )


_DATA, _DICTIONARY = (5, STRUCT), (7, STRUCT)  # of PageHeader
_PAGE_KEYS = {(1, _I32), (2, _I32), (3, _I32), (4, _I32)}


class _Comparison:
    """A file to write to that holds nothing: it compares what it gets with another file."""

    closed = False

    def __init__(self, other: BinaryIO) -> None:
        self._other, self._written, self.same = other, 0, True

    def write(self, data: bytes) -> int:
        """Compare the next bytes."""
        self.same = self.same and self._other.read(len(data)) == data
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were compared."""
        return self._written

    def flush(self) -> None:
        """Do nothing: all is compared at once."""

    def close(self) -> None:
        """End the comparison: the other file must end here too."""
        self.same = self.same and not self._other.read(1)
        self.closed = True


class WrittenAgain:
    """A table that is written again, row group by row group.

    Args:
        file: the file as it is, at its first byte.
        schema: of it.
        stamps: all that its footer must hold, `type` among them; an empty one is left out.
        writer: which version of Arrow wrote it, as it says. What another one writes is held, to be compared.

    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, stamps: Mapping[str, str], writer: str) -> None:
        self._file, self._schema = file, schema
        self._sink = _Comparison(file) if writer == THIS_WRITER else io.BytesIO()
        self._stamps = {key: text for key, text in sorted(stamps.items()) if text}
        self._writer = pq.ParquetWriter(self._sink, self._schema, **TABLE_OPTIONS[stamps["type"]])

    def add(self, group: pa.Table) -> None:
        """Compare one more row group."""
        pairs = zip(group.columns, self._schema.types, strict=True)
        columns = [column if column.type == due else column.cast(due) for column, due in pairs]
        self._writer.write_table(pa.table(columns, schema=self._schema), row_group_size=group.num_rows)

    def is_same(self) -> bool:
        """Write the footer, and tell whether the file is byte for byte what was written, or says the same."""
        self._writer.add_key_value_metadata(self._stamps)
        self._writer.close()
        if isinstance(self._sink, io.BytesIO):
            return says_the_same(self._file.read(), self._sink.getvalue())
        self._sink.close()
        return self._sink.same

    def __enter__(self) -> Self:
        """Return itself: the writer ends with the context."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the writer, which would write its footer when nobody compares any more."""
        if self._writer.is_open:
            if isinstance(self._sink, _Comparison):
                self._sink.same = False
            with suppress(pa.ArrowException, OSError):
                self._writer.close()


@dataclass(frozen=True)
class TableForm:
    """What a Parquet file must be.

    Args:
        kind: its `type` stamp.
        columns: name and type of every column, in order; text columns are read as dictionaries.
        stamps: further stamps it must carry; an empty one must be absent, and no others may be there.
        is_nullable: whether columns are declared as such that a value may be missing in; none is.
    """

    kind: str
    columns: dict[str, pa.DataType]
    stamps: dict[str, str] = field(default_factory=dict)
    is_nullable: bool = True

    def schema(self) -> pa.Schema:
        """Return the columns as they must be declared."""
        return pa.schema([pa.field(n, t, nullable=self.is_nullable) for n, t in self.columns.items()])


class ParquetTable:
    """A Parquet file whose columns, stamps and sizes were checked before any value is read.

    Args:
        root, path: where it is.
        code: of the findings about it.
        form: what it must be.
        max_rows: most rows a true file can have.
        max_list_values: most values of its list column, if it has one.
        is_own: its hash is that of bytes which this very process wrote by the format's own writer: what its rows are
            written as need not be made again.

    Raises:
        UnreadableError: anything does not fit.

    """

    def __init__(
        self,
        root: Path,
        path: str,
        code: str,
        form: TableForm,
        max_rows: int,
        max_list_values: int = 0,
        *,
        is_own: bool = False,
    ) -> None:
        self.path, self._root, self._code, self._is_own = path, root, code, is_own
        self._schema = form.schema()
        self._stamps = {"type": form.kind, "version": TABLE_VERSIONS[form.kind]} | form.stamps
        text = [name for name, type_ in form.columns.items() if type_ == TEXT]
        try:
            self._stream = open_inside(root, path)
        except FileNotFoundError:
            raise unreadable(code, path, "is missing", "the release is not complete") from None
        except (OSError, ValueError) as error:
            raise unreadable(code, path, f"cannot be opened ({type(error).__name__})") from None
        try:
            size = os.fstat(self._stream.fileno()).st_size
            if not is_own:
                self._check_footer(size)
            # One thread: Arrow's own drop the stream's bytes late, and abort if Python ends meanwhile.
            self._file = pq.ParquetFile(self._stream, read_dictionary=text, pre_buffer=False)
            self._check_stamps(self._stamps)
            self._check_size(max_rows, max_list_values, size)
            self._check_layout(size)
        except UnreadableError:
            self.close()
            raise
        except Exception as error:  # a damaged footer can surface as almost anything
            self.close()
            raise unreadable(code, path, f"is not a whole Parquet file ({type(error).__name__})") from None

    def _check_footer(self, size: int) -> None:
        """Refuse a footer that leaves out a column; what is no footer at all is Arrow's to refuse."""
        self._stream.seek(max(0, size - 4 - len(MAGIC)))
        length = int.from_bytes(self._stream.read(4), "little")
        if length > size:
            return
        self._stream.seek(max(0, size - 4 - len(MAGIC) - length))
        if not describes_every_column(self._stream.read(length)):
            raise unreadable(self._code, self.path, "does not describe every column")
        self._stream.seek(0)

    def _check_stamps(self, stamps: dict[str, str]) -> None:
        """Compare the stamps; no other text may stand beside them."""
        have = self._file.metadata.metadata or {}
        names = {key.decode("utf-8", "replace") for key in have}
        other = sorted(names - {key for key, wanted in stamps.items() if wanted})
        if other:
            text = f"carries a stamp {other[0][:40]!r} that the format does not have"
            raise unreadable(self._code, self.path, text)
        for key, wanted in stamps.items():
            found = have.get(key.encode(), b"").decode("utf-8", "replace")
            if found != wanted and key == "version":
                text = f"{self.path} has version {found[:16] or '?'} of its form, and this topdown reads {wanted}"
                why = "another version of topdown made the release"
                fix = "verify with the version of topdown that made it"
                raise UnreadableError(Finding(self._code, text, self.path, why=why, fix=fix))
            if found != wanted:
                text = f"{self.path} does not carry the right stamp {key!r}"
                why = "it belongs to another run, or is no such file"
                raise UnreadableError(
                    Finding(self._code, text, self.path, None, None, wanted[:16], found[:16], why)
                )

    def _check_size(self, max_rows: int, max_values: int, size: int) -> None:
        meta = self._file.metadata
        found = [
            f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f
            for f in self._file.schema_arrow
        ]
        if found != list(self._schema):
            shown = ", ".join(f"{f.name} {f.type}{'' if f.nullable else ' not null'}" for f in found)
            problem = f"has other columns than the format asks for: {shown[:200]}"
            raise unreadable(self._code, self.path, problem)
        self.n_rows = int(meta.num_rows)
        if not 0 <= self.n_rows <= min(max_rows, MAX_ROWS, 2**20 + ROWS_A_BYTE * size):
            problem = f"claims {self.n_rows:,} rows, more than it can truly have"
            raise unreadable(self._code, self.path, problem)
        groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
        largest = max((group.num_rows for group in groups), default=0)
        self.rows = largest if self._stamps["type"] in GROUPS_OF_THEIR_OWN else ROWS_PER_GROUP
        due = [min(self.rows, self.n_rows - first) for first in range(0, self.n_rows, max(self.rows, 1))]
        if [group.num_rows for group in groups] != due:
            raise unreadable("V200", self.path, "has other row groups than its kind is written in", _WHY)
        values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
        claimed = sum(int(group.total_byte_size) for group in groups)
        allowed = self.n_rows * len(self._schema) + max_values
        if values > allowed or claimed > 2**24 + BYTES_A_VALUE * allowed:
            raise unreadable(self._code, self.path, "claims more data than it can truly have")

    def _check_layout(self, size: int) -> None:
        """Refuse bytes that no reader reads: pages fill the file up to the footer, which holds no further text."""
        meta, spans = self._file.metadata, []
        for group in range(meta.num_row_groups):
            for i in range(meta.num_columns):
                column = meta.row_group(group).column(i)
                start = column.data_page_offset
                if column.has_dictionary_page and column.dictionary_page_offset:
                    start = min(start, column.dictionary_page_offset)
                spans.append((start, start + column.total_compressed_size))
        place = len(MAGIC)
        for start, end in sorted(spans):
            if start != place:
                raise unreadable(self._code, self.path, "has bytes between its pages")
            place = end
        self._stream.seek(size - 4 - len(MAGIC))
        footer = int.from_bytes(self._stream.read(4), "little")
        if place + footer + 4 + len(MAGIC) != size:
            raise unreadable(self._code, self.path, "has bytes between its pages and its footer")
        notes = [key for field in self._file.schema_arrow for key in (field.metadata or {})]
        if not WRITER.fullmatch(meta.created_by or "") or set(notes) - {b"PARQUET:field_id"}:
            raise unreadable(self._code, self.path, "carries text that the format does not have")

    def read(self) -> pa.Table:
        """Read all rows; UnreadableError if a page is damaged, a value is missing, or the file has another form."""
        groups = list(self._groups())
        table = pa.concat_tables(groups or [self._file.schema_arrow.empty_table()])
        if table.num_rows != self.n_rows:
            raise unreadable(self._code, self.path, "has other row counts than its footer says")
        for name in table.column_names:
            if table.column(name).null_count:
                raise unreadable(self._code, self.path, f"has an empty value in column {name!r}")
        return table

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate over record batches of at most `rows` rows; UnreadableError as `read`, where it shows."""
        for group in self._groups():
            yield from group.to_batches(max_chunksize=rows)

    def is_as_known(self, known: Callable[[int, int], KnownRows]) -> bool:
        """Tell whether a table of measurements says what is known of its rows, in the only bytes that say it.

        Of a file that this very process wrote only known values and the number of answers in each row are compared.

        That is quick, and shows that every page is whole: only where it is False must rows be read to find what is
        wrong, or whether they are written as another version of Arrow writes them.

        Args:
            known: what is known of the rows from one number to before another.
        """
        try:
            if self._is_own:
                return self._has_values(known(0, self.n_rows))
            if not IS_COMPILED or self._file.metadata.created_by != THIS_WRITER:
                return False
            data = read_bytes(self._root, self.path, self._code, MOST_BYTES_AT_ONCE)
            bounds = [*range(0, self.n_rows, max(self.rows, 1)), self.n_rows]
            rows = [known(first, last) for first, last in pairwise(bounds)]
            return has_due_bytes(data, self._schema, rows, self._stamps)
        except Exception:  # what is damaged can surface as almost anything; reading says what it is
            return False

    def _has_values(self, known: KnownRows) -> bool:
        """Tell whether all rows have the known values, and as many answers in each as are known."""
        found = self._file.read(columns=list(known.columns), use_threads=False)
        if not all(found[n].cast(c.type).combine_chunks().equals(c) for n, c in known.columns.items()):
            return False
        at = self._schema.get_field_index(ANSWERS)
        for group, lengths in enumerate(np.split(known.lengths, range(self.rows, self.n_rows, self.rows))):
            answers = self._file.metadata.row_group(group).column(at)
            self._stream.seek(answers.data_page_offset)
            if not has_lengths(self._stream, answers.total_compressed_size, lengths):
                return False
        return True

    def _groups(self) -> Iterator[pa.Table]:
        """Read one row group after the other; at last the file must be byte for byte what its rows are written as."""
        try:
            if self._is_own:
                yield from self._read_groups()
                return
            with (
                open_inside(self._root, self.path) as file,
                WrittenAgain(file, self._schema, self._stamps, self._file.metadata.created_by) as again,
            ):
                for group in self._read_groups():
                    again.add(group)
                    yield group
                same = again.is_same()
        except Exception as error:
            raise unreadable(self._code, self.path, f"has a damaged page ({type(error).__name__})") from None
        finally:
            self.close()
        if not same:
            raise unreadable("V200", self.path, "is not what its rows are written as", _WHY)

    def _read_groups(self) -> Iterator[pa.Table]:
        for i in range(self._file.num_row_groups):
            group = self._file.read_row_group(i, use_threads=False)
            group.validate(full=not self._is_own)
            yield group

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def label_positions(column: Any, known: pa.Array) -> NDArray[np.int64]:
    """Return the position in `known` of each text of a dictionary column; -1 where it is not known."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_positions(chunk, known) for chunk in chunks]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _positions(chunk: pa.DictionaryArray, known: pa.Array) -> NDArray[np.int64]:
    texts = chunk.dictionary.cast(TEXT)
    if not chunk.null_count and texts.equals(known):  # looking each of them up would find the same
        return int64_array(chunk.indices)
    # one place more: an empty value has index -1
    place = np.append(pc.fill_null(pc.index_in(texts, value_set=known), -1).to_numpy(), -1)
    return np.asarray(place[pc.fill_null(chunk.indices, -1).to_numpy()], dtype=np.int64)


def int64_array(column: Any) -> NDArray[np.int64]:
    """Return an int64 column as an array."""
    return np.ascontiguousarray(column.to_numpy(), dtype=np.int64)
