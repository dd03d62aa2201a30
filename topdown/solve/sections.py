"""Sections: consecutive runs of a solve whose leaves are put away together, once all of them are solved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.model.geography import Geography
from topdown.model.histogram import Histogram
from topdown.solve.groups import Ints
from topdown.solve.node import Node
from topdown.solve.tally import Tally

SECTION_LEAVES = 131_072  # a section is closed where it has so many or more


@dataclass(frozen=True)
class NodeSpan:
    """Nodes first..last-1 of a level: what a section has of the cut."""

    depth: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Records of some nodes of a level, in as few bytes as they need: one integer array each, sorted by (node, cell).

    Args:
        node, cell, count: as in `Histogram`, of any integer type.
    """

    node: NDArray[np.integer[Any]]
    cell: NDArray[np.integer[Any]]
    count: NDArray[np.integer[Any]]

    def nodes(self) -> list[Node]:
        """Return the nodes that have records."""
        if not len(self.node):
            return []
        first = np.flatnonzero(np.diff(self.node.astype(np.int64), prepend=-1))
        cells, counts = (np.split(of.astype(np.int64), first[1:]) for of in (self.cell, self.count))
        index = self.node[first].tolist()
        return [Node(i, cell, count) for i, cell, count in zip(index, cells, counts, strict=True)]


@dataclass(frozen=True, eq=False)
class SolvedPart:
    """What a part of a solve found: records, and how they were found."""

    rows: PackedRows
    tally: Tally


def sections_of(geography: Geography, cut: int) -> list[NodeSpan]:
    """Return all nodes of the cut as sections; they follow from the tree and the cut alone."""
    return [NodeSpan(cut, *ends) for ends in geography.stretches(cut, SECTION_LEAVES)]


def rows_of(nodes: Sequence[Node]) -> PackedRows:
    """Return the records of nodes that follow each other."""
    node = np.repeat([n.index for n in nodes], [len(n.cells) for n in nodes]).astype(np.int64)
    none = np.zeros(0, dtype=np.int64)
    cell = np.concatenate([none, *(n.cells for n in nodes)])
    count = np.concatenate([none, *(n.counts for n in nodes)])
    order = np.lexsort((cell, node))
    return PackedRows(*(_narrow(column[order]) for column in (node, cell, count)))


def end_to_end(parts: Sequence[PackedRows]) -> PackedRows:
    """Return the records of parts that follow each other."""
    parts = parts or (rows_of(()),)
    return PackedRows(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("node", "cell", "count"))
    )


def joined(parts: list[PackedRows], n_nodes: int, n_cells: int) -> Histogram:
    """Return the table of a level from all its parts, in order; `parts` is emptied on the way."""
    columns = [np.empty(sum(len(p.node) for p in parts), dtype=np.int64) for _ in range(3)]
    at = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        end = at + len(part.node)
        for column, values in zip(columns, (part.node, part.cell, part.count), strict=True):
            column[at:end] = values
        at = end
    return Histogram(n_nodes, n_cells, *columns)


@dataclass(frozen=True, eq=False)
class NodeRun:
    """A run of nodes of the cut, of which `nodes` have records."""

    span: NodeSpan
    nodes: list[Node]


def runs_of(
    geography: Geography, span: NodeSpan, run_leaves: int, nodes: Sequence[Node]
) -> Iterator[NodeRun]:
    """Yield the runs of a section that have records, in order; each ends where it has so many leaves or more.

    Args:
        nodes: of the cut, with records, in order.
    """
    index = np.array([node.index for node in nodes], dtype=np.int64)
    for first, last in geography.stretches(span.depth, run_leaves, span.first, span.last):
        p, q = np.searchsorted(index, (first, last)).tolist()
        if q > p:
            yield NodeRun(NodeSpan(span.depth, first, last), list(nodes[p:q]))


def moved(nodes: Sequence[Node], by: int) -> list[Node]:
    """Return nodes with other numbers."""
    return [replace(node, index=node.index + by) for node in nodes]


def _narrow(column: Ints) -> NDArray[np.integer[Any]]:
    return column.astype(np.min_scalar_type(int(column.max(initial=0))))
