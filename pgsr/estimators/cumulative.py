"""Estimates from noisy cumulative counts (Model 2): M_c^dp, M_c^r, cumulative tracking, tree least squares, ADMM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pgsr.estimators.exact_optima import TreeCertificate, check_total, tree_optimum
from pgsr.estimators.kernels_isotonic import isotonic_rows, isotonic_rows_real
from pgsr.estimators.kernels_split import track_down
from pgsr.exact_arguments import refuse_inexact, scaled_weights, squared_cost
from pgsr.hierarchy import Tree, check_matrix, tree_of
from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError


class TreeLeastSquares:
    """Weighted least squares of consistent trees, one column a region, any number of rows, two passes.

    Args:
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
    isotonic_rows_real(rows, np.full(len(rows), low), np.full(len(rows), high), out)
    return np.ascontiguousarray(out.T)


Tell = Callable[[str], None]
"""Takes the name of a step of a long estimate."""


def admm_cumulative(
    tree: Tree, noisy: Ints, total: int, weights: Floats, iterations: int, tell: Tell = lambda _: None
) -> tuple[Floats, Floats, float]:
    """Return the continuous Model 2 estimate after some ADMM iterations.

    Alternates tree least squares per size with isotonic regression per leaf region: if every leaf ascends, so
    do all sums. Source: pgsr.md 2.3.

    Args:
        noisy: noisy cumulative counts [size][node].
        total: number of groups G, held at the root's last size.
        weights: one positive weight a level (inverse variance).
        iterations: number of iterations, >= 1.
        tell: hears of every tenth.

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
    for done in range(iterations):
        if done and done % 10 == 0:
            tell(f"iteration {done} of {iterations}")
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


METHODS = ("tracking", "M_c^dp", "M_c^r")
ROUNDS = 8


@dataclass(frozen=True, eq=False)
class CumulativeEstimate:
    """Counts from noisy cumulative counts.

    Args:
        counts: released counts [size][node].
        cost: sum_l w_l sum (cumulative counts - noisy)^2, the objective of Model 2.
        method: how they were found.
        consistent: whether parents equal the sums of their children exactly.
        certificate: of the last step of M_c^dp (Model 1 is solved exactly); None otherwise.
        admm_gap: largest disagreement of the two halves of ADMM, in groups; None without ADMM.
    """

    counts: Ints
    cost: int | Fraction
    method: str
    consistent: bool
    certificate: TreeCertificate | None = None
    admm_gap: float | None = None


def cumulative_estimate(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    *,
    method: str = "tracking",
    weights: Sequence[int | Fraction] | None = None,
    rounds: int = ROUNDS,
    admm: int = 0,
    tell: Tell = lambda _: None,
) -> CumulativeEstimate:
    """Return counts of groups from noisy cumulative counts of every region.

    `tracking` and `M_c^dp` are consistent, valid and faithful by construction; `M_c^r` rounds each cell and
    need not be. None of the three claims to solve Model 2 exactly.

    >>> from pgsr import cumulative_estimate
    >>> cumulative_estimate([[-1], [0, 0]], [[5, 2, 2], [9, 5, 4]], 9).counts[:, 0].sum().item()
    9

    Args:
        levels: parents level by level, nondecreasing; or a Tree.
        noisy: integers [size][node]: groups of at most that size. Numbers of groups of at least a size are the same
            problem with the sizes reversed.
        total: number of groups G.
        method: "tracking", "M_c^dp" or "M_c^r".
        weights: one positive integer or Fraction per level (inverse variance); default 1.
        rounds: alternations of tree least squares and isotonic regression, without ADMM. One is the estimator
            of pgsr.md 2.3; more lower the errors at the leaves (docs/explanation/pgsr-accuracy.md).
        admm: iterations of ADMM instead, before tracking or rounding; 0 for none.
        tell: hears of every tenth iteration of ADMM.

    Raises:
        ConfigError: unknown method, wrong shape, negative total, float weight.
    """
    tree = tree_of(levels)
    answers = check_matrix("noisy", noisy, tree)
    total = check_total(total)
    if method not in METHODS:
        raise ConfigError(
            f"unknown cumulative method {method!r}", code="C148", fix=f"use one of {', '.join(METHODS)}"
        )
    refuse_inexact(answers, total)
    scaled, denominator = scaled_weights(weights, tree.n_levels)
    certificate, gap = None, None
    if method == "M_c^dp":
        counts, certificate = histogram_route(tree, answers, total, weights)
    else:
        precision = scaled.astype(np.float64)
        if admm > 0:
            smooth, _, gap = admm_cumulative(tree, answers, total, precision, admm, tell)
        else:
            smooth = smoothed(tree, answers, total, precision[tree.level_of], rounds)
        if method == "tracking":
            counts = track(tree, smooth, total)
        else:
            counts = np.floor(np.diff(smooth, axis=0, prepend=0.0) + 0.5).astype(np.int64)
    cost = squared_cost(scaled[tree.level_of][None, :], np.cumsum(counts, axis=0) - answers, denominator)
    consistent = bool(np.array_equal(counts, tree.sums(counts[:, tree.n_inner :])))
    return CumulativeEstimate(counts, cost, method, consistent, certificate, gap)


def histogram_route(
    tree: Tree, cumulative: Ints, total: int, weights: Sequence[int | Fraction] | None = None
) -> tuple[Ints, TreeCertificate]:
    """Return M_c^dp: isotonic regression of each region, rounded, differenced, then Model 1 exactly.

    Args:
        cumulative: noisy cumulative counts [size][node].
        weights: one per level for Model 1; default 1.
    """
    rows = np.ascontiguousarray(cumulative.T)
    out = np.empty_like(rows)
    isotonic_rows(rows, total, out)
    histograms = np.ascontiguousarray(np.diff(out, axis=1, prepend=0).T)
    counts, _, certificate = tree_optimum(tree, histograms, total, weights)
    return counts, certificate


def track(tree: Tree, smooth: Floats, total: int) -> Ints:
    """Return integer counts whose cumulative counts follow `smooth` (cumulative tracking, pgsr.md 2.3).

    The root's cumulative counts are made ascending and rounded; then, size by size and from the root down,
    each parent's count is split to what its children's cumulative targets still lack, so that rounding errors
    do not add up over sizes.

    Args:
        smooth: targets for the cumulative counts [size][node].
    """
    root = np.floor(isotonic(smooth[:, :1], 0.0, float(total))[:, 0] + 0.5).astype(np.int64)
    root[-1] = total
    counts = np.empty(smooth.shape, dtype=np.int64)
    free = np.full(tree.n_nodes, total, dtype=np.int64)
    track_down(smooth, np.diff(root, prepend=0), free, tree.first_child, counts)
    return counts


def smoothed(tree: Tree, noisy: Ints, total: int, weights: Floats, rounds: int = ROUNDS) -> Floats:
    """Return isotonic regression and tree least squares of cumulative counts in turn, [size][node].

    Args:
        noisy: cumulative counts [size][node].
        weights: positive precision of every node.
        rounds: alternations.
    """
    smooth = isotonic(noisy.astype(np.float64), 0.0, float(total))
    solver = TreeLeastSquares(tree, weights)
    for _ in range(rounds):
        smooth = isotonic(solver.fit(smooth, float(total)), 0.0, float(total))
    return smooth
