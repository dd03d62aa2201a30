"""Continuous estimates on the tree: Model 1 relaxed, tree least squares, and ADMM for Model 2."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pgsr import kernels
from pgsr.hierarchy import Ints, Tree
from pgsr.numbers import scaled_weights
from pgsr.tree import continuous_optimum

Floats = NDArray[np.float64]


def relaxed_histograms(tree: Tree, noisy: Ints, total: int, weights: list[Fraction] | None = None) -> Floats:
    """Return the continuous optimum of Model 1 (M_H^r before rounding), [size][node]."""
    per_level, _ = scaled_weights(weights, tree.n_levels)
    w = per_level[tree.level_of]
    if tree.n_levels == 1:
        down = np.sort(noisy[:, 0].astype(np.float64))[::-1]
        shift = (np.cumsum(down) - total) / np.arange(1, len(down) + 1)
        return (
            np.maximum(noisy - shift[np.flatnonzero(down > shift)[-1]], 0.0)
            if total
            else np.zeros(noisy.shape)
        )
    found = continuous_optimum(tree, noisy, total, w)
    x = np.empty(noisy.shape)
    x[:, : tree.n_inner] = found.x
    up = tree.parent[tree.n_inner :]
    below = found.price - 2.0 * w[: tree.n_inner] * (found.x - noisy[:, : tree.n_inner])
    leaves = noisy[:, tree.n_inner :] + below[:, up] / (2.0 * w[tree.n_inner :])
    x[:, tree.n_inner :] = np.maximum(leaves, 0.0)
    return x


class TreeLeastSquares:
    """Weighted least squares of consistent trees, one column a region, any number of rows, two passes.

    Args:
        tree: the regions.
        weights: positive weight of every node (inverse variance).
    """

    def __init__(self, tree: Tree, weights: Floats) -> None:
        self.tree = tree
        effective = weights.astype(np.float64).copy()
        self.share = np.zeros(tree.n_nodes)
        self.own = np.ones(tree.n_nodes)
        for g in range(tree.n_inner - 1, -1, -1):
            below = slice(tree.first_child[g], tree.first_child[g + 1])
            precision = 1.0 / float((1.0 / effective[below]).sum())
            self.share[below] = precision / effective[below]
            self.own[g] = weights[g] / (weights[g] + precision)
            effective[g] = weights[g] + precision

    def fit(self, target: Floats, last_root: float | None = None) -> Floats:
        """Return the consistent values nearest to `target` [row][node].

        Args:
            target: values to approach.
            last_root: value at which the root of the last row is held.
        """
        tree, z = self.tree, target.copy()
        for level in range(tree.n_levels - 2, -1, -1):
            here, below = tree.columns(level), tree.columns(level + 1)
            summed = np.add.reduceat(z[:, below], tree.first_child[here] - below.start, axis=1)
            z[:, here] = summed + self.own[here] * (z[:, here] - summed)
        if last_root is not None:
            z[-1, 0] = last_root
        for level in range(1, tree.n_levels):
            here, above = tree.columns(level), tree.columns(level - 1)
            summed = np.add.reduceat(z[:, here], tree.first_child[above] - here.start, axis=1)
            lacking = z[:, above] - summed
            z[:, here] += lacking[:, tree.parent[here] - above.start] * self.share[here]
        return z


def isotonic(values: Floats, low: float, high: float) -> Floats:
    """Return each column's isotonic regression down the rows (sizes), clipped to [low, high]."""
    rows = np.ascontiguousarray(values.T)
    out = np.empty_like(rows)
    kernels.isotonic_rows_real(rows, np.full(len(rows), low), np.full(len(rows), high), out)
    return np.ascontiguousarray(out.T)


def admm_cumulative(
    tree: Tree, noisy: Ints, total: int, weights: Floats, iterations: int
) -> tuple[Floats, Floats, float]:
    """Return the continuous Model 2 estimate after some ADMM iterations.

    Alternates tree least squares per size with isotonic regression per leaf region: if every leaf ascends, so
    do all sums. Source: pgsr.md 2.3.

    Args:
        tree: the regions.
        noisy: noisy cumulative counts [size][node].
        total: number of groups G, held at the root's last size.
        weights: one positive weight a level (inverse variance).
        iterations: number of iterations, >= 1.

    Returns:
        Feasible-in-order estimate (leaves ascending, consistent), the least-squares iterate, and the largest
        disagreement of the two at a leaf, in groups.
    """
    leaf = tree.columns(tree.n_levels - 1)
    penalty = float(weights[-1])
    node_weights = weights[tree.level_of].astype(np.float64)
    node_weights[leaf] += penalty
    solver = TreeLeastSquares(tree, node_weights)
    start = isotonic(noisy[:, leaf].astype(np.float64), 0.0, float(total))
    ordered, dual = start, np.zeros_like(start)
    target = noisy.astype(np.float64)
    keep = float(weights[-1]) * target[:, leaf]
    fitted = target
    for _ in range(iterations):
        target[:, leaf] = (keep + penalty * (ordered - dual)) / (float(weights[-1]) + penalty)
        fitted = solver.fit(target, float(total))
        ordered = isotonic(fitted[:, leaf] + dual, 0.0, float(total))
        dual += fitted[:, leaf] - ordered
    gap = float(np.abs(fitted[:, leaf] - ordered).max())
    consistent = np.empty_like(fitted)
    consistent[:, leaf] = ordered
    for level in range(tree.n_levels - 2, -1, -1):
        here, below = tree.columns(level), tree.columns(level + 1)
        consistent[:, here] = np.add.reduceat(
            consistent[:, below], tree.first_child[here] - below.start, axis=1
        )
    return consistent, fitted, gap
