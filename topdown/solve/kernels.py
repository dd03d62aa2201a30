"""Compiled inner loops of the solver. Each has a plain NumPy twin in `twins.py`; tests compare them.

Compiled once per installation and cached beside the package (or in NUMBA_CACHE_DIR).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
def admm(
    inverse,
    constant,
    g,
    rho,
    rho_bound,
    z,
    u,
    pointers,
    sums,
    allowed,
    bound_of,
    lower,
    y,
    w,
    steps,
    tolerance,
):
    """Run ADMM steps on min 1/2 x'Hx - g'x with x = z in the segments' simplices and bound sums y >= lower.

    Changes z, u (scaled multipliers of x = z), y, w (of bound sums) in place. The linear step is
    x = inverse @ right + constant, so equalities on x are inside `inverse` and `constant`.

    Args:
        inverse: float64 (n, n). constant: (n, m), zeros if there are no equalities. g: (n, m).
        rho, rho_bound: penalties. z, u: (n, m). pointers, sums, allowed: see `project_segments` (flat n * m).
        bound_of: int64 (n,), lower bound each row belongs to, -1 for none. lower, y, w: (n_bounds, m).
        steps: most steps to take. tolerance: stop when both residuals are below, in persons.

    Returns:
        (steps taken, primal residual, dual residual), residuals as largest absolute value in persons.
    """
    relax = 1.6
    n, m = z.shape
    n_bounds = lower.shape[0]
    right = np.empty((n, m))
    v = np.empty((n, m))
    z_new = np.empty((n, m))
    primal = 0.0
    dual = 0.0
    for step in range(steps):
        for c in range(n):
            b = bound_of[c]
            for j in range(m):
                right[c, j] = g[c, j] + rho * (z[c, j] - u[c, j])
                if b >= 0:
                    right[c, j] += rho_bound * (y[b, j] - w[b, j])
        x = np.dot(inverse, right)
        primal = 0.0
        for c in range(n):
            for j in range(m):
                x[c, j] += constant[c, j]
                v[c, j] = relax * x[c, j] + (1.0 - relax) * z[c, j] + u[c, j]
        project_segments(v.reshape(-1), pointers, sums, allowed, z_new.reshape(-1))
        dual = 0.0
        for c in range(n):
            for j in range(m):
                u[c, j] = v[c, j] - z_new[c, j]
                primal = max(primal, abs(x[c, j] - z_new[c, j]))
                dual = max(dual, abs(z_new[c, j] - z[c, j]))
                z[c, j] = z_new[c, j]
        if n_bounds:
            sums_x = np.zeros((n_bounds, m))
            for c in range(n):
                b = bound_of[c]
                if b >= 0:
                    for j in range(m):
                        sums_x[b, j] += x[c, j]
            for b in range(n_bounds):
                for j in range(m):
                    t = relax * sums_x[b, j] + (1.0 - relax) * y[b, j] + w[b, j]
                    y_new = max(t, lower[b, j])
                    w[b, j] = t - y_new
                    primal = max(primal, abs(sums_x[b, j] - y_new))
                    dual = max(dual, abs(y_new - y[b, j]))
                    y[b, j] = y_new
        if primal <= tolerance and dual <= tolerance:
            return step + 1, primal, dual
    return steps, primal, dual


@njit(cache=True)
def has_negative_cycle(tails, heads, capacities, costs, flows, n_nodes):
    """Tell whether the residual network of a flow has a cycle of negative cost (Bellman-Ford).

    A feasible flow has minimum cost if and only if it has none. Integers throughout.

    Args:
        tails, heads, capacities, costs, flows: int64 (n_arcs,). n_nodes: number of nodes.
    """
    distance = np.zeros(n_nodes, dtype=np.int64)
    for _ in range(n_nodes + 1):
        changed = False
        for a in range(len(tails)):
            t, h, c = tails[a], heads[a], costs[a]
            if flows[a] < capacities[a] and distance[t] + c < distance[h]:
                distance[h] = distance[t] + c
                changed = True
            if flows[a] > 0 and distance[h] - c < distance[t]:
                distance[t] = distance[h] - c
                changed = True
        if not changed:
            return False
    return True
