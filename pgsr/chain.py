"""The exact integer optimum of a chain with ties (Model 3, M_c^ch), and the chain of a region tree."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pgsr import kernels
from pgsr.hierarchy import Ints, Tree
from pgsr.numbers import refuse_overflow, scaled_weights, squared_cost
from pgsr.tree import check_total
from topdown.errors import ConfigError


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
    kernels.chain_values(values, w, ties, total, last, out)
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
        tree: the regions.
        noisy: noisy chain entries laid out [size][node].
        total: number of groups G.
        weights: one per level; default 1.
    """
    cells, tied = chain_order(tree, len(noisy))
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    along = per_level[tree.level_of[cells % tree.n_nodes]]
    values, cost = chain_optimum(noisy.reshape(-1)[cells], tied, total, along)
    exact = Fraction(cost) / denominator
    return chain_counts(tree, values), int(exact) if exact.denominator == 1 else exact
