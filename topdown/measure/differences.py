"""How far one table is from another: error statistics of sparse integer tables, zeros included."""

from __future__ import annotations

import math

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


class Errors:
    """Errors of many values, taken a few at a time; kept as how often each size occurs."""

    def __init__(self) -> None:
        self._size, self._often = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._sum = self.n_values = 0

    def add(self, errors: NDArray[np.int64], n_values: int) -> None:
        """Take errors.

        Args:
            errors: released minus true, those that are not zero, in any order.
            n_values: how many values were compared, zeros included.
        """
        size, often = np.unique(np.abs(errors), return_counts=True)
        both = np.concatenate([self._size, size])
        self._size, place = np.unique(both, return_inverse=True)
        counts = np.concatenate([self._often, often])
        self._often = np.zeros(len(self._size), dtype=np.int64)
        np.add.at(self._often, place, counts)
        self._sum += int(errors.sum())
        self.n_values += n_values

    def summary(self) -> dict[str, object]:
        """Return n_values; mae, rmse, bias (mean signed error); l1 (sum of absolute errors); quantiles of the absolute
        error: the least value that at least that share of the values do not exceed, and the largest.
        """  # noqa: D205
        pairs = list(zip(self._size.tolist(), self._often.tolist(), strict=True))
        l1, squares = sum(s * n for s, n in pairs), sum(s * s * n for s, n in pairs)
        n = max(self.n_values, 1)
        quantiles = {str(q): self._quantile(q) for q in QUANTILES}
        return {
            "n_values": self.n_values,
            "mae": l1 / n,
            "rmse": math.sqrt(squares / n),
            "bias": self._sum / n,
            "l1": l1,
            "quantiles": quantiles | {"max": int(self._size[-1]) if pairs else 0},
        }

    def _quantile(self, percent: int) -> int:
        rank = -(-self.n_values * percent // 100)  # exact ceiling: no float decides between two values
        above = rank - (self.n_values - int(self._often.sum()))  # of the errors that are not zero, from below
        return int(self._size[np.searchsorted(np.cumsum(self._often), above)]) if above > 0 else 0


def total_variation(released: Histogram, truth: Histogram) -> tuple[float, int]:
    """Add up over nodes the total variation distance between released and true shares.

    Between 0 and 1 at a node. A node with records on one side only counts 1; nodes empty on both sides do not count.

    Returns:
        the sum, and how many nodes count.
    """
    n_released, n_true = released.totals(), truth.totals()
    lived = (n_released > 0) | (n_true > 0)
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
    return float(distance[lived].sum()), int(lived.sum())
