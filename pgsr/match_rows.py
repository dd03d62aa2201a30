"""Leaves that rows describe, matched to their parent group by group: the last step where most groups are in rows.

Smoothing cell by cell spreads a large group that is rare over sizes near it. Here groups stay whole: those of the
parent, as estimated from all levels, meet in order of size those that the rows of its parts tell. Every known number
of groups stays as it is.
"""

from __future__ import annotations

import numpy as np

from pgsr.hierarchy import Ints
from pgsr.kernels_rows import LOOSE
from pgsr.matching import Groups, matched
from pgsr.rows import Choice, Read, Sideways


def match_rows(public: Sideways, choice: Choice, read: Read, counts: Ints) -> Ints:
    """Return counts [size][node] whose leaves were matched, all other regions their sums.

    Families of leaves are left as they are unless at least half of their groups are counted past their columns.

    Args:
        public: what the columns and rows were chosen from, beside the answers.
        choice: the columns and rows.
        read: what their answers say.
        counts: estimate, consistent and with the numbers of groups that are known.
    """
    tree, n_sizes = public.tree, len(counts)
    spread = np.array(public.variances)[tree.level_of]
    leaves = counts[:, tree.n_inner :].copy()
    for g in range(tree.n_inner):
        below = range(int(tree.first_child[g]), int(tree.first_child[g + 1]))
        if below.start < tree.n_inner or 2 * _in_rows(choice, counts, below) < max(int(public.totals[g]), 1):
            continue
        said = [_as_rows_say(counts[:, c], read.tails[:, c], int(choice.columns[c])) for c in below]
        parts = [_groups(own, LOOSE * spread[c]) for own, c in zip(said, below, strict=True)]
        for c, part in zip(below, matched(_groups(counts[:, g], spread[g]), parts, n_sizes), strict=True):
            leaves[:, c - tree.n_inner] = 0
            np.add.at(leaves[:, c - tree.n_inner], part.size, part.count)
    return tree.sums(leaves)


def _in_rows(choice: Choice, counts: Ints, below: range) -> int:
    """Return how many groups of some regions are counted past the columns."""
    return sum(int(counts[choice.columns[c] :, c].sum()) for c in below)


def _as_rows_say(counts: Ints, tails: Ints, columns: int) -> Ints:
    """Return counts of a region: as estimated up to its columns, past them as its rows say."""
    long = np.cumsum(counts[::-1])[::-1]
    long[columns:] = np.minimum(tails[columns:], long[columns - 1])
    return np.asarray(long - np.append(long[1:], 0))


def _groups(counts: Ints, variance: float) -> Groups:
    """Return groups of one region; those of one size know it as well as that many answers of its level."""
    size = np.flatnonzero(counts)
    return Groups(size, variance / counts[size], counts[size])
