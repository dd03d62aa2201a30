"""Counts of a level above the leaves, added up when they are asked for: no table of it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from topdown.measure.leaf_counts import LeafCounts
from topdown.measure.runs import Runs
from topdown.model.geography import Geography
from topdown.model.histogram import Histogram


@dataclass(frozen=True, eq=False)
class AddedUp:
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
        runs = Runs()
        for part in self.leaves.pieces(low, high):
            node = part.node
            for level in reversed(tree[self.depth + 1 :]):
                node = level.parent[node]
            runs.add(node * n_cells + part.cell, part.count)
        found = runs.total()
        return Histogram.of_keys(len(tree[self.depth]), n_cells, found.key, found.count)
