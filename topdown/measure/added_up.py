"""Counts of a level above the leaves, added up when they are asked for: no table of it is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.measure.runs import Runs
from topdown.model.geography import Geography
from topdown.model.histogram import Histogram

ENTRIES = 2**20  # of the leaves that are added up at once


@dataclass(frozen=True, eq=False)
class AddedUp:
    """The counts of one level.

    Args:
        geography: whose leaves are counted.
        leaves: their counts; fewer than 2^31 records.
        depth: index of the level.
    """

    geography: Geography
    leaves: Histogram
    depth: int

    def between(self, first: int, last: int) -> Histogram:
        """Return the counts of nodes first..last-1. Cost: linear in the records' cells below them."""
        tree, n_cells = self.geography.levels, self.leaves.n_cells
        low, high = first, last
        for pointers in self.geography.child_pointers[self.depth :]:
            low, high = int(pointers[low]), int(pointers[high])
        runs = Runs()
        p, q = np.searchsorted(self.leaves.node, (low, high)).tolist()
        for at in range(p, q, ENTRIES):
            part = slice(at, min(at + ENTRIES, q))
            node = self.leaves.node[part]
            for level in reversed(tree[self.depth + 1 :]):
                node = level.parent[node]
            runs.add(node * n_cells + self.leaves.cell[part], self.leaves.count[part])
        found = runs.total()
        return Histogram.of_keys(len(tree[self.depth]), n_cells, found.key, found.count)
