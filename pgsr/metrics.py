"""Errors of released counts against true ones, per level."""

from __future__ import annotations

import numpy as np

from pgsr.hierarchy import Ints, Tree


def l1_by_level(tree: Tree, counts: Ints, truth: Ints) -> list[int]:
    """Return sum |count - truth| over regions and sizes of each level (the paper's L1 error)."""
    gap = np.abs(counts - truth).sum(axis=0)
    return [int(gap[tree.columns(level)].sum()) for level in range(tree.n_levels)]


def emd_by_level(tree: Tree, counts: Ints, truth: Ints, smallest: int = 1) -> list[int]:
    """Return the earth mover's distance of each level in persons: sum over s >= 1 of |d_s - true d_s|.

    d_s is the number of groups of size s or more. A person is one cell of a region's Young diagram (its groups
    sorted by size), so this counts the persons to add or take away; a wrong number of groups of size 1 counts once.

    Args:
        tree: the regions.
        counts, truth: [size][node].
        smallest: first size, 0 or 1; groups of size 0 hold no person.
    """
    tails = np.cumsum((counts - truth)[::-1], axis=0)[::-1]
    gap = np.abs(tails[1 - smallest :]).sum(axis=0)
    return [int(gap[tree.columns(level)].sum()) for level in range(tree.n_levels)]


def coverage_by_level(tree: Tree, counts: Ints, truth: Ints, half_widths: Ints) -> list[float]:
    """Return, per level, which part of the cells that hold groups lies within its interval; 1 if no cell does.

    Empty cells are left out: there are many, and nearly every interval holds them.
    """
    held = np.abs(counts - truth) <= half_widths
    found = []
    for level in range(tree.n_levels):
        here = tree.columns(level)
        some = truth[:, here] > 0
        found.append(float(held[:, here][some].mean()) if some.any() else 1.0)
    return found


def constraint_violations(tree: Tree, counts: Ints) -> int:
    """Return the number of (size, region) whose count is not the sum of its children's (the paper's CV)."""
    sums = tree.sums(counts[:, tree.n_inner :])
    return int((sums[:, : tree.n_inner] != counts[:, : tree.n_inner]).sum())
