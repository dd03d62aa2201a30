"""Isotonic regression by absolute error: runs of medians, for noise with tails and sizes with gaps."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel

Floats = NDArray[np.float64]


def median_isotonic(values: Floats) -> Floats:
    """Return ascending values with the least sum of absolute differences, the middle between its two extremes.

    Args:
        values: one dimension.

    Cost: O(n log n).
    """
    if len(values) == 0:
        return values.copy()
    one = extreme_medians(values)
    other = -extreme_medians(-values[::-1])[::-1]
    return np.asarray(0.5 * (one + other))


@kernel
def extreme_medians(values: Floats) -> Floats:
    """Return one extreme of the solutions: the largest slopes in a heap, then a running minimum from the end."""
    n = values.shape[0]
    out = np.empty(n)
    heap = [-values[0]]
    out[0] = values[0]
    for i in range(1, n):
        heappush(heap, -values[i])
        if -heap[0] > values[i]:
            heappop(heap)
            heappush(heap, -values[i])
        out[i] = -heap[0]
    for i in range(n - 2, -1, -1):
        out[i] = min(out[i], out[i + 1])
    return out
