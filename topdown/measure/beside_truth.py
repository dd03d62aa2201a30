"""A release beside the truth, a stretch of areas at a time. CONFIDENTIAL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from topdown.measure.added_up import AddedUp
from topdown.measure.leaf_counts import LeafCounts
from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context

LEAVES = 2**16  # of a stretch, about


@dataclass(frozen=True, eq=False)
class BesideTruth:
    """Counts of the leaves.

    Args:
        context: plan and public facts of the release.
        released, truth: published and true counts.
    """

    context: Context
    released: LeafCounts
    truth: LeafCounts

    def stretches(self, depth: int) -> Iterator[tuple[Histogram, Histogram]]:
        """Yield released and true counts of all nodes of a level, some at a time and numbered from 0, in order."""
        tree = self.context.geography
        sides = [AddedUp(tree, leaves, depth) for leaves in (self.released, self.truth)]
        for first, last in tree.stretches(depth, LEAVES):
            released, truth = (_numbered_from(side.between(first, last), first, last) for side in sides)
            yield released, truth


def _numbered_from(counts: Histogram, first: int, last: int) -> Histogram:
    return replace(counts, n_nodes=last - first, node=counts.node - first)
