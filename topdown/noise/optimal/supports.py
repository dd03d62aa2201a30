"""How far noise has to reach: the support of the truncated Laplace law, rounded up."""

from __future__ import annotations

import math

from topdown.noise.optimal.ask import Promise


def truncated_laplace_reach(promise: Promise, cells: int) -> int:
    """Return the half support of the truncated Laplace law, in cell widths, rounded up.

    It is (k / epsilon) ln(1 + (e^epsilon - 1) / (2 delta)), and k / (2 delta) for epsilon 0. It chooses a window,
    nothing else, so floats will do.

    Args:
        promise: epsilon and delta.
        cells: k, cell widths in the sensitivity.

    """
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    if epsilon < 1e-9:
        return math.ceil(cells / (2 * delta))
    return math.ceil(cells / epsilon * math.log1p(math.expm1(epsilon) / (2 * delta)))


def default_cells(promise: Promise) -> int:
    """Return how many cell widths the sensitivity gets: as many as make a program of some 5,000 rows, 2 to 40.

    Args:
        promise: epsilon and delta.

    """
    reach = truncated_laplace_reach(promise, 1) + 1
    return min(max(2, math.isqrt(2500 // reach)), 40)
