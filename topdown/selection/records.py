"""What a selection is handed: public items, and how they serve each private record. One record, one privacy unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topdown.errors import ConfigError, DataError
from topdown.selection.chance import Flags

LARGEST_GRID = 10_000
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Incidence:
    """Which records each item covers, item by item.

    Args:
        starts: whole numbers, items + 1 of them; item i covers records[starts[i] : starts[i + 1]].
        records: numbers of records, 0 .. n_records - 1; none twice for one item.
        n_records: private; records that no item covers count too.
    """

    starts: Integers
    records: Integers
    n_records: int

    @property
    def items(self) -> int:
        """Return the number of items, which is public."""
        return len(self.starts) - 1

    def sampled(self, flags: Flags) -> Incidence:
        """Return the same for the records that are kept; the others cover nothing."""
        kept = flags[self.records]
        return Incidence(
            np.concatenate(([0], np.cumsum(kept)))[self.starts], self.records[kept], self.n_records
        )


def incidence(covered_by: Iterable[Sequence[int]], items: int) -> Incidence:
    """Return the incidence of records that each name the items that cover them; an item named twice counts once.

    Raises: ConfigError (C192) without items, DataError (D060) for an item outside 0 .. items - 1.
    """
    rows = [sorted(set(row)) for row in covered_by]
    lengths = [len(row) for row in rows]
    pairs = np.array([item for row in rows for item in row], dtype=np.int64)
    return incidence_of_pairs(np.repeat(np.arange(len(rows)), lengths), pairs, len(rows), items)


def incidence_of_pairs(records: Integers, covering: Integers, n_records: int, items: int) -> Incidence:
    """Return the incidence of pairs (record, item that covers it); a pair given twice counts once.

    All rows of a person or household have one record number: the unit that is protected is the number.
    """
    if items < 1:
        raise ConfigError("there are no items to choose from", code="C192", fix="give at least one candidate")
    for numbers, most, name in ((records, n_records, "record"), (covering, items, "item")):
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= most):
            raise DataError(
                f"a pair names {'an' if name == 'item' else 'a'} {name} that there is not",
                code="D060",
                fix="number records and items from 0",
            )
    pairs = np.sort(covering.astype(np.int64) * max(1, n_records) + records)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    starts = np.searchsorted(pairs, np.arange(items + 1) * max(1, n_records))
    return Incidence(starts.astype(np.int64), pairs % max(1, n_records), n_records)


@dataclass(frozen=True)
class Similarity:
    """How well each item serves each record, on a grid of whole steps.

    Args:
        values: whole numbers 0 .. grid, shape (records, items); `grid` is 1 in the function that is maximised.
        grid: 1 .. 10,000, public.

    Raises: ConfigError (C192), DataError (D061) for values off the grid.
    """

    values: Integers
    grid: int

    def __post_init__(self) -> None:
        check_grid(self.grid)
        values = self.values
        if values.ndim != 2 or not values.shape[1]:
            raise ConfigError(
                "there are no items to choose from", code="C192", fix="give at least one candidate"
            )
        if not np.issubdtype(values.dtype, np.integer) or (
            values.size and (values.min() < 0 or values.max() > self.grid)
        ):
            raise DataError(
                f"a similarity is not a whole number from 0 to {self.grid}",
                code="D061",
                fix="round similarities to whole steps of the grid first",
            )


def check_grid(grid: object) -> None:
    """Refuse a grid that is no whole number 1 .. 10,000 (C192)."""
    if isinstance(grid, bool) or not isinstance(grid, int) or not 1 <= grid <= LARGEST_GRID:
        raise ConfigError(
            f"the grid is {grid!r}", code="C192", fix=f"give a whole number from 1 to {LARGEST_GRID:,}"
        )


def check_count(value: object, most: int, name: str) -> None:
    """Refuse a number to choose that is no whole number 1 .. most (C193)."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigError(
            f"{name} is {value!r}, outside 1 .. {most}", code="C193", fix="give a whole number in that range"
        )
