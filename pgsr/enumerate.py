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
    """Largest change found over all pairs of neighbours.

    Args:
        l1: largest L1 change.
        l2_squared: largest squared L2 change.
        l1_by_level: largest L1 change of each level.
        n_pairs: pairs of neighbours compared.
    """

    l1: int
    l2_squared: int
    l1_by_level: tuple[int, ...]
    n_pairs: int


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


def enumerate_sensitivity(kind: Kind, relation: Relation, tree: Tree, n_sizes: int, total: int) -> Enumerated:
    """Return the largest change over all data sets of `total` groups and all their neighbours.

    Args:
        kind: measured vector.
        relation: neighbour step; "new" and "dropped" change the number of groups.
        tree: the regions; small.
        n_sizes: number of sizes N.
        total: number of groups of the first data set.
    """
    worst, worst_squared, by_level, n_pairs = 0, 0, [0] * tree.n_levels, 0
    for cells in compositions(total, n_sizes * tree.n_leaves):
        here = np.array(cells, dtype=np.int64).reshape(n_sizes, tree.n_leaves)
        base = naive_vector(kind, tree, here)
        for other in _neighbours(here, relation):
            n_pairs += 1
            changed = naive_vector(kind, tree, other)
            gaps = [
                [abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in zip(base, changed, strict=True)
            ]
            worst = max(worst, sum(map(sum, gaps)))
            worst_squared = max(worst_squared, sum(g * g for level in gaps for g in level))
            by_level = [max(old, sum(level)) for old, level in zip(by_level, gaps, strict=True)]
    return Enumerated(worst, worst_squared, tuple(by_level), n_pairs)


def _neighbours(leaves: Ints, relation: Relation) -> list[Ints]:
    found = []
    steps: list[tuple[int | None, int | None]]
    for r in range(leaves.shape[1]):
        if relation == "new":
            steps = [(None, 0)]
        elif relation == "dropped":
            steps = [(len(leaves) - 1, None)]
        else:
            steps = [(s, s + 1) for s in range(len(leaves) - 1)]
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
