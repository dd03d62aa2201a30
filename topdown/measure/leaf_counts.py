"""Counts of all leaves in 12 bytes a cell with records, looked at a stretch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.histogram import ENTRIES, Histogram


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """A packed `Histogram` of the leaves.

    Args:
        n_nodes: leaves. n_cells: cells of the schema.
        key: int64, increasing: leaf * n_cells + cell. count: int32, positive, same length.
    """

    n_nodes: int
    n_cells: int
    key: NDArray[np.int64]
    count: NDArray[np.int32]

    @staticmethod
    def of(leaves: Histogram) -> LeafCounts:
        """Pack a table of the leaves; its counts are positive and fit 32 bits."""
        key = leaves.node * leaves.n_cells + leaves.cell
        return LeafCounts(leaves.n_nodes, leaves.n_cells, key, leaves.count.astype(np.int32))

    @property
    def n_entries(self) -> int:
        """Pairs of leaf and cell that have records."""
        return len(self.key)

    @property
    def n_records(self) -> int:
        """Sum of all counts."""
        return int(self.count.sum(dtype=np.int64))

    def between(self, first: int, last: int) -> Histogram:
        """Return the counts of leaves first..last-1."""
        p, q = np.searchsorted(self.key, (first * self.n_cells, last * self.n_cells))
        return Histogram.of_keys(self.n_nodes, self.n_cells, self.key[p:q], self.count[p:q])

    def whole(self) -> Histogram:
        """Return all counts, in 24 bytes a cell with records."""
        return self.between(0, self.n_nodes)

    def pieces(self, first: int = 0, last: int | None = None) -> Iterator[Histogram]:
        """Yield the counts of leaves first..last-1 in order, `ENTRIES` at a time; a leaf may lie in two pieces."""
        last = self.n_nodes if last is None else last
        p, q = np.searchsorted(self.key, (first * self.n_cells, last * self.n_cells)).tolist()
        for at in range(p, q, ENTRIES):
            here = slice(at, min(at + ENTRIES, q))
            yield Histogram.of_keys(self.n_nodes, self.n_cells, self.key[here], self.count[here])

    def held(self, members: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the records of every leaf in some cells, given as bool (n_cells,)."""
        out = np.zeros(self.n_nodes, dtype=np.int64)
        for piece in self.pieces():
            inside = members[piece.cell]
            np.add.at(out, piece.node[inside], piece.count[inside])
        return out
