"""Estimates that keep known numbers of groups, and that may lean every region on its parent (`tracking+parent`).

A region's cumulative counts are its share of the parent's plus a difference whose size is fitted from the noisy
answers, so that it costs nothing. Regions unlike their siblings keep their own data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgsr import kernels
from pgsr.hierarchy import Ints, Tree
from pgsr.kernels_borrow import block_precision, fit_rows, lean_family, pooled_spread
from pgsr.kernels_bounded import track_down
from pgsr.kernels_cells import block_noise, isotonic_cells, share_cells
from pgsr.relaxed import TreeLeastSquares

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Base:
    """Cumulative counts of every region from its own and its parts' answers.

    Args:
        values: [node][size], ascending, the last the number of groups.
        noise: variance of the noise in them, [node][size].
    """

    values: Floats
    noise: Floats


def base_of(tree: Tree, answers: Floats, totals: Ints, variances: Floats, rounds: int = 8) -> Base:
    """Return isotonic cumulative counts with the tree's least squares in turn, held at the known totals.

    Args:
        tree: the regions.
        answers: noisy cumulative counts [size][node]; the last row is not read.
        totals: number of groups of every node, whole and consistent.
        variances: of one answer of every node.
        rounds: alternations; the root takes one, where more would add the bias of empty cells below.
    """
    high = totals.astype(np.float64)
    solver = TreeLeastSquares(tree, 1.0 / variances)
    smooth = _isotonic(np.ascontiguousarray(answers.T), high)
    precision = np.empty_like(smooth)
    joint = joint_precision(tree, 1.0 / variances)
    for node in range(tree.n_nodes):
        block_precision(smooth[node], 1.0 / variances[node], joint[node], precision[node])
    root = smooth[0]
    for i in range(rounds):
        fit_rows(smooth, tree.first_child, solver.own, solver.share)
        smooth = _isotonic(smooth, high)
        root = smooth[0].copy() if i == 0 else root
    smooth[0] = root
    return Base(smooth, 1.0 / precision)


def base_of_cells(tree: Tree, answers: Floats, totals: Ints, variances: Floats, rounds: int = 8) -> Base:
    """Return what `base_of` does where answers of one region differ in variance, [size][node]."""
    high = totals.astype(np.float64)
    own = np.ascontiguousarray(1.0 / variances.T)
    joint, kept, share, noise = own.copy(), np.empty_like(own), np.empty_like(own), np.empty_like(own)
    share_cells(joint, tree.first_child, kept, share)
    smooth = np.empty_like(own)
    isotonic_cells(np.ascontiguousarray(answers.T), own, high, smooth)
    block_noise(smooth, own, joint, noise)
    root = smooth[0]
    for i in range(rounds):
        fit_rows(smooth, tree.first_child, kept, share)
        isotonic_cells(smooth.copy(), own, high, smooth)
        root = smooth[0].copy() if i == 0 else root
    smooth[0] = root
    return Base(smooth, noise)


def lean(tree: Tree, base: Base, leans: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return cumulative counts [node][size] that lean on the parent from the root down, and their variances.

    Args:
        tree: the regions.
        base: see `base_of`.
        leans: which nodes lean on their parent; the others keep their own data.
    """
    final, variance = base.values.copy(), base.noise.copy()
    variance[:, -1] = 0.0
    totals = base.values[:, -1].copy()
    pooled = np.empty(len(base.values[0]) - 1)
    for g in range(tree.n_inner):
        level = tree.columns(int(tree.level_of[g]))
        if g == level.start:
            pooled_spread(base.values, base.noise, tree.first_child, level.start, level.stop, pooled)
        b, e = tree.first_child[g], tree.first_child[g + 1]
        if not leans[b:e].any():
            continue
        above = np.stack([base.values[g], final[g], variance[g]])
        own = base.values[b:e], base.noise[b:e], totals[b:e], leans[b:e]
        lean_family(above, *own, pooled, final[b:e], variance[b:e])
        final[b:e, -1] = np.inf
        kernels.isotonic_rows_real(final[b:e].copy(), np.zeros(e - b), totals[b:e], final[b:e])
    return final, variance


def counts_of(tree: Tree, cumulative: Floats, totals: Ints) -> Ints:
    """Return whole counts [size][node] that follow cumulative counts [node][size] and end at the totals."""
    root = np.floor(cumulative[0] + 0.5).astype(np.int64)
    root[-1] = totals[0]
    counts = np.empty(cumulative.shape[::-1], dtype=np.int64)
    target = np.ascontiguousarray(cumulative.T)
    track_down(target, np.diff(root, prepend=0), totals, tree.first_child, counts)
    return counts


def _isotonic(rows: Floats, high: Floats) -> Floats:
    """Return isotonic rows [node][size] within 0..high, the last entry high itself; changes the last of `rows`."""
    rows[:, -1] = np.inf
    out = np.empty_like(rows)
    kernels.isotonic_rows_real(rows, np.zeros(len(rows)), high, out)
    return out


def joint_precision(tree: Tree, own: Floats) -> Floats:
    """Return the precision that every node's own answer and those of its parts have together."""
    joint = own.copy()
    for g in range(tree.n_inner - 1, -1, -1):
        below = slice(tree.first_child[g], tree.first_child[g + 1])
        joint[g] += 1.0 / float((1.0 / joint[below]).sum())
    return joint
