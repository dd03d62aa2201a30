"""Errors of released counts against true ones, per level."""

from __future__ import annotations

import numpy as np

from pgsr.hierarchy import Ints, Tree


def l1_by_level(tree: Tree, counts: Ints, truth: Ints) -> list[int]:
    """Return sum |count - truth| over regions and sizes of each level (the paper's L1 error)."""
    gap = np.abs(counts - truth).sum(axis=0)
    return [int(gap[tree.columns(level)].sum()) for level in range(tree.n_levels)]


def emd_by_level(tree: Tree, counts: Ints, truth: Ints) -> list[int]:
    """Return the L1 distance of cumulative counts of each level: groups moved times sizes moved by."""
    gap = np.abs(np.cumsum(counts - truth, axis=0)).sum(axis=0)
    return [int(gap[tree.columns(level)].sum()) for level in range(tree.n_levels)]


def constraint_violations(tree: Tree, counts: Ints) -> int:
    """Return the number of (size, region) whose count is not the sum of its children's (the paper's CV)."""
    sums = tree.sums(counts[:, tree.n_inner :])
    return int((sums[:, : tree.n_inner] != counts[:, : tree.n_inner]).sum())
