"""Nearest consistent counts to noisy histograms (Model 1) and along chains (Model 3): exact, and without integrality.

`tree_optimum` is M_H^dp, certified by exchange; `chain_optimum` is M_c^ch; `descend` is the TopDown comparator, two
consecutive levels at a time, each step an exact optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pgsr.estimators.kernels_isotonic import chain_values
from pgsr.estimators.kernels_model1 import (
    assign_down,
    count_active,
    exchange_gain,
    inverse_slopes,
    prices_down,
    root_windows,
    total_supply,
)
from pgsr.estimators.kernels_split import split, split_down
from pgsr.exact_arguments import refuse_inexact, refuse_overflow, scaled_weights, squared_cost
from pgsr.hierarchy import Tree, check_matrix, tree_of
from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError, InternalError

LARGEST_WINDOW = 127


@dataclass(frozen=True)
class TreeCertificate:
    """Proof of optimality by exchange: no single unit moved between siblings lowers the cost.

    Laminar sums of convex functions are M-natural-convex, so no improving exchange means a global optimum
    (pgsr.md 2.2, step 4). Checked in integers on the final counts.

    Args:
        optimal: largest_gain <= 0.
        largest_gain: cost saved by the best exchange, in units of 1 / denominator.
        denominator: common denominator of the weights.
        n_checks: families of siblings compared.
        window: half width of the integer window that sufficed.
    """

    optimal: bool
    largest_gain: int
    denominator: int
    n_checks: int
    window: int


@dataclass(frozen=True, eq=False)
class Continuous:
    """The optimum of Model 1 without integrality.

    Args:
        root_price: multiplier of the total.
        price: price that reaches each inner node, (n_sizes, n_inner).
        x: continuous count of each inner node, (n_sizes, n_inner).
        n_active: leaves that were kept as possible holders of a unit.
    """

    root_price: float
    price: Floats
    x: Floats
    n_active: int


def tree_optimum(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    weights: Sequence[int | Fraction] | None = None,
) -> tuple[Ints, int | Fraction, TreeCertificate]:
    """Return the nonnegative integer counts nearest to `noisy` that add up in the tree and to `total`.

    Guarantees min sum_l w_l sum (x - noisy)^2 subject to x[s, parent] = sum of x[s, children], x >= 0
    integer, sum_s x[s, root] = total; certified by `TreeCertificate`.

    >>> from pgsr import tree_optimum
    >>> counts, cost, _ = tree_optimum([[-1], [0, 0]], [[5, 2, 2], [4, 3, 2]], 9)
    >>> counts.tolist()
    [[5, 3, 2], [4, 3, 1]]

    Args:
        levels: parents level by level, `[[-1], [0, 0], ...]`, nondecreasing; or a Tree.
        noisy: integers [size][node], nodes level by level, root first.
        total: number of groups G >= 0.
        weights: one positive integer or Fraction per level; default 1.

    Returns:
        counts (int64, shape of `noisy`), cost (int, or Fraction with fractional weights), certificate.

    Raises:
        ConfigError: wrong shape, fractions in `noisy`, negative total, float or nonpositive weight.
        DataError: malformed tree.

    Cost: O(N R log R) time whatever the noise or G. Source: pgsr.md 2.2; replaces the paper's Algorithm 1.
    """
    tree = tree_of(levels)
    targets = check_matrix("noisy", noisy, tree)
    total = check_total(total)
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    largest = max(int(np.abs(targets).max()), total)
    refuse_overflow(largest, 2 * int(per_level.sum()))
    w = per_level[tree.level_of]
    if tree.n_levels == 1:
        refuse_inexact(targets, total)
    solve = _single_level if tree.n_levels == 1 else _several_levels
    counts, certificate = solve(tree, targets, total, w)
    certificate = replace(certificate, denominator=denominator)
    return counts, squared_cost(w[None, :], counts - targets, denominator), certificate


def check_total(total: int) -> int:
    """Return the number of groups; refuse negative and fractional ones."""
    if isinstance(total, float) or int(total) != total or total < 0:
        raise ConfigError(
            f"total is {total!r}", code="C147", fix="give the number of groups, an integer >= 0"
        )
    return int(total)


def _certify(tree: Tree, targets: Ints, w: Ints, counts: Ints, window: int) -> TreeCertificate:
    gain, n_checks = exchange_gain(targets, w, tree.first_child, counts)
    return TreeCertificate(gain <= 0, gain, 1, n_checks, window)


def _single_level(tree: Tree, targets: Ints, total: int, w: Ints) -> tuple[Ints, TreeCertificate]:
    root = np.empty(len(targets), dtype=np.int64)
    split(targets[:, 0].astype(np.float64), total, root)
    counts = root[:, None]
    certificate = _certify(tree, targets, w, counts, 0)
    if not certificate.optimal:
        raise InternalError(f"an exchange would lower the cost by {certificate.largest_gain}", code="X140")
    return counts, certificate


def _several_levels(tree: Tree, targets: Ints, total: int, w: Ints) -> tuple[Ints, TreeCertificate]:
    relaxed = continuous_optimum(tree, targets, total, w)
    window = 0
    while window <= LARGEST_WINDOW:
        counts = _round_within(tree, targets, total, w, relaxed, window)
        if counts is not None:
            certificate = _certify(tree, targets, w, counts, window)
            if certificate.optimal:
                return counts, certificate
        window = 2 * window + 1
    raise InternalError("no certified optimum within the largest window", code="X141")


def _round_within(
    tree: Tree, targets: Ints, total: int, w: Ints, relaxed: Continuous, window: int
) -> Ints | None:
    """Return the best integers within the window round the continuous optimum; None if none sums to total."""
    n_sizes = len(targets)
    low, width = np.empty(n_sizes, dtype=np.int64), np.empty(n_sizes, dtype=np.int64)
    units = np.empty((n_sizes, 2 * window + 1), dtype=np.int64)
    root_windows(targets, w, tree.first_child, relaxed.price, relaxed.x, window, low, width, units)
    spare = total - int(low.sum())
    if spare < 0 or spare > int(width.sum()):
        return None
    size, place = np.nonzero(np.arange(2 * window + 1)[None, :] < width[:, None])
    cheapest = np.argsort(units[size, place], kind="stable")[:spare]
    root = low + np.bincount(size[cheapest], minlength=n_sizes)
    counts = np.empty_like(targets)
    assign_down(targets, w, tree.first_child, relaxed.price, relaxed.x, window, root, counts)
    return counts


def continuous_optimum(tree: Tree, targets: Ints, total: int, w: Ints) -> Continuous:
    """Return the continuous optimum by inverse slopes and price bisection; needs at least two levels.

    Leaves that no admissible price can activate are left out: a guessed bound on the root price keeps few of
    them, and is accepted only if the price found respects it (pgsr.md 2.2, step 5).
    """
    weights = w.astype(np.float64)
    share = 0.02
    while True:
        bound = _price_quantile(tree, targets, weights, share) if share < 0.3 else np.inf
        found, held = _within_bound(tree, targets, total, weights, bound)
        if found is not None:
            return found
        share *= 4 if 8 * held > total else 16


def _price_quantile(tree: Tree, targets: Ints, w: Floats, share: float) -> float:
    """Return the root price at which about `share` of the leaves become possible holders (from a sample)."""
    step = max(1, targets.size // 60_000)
    leaves = np.arange(tree.n_inner, tree.n_nodes, step)
    threshold = -2.0 * w[leaves] * targets[:, leaves]
    node = tree.parent[leaves]
    while node[0] >= 0:
        threshold -= 2.0 * w[node] * targets[:, node]
        node = tree.parent[node]
    return float(np.quantile(threshold, share))


def _within_bound(
    tree: Tree, targets: Ints, total: int, w: Floats, bound: float
) -> tuple[Continuous | None, float]:
    """Return the optimum if its root price is at most `bound`, and the count held at that price."""
    n_sizes = len(targets)
    active = np.empty((n_sizes, tree.n_leaves), dtype=np.bool_)
    n_active = count_active(targets, w, tree.first_child, bound, active)
    start = np.empty((n_sizes, tree.n_leaves + 1), dtype=np.int64)
    np.cumsum(active, axis=1, out=start[:, 1:])
    per_size = start[:, -1].copy()
    start[:, 0] = 0
    bounds = np.concatenate(([0], np.cumsum(per_size)))
    start += bounds[:-1, None]
    depth = tree.n_levels - 1
    lam, slope, value = (np.empty((depth, n_active)) for _ in range(3))
    shape = (tree.level_of, tree.first_child, tree.leaf_start, tree.leaf_stop)
    inverse_slopes(targets, w, *shape, active, start, lam, slope, value)
    root = (lam[0], slope[0], value[0], bounds)
    held = total_supply(*root, bound) if np.isfinite(bound) else np.inf
    if held < total:
        return None, held
    price_root = _root_price(root, total, bound)
    price, x = (np.empty((n_sizes, tree.n_inner)) for _ in range(2))
    prices_down(targets, w, *shape, start, lam, slope, value, price_root, price, x)
    return Continuous(price_root, price, x, n_active), held


def _root_price(root: tuple[Floats, Floats, Floats, Ints], total: int, bound: float) -> float:
    """Return the root price at which the counts of all sizes sum to `total`."""
    lam = root[0]
    low = float(lam.min(initial=min(bound, 0.0)))
    high = bound
    if not np.isfinite(bound):
        step = 1.0
        high = float(lam.max(initial=low))
        while total_supply(*root, high) < total:
            high, step = high + step, 2 * step
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if total_supply(*root, middle) < total:
            low = middle
        else:
            high = middle
    return high


def descend(tree: Tree, noisy: Ints, total: int) -> Ints:
    """Return consistent counts: the root's nearest to its noisy histogram, then each parent split among children.

    Every step is the integer optimum of its own least-squares problem; the whole is not that of Model 1.

    Args:
        noisy: noisy histograms [size][node].
    """
    refuse_inexact(noisy, total)
    root = np.empty(len(noisy), dtype=np.int64)
    split(noisy[:, 0].astype(np.float64), total, root)
    counts = np.empty_like(noisy)
    split_down(noisy.astype(np.float64), root, tree.first_child, counts)
    return counts


def chain_optimum(
    y: object,
    tied: Sequence[bool] | NDArray[np.bool_],
    total: int,
    weights: Sequence[int | Fraction] | Ints | None = None,
    *,
    last: bool = True,
) -> tuple[Ints, int | Fraction]:
    """Return the integers nearest to `y` that ascend along a chain.

    Guarantees min sum w (c - y)^2 subject to c_i = c_{i+1} where tied[i], else c_i <= c_{i+1},
    0 <= c <= total, integer; with `last`, c_n = total. Rounding the continuous optimum half up is optimal
    (pgsr.md 2.1); all arithmetic is in integers.

    >>> from pgsr import chain_optimum
    >>> values, cost = chain_optimum([3, 1, 5], [False, False, False], 5)
    >>> values.tolist(), cost
    ([2, 2, 5], 2)

    Args:
        y: integers of shape (n,).
        tied: n booleans; the last one is not used.
        total: number of groups G >= 0.
        weights: n positive integers or Fractions; default 1.
        last: whether the last entry is the public total.

    Returns:
        values (int64) and cost (int, or Fraction with fractional weights).

    Raises:
        ConfigError: wrong lengths, fractions in `y`, negative total, float or nonpositive weight.

    Cost: O(n).
    """
    array = np.asarray(y)
    if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "iu":
        raise ConfigError(
            f"y is {array.dtype} of shape {array.shape}", code="C141", fix="give a nonempty list of integers"
        )
    ties = np.asarray(tied, dtype=np.bool_)
    if ties.shape != array.shape:
        raise ConfigError(
            f"{len(array)} values but {ties.size} ties", code="C140", fix="give one boolean a value"
        )
    values = np.ascontiguousarray(array, dtype=np.int64)
    w, denominator = scaled_weights(weights, len(values))
    total = check_total(total)
    refuse_overflow(max(int(np.abs(values).max()), total), int(w.sum()))
    out = np.empty_like(values)
    chain_values(values, w, ties, total, last, out)
    return out, squared_cost(w, out - values, denominator)


def chain_order(tree: Tree, n_sizes: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return (flat cell size * n_nodes + node, tied) along the chain: the post-order repeated for each size.

    A step from a child up to its parent is tied: both entries count the same groups (Model 3, C8).
    """
    post = tree.post_order
    levels = tree.level_of[post]
    up = np.append(levels[1:] < levels[:-1], False)
    cells = (np.arange(n_sizes)[:, None] * tree.n_nodes + post[None, :]).reshape(-1)
    return cells, np.tile(up, n_sizes)


