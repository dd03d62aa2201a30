"""The footer of a Parquet file, read by ourselves: Apache Thrift's compact protocol, as far as is needed.

Arrow ends the whole process, and with it every check, when it is asked for a column chunk whose metadata is left out.
"""

from __future__ import annotations

from typing import Any

_STRUCT, _LIST, _SET, _MAP, _BINARY, _DOUBLE, _BYTE = 12, 9, 10, 11, 8, 7, 3
_I32 = 5
# a field of another kind than the format's is skipped by Arrow, so a field is its number and its kind
_SCHEMA, _ROW_GROUPS = (2, _LIST), (4, _LIST)  # of FileMetaData
_COLUMNS, _META_DATA, _SIZES = (
    (1, _LIST),
    (3, _STRUCT),
    (16, _STRUCT),
)  # of RowGroup, ColumnChunk, ColumnMetaData
_HISTOGRAMS = (2, _LIST), (3, _LIST)  # of SizeStatistics
_REPETITION, _CHILDREN = (3, _I32), (5, _I32)  # of SchemaElement
_DEEPEST = 16
Fields = dict[tuple[int, int], Any]


def describes_every_column(footer: bytes) -> bool:
    """Tell whether every row group has metadata for every column, with as many sizes as the column has levels.

    Args:
        footer: without its length and the magic at the end.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is no footer.
    """
    whole = _Reader(footer).struct(0)
    levels = _levels(whole.get(_SCHEMA, []))
    return all(
        len(group.get(_COLUMNS, [])) == len(levels)
        and all(
            _fits(chunk.get(_META_DATA), most) for chunk, most in zip(group[_COLUMNS], levels, strict=True)
        )
        for group in whole.get(_ROW_GROUPS, [])
    )


def _levels(schema: list[Fields]) -> list[tuple[int, int]]:
    """Return (repetition, definition) levels of each column, from the schema in depth-first order."""
    found: list[tuple[int, int]] = []
    open_: list[list[int]] = []  # [children left, repetition, definition] of the groups around
    for number, element in enumerate(schema):
        kind = _signed(element[_REPETITION]) if number else 0
        if kind not in (0, 1, 2):
            raise ValueError("a column is neither required, optional nor repeated")
        _, repeated, defined = open_[-1] if open_ else (0, 0, 0)
        repeated, defined = repeated + (kind == 2), defined + (kind != 0)
        if open_:
            open_[-1][0] -= 1
        if _CHILDREN in element:
            open_.append([_signed(element[_CHILDREN]), repeated, defined])
        else:
            found.append((repeated, defined))
        while open_ and open_[-1][0] == 0:
            open_.pop()
    return found


def _fits(column: Fields | None, levels: tuple[int, int]) -> bool:
    if not isinstance(column, dict):
        return False
    sizes = column.get(_SIZES, {})
    return all(
        len(sizes.get(field, [])) in (0, most + 1) for field, most in zip(_HISTOGRAMS, levels, strict=True)
    )


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


class _Reader:
    """Reads values one after the other; a struct becomes {field: value}."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number has no end")

    def _skip(self, n_bytes: int) -> None:
        self._at += n_bytes
        if self._at > len(self._data):
            raise ValueError("it ends too early")

    def struct(self, depth: int) -> Fields:
        """Read a struct: its values by field number and kind."""
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        fields: Fields = {}
        field = 0
        while head := self._byte():
            if head >> 4:
                field += head >> 4
            else:
                field = _signed(self._varint())
            kind = head & 15
            fields[field, kind] = (
                kind if kind in (1, 2) else self._value(kind, depth)
            )  # a flag is its own kind
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self._byte()
            n_items = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15, depth + 1) for _ in self._counted(n_items)]
        if kind == _MAP:
            n_items = self._varint()
            kinds = self._byte() if n_items else 0
            return [
                (self._value(kinds >> 4, depth), self._value(kinds & 15, depth))
                for _ in self._counted(n_items)
            ]
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind in (1, 2, _BYTE, _DOUBLE):
            return self._skip(8 if kind == _DOUBLE else 1)
        if kind in (4, 5, 6):
            return self._varint()
        raise ValueError(f"there is no kind {kind}")

    def _counted(self, n_items: int) -> range:
        """Return a range of so many items, each of which takes a byte at least."""
        if n_items > len(self._data) - self._at:
            raise ValueError("it claims more than it holds")
        return range(n_items)
