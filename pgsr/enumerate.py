"""Sensitivities by brute force: every data set, every neighbour, vectors written out naively."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pgsr.hierarchy import Ints, Tree
from pgsr.twins import compositions
from pgsr.vectors import Kind, Relation

LARGEST_ENUMERATION = 200_000


@dataclass(frozen=True)
class Enumerated:
    """Changes found over all pairs of neighbours.

    Args:
        l1: largest L1 change.
        l2_squared: largest squared L2 change.
        l1_by_level: largest L1 change of each level.
        largest_entry: largest change of any one entry.
        n_pairs: pairs of neighbours compared.
        patterns: L1 change of every level, for each pattern that some pair has.
    """

    l1: int
    l2_squared: int
    l1_by_level: tuple[int, ...]
    largest_entry: int
    n_pairs: int
    patterns: frozenset[tuple[int, ...]]


def naive_vector(kind: Kind, tree: Tree, leaves: Ints) -> list[list[int]]:
    """Return the vector of each level as plain lists, written from the definitions only."""
    n_sizes, levels = leaves.shape[0], []
    for level in range(tree.n_levels):
        nodes = range(int(tree.offsets[level]), int(tree.offsets[level + 1]))
        n = [
            [int(leaves[s, tree.leaf_start[g] : tree.leaf_stop[g]].sum()) for g in nodes]
            for s in range(n_sizes)
        ]
        regions = range(len(n[0]))
        if kind == "histogram":
            entries = [n[s][r] for s in range(n_sizes) for r in regions]
        elif kind == "cumulative":
            entries = [sum(n[t][r] for t in range(s + 1)) for s in range(n_sizes) for r in regions]
        elif kind == "tail":
            entries = [sum(n[t][r] for t in range(s, n_sizes)) for s in range(n_sizes) for r in regions]
        else:
            sizes = range(n_sizes - 1, -1, -1) if kind == "tail_chain" else range(n_sizes)
            cells = [n[s][r] for s in sizes for r in regions]
            if kind == "region_major":
                cells = [n[s][r] for r in regions for s in range(n_sizes)]
            entries = [sum(cells[: i + 1]) for i in range(len(cells))]
        levels.append(entries)
    return levels


def enumerate_sensitivity(
    kind: Kind, relation: Relation, tree: Tree, n_sizes: int, total: int, smallest: int = 1
) -> Enumerated:
    """Return the changes over all data sets of `total` groups and all their neighbours.

    Args:
        kind: measured vector.
        relation: neighbour step; "new", "dropped" and "appears" change the number of groups.
        tree: the regions; small.
        n_sizes: number of sizes N.
        total: number of groups of the first data set.
        smallest: first size, 0 or 1.
    """
    l1 = squared = entry = n_pairs = 0
    patterns = set()
    for cells in compositions(total, n_sizes * tree.n_leaves):
        here = np.array(cells, dtype=np.int64).reshape(n_sizes, tree.n_leaves)
        base = naive_vector(kind, tree, here)
        for other in _neighbours(here, relation, smallest):
            n_pairs += 1
            changed = naive_vector(kind, tree, other)
            gaps = [
                [abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in zip(base, changed, strict=True)
            ]
            patterns.add(tuple(map(sum, gaps)))
            l1 = max(l1, sum(map(sum, gaps)))
            squared = max(squared, sum(g * g for level in gaps for g in level))
            entry = max(entry, *(max(level) for level in gaps))
    by_level = (
        tuple(max(levels) for levels in zip(*patterns, strict=True)) if patterns else (0,) * tree.n_levels
    )
    return Enumerated(l1, squared, by_level, entry, n_pairs, frozenset(patterns))


def _neighbours(leaves: Ints, relation: Relation, smallest: int) -> list[Ints]:
    """Return the neighbours of a table of leaves, as a person who joins or leaves or a household makes them.

    Sizes are counted from `smallest`; whoever founds a group makes it one of size 1, or of size 0 where such
    groups are counted, which are the last size where there is only one.
    """
    last = len(leaves) - 1
    steps: list[tuple[int | None, int | None]] = [(s, s + 1) for s in range(last)]
    if relation == "new":
        steps = [(None, min(size - smallest, last)) for size in range(smallest, 2)]
    elif relation == "dropped":
        steps = [(last, None)]
    elif relation == "appears":
        steps = [(None, stop) for stop in range(last + 1)]
    elif relation == "household":
        steps = [(start, stop) for start in range(last + 1) for stop in range(last + 1) if start != stop]
    found = []
    for r in range(leaves.shape[1]):
        for start, stop in steps:
            if start is not None and leaves[start, r] == 0:
                continue
            other = leaves.copy()
            if start is not None:
                other[start, r] -= 1
            if stop is not None:
                other[stop, r] += 1
            found.append(other)
    return found
