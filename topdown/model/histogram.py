"""How many records are in each cell of each node of a level: sparse integer tables, and the same in few bytes.

A nation has seven million leaves: columns are kept in the narrowest type that holds them, and leaf tables in the parts
in which they were solved; who needs counts asks for a stretch of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.model.geography import Geography
from topdown.model.query import Query

Narrow = NDArray[np.integer[Any]]


def narrow(numbers: Narrow) -> Narrow:
    """Return a copy of integers in the narrowest unsigned type that holds them; in int64 if one is negative."""
    if int(numbers.min(initial=0)) < 0:
        return numbers.astype(np.int64)
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


@final
class NarrowColumns(Mapping[str, Ints]):
    """Columns of whole numbers, kept narrow; a column that is asked for is a new int64 array.

    Args:
        columns: name to integers, (n,).
    """

    __slots__ = ("_kept",)

    def __init__(self, columns: Mapping[str, Narrow]) -> None:
        self._kept = {name: narrow(column) for name, column in columns.items()}

    @staticmethod
    def pack(columns: Mapping[str, Narrow]) -> NarrowColumns:
        """Return columns kept narrow: these themselves if they are."""
        return columns if isinstance(columns, NarrowColumns) else NarrowColumns(columns)

    def __getitem__(self, name: str) -> Ints:
        return self._kept[name].astype(np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def n_bytes(self) -> int:
        """Bytes that are kept."""
        return sum(column.nbytes for column in self._kept.values())

    def at(self, places: slice | Ints) -> NarrowColumns:
        """Return some rows of every column."""
        return NarrowColumns({name: column[places] for name, column in self._kept.items()})


ENTRIES = 2**20  # of a table that are looked at together where all would be too many


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of one level, stored as (node, cell, count) triples without zeros.

    Args:
        n_nodes: nodes of the level.
        n_cells: cells of the schema.
        node, cell, count: int64, same length, sorted by (node, cell), each pair once, no zero count.
    """

    n_nodes: int
    n_cells: int
    node: Ints
    cell: Ints
    count: Ints

    @staticmethod
    def build(n_nodes: int, n_cells: int, node: Ints, cell: Ints, count: Ints) -> Histogram:
        """Add up triples in any order; entries that sum to zero are dropped."""
        key = node.astype(np.int64) * n_cells + cell
        order = np.argsort(key, kind="stable")
        key, count = key[order], count[order].astype(np.int64)
        if len(key) == 0:
            return Histogram(n_nodes, n_cells, key, key, count)
        first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        total = np.add.reduceat(count, first)
        key = key[first][total != 0]
        return Histogram(n_nodes, n_cells, key // n_cells, key % n_cells, total[total != 0])

    @staticmethod
    def of_keys(n_nodes: int, n_cells: int, key: Ints, count: NDArray[np.signedinteger[Any]]) -> Histogram:
        """Return the counts of increasing keys node * n_cells + cell; none is zero."""
        return Histogram(n_nodes, n_cells, key // n_cells, key % n_cells, count.astype(np.int64))

    @property
    def n_records(self) -> int:
        """Sum of all counts."""
        return int(self.count.sum())

    @property
    def n_entries(self) -> int:
        """Pairs of node and cell that are listed."""
        return len(self.count)

    def pieces(self) -> Iterator[Histogram]:
        """Yield all counts in order, at most `ENTRIES` at a time; a node may lie in two pieces; nothing is copied."""
        for at in range(0, self.n_entries, ENTRIES):
            here = slice(at, at + ENTRIES)
            yield Histogram(self.n_nodes, self.n_cells, self.node[here], self.cell[here], self.count[here])

    def whole(self) -> Histogram:
        """Return this table."""
        return self

    def pointers(self) -> Ints:
        """Return p with node i's entries at p[i]:p[i+1]."""
        return np.searchsorted(self.node, np.arange(self.n_nodes + 1))

    def between(self, first: int, last: int) -> Histogram:
        """Return the counts of nodes first..last-1; nothing is copied."""
        p, q = np.searchsorted(self.node, (first, last))
        return Histogram(self.n_nodes, self.n_cells, self.node[p:q], self.cell[p:q], self.count[p:q])

    def dense(self, first: int, last: int) -> Ints:
        """Return the counts of nodes first..last-1 as an array of shape (last - first, n_cells)."""
        p, q = np.searchsorted(self.node, (first, last))
        out = np.zeros((last - first, self.n_cells), dtype=np.int64)
        out[self.node[p:q] - first, self.cell[p:q]] = self.count[p:q]
        return out

    def at(self, nodes: Ints, cells: Ints) -> Ints:
        """Return the counts of some cells, in any order, at some nodes: int64 (len(cells), len(nodes))."""
        out = np.zeros((len(cells), len(nodes)), dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        known = cells[order]
        for j, node in enumerate(nodes):
            first, last = np.searchsorted(self.node, (node, node + 1))
            here, count = self.cell[first:last], self.count[first:last]
            place = np.searchsorted(known, here)
            inside = place < len(known)
            inside[inside] = known[place[inside]] == here[inside]
            out[order[place[inside]], j] = count[inside]
        return out

    def aggregate(self, parent: Ints, n_parents: int) -> Histogram:
        """Add up to the level above; `parent` gives each node's parent index."""
        return Histogram.build(n_parents, self.n_cells, parent[self.node], self.cell, self.count)

    def at_every_level(self, geography: Geography) -> tuple[Histogram, ...]:
        """Add a table of the leaves up to every level, root first."""
        found = [self]
        for above, below in zip(reversed(geography.levels[:-1]), reversed(geography.levels[1:]), strict=True):
            found.append(found[-1].aggregate(below.parent, len(above)))
        return tuple(reversed(found))

    def answers(self, query: Query) -> Ints:
        """Answer a query at every node: int64 array of shape (n_nodes, n_answers)."""
        key = self.node * query.n_answers + query.labels[self.cell]
        out = np.zeros(self.n_nodes * query.n_answers, dtype=np.int64)
        np.add.at(out, key, self.count)
        return out.reshape(self.n_nodes, query.n_answers)

    def sparse_answers(self, query: Query) -> Histogram:
        """Answer a query as triples (node, answer, count) without zeros."""
        return Histogram.build(
            self.n_nodes, query.n_answers, self.node, query.labels[self.cell].astype(np.int64), self.count
        )

    def totals(self) -> Ints:
        """Return the number of records of every node."""
        out = np.zeros(self.n_nodes, dtype=np.int64)
        np.add.at(out, self.node, self.count)
        return out


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

    node: Narrow
    cell: Narrow
    count: Narrow

    def __len__(self) -> int:
        return len(self.node)

    def between(self, first: int, last: int) -> PackedRows:
        """Return the records of nodes first..last-1; nothing is copied."""
        return self.take(slice(_count_below(self.node, first), _count_below(self.node, last)))

    def take(self, places: slice) -> PackedRows:
        """Return some rows; nothing is copied."""
        return PackedRows(self.node[places], self.cell[places], self.count[places])


def _count_below(node: Narrow, number: int) -> int:
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
                yield self._unpacked([part.take(slice(at, at + ENTRIES))])

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
