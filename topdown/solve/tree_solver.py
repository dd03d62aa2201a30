"""What every solver that goes from the root to the leaves shares, whatever its splits are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from topdown.arrays import Ints
from topdown.errors import TopdownError
from topdown.model import ConstraintSystem, Histogram
from topdown.plan import PublicContext
from topdown.solve.published_gap import GapReport
from topdown.solve.solved_parts import Node, Tally
from topdown.solve.table_changes import SoftRuleRepair


@dataclass(frozen=True, eq=False)
class TreeSolver(ABC):
    """A solver that goes from the root to the leaves, a parent and its children at a time.

    Args:
        context: plan, public facts and base table.
        repair: of leaves that break soft rules.
    """

    context: PublicContext
    repair: SoftRuleRepair

    @property
    @abstractmethod
    def leaf_constraints(self) -> ConstraintSystem:
        """What public facts ask of the leaves."""

    @abstractmethod
    def root(self, tally: Tally) -> Node:
        """Solve the top node."""

    @abstractmethod
    def split_below(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth` over its children; children without records are left out."""

    @abstractmethod
    def judge(self, depth: int, parent: Node | None, published: list[Node]) -> GapReport:
        """Return how published children compare with the split of their published parent.

        Args:
            depth: level of the parent.
            parent: its published table, as splits keep it; None to judge the top node, which `published` then holds.
            published: the children's published tables, as splits keep them.
        """

    @abstractmethod
    def rows_of(self, leaves: Histogram) -> Histogram:
        """Return a table of the leaves as splits keep it."""

    def finish(self, leaf: Node, tally: Tally) -> Node:
        """Return a leaf as it is published, by cells."""
        return self.repair.finish(leaf, self.leaf_constraints, self.context.geography.leaves.codes, tally)

    def children(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth` over its children; an error names the node.

        Raises:
            InfeasibleError: no table of the node's total splits over its children.
        """
        try:
            return self.split_below(depth, parent, tally)
        except TopdownError as error:
            error.node = error.node or self.context.geography.levels[depth].codes[parent.index]
            raise

    def below(self, depth: int, nodes: list[Node], tally: Tally) -> list[Node]:
        """Solve everything below some nodes of a level, in order, and return the leaves with records as published."""
        for level in range(depth, len(self.context.geography.levels) - 1):
            nodes = [child for parent in nodes for child in self.children(level, parent, tally)]
        return [self.finish(leaf, tally) for leaf in nodes]


def nodes_with_records(cells: Ints, counts: Ints, index: Ints) -> list[Node]:
    """Return the children that hold records, of cells (n,), counts (n, m) and indices (m,)."""
    child, row = np.nonzero(counts.T > 0)
    held, records = cells[row], counts[row, child]
    first = np.searchsorted(child, np.arange(len(index) + 1)).tolist()
    return [
        Node(node, held[low:high], records[low:high])
        for node, (low, high) in zip(index.tolist(), pairwise(first), strict=True)
        if high > low
    ]
