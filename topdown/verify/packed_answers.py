"""Tell whether a file of measurements has the one form of its rows, without unpacking or writing its answers.

All but the answers is known from the plan, so it is written by Arrow once more and compared byte for byte. Of the
answers, the lengths are known: the bytes that say them are those of as many zeros. What is packed after them is checked
where it is.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topdown.arrays import Ints
from topdown.formats.release_documents import TABLE_OPTIONS
from topdown.verify import kernels_packing
from topdown.verify.kernels_packing import end_of_packed
from topdown.verify.strict_reader import LIST, STRUCT, Fields, ThriftReader, read_footer, signed, zigzag

KIND, ANSWERS = "topdown.measurements", "answers"
LIST_OF_ANSWERS = pa.list_(pa.field("element", pa.int32(), nullable=False))
IS_COMPILED = not str(kernels_packing.__file__).endswith(".py")
"""Whether this is faster than writing the file again."""

_MOST_PAGE_BYTES = 1 << 20  # of packed numbers, at which Arrow begins another page
_GROUPS, _COLUMNS, _META = (4, LIST), (1, LIST), (3, STRUCT)  # of a footer, a row group, a column chunk
_UNPACKED, _PACKED, _FIRST_PAGE, _DICTIONARY_PAGE = (6, 6), (7, 6), (9, 6), (11, 6)  # of a column's metadata
_GROUP_UNPACKED, _GROUP_START, _GROUP_PACKED = (2, 6), (5, 6), (6, 6)  # of a row group
_PAGE_UNPACKED, _PAGE_PACKED, _PAGE_CHECKSUM = (2, 5), (3, 5), (4, 5)  # of the header of a page
_PAGE_VALUES = (5, STRUCT)  # how many, and in which encoding


@dataclass(frozen=True)
class KnownRows:
    """What is known of a row group.

    Args:
        columns: of the file's schema, answers apart.
        lengths: answers of each row.
    """

    columns: Mapping[str, pa.Array]
    lengths: Ints


def has_due_bytes(
    data: bytes, schema: pa.Schema, groups: Sequence[KnownRows], stamps: Mapping[str, str]
) -> bool:
    """Tell whether a file is byte for byte what this version of Arrow writes for known rows, whatever the answers are.

    Args:
        data: the file. schema: of it. groups: its row groups. stamps: what its footer must hold.

    Returns:
        False also where that cannot be told, as where the answers of a group fill more than one page.

    Raises:
        ValueError, LookupError, TypeError, OSError, ArrowException: the file is no such file.
    """
    without = _written(schema, [(rows.columns, np.zeros_like(rows.lengths), 0) for rows in groups], stamps)
    footer, due = read_footer(data), read_footer(without)
    found = footer.get(_GROUPS, [])
    if len(found) != len(groups):
        return False
    place = place_due = 4
    if data[:place] != without[:place]:
        return False
    answers = schema.get_field_index(ANSWERS)
    for group, group_due, rows in zip(found, due.get(_GROUPS, []), groups, strict=True):
        start = place
        for number, (chunk, chunk_due) in enumerate(zip(group[_COLUMNS], group_due[_COLUMNS], strict=True)):
            size, size_due = signed(chunk[_META][_PACKED]), signed(chunk_due[_META][_PACKED])
            here, there = data[place : place + size], without[place_due : place_due + size_due]
            if number == answers:
                stated = _stated_of_answers(here, rows.lengths, place)
                if stated is None:
                    return False
                chunk_due[_META] = stated
            else:
                if here != there:
                    return False
                for offset in {_FIRST_PAGE, _DICTIONARY_PAGE} & set(chunk_due[_META]):
                    chunk_due[_META][offset] += zigzag(place) - zigzag(place_due)
            place, place_due = place + size, place_due + size_due
        columns = [chunk[_META] for chunk in group_due[_COLUMNS]]
        group_due[_GROUP_UNPACKED] = sum(column[_UNPACKED] for column in columns)
        group_due[_GROUP_PACKED] = sum(column[_PACKED] for column in columns)
        group_due[_GROUP_START] = zigzag(start)
    n_footer = int.from_bytes(data[-8:-4], "little")
    return footer == due and place + n_footer + 8 == len(data) and data[-4:] == without[-4:]


def has_lengths(chunk: BinaryIO, size: int, lengths: Ints) -> bool:
    """Tell whether the lists of a column chunk that is one page have these lengths, whatever is in them.

    Of the chunk's `size` bytes, at which the file stands, the header and the lengths are read.
    """
    template = _of_zeros(lengths.tobytes())
    if template is None:
        return False
    head = chunk.read(min(size, 256 + len(template.levels)))  # a header takes fewer than 256 bytes
    reader = ThriftReader(head)
    header = reader.struct(0)
    same = header[_PAGE_VALUES] == template.header[_PAGE_VALUES]
    is_one = size - reader.n_read == signed(header[_PAGE_PACKED])
    return same and is_one and head.startswith(template.levels, reader.n_read)


def _written(
    schema: pa.Schema, groups: Sequence[tuple[Mapping[str, pa.Array], Ints, int]], stamps: Mapping[str, str]
) -> bytes:
    """Return the file that Arrow writes: of each row group the columns, and how many zeros each row has for answers."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, **TABLE_OPTIONS[KIND]) as writer:
        for columns, lengths, total in groups:
            ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
            values = pa.array(np.zeros(total, dtype=np.int32))
            zeros = pa.ListArray.from_arrays(pa.array(ends), values, type=LIST_OF_ANSWERS)
            row = [zeros if name == ANSWERS else columns[name] for name in schema.names]
            writer.write_table(pa.table(row, schema=schema), row_group_size=len(lengths))
        writer.add_key_value_metadata({key: text for key, text in sorted(stamps.items()) if text})
    return sink.getvalue()


