"""How far one table is from another: error statistics of sparse integer tables, zeros included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.model.histogram import Histogram

QUANTILES = (50, 90, 95, 99)


def difference(released: Histogram, truth: Histogram) -> Histogram:
    """Subtract the truth from the release, entry by entry; entries without error are dropped."""
    return Histogram.build(
        truth.n_nodes,
        truth.n_cells,
        np.concatenate([released.node, truth.node]),
        np.concatenate([released.cell, truth.cell]),
        np.concatenate([released.count, -truth.count]),
    )


def statistics(errors: NDArray[np.int64], n_values: int) -> dict[str, object]:
    """Summarise errors, in records.

    Args:
        errors: released minus true, those that are not zero, in any order.
        n_values: how many values were compared, zeros included.

    Returns:
        n_values; mae, rmse, bias (mean signed error); l1 (sum of absolute errors); quantiles of the absolute
        error: the least value that at least that share of the values do not exceed, and the largest.
    """
    size = np.sort(np.abs(errors))
    squares = float(np.square(errors.astype(np.float64)).sum())
    n = max(n_values, 1)
    quantiles = {str(q): _quantile(size, n_values, q) for q in QUANTILES}
    return {
        "n_values": n_values,
        "mae": int(size.sum()) / n,
        "rmse": float(np.sqrt(squares / n)),
        "bias": int(errors.sum()) / n,
        "l1": int(size.sum()),
        "quantiles": quantiles | {"max": int(size[-1]) if len(size) else 0},
    }


def _quantile(size: NDArray[np.int64], n_values: int, percent: int) -> int:
    rank = -(-n_values * percent // 100)  # exact ceiling: no float decides between two values
    position = rank - 1 - (n_values - len(size))
    return int(size[position]) if position >= 0 else 0


def mean_total_variation(released: Histogram, truth: Histogram) -> float | None:
    """Average over nodes the total variation distance between released and true shares.

    Between 0 and 1. A node with records on one side only counts 1; nodes empty on both sides do not count.

    Returns:
        the mean; None if no node has records.
    """
    n_released, n_true = released.totals(), truth.totals()
    lived = (n_released > 0) | (n_true > 0)
    if not lived.any():
        return None
    key, row = np.unique(
        np.concatenate([released.node, truth.node]) * truth.n_cells
        + np.concatenate([released.cell, truth.cell]),
        return_inverse=True,
    )
    gap = np.zeros(len(key))
    split = len(released.node)
    np.add.at(gap, row[:split], released.count / n_released[released.node])
    np.subtract.at(gap, row[split:], truth.count / n_true[truth.node])
    distance = np.zeros(truth.n_nodes)
    np.add.at(distance, key // truth.n_cells, np.abs(gap) / 2)
    distance[(n_released > 0) != (n_true > 0)] = 1.0
    return float(distance[lived].mean())
