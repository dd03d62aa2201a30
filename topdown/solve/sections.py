"""Sections: consecutive runs of a solve whose leaves are put away together, once all of them are solved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topdown.model.geography import Geography
from topdown.model.leaf_table import PackedRows
from topdown.model.narrow import narrow
from topdown.solve.node import Node
from topdown.solve.tally import Tally

CHECKPOINT_LEAVES = 131_072  # a section is closed where it has so many or more


@dataclass(frozen=True)
class NodeSpan:
    """Nodes first..last-1 of a level: what a section has of the cut."""

    depth: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class SolvedPart:
    """What a part of a solve found: records, and how they were found."""

    rows: PackedRows
    tally: Tally


def checkpoint_spans(geography: Geography, cut: int) -> list[NodeSpan]:
    """Return all nodes of the cut as sections; they follow from the tree and the cut alone."""
    return [NodeSpan(cut, *ends) for ends in geography.stretches(cut, CHECKPOINT_LEAVES)]


def nodes_of(rows: PackedRows) -> list[Node]:
    """Return the nodes that have records."""
    if not len(rows):
        return []
    first = np.flatnonzero(np.diff(rows.node.astype(np.int64), prepend=-1))
    cells, counts = (np.split(of.astype(np.int64), first[1:]) for of in (rows.cell, rows.count))
    index = rows.node[first].tolist()
    return [Node(i, cell, count) for i, cell, count in zip(index, cells, counts, strict=True)]


def rows_of(nodes: Sequence[Node]) -> PackedRows:
    """Return the records of nodes that follow each other."""
    node = np.repeat([n.index for n in nodes], [len(n.cells) for n in nodes]).astype(np.int64)
    none = np.zeros(0, dtype=np.int64)
    cell = np.concatenate([none, *(n.cells for n in nodes)])
    count = np.concatenate([none, *(n.counts for n in nodes)])
    order = np.lexsort((cell, node))
    return PackedRows(*(narrow(column[order]) for column in (node, cell, count)))


def end_to_end(parts: Sequence[PackedRows]) -> PackedRows:
    """Return the records of parts that follow each other."""
    parts = parts or (rows_of(()),)
    return PackedRows(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("node", "cell", "count"))
    )


@dataclass(frozen=True, eq=False)
class NodeRun:
    """A run of nodes of the cut, and their records."""

    span: NodeSpan
    rows: PackedRows


def runs_of(geography: Geography, span: NodeSpan, run_leaves: int, rows: PackedRows) -> Iterator[NodeRun]:
    """Yield the runs of a section that have records, in order; each ends where it has so many leaves or more.

    Args:
        rows: records of the cut.
    """
    for first, last in geography.stretches(span.depth, run_leaves, span.first, span.last):
        here = rows.between(first, last)
        if len(here):
            yield NodeRun(NodeSpan(span.depth, first, last), here)


def moved(nodes: Sequence[Node], by: int) -> list[Node]:
    """Return nodes with other numbers."""
    return [replace(node, index=node.index + by) for node in nodes]
