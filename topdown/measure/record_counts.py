"""Counts of many records in sorted runs, 12 bytes a cell with records; nothing of them goes to a disk.

A stretch of leaves is looked at at a time; levels above are added up when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.model import Geography, Histogram
from topdown.model.histogram import ENTRIES

ROWS_AT_ONCE = 2**17  # that are sorted at once
COUNTS_AT_ONCE = 2**18  # counts that are compared or moved at once


@dataclass(frozen=True, eq=False)
class SortedRun:
    """Counts by key.

    Args:
        key: int64, increasing. count: int32, positive, same length.
    """

    key: Ints
    count: NDArray[np.int32]


class SortedRuns:
    """Adds up counts by key, in any order of the keys.

    Rows wait until there are enough to sort. A run is merged into the one before it while that is not twice as long,
    so that every count is moved a logarithmic number of times.

    Args:
        rows: that are sorted at once.
    """

    def __init__(self, rows: int = ROWS_AT_ONCE) -> None:
        self._rows, self._n_waiting = rows, 0
        self._waiting: list[tuple[Ints, Ints]] = []
        self._runs: list[SortedRun] = []

    def add(self, key: Ints, count: Ints) -> None:
        """Take rows.

        Args:
            key: int64 (n,). count: int64 (n,), from 0 on; all counts ever added sum to less than 2^31.
        """
        self._waiting.append((key, count))
        self._n_waiting += len(key)
        if self._n_waiting >= self._rows:
            self._sort()

    def total(self) -> SortedRun:
        """Return all counts as one run; the runs are gone. Takes half as much memory again for a moment."""
        self._sort()
        while len(self._runs) > 1:
            self._merge()
        return self._runs.pop()

    def _sort(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        key = np.concatenate([*(key for key, _ in self._waiting), none])
        count = np.concatenate([*(count for _, count in self._waiting), none])
        self._waiting, self._n_waiting = [], 0
        self._runs.append(sorted_run(key, count))
        while len(self._runs) > 1 and len(self._runs[-2].key) < 2 * len(self._runs[-1].key):
            self._merge()

    def _merge(self) -> None:
        self._runs.append(
            merge_runs(self._runs.pop(-2), self._runs.pop())
        )  # no name here that would keep them


def sorted_run(key: Ints, count: Ints) -> SortedRun:
    """Return counts added up by key; keys without any are dropped."""
    order = np.argsort(key, kind="stable")  # rows of one place often stand together already
    key, count = key[order], count[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
    total = np.add.reduceat(count, first) if len(first) else count
    return SortedRun(key[first][total > 0], total[total > 0].astype(np.int32))


def merge_runs(older: SortedRun, newer: SortedRun) -> SortedRun:
    """Return the sum of two runs, which are used up. Cost: linear in `older`, and a search for each key of `newer`."""
    key, count = newer.key, newer.count
    del newer
    if not len(older.key):
        return SortedRun(key, count)
    place, new = np.searchsorted(older.key, key), np.empty(len(key), dtype=bool)
    for first in range(0, len(key), COUNTS_AT_ONCE):
        here = slice(first, first + COUNTS_AT_ONCE)
        at = np.minimum(place[here], len(older.key) - 1)
        new[here] = older.key[at] != key[here]
        older.count[at[~new[here]]] += count[here][~new[here]]
    key = key[new]
    count = count[new]
    place = place[new]
    del new
    place += np.arange(len(place))
    _insert(older.key, place, key)
    del key
    _insert(older.count, place, count)
    return older


def _insert(column: NDArray[Any], place: Ints, values: NDArray[Any]) -> None:
    """Insert values into an array in its own memory, from the end, as `np.insert` would into a new one.

    Args:
        column: (n,), that nothing else looks at. place: int64 (m,), increasing, where `values` (m,) are afterwards.
    """
    high, j = len(column) + len(values), len(values)
    column.resize(high, refcheck=False)
    while j:
        low = max(high - COUNTS_AT_ONCE, 0)
        i = int(np.searchsorted(place, low))
        there = np.zeros(high - low, dtype=bool)
        there[place[i:j] - low] = True
        block = np.empty_like(column, shape=high - low)
        block[there], block[~there] = values[i:j], column[low - i : high - j]
        column[low:high] = block
        high, j = low, i


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """A packed `Histogram` of the leaves.

    Args:
        n_nodes: leaves. n_cells: cells of the schema.
        key: int64, increasing: leaf * n_cells + cell. count: int32, positive, same length.
    """

    n_nodes: int
    n_cells: int
    key: Ints
    count: NDArray[np.int32]

    @staticmethod
    def pack(leaves: Histogram) -> LeafCounts:
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

    def held(self, members: Bools) -> Ints:
        """Return the records of every leaf in some cells, given as bool (n_cells,)."""
        out = np.zeros(self.n_nodes, dtype=np.int64)
        for piece in self.pieces():
            inside = members[piece.cell]
            np.add.at(out, piece.node[inside], piece.count[inside])
        return out


@dataclass(frozen=True, eq=False)
class AggregatedCounts:
    """The counts of one level.

    Args:
        geography: whose leaves are counted.
        leaves: their counts; fewer than 2^31 records.
        depth: index of the level.
    """

    geography: Geography
    leaves: LeafCounts
    depth: int

    def between(self, first: int, last: int) -> Histogram:
        """Return the counts of nodes first..last-1. Cost: linear in the records' cells below them."""
        tree, n_cells = self.geography.levels, self.leaves.n_cells
        low, high = first, last
        for pointers in self.geography.child_pointers[self.depth :]:
            low, high = int(pointers[low]), int(pointers[high])
        runs = SortedRuns()
        for part in self.leaves.pieces(low, high):
            node = part.node
            for level in reversed(tree[self.depth + 1 :]):
                node = level.parent[node]
            runs.add(node * n_cells + part.cell, part.count)
        found = runs.total()
        return Histogram.of_keys(len(tree[self.depth]), n_cells, found.key, found.count)
