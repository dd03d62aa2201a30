"""What each mechanism measures, and its sensitivity, derived from the order in which counts are accumulated.

A vector is, per level, either the counts themselves or running sums along segments of cells. A group that
enters at position p of a segment changes every running sum from p to the segment's end by one; a group that
moves from p to q changes those in between. All sensitivities follow from these positions: none is typed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pgsr.hierarchy import Tree
from pgsr.neighbours import KEEP_NUMBERS, Relation
from topdown.arrays import Ints
from topdown.errors import InternalError

Kind = Literal["histogram", "cumulative", "tail", "tail_rows", "chain", "tail_chain", "region_major"]
KINDS: tuple[Kind, ...] = ("histogram", "cumulative", "tail", "chain", "tail_chain", "region_major")
ADAPTIVE: Kind = "tail_rows"
"""Tail counts, some replaced by rows (`large_groups.py`): no neighbour step moves more of them than of tail counts."""


@dataclass(frozen=True, eq=False)
class LevelOrder:
    """How the cells (size, region of one level) are accumulated.

    Args:
        position: place of each cell along its segment, [size][region].
        segment: number of the cell's segment, [size][region].
        length: cells in every segment.
        accumulates: False if the vector holds the counts themselves.
    """

    position: Ints
    segment: Ints
    length: int
    accumulates: bool

    def moved(self, start: tuple[Ints, Ints], stop: tuple[Ints, Ints]) -> Ints:
        """Return how many entries change, each by one, when a group moves between cells; elementwise."""
        apart = np.abs(self.position[stop] - self.position[start])
        return apart if self.accumulates else np.where(apart == 0, 0, 2)

    def entered(self, cell: tuple[Ints, Ints]) -> Ints:
        """Return how many entries change by one when a group enters or leaves a cell; elementwise."""
        return self.length - self.position[cell] if self.accumulates else np.ones_like(self.position[cell])


@dataclass(frozen=True)
class Sensitivity:
    """How far one neighbour step can move a vector.

    Every step changes entries by exactly one, so the squared L2 norm equals the L1 norm.

    Args:
        l1_by_level: largest L1 change of each level; attained together by one step where `l1` is their sum.
        l1: largest L1 change over all levels.
        l2_squared: largest squared L2 change over all levels.
    """

    l1_by_level: tuple[int, ...]
    l1: int
    l2_squared: int


def rows_entered(relation: Relation, n_sizes: int, smallest: int) -> tuple[int, ...]:
    """Return the rows of sizes that a group may enter or leave in one step.

    One person who founds a group makes one of size 1. Where groups of size 0 are counted, that is row 1, and
    somebody who adds nothing to a group's size may found one in row 0.
    """
    if relation == "appears":
        return tuple(range(n_sizes))
    if relation == "dropped":
        return (n_sizes - 1,)
    return (0,) if smallest == 1 or n_sizes == 1 else (0, 1)


def level_orders(kind: Kind, tree: Tree, n_sizes: int) -> Iterator[LevelOrder]:
    """Yield the accumulation order of every level, root first."""
    sizes = np.arange(n_sizes, dtype=np.int64)[:, None]
    for level in tree.parents:
        n_regions = len(level)
        region = np.arange(n_regions, dtype=np.int64)[None, :]
        flat = np.zeros((n_sizes, n_regions), dtype=np.int64)
        if kind in ("histogram", "cumulative"):
            yield LevelOrder(sizes + flat, region + flat, n_sizes, kind == "cumulative")
        elif kind in ("tail", ADAPTIVE):
            yield LevelOrder(n_sizes - 1 - sizes + flat, region + flat, n_sizes, True)
        elif kind == "chain":
            yield LevelOrder(sizes * n_regions + region, flat, n_sizes * n_regions, True)
        elif kind == "tail_chain":
            yield LevelOrder((n_sizes - 1 - sizes) * n_regions + region, flat, n_sizes * n_regions, True)
        else:
            yield LevelOrder(region * n_sizes + sizes, flat, n_sizes * n_regions, True)


def sensitivity(kind: Kind, relation: Relation, tree: Tree, n_sizes: int, smallest: int = 1) -> Sensitivity:
    """Return the sensitivity of a vector over every leaf and size, by following each step through all levels.

    Args:
        smallest: first size, 0 or 1.

    Cost: O(L N leaves).
    """
    leaves = np.arange(tree.n_leaves, dtype=np.int64)
    # Of all changes of a group's size the one from the first to the last passes every running sum in between.
    far = n_sizes - 1 if relation == "household" else 1
    rows = range(n_sizes - far) if relation in KEEP_NUMBERS else rows_entered(relation, n_sizes, smallest)
    if n_sizes == 1 and relation in KEEP_NUMBERS:
        rows = ()
    size = np.repeat(np.array(rows, dtype=np.int64), tree.n_leaves)
    if len(size) == 0:
        return Sensitivity((0,) * tree.n_levels, 0, 0)
    leaf = np.tile(leaves, len(size) // tree.n_leaves)
    total = np.zeros(len(size), dtype=np.int64)
    by_level = []
    for order, holder in zip(level_orders(kind, tree, n_sizes), ancestors(tree), strict=True):
        region = holder[leaf]
        change = (
            order.moved((size, region), (size + far, region))
            if relation in KEEP_NUMBERS
            else order.entered((size, region))
        )
        by_level.append(int(change.max()))
        total += change
    return Sensitivity(tuple(by_level), int(total.max()), int(total.max()))


def joint_sensitivity(
    kind: Kind, relations: tuple[Relation, ...], tree: Tree, n_sizes: int, smallest: int = 1
) -> Sensitivity:
    """Return the sensitivity when any of several neighbour steps may happen.

    Raises:
        InternalError: no single step attains the largest change of every level: the loss of the levels would
            not add up to that of any neighbour.
    """
    found = [sensitivity(kind, relation, tree, n_sizes, smallest) for relation in relations]
    by_level = tuple(max(levels) for levels in zip(*(s.l1_by_level for s in found), strict=True))
    l1 = max(s.l1 for s in found)
    if l1 != sum(by_level):
        raise InternalError(f"no step of {', '.join(relations)} is the worst at every level", code="X146")
    return Sensitivity(by_level, l1, max(s.l2_squared for s in found))


def ancestors(tree: Tree) -> list[NDArray[np.int64]]:
    """Return, per level, the index within the level of the region that holds each leaf."""
    up = [np.arange(tree.n_leaves, dtype=np.int64)]
    for level in reversed(tree.parents[1:]):
        up.append(level[up[-1]])
    return up[::-1]


def measure_exactly(kind: Kind, tree: Tree, counts: Ints) -> Ints:
    """Return the vector without noise, laid out [size][node]; tail counts of an adaptive one."""
    out = np.empty_like(counts)
    for level, order in enumerate(level_orders(kind, tree, len(counts))):
        here = tree.columns(level)
        block = counts[:, here]
        if not order.accumulates:
            out[:, here] = block
            continue
        place = (order.segment * order.length + order.position).reshape(-1)
        along = np.empty(place.size, dtype=np.int64)
        along[place] = block.reshape(-1)
        sums = np.cumsum(along.reshape(-1, order.length), axis=1).reshape(-1)
        out[:, here] = sums[place].reshape(block.shape)
    return out