def _stated_of_answers(chunk: bytes, lengths: Ints, place: int) -> Fields | None:
    """Return what the footer must state of a chunk of answers that begins at a place; None if it has another form."""
    template = _of_zeros(lengths.tobytes())
    reader = ThriftReader(chunk)
    header = reader.struct(0)
    body = chunk[reader.n_read :]
    if template is None or len(body) > _MOST_PAGE_BYTES:
        return None
    checksum = zlib.crc32(body)
    due = template.header | {
        _PAGE_UNPACKED: zigzag(len(body)),
        _PAGE_PACKED: zigzag(len(body)),
        _PAGE_CHECKSUM: zigzag(checksum - 2**32 if checksum >= 2**31 else checksum),
    }
    levels, n_values = template.levels, int(lengths.sum())
    same = (
        header == due
        and body.startswith(levels)
        and end_of_packed(np.frombuffer(body, dtype=np.uint8), len(levels), n_values) == len(body)
    )
    sizes = {_UNPACKED: len(chunk), _PACKED: len(chunk), _FIRST_PAGE: place}
    return template.stated | {key: zigzag(number) for key, number in sizes.items()} if same else None


@dataclass(frozen=True)
class _Zeros:
    """How Arrow writes lists of zeros: header of the page, bytes of the lengths, what the footer states."""

    header: Fields
    levels: bytes
    stated: Fields


@lru_cache(maxsize=16)
def _of_zeros(lengths: bytes) -> _Zeros | None:
    """Return how zeros are written, by the bytes of their lengths; None if they fill more than one page."""
    each = np.frombuffer(lengths, dtype=np.int64)
    schema = pa.schema([pa.field(ANSWERS, LIST_OF_ANSWERS, nullable=False)])
    data = _written(schema, [({}, each, int(each.sum()))], {})
    stated: Fields = read_footer(data)[_GROUPS][0][_COLUMNS][0][_META]
    chunk = data[4 : 4 + signed(stated[_PACKED])]
    reader = ThriftReader(chunk)
    header = reader.struct(0)
    if reader.n_read + signed(header[_PAGE_PACKED]) != len(chunk):
        return None
    page, end = chunk[reader.n_read :], 0
    for _ in ("repetition levels", "definition levels"):
        end += 4 + int.from_bytes(page[end : end + 4], "little")
    return _Zeros(header, page[:end], stated)
