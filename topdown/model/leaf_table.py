"""Counts of a level that are asked for by stretches of nodes, and the leaf table of a solve in few bytes a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from topdown.model.histogram import ENTRIES, Histogram

Packed = NDArray[np.integer[Any]]


class Counts(Protocol):
    """Counts of one level."""

    def between(self, first: int, last: int) -> Histogram:
        """Return those of nodes first..last-1."""


class LeafTable(Counts, Protocol):
    """Records of every leaf and cell, however they are kept."""

    @property
    def n_nodes(self) -> int:
        """Leaves."""

    @property
    def n_cells(self) -> int:
        """Cells of the schema."""

    @property
    def n_entries(self) -> int:
        """Pairs of leaf and cell that have records."""

    @property
    def n_records(self) -> int:
        """Sum of all counts."""

    def pieces(self) -> Iterator[Histogram]:
        """Yield all counts in order, some at a time; a leaf may lie in two pieces."""

    def whole(self) -> Histogram:
        """Return all counts, in 24 bytes an entry."""


@final
@dataclass(frozen=True, eq=False)
class PackedRows:
    """Records of some nodes of a level, in as few bytes as they need: one integer array each, sorted by (node, cell).

    Args:
        node, cell, count: as in `Histogram`, of any integer type.
    """

    node: Packed
    cell: Packed
    count: Packed

    def __len__(self) -> int:
        return len(self.node)

    def between(self, first: int, last: int) -> PackedRows:
        """Return the records of nodes first..last-1; nothing is copied."""
        return self.at(slice(_n_below(self.node, first), _n_below(self.node, last)))

    def at(self, places: slice) -> PackedRows:
        """Return some rows; nothing is copied."""
        return PackedRows(self.node[places], self.cell[places], self.count[places])


def _n_below(node: Packed, number: int) -> int:
    """Return how many of increasing numbers are below one; a search for an int64 would copy them all to int64."""
    if not len(node) or number > int(node[-1]):
        return len(node)
    return int(np.searchsorted(node, node.dtype.type(max(number, 0))))


@final
@dataclass(frozen=True, eq=False)
class PackedTable:
    """The leaf table in the parts in which it was solved, 8 bytes an entry where leaves are many.

    Args:
        n_nodes: leaves. n_cells: cells of the schema.
        parts: of leaves that follow each other, in order; no count is zero.
    """

    n_nodes: int
    n_cells: int
    parts: tuple[PackedRows, ...]

    @property
    def n_entries(self) -> int:
        """Pairs of leaf and cell that have records."""
        return sum(map(len, self.parts))

    @property
    def n_records(self) -> int:
        """Sum of all counts."""
        return sum(int(part.count.sum(dtype=np.int64)) for part in self.parts)

    def between(self, first: int, last: int) -> Histogram:
        """Return the counts of leaves first..last-1, as new arrays."""
        return self._unpacked([part.between(first, last) for part in self.parts])

    def pieces(self) -> Iterator[Histogram]:
        """Yield all counts in order, at most `ENTRIES` at a time; a leaf may lie in two pieces."""
        for part in self.parts:
            for at in range(0, len(part), ENTRIES):
                yield self._unpacked([part.at(slice(at, at + ENTRIES))])

    def whole(self) -> Histogram:
        """Return all counts, in 24 bytes an entry."""
        return self._unpacked(self.parts)

    def _unpacked(self, parts: Iterable[PackedRows]) -> Histogram:
        rows = [part for part in parts if len(part)]
        columns = [np.empty(sum(map(len, rows)), dtype=np.int64) for _ in range(3)]
        at = 0
        for part in rows:
            here = slice(at, at := at + len(part))
            for column, values in zip(columns, (part.node, part.cell, part.count), strict=True):
                column[here] = values
        return Histogram(self.n_nodes, self.n_cells, *columns)
