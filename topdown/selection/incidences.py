"""What a selection is handed: public items, and how they serve each private record. One record, one privacy unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from topdown.errors import ConfigError, DataError
from topdown.selection.chance import Flags

LARGEST_GRID = 10_000
MOST_PAIRS = 2**63 - 1
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Incidence:
    """Which records each item covers, item by item.

    Args:
        starts: whole numbers, items + 1 of them; item i covers records[starts[i] : starts[i + 1]].
        records: numbers of records, 0 .. n_records - 1; none twice for one item.
        n_records: private; records that no item covers count too.
        weights: of a sample by areas only: how many kept people each record stands for; None for one each.
    """

    starts: Integers
    records: Integers
    n_records: int
    weights: Integers | None = None

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

    @cached_property
    def pair_weights(self) -> Integers | None:
        """Return the weight of each pair's record; None for one each."""
        return None if self.weights is None else self.weights[self.records]


@dataclass(frozen=True)
class Residents:
    """Records by the area they live in, where an area is covered as a whole: a smaller form of the same incidence.

    Flags are drawn for each record by itself, in the order of the areas; `sampled` only counts them by area.

    Args:
        areas: which areas each item covers, with areas for records: public.
        counts: how many records live in each area, at least 0: private.
    """

    areas: Incidence
    counts: Integers

    @property
    def items(self) -> int:
        """Return the number of items, which is public."""
        return self.areas.items

    @property
    def n_records(self) -> int:
        """Return the number of records, which is private."""
        return int(self.counts.sum())

    def sampled(self, flags: Flags) -> Incidence:
        """Return the areas, each with the number of records in it that are kept."""
        kept = np.zeros(len(self.counts), dtype=np.int64)
        lived = np.flatnonzero(self.counts)
        if len(lived):
            first = np.concatenate(([0], np.cumsum(self.counts[lived])[:-1]))
            kept[lived] = np.add.reduceat(flags, first, dtype=np.int64)
        return replace(self.areas, weights=kept)


Covering = Incidence | Residents
"""What a selection of items reads: public items, private records, and samples of them."""


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
    if n_records > MOST_PAIRS // items:
        raise ConfigError(
            f"{items:,} items and so many records have more pairs than 64 bits can number",
            code="C192",
            fix="count records by area, or choose among fewer candidates",
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
