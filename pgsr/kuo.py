"""The method of Kuo, Cho, Kifer and Machanavajjhala (2018) as a peer in `pgsr compare`; no release has it.

Every region's number of groups is public. A level measures cumulative counts ("cumulative") or the sorted sizes of
its groups ("sizes"); from the root down the groups of a parent are matched to those of its children in order of
size, and matched groups take the mean of both sizes by inverse variance. The leaves are summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pgsr.hierarchy import Ints, Tree
from pgsr.kernels import isotonic_rows_real
from pgsr.matching import Groups, matched
from pgsr.medians import median_isotonic

FORMS = ("cumulative", "sizes")
MOST_GROUPS = 3_000_000
"""Sorted sizes need one answer a group and level; past this many they are not compared."""
Draw = Callable[[int, tuple[int, ...]], Ints]


def kuo_counts(tree: Tree, truth: Ints, forms: Sequence[str], scales: Sequence[float], draw: Draw) -> Ints:
    """Return simulated counts [size][node]: reads the truth, which must be made up or public.

    Args:
        tree: the regions.
        truth: true counts [size][node]; only the numbers of groups are taken to be public.
        forms: of `FORMS`, one a level, root first.
        scales: of the noise of every level.
        draw: returns noise of a level in a shape.
    """
    found: list[Groups] = []
    for level, form in enumerate(forms):
        here = tree.columns(level)
        measured = _cumulative if form == "cumulative" else _sorted_sizes
        found += measured(truth[:, here], scales[level], partial(draw, level))
    for g in range(tree.n_inner):
        b, e = int(tree.first_child[g]), int(tree.first_child[g + 1])
        found[b:e] = matched(found[g], found[b:e], len(truth))
    leaves = np.zeros((len(truth), tree.n_leaves), dtype=np.int64)
    for i, groups in enumerate(found[tree.n_inner :]):
        np.add.at(leaves[:, i], groups.size, groups.count)
    return tree.sums(leaves)


def _cumulative(truth: Ints, scale: float, draw: Callable[[tuple[int, ...]], Ints]) -> list[Groups]:
    """Return groups from noisy cumulative counts: isotonic medians within 0..G; variance of a size 4 b^2 / count."""
    totals = truth.sum(axis=0)
    noisy = np.cumsum(truth, axis=0) + draw(truth.shape)
    found = []
    for i, total in enumerate(totals.tolist()):
        rising = np.clip(np.floor(median_isotonic(noisy[:, i].astype(np.float64)) + 0.5), 0, total)
        rising[-1] = total
        counts = np.diff(rising, prepend=0.0).astype(np.int64)
        size = np.flatnonzero(counts)
        found.append(Groups(size, 4.0 * scale * scale / counts[size], counts[size]))
    return found


def _sorted_sizes(truth: Ints, scale: float, draw: Callable[[tuple[int, ...]], Ints]) -> list[Groups]:
    """Return groups from the noisy sizes of all groups in order, made ascending; variance 2 b^2 / block."""
    found = []
    rows = np.arange(len(truth))
    for i in range(truth.shape[1]):
        true = np.repeat(rows, truth[:, i])
        if len(true) == 0:
            found.append(Groups(true, np.empty(0), true))
            continue
        fitted = np.empty((1, len(true)))
        noisy = (true + draw(true.shape)).astype(np.float64)[None, :]
        isotonic_rows_real(noisy, np.full(1, -np.inf), np.full(1, np.inf), fitted)
        _, start, block = np.unique(fitted[0], return_index=True, return_counts=True)
        size = np.clip(np.floor(fitted[0, start] + 0.5), 0, len(truth) - 1).astype(np.int64)
        found.append(Groups(size, 2.0 * scale * scale / block, block.astype(np.int64)))
    return found