def chain_counts(tree: Tree, values: Ints) -> Ints:
    """Return the counts [size][node] whose chain entries are `values`: differences along each level."""
    cells, _ = chain_order(tree, values.size // tree.n_nodes)
    flat = np.empty_like(values)
    flat[cells] = values
    matrix = flat.reshape(-1, tree.n_nodes)
    counts = np.empty_like(matrix)
    for level in range(tree.n_levels):
        here = tree.columns(level)
        block = matrix[:, here].reshape(-1)
        counts[:, here] = np.diff(block, prepend=0).reshape(-1, here.stop - here.start)
    return counts


def chain_estimate(
    tree: Tree, noisy: Ints, total: int, weights: Sequence[int | Fraction] | None = None
) -> tuple[Ints, int | Fraction]:
    """Return counts [size][node] and cost from noisy chain entries (the post-processing of M_c^ch).

    Args:
        noisy: noisy chain entries laid out [size][node].
        weights: one per level; default 1.
    """
    cells, tied = chain_order(tree, len(noisy))
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    along = per_level[tree.level_of[cells % tree.n_nodes]]
    values, cost = chain_optimum(noisy.reshape(-1)[cells], tied, total, along)
    exact = Fraction(cost) / denominator
    return chain_counts(tree, values), int(exact) if exact.denominator == 1 else exact


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
