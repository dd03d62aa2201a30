"""The TopDown comparator: two consecutive levels at a time, from the root down, each step an exact optimum."""

from __future__ import annotations

import numpy as np

from pgsr import kernels
from pgsr.hierarchy import Ints, Tree
from pgsr.numbers import refuse_inexact


def descend(tree: Tree, noisy: Ints, total: int) -> Ints:
    """Return consistent counts: the root's nearest to its noisy histogram, then each parent split among children.

    Every step is the integer optimum of its own least-squares problem; the whole is not that of Model 1.

    Args:
        tree: the regions.
        noisy: noisy histograms [size][node].
        total: number of groups G.
    """
    refuse_inexact(noisy, total)
    root = np.empty(len(noisy), dtype=np.int64)
    kernels.split(noisy[:, 0].astype(np.float64), total, root)
    counts = np.empty_like(noisy)
    kernels.split_down(noisy.astype(np.float64), root, tree.first_child, counts)
    return counts
