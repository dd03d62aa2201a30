"""Compiled inner loops of the solver. Each has a plain NumPy twin in `reference.py`; tests compare them.

Compiled once per installation and cached beside the package (or in NUMBA_CACHE_DIR).
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def gram(labels, weights):
    """Return H with H[c, d] = sum of weights[q] over queries q that put rows c and d in one answer.

    Args:
        labels: int64 (n_queries, n_rows), answer of each row in each query.
        weights: float64 (n_queries,).
    """
    n_queries, n = labels.shape
    out = np.zeros((n, n))
    for c in range(n):
        for d in range(c + 1):
            total = 0.0
            for q in range(n_queries):
                if labels[q, c] == labels[q, d]:
                    total += weights[q]
            out[c, d] = total
            out[d, c] = total
    return out


@njit(cache=True)
def project_segments(v, pointers, sums, allowed, out):
    """Project each segment of v on {z >= 0, sum z = s, z = 0 where not allowed}; s < 0 means no sum.

    Michelot's algorithm: drop entries at or below the threshold until none is left to drop.

    Args:
        v, allowed, out: flat arrays; segment i is pointers[i]:pointers[i + 1].
        pointers: int64 (n_segments + 1,).
        sums: float64 (n_segments,).
    """
    for i in range(len(sums)):
        first, last, s = pointers[i], pointers[i + 1], sums[i]
        if s < 0.0:
            for k in range(first, last):
                out[k] = v[k] if allowed[k] and v[k] > 0.0 else 0.0
            continue
        count = 0
        total = 0.0
        for k in range(first, last):
            if allowed[k]:
                count += 1
                total += v[k]
        if count == 0 or s == 0.0:
            for k in range(first, last):
                out[k] = 0.0
            continue
        threshold = (total - s) / count
        while True:
            kept = 0
            total = 0.0
            for k in range(first, last):
                if allowed[k] and v[k] > threshold:
                    kept += 1
                    total += v[k]
            if kept >= count or kept == 0:  # "more" can only be rounding
                break
            count = kept
            threshold = (total - s) / count
        for k in range(first, last):
            z = v[k] - threshold
            out[k] = z if allowed[k] and z > 0.0 else 0.0


@njit(cache=True)
def project_base(v, limits, out, subset_sum, subset):
    """Project v on the base polytope {y : y(A) <= limits[A] for all sets A, y(everything) = limits[-1]}.

    Groenevelt's decomposition: meet the total alone; where a set is too full, split into it and the rest.

    Args:
        v, out: float64 (k,). limits: float64 (2^k,), or (2^(k + 1),) where a last entry of no cost takes up the
            slack. subset_sum: float64, subset: int64, both as long as `limits`, overwritten.
    """
    k = len(v)
    size = len(limits)
    slack = size >> (k + 1)  # 1 if there is an entry of no cost
    inside = np.zeros(k + 1, dtype=np.int64)
    todo_set = np.zeros(k + 2, dtype=np.int64)
    todo_base = np.zeros(k + 2, dtype=np.int64)
    y = np.zeros(k + 1)
    n_todo = 1
    todo_set[0] = size - 1
    for i in range(k):  # an entry that must be zero stays out
        if limits[1 << i] == 0.0 and limits[size - 1] == limits[size - 1 - (1 << i)]:
            out[i] = 0.0
            todo_set[0] -= 1 << i
    while n_todo:
        n_todo -= 1
        here, base = todo_set[n_todo], todo_base[n_todo]
        if here == 0:
            continue
        count = 0
        total = limits[base | here] - limits[base]
        rest = total
        for i in range(k + slack):
            if (here >> i) & 1:
                inside[count] = i
                count += 1
                if i < k:
                    rest -= v[i]
        if slack and (here >> k) & 1:
            for c in range(count):
                i = inside[c]
                y[i] = rest if i == k else v[i]
        else:
            for c in range(count):
                y[inside[c]] = v[inside[c]] + rest / count
        worst = 1e-12 + 1e-15 * abs(total)
        split = 0
        subset_sum[0] = 0.0
        subset[0] = 0
        for c in range(count):
            for a in range(1 << c):
                b = a | (1 << c)
                subset_sum[b] = subset_sum[a] + y[inside[c]]
                subset[b] = subset[a] | (1 << inside[c])
                over = subset_sum[b] - (limits[base | subset[b]] - limits[base])
                if over > worst and subset[b] != here:
                    worst = over
                    split = subset[b]
        if split:
            todo_set[n_todo], todo_base[n_todo] = split, base
            todo_set[n_todo + 1], todo_base[n_todo + 1] = here & ~split, base | split
            n_todo += 2
        else:
            for c in range(count):
                if inside[c] < k:
                    out[inside[c]] = y[inside[c]]


@njit(cache=True)
def has_negative_cycle(tails, heads, capacities, costs, flows, n_nodes):
    """Tell whether the residual network of a flow has a cycle of negative cost (Bellman-Ford).

    A feasible flow has minimum cost if and only if it has none. Integers throughout: no simple path costs less than
    `least`, so a distance below it has gone around a negative cycle, and none further is ever computed.

    Args:
        tails, heads, capacities, costs, flows: int64 (n_arcs,). n_nodes: number of nodes; with one more, times the
            largest cost, below 2^63.
    """
    distance = np.zeros(n_nodes, dtype=np.int64)
    least = np.int64(0)
    for a in range(len(costs)):
        least = max(least, abs(costs[a]))
    least = -n_nodes * least
    for _ in range(n_nodes + 1):
        changed = False
        for a in range(len(tails)):
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
