"""Whole numbers in as few bytes as they need: a nation has seven million leaves and many columns of small numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Narrow = NDArray[np.integer[Any]]


def narrow(numbers: Narrow) -> Narrow:
    """Return a copy of integers in the narrowest unsigned type that holds them; in int64 if one is negative."""
    if int(numbers.min(initial=0)) < 0:
        return numbers.astype(np.int64)
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


@final
class NarrowColumns(Mapping[str, NDArray[np.int64]]):
    """Columns of whole numbers, kept narrow; a column that is asked for is a new int64 array.

    Args:
        columns: name to integers, (n,).
    """

    __slots__ = ("_kept",)

    def __init__(self, columns: Mapping[str, Narrow]) -> None:
        self._kept = {name: narrow(column) for name, column in columns.items()}

    @staticmethod
    def of(columns: Mapping[str, Narrow]) -> NarrowColumns:
        """Return columns kept narrow: these themselves if they are."""
        return columns if isinstance(columns, NarrowColumns) else NarrowColumns(columns)

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        return self._kept[name].astype(np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def n_bytes(self) -> int:
        """Bytes that are kept."""
        return sum(column.nbytes for column in self._kept.values())

    def at(self, places: slice | NDArray[np.int64]) -> NarrowColumns:
        """Return some rows of every column."""
        return NarrowColumns({name: column[places] for name, column in self._kept.items()})
