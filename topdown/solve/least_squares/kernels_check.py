"""Kernels of the optimality check: broken signs, zeros and sums, and what of a gradient no multiplier takes away.

Compiled when the package is installed (`topdown.resources`); NumPy twins are in `tests/oracles/solver_twins.py`. Tables
are flat, row by row; a segment is a run of them with one sum, unknown where it is negative.
"""

from __future__ import annotations

from topdown.arrays import Bools, Floats, FloatsOut, Ints


def worst_violation(z: Floats, allowed: Bools, pointers: Ints, sums: Floats) -> float:
    """Return the largest violation of a sign, a zero or a sum, in persons.

    Args:
        z, allowed: (n * m,). pointers: (n_segments + 1,). sums: (n_segments,).
    """
    worst: float = 0.0
    total: float = 0.0
    for i in range(sums.shape[0]):
        total = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += z[k]
            worst = max(worst, -z[k])
            if not allowed[k]:
                worst = max(worst, z[k])
        if total != total:
            return total  # entries that are no numbers keep nothing
        if sums[i] >= 0.0:
            worst = max(worst, abs(total - sums[i]))
    return worst


def leave_gap(z: Floats, allowed: Bools, pointers: Ints, sums: Floats, d: FloatsOut) -> None:
    """Take segment multipliers and what zeros allow out of a gradient, in place.

    The mean gradient of a segment's positive entries leaves the smallest rest; without any, the lowest allowed one.

    Args:
        z, allowed, pointers, sums: see `worst_violation`. d: (n * m,), overwritten.
    """
    nu: float = 0.0
    total: float = 0.0
    lowest: float = 0.0
    for i in range(sums.shape[0]):
        total, lowest, nu = 0.0, 0.0, 0.0
        n_positive = 0
        n_allowed = 0
        for k in range(pointers[i], pointers[i + 1]):
            if z[k] > 0.0:
                n_positive += 1
                total += d[k]
            if allowed[k]:
                lowest = min(lowest, d[k]) if n_allowed > 0 else d[k]
                n_allowed += 1
        if sums[i] >= 0.0:
            nu = total / n_positive if n_positive > 0 else lowest
        for k in range(pointers[i], pointers[i + 1]):
            if not allowed[k]:
                d[k] = 0.0
            elif z[k] > 0.0:
                d[k] -= nu
            else:
                d[k] = 0.0 if d[k] > nu else d[k] - nu
