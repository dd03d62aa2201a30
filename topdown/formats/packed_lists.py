"""Answers into a file of measurements by a kernel: the bytes that Arrow writes, in a third of its time.

Arrow writes the file with empty lists. What the answers change beside their own page are numbers, which are exchanged
where they stand (Apache Thrift's compact protocol). Whether that gives what this version of Arrow writes is tried for
each form of lists before it is used.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.formats import kernels_lists
from topdown.formats.kernels_lists import pack, unpack
from topdown.formats.release_documents import TABLE_OPTIONS

IS_COMPILED = not str(kernels_lists.__file__).endswith(".py")
LISTS = pa.list_(pa.field("element", pa.int32(), nullable=False))
_MOST_PAGE_BYTES = 1 << 20  # at which Arrow begins another page
Path = tuple[int, ...]  # field numbers, and places in lists
_HEAD = b"\x80\x01\x04"  # of packed numbers: 128 differences a block, in 4 groups; how many numbers follows
_GROUPS, _COLUMNS, _META = 4, 1, 3  # of a footer, a row group, a column chunk
_COUNT, _UNPACKED, _PACKED, _OFFSETS = 5, 6, 7, (9, 11)  # of a column's metadata
_HISTOGRAMS = ((16, 2), (16, 3))  # of its repetition and definition levels
_GROUP_SIZES, _GROUP_START = (2, 6), 5
_PAGE_SIZES, _PAGE_CHECKSUM = (2, 3), 4


@dataclass(frozen=True)
class ListForm:
    """How Arrow writes lists of some lengths.

    Args:
        n_lists, n_values: how many there are.
        header: of the page. levels: all of the page before the first number.
    """

    n_lists: int
    n_values: int
    header: bytes
    levels: bytes

    def pieces(self, values: NDArray[np.int32], room: NDArray[np.uint8]) -> list[bytes]:
        """Return header, lengths and packed numbers, to be written one after the other; nothing if they fill two pages.

        `room`: at least a page, overwritten.
        """
        size = pack(values, np.empty(128, dtype=np.int64), room[: _MOST_PAGE_BYTES - len(self.levels)])
        if size < 0:
            return []
        packed = room[:size].tobytes()
        checksum = zlib.crc32(packed, zlib.crc32(self.levels))
        return [self._header(len(self.levels) + size, checksum), self.levels, packed]

    def values(self, chunk: bytes) -> NDArray[np.int32] | None:
        """Return the numbers of such a column chunk; None for any other, which is for Arrow to read, or to refuse."""
        end = chunk.find(self.levels, 0, len(self.header) + 8 + len(self.levels))
        body = memoryview(chunk)[max(end, 0) :]
        if chunk[: max(end, 0)] != self._header(len(body), zlib.crc32(body)):
            return None
        out, packed = (
            np.empty(self.n_values, dtype=np.int32),
            np.frombuffer(body[len(self.levels) :], np.uint8),
        )
        try:
            return out if unpack(packed, out) else None
        except IndexError:
            return None

    def _header(self, size: int, checksum: int) -> bytes:
        """Return the header of a page."""
        due: dict[Path, int] = dict.fromkeys([(field,) for field in _PAGE_SIZES], size)
        due[_PAGE_CHECKSUM,] = checksum - 2**32 if checksum >= 2**31 else checksum
        return _exchanged(self.header, _numbers(self.header)[0], due)


@lru_cache(maxsize=16)
def list_form(lengths: bytes) -> ListForm | None:
    """Return the form of lists by their lengths, int64; None where Arrow writes other bytes than would be made here."""
    each = np.frombuffer(lengths, dtype=np.int64)
    sample = np.arange(each.sum(), dtype=np.int32) * 37 % 1001
    empty, data = _sample_file(listed(np.zeros_like(each), sample[:0])), _sample_file(listed(each, sample))
    place = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(1).data_page_offset
    try:
        end = place + _numbers(data[place:])[1]
        first = end
        for _ in ("repetition levels", "definition levels"):
            first += 4 + int.from_bytes(data[first : first + 4], "little")
        first += len(_HEAD) + len(_digits(len(sample)))
        form = ListForm(len(each), len(sample), data[place:end], data[end:first])
        return form if filled(empty, 1, [form], sample) == data else None
    except LookupError:  # another protocol than is known here
        return None


def listed(lengths: Ints, values: NDArray[np.int32]) -> pa.ListArray:
    """Return lists of some lengths, of their numbers one after the other."""
    ends = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    return pa.ListArray.from_arrays(ends, pa.array(values), type=LISTS)


def _sample_file(lists: pa.ListArray) -> bytes:
    """Return a file that Arrow writes of lists, with a column of texts before them and one of numbers after."""
    columns = {
        "query": pa.repeat("total", len(lists)),
        "answers": lists,
        "variance_numerator": pa.repeat(1, len(lists)),
    }
    schema = pa.schema([pa.field(name, column.type, nullable=False) for name, column in columns.items()])
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, **TABLE_OPTIONS["topdown.measurements"]) as writer:
        writer.write_table(pa.table(list(columns.values()), schema=schema), row_group_size=len(lists))
    return sink.getvalue()


def file_of_lists(
    write: Callable[[pa.ListArray], bytes], lengths: Ints, values: NDArray[np.int32], n_rows: int, column: str
) -> bytes:
    """Return the file that `write` makes of a column of lists, which are packed here where that gives the same bytes.

    Args:
        write: writes the file with such a column by Arrow. lengths, values: see `listed`.
        n_rows: lists of a row group. column: name of the one that holds them.
    """
    cuts = range(n_rows, len(lengths), n_rows)
    if IS_COMPILED and cuts:  # what a form is tried for is worth it where the form occurs again
        found = [list_form(group.tobytes()) for group in np.split(lengths, cuts)]
        forms = [form for form in found if form is not None]
        if len(forms) == len(found):
            empty = write(listed(np.zeros_like(lengths), values[:0]))
            number = pq.read_schema(pa.BufferReader(empty)).get_field_index(column)
            packed = filled(empty, number, forms, values)
            if packed is not None:
                return packed
    return write(listed(lengths, values))


def filled(empty: bytes, column: int, forms: Sequence[ListForm], values: NDArray[np.int32]) -> bytes | None:
    """Return a file with numbers in the lists of one column, as Arrow would have written it.

    Args:
        empty: the file with as many empty lists. column: which one. forms: of its lists, one a row group.
        values: int32, all numbers one after the other.

    Returns:
        None where Arrow would write more than one page of a row group.
    """
    footer = empty[-8 - int.from_bytes(empty[-8:-4], "little") : -8]
    spans, _ = _numbers(footer)
    stated = {path: _number(footer, span) for path, span in spans.items()}
    sizes = [path for path in stated if path[0] == _GROUPS and path[4:] == (_META, _PACKED)]
    made, due, place, old, used = [empty[:4]], dict[Path, int](), 4, 4, 0
    room = np.empty(_MOST_PAGE_BYTES, dtype=np.uint8)
    for path in sizes:
        group, number, meta = path[:2], path[3], path[:5]
        due.setdefault((*group, _GROUP_START), place)
        pieces = [empty[old : old + stated[path]]]
        due |= {at: stated[at] + place - old for f in _OFFSETS if (at := (*meta, f)) in stated}
        if number == column:
            form = forms[group[1]]
            pieces = form.pieces(values[used : used + form.n_values], room)
            if not pieces:
                return None
            used += form.n_values
            size = sum(map(len, pieces))
            due |= {(*meta, _COUNT): form.n_values, (*meta, _UNPACKED): size, path: size}
            levels = (form.n_lists, form.n_values - form.n_lists), (0, form.n_values)
            for kind, counts in zip(_HISTOGRAMS, levels, strict=True):
                due |= {(*meta, *kind, level): count for level, count in enumerate(counts)}
            for total in _GROUP_SIZES:
                due[*group, total] = stated[*group, total] + size - stated[path]
        made += pieces
        place, old = place + sum(map(len, pieces)), old + stated[path]
    footer = _exchanged(footer, spans, due)
    return b"".join([*made, footer, len(footer).to_bytes(4, "little"), empty[-4:]])


def _numbers(data: bytes) -> tuple[dict[Path, slice], int]:
    """Return where the whole numbers of a struct stand, and where it ends."""
    found: dict[Path, slice] = {}

    def end_of(kind: int, at: int, path: Path) -> int:
        if kind in (4, 5, 6, 8):
            start = at
            while data[at] >= 128:
                at += 1
            at += 1
            if kind != 8:
                found[path] = slice(start, at)
            return at + (_unsigned(data, slice(start, at)) if kind == 8 else 0)
        if kind == 9:
            n, of, at = data[at] >> 4, data[at] & 15, at + 1
            if n == 15:
                at = end_of(6, at, path)
                n = _unsigned(data, found.pop(path))
            for k in range(n):
                at = end_of(of, at, (*path, k))
            return at
        field = 0
        while head := data[at]:
            field += head >> 4
            at = end_of(head & 15, at + 1, (*path, field)) if head & 15 > 2 else at + 1
        return at + 1

    return found, end_of(12, 0, ())


def _unsigned(data: bytes, span: slice) -> int:
    return sum((byte & 127) << 7 * k for k, byte in enumerate(data[span]))


def _number(data: bytes, span: slice) -> int:
    """Return the number that stands at a place."""
    number = _unsigned(data, span)
    return (number >> 1) ^ -(number & 1)


def _exchanged(data: bytes, spans: Mapping[Path, slice], due: Mapping[Path, int]) -> bytes:
    """Return a struct with other numbers in some of the places that it has."""
    pieces, place = [], 0
    for path, span in spans.items():
        if path in due:
            number = 2 * due[path] if due[path] >= 0 else -2 * due[path] - 1
            pieces += [data[place : span.start], _digits(number)]
            place = span.stop
    return b"".join([*pieces, data[place:]])


def _digits(number: int) -> bytes:
    """Return how a number is written that has no sign."""
    digits = []
    while number >= 128:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])
