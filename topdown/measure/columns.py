"""One column of the records, batch by batch: what its values stand for, and which rows hold what nobody knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from topdown.columns import is_text, whole_numbers
from topdown.measure.private_errors import MAX_ROWS
from topdown.measure.records import Refused, kind_of

MAX_COUNT = 2**31 - 1
_END = b"."  # after every name: numpy takes no notice of zero bytes at the end of one
Ints = NDArray[np.int64]


class Names:
    """Where each of many names stands, found by halving: no table of hashes is made for a batch.

    Args:
        names: distinct texts; ten bytes of memory a name beside its own.
    """

    def __init__(self, names: Sequence[str]) -> None:
        coded = np.array([name.encode() + _END for name in names])
        self._place = np.argsort(coded, kind="stable")
        self._sorted = coded[self._place]

    def find(self, texts: pa.Array) -> Ints:
        """Return the index of each text among the names, -1 where there is none; int64 (len(texts),)."""
        found = np.full(len(texts), -1, dtype=np.int64)
        held = texts.cast(pa.string()).cast(pa.binary())
        short = pc.fill_null(pc.less(pc.binary_length(held), self._sorted.dtype.itemsize), False)
        wanted = np.array([text + _END for text in held.filter(short).to_pylist()], dtype=self._sorted.dtype)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        found[short.to_numpy(zero_copy_only=False)] = np.where(
            self._sorted[at] == wanted, self._place[at], -1
        )
        return found


class NameColumn:
    """A column of names.

    Args:
        names: those that are known.
        unknown: what is said of others.
    """

    def __init__(self, names: Sequence[str], unknown: Refused) -> None:
        self._names, self._faults = Names(names), Faults(unknown)
        self._plain = not any(name.isdigit() and name[0] == "0" and name != "0" for name in names)

    def read(self, column: pa.Array, first_row: int) -> Ints:
        """Return the index of every row's name, -1 where it is not known; int64 (n_rows,)."""
        if self._plain and pa.types.is_integer(
            column.type
        ):  # digits: no name that is known begins with a zero
            column = column.cast(pa.string())
        coded = pa.types.is_dictionary(column.type)
        if not is_text(column.type.value_type if coded else column.type):
            self._faults.wrong_kind(
                f"{kind_of(column.dictionary if coded else column)}, not text",
                "write the column as text; numbers lose their leading zeros",
            )
            return np.full(len(column), -1, dtype=np.int64)
        column = column if coded else column.dictionary_encode()
        table = np.append(self._names.find(column.dictionary), -1)
        found: Ints = table[column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]
        self._faults.add(column, np.flatnonzero(found < 0), first_row)
        return found

    def check(self) -> None:
        """Raise Refused if any row read so far held what is not known."""
        self._faults.check()


class CountColumn:
    """The column `count`; 1 a row where there is none."""

    def __init__(self) -> None:
        self._faults = Faults(
            Refused(
                "D032",
                f"some counts are not whole numbers from 0 to {MAX_COUNT:,}",
                column="count",
                fix="correct the records; a count is the number of records in one cell",
            )
        )

    def read(self, column: pa.Array, first_row: int) -> Ints:
        """Return every row's count, -1 where there is none; int64 (n_rows,)."""
        counts = whole_numbers(column)
        if counts is None:
            self._faults.wrong_kind(
                f"{kind_of(column)}, not whole numbers", "write the counts as integers, or as text of digits"
            )
            return np.full(len(column), -1, dtype=np.int64)
        counts = np.where(counts > MAX_COUNT, -1, counts)
        self._faults.add(column, np.flatnonzero(counts < 0), first_row)
        return counts

    def check(self) -> None:
        """Raise Refused if any row read so far held no count."""
        self._faults.check()


class Faults:
    """What is wrong with one column: its type, or values of some rows; no more rows than a private list takes."""

    def __init__(self, refused: Refused) -> None:
        self._refused, self._rows = refused, list[tuple[str, str]]()
        self._kind: Refused | None = None

    def wrong_kind(self, text: str, fix: str) -> None:
        """Note that the column holds values of another kind."""
        name = self._refused.column
        self._kind = Refused("D024", f"column {name!r} of the records holds {text}", column=name, fix=fix)

    def add(self, column: pa.Array, bad: NDArray[np.intp], first_row: int) -> None:
        """Note rows of a batch that begins with row `first_row` of the table."""
        for i in bad[: MAX_ROWS - len(self._rows)].tolist():
            self._rows.append((f"row {first_row + i + 1}", str(column[i].as_py())))

    def check(self) -> None:
        """Raise what was noted."""
        if self._kind is not None:
            raise self._kind
        if self._rows:
            self._refused.rows = lambda: iter(self._rows)
            raise self._refused
