"""Kernels that set up a family's least squares, and check its optimum and its rounding.

Compiled when the package is installed (`topdown.resources`); NumPy twins are in `tests/oracles/solver_twins.py`. In the
check of an optimum tables are flat, row by row; a segment is a run of them with one sum, unknown where it is negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Floats, FloatsOut, FloatTableOut, Ints, IntsOut, IntTable, Whole


def gram(labels: IntTable, weights: Floats) -> NDArray[np.float64]:
    """Return H with H[c, d] = sum of weights[q] over queries q that put rows c and d in one answer.

    Args:
        labels: int64 (n_queries, n_rows), answer of each row in each query.
        weights: float64 (n_queries,).
    """
    n_queries, n = labels.shape[0], labels.shape[1]
    filled = np.zeros((n, n))
    out: FloatTableOut = filled
    for c in range(n):
        for d in range(c + 1):
            total: float = 0.0
            for q in range(n_queries):
                if labels[q, c] == labels[q, d]:
                    total += weights[q]
            out[c, d] = total
            out[d, c] = total
    return filled


def has_negative_cycle(
    tails: Ints, heads: Ints, capacities: Ints, costs: Ints, flows: Ints, n_nodes: Whole
) -> bool:
    """Tell whether the residual network of a flow has a cycle of negative cost (Bellman-Ford).

    A feasible flow has minimum cost if and only if it has none. Integers throughout: no simple path costs less than
    `least`, so a distance below it has gone around a negative cycle, and none further is ever computed.

    Args:
        tails, heads, capacities, costs, flows: int64 (n_arcs,). n_nodes: number of nodes; with one more, times the
            largest cost, below 2^63.
    """
    distance: IntsOut = np.zeros(n_nodes, dtype=np.int64)
    least: Whole = 0
    for a in range(costs.shape[0]):
        least = max(least, abs(costs[a]))
    least = -n_nodes * least
    for _ in range(n_nodes + 1):
        changed = False
        for a in range(tails.shape[0]):
            t, h, c = tails[a], heads[a], costs[a]
            if flows[a] < capacities[a] and distance[t] + c < distance[h]:
                distance[h] = distance[t] + c
                if distance[h] < least:
                    return True
                changed = True
            if flows[a] > 0 and distance[h] - c < distance[t]:
                distance[t] = distance[h] - c
                if distance[t] < least:
                    return True
                changed = True
        if not changed:
            return False
    return True


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
