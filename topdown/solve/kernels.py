"""Compiled inner loops of the solver. Each has a plain NumPy twin in `reference.py`; tests compare them.

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
    limits,
    rows,
    most,
    rho_row,
    hinge,
    s,
    t_row,
    steps,
    tolerance,
):
    """Run ADMM steps on min 1/2 x'Hx - g'x with x = z in the segments' simplices and bound sums y in their place.

    That place is y >= lower, or, where there are limits, a base polytope a column (`project_base`). Soft rules add
    hinge * sum max(0, s - most) with s = rows @ x.

    Changes z, u (scaled multipliers of x = z), y, w (of bound sums), s, t_row (of rules) in place. The linear step is
    x = inverse @ right + constant, so equalities on x are inside `inverse` and `constant`.

    Args:
        inverse: float64 (n, n). constant: (n, m), zeros if there are no equalities. g: (n, m).
        rho, rho_bound: penalties. z, u: (n, m). pointers, sums, allowed: see `project_segments` (flat n * m).
        bound_of: int64 (n,), bound each row belongs to, -1 for none. lower, y, w: (n_bounds, m).
        limits: (m, 2^n_bounds or twice that), (m, 0) for none.
        rows: (k, n). most, s, t_row: (k, m). rho_row: (k,), penalties. hinge: see `problem.Compared`.
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
    y_new = np.empty((n_bounds, m))
    t = np.empty(n_bounds)
    subset_sum = np.zeros(max(limits.shape[1], 1))
    subset = np.zeros(max(limits.shape[1], 1), dtype=np.int64)
    primal = 0.0
    dual = 0.0
    for step in range(steps):
        for c in range(n):
            b = bound_of[c]
            for j in range(m):
                right[c, j] = g[c, j] + rho * (z[c, j] - u[c, j])
                if b >= 0:
                    right[c, j] += rho_bound * (y[b, j] - w[b, j])
                for r in range(len(rows)):
                    right[c, j] += rho_row[r] * rows[r, c] * (s[r, j] - t_row[r, j])
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
            for j in range(m):
                for b in range(n_bounds):
                    t[b] = relax * sums_x[b, j] + (1.0 - relax) * y[b, j] + w[b, j]
                    y_new[b, j] = max(t[b], lower[b, j])
                if limits.shape[1]:
                    project_base(t, limits[j], y_new[:, j], subset_sum, subset)
                for b in range(n_bounds):
                    w[b, j] = t[b] - y_new[b, j]
                    primal = max(primal, abs(sums_x[b, j] - y_new[b, j]))
                    dual = max(dual, abs(y_new[b, j] - y[b, j]))
                    y[b, j] = y_new[b, j]
        for r in range(len(rows)):
            for j in range(m):
                held = 0.0
                for c in range(n):
                    held += rows[r, c] * x[c, j]
                p = relax * held + (1.0 - relax) * s[r, j] + t_row[r, j]
                over = p - most[r, j]
                if over > 0.0:
                    p = most[r, j] + max(0.0, over - hinge / rho_row[r])
                t_row[r, j] = relax * held + (1.0 - relax) * s[r, j] + t_row[r, j] - p
                primal = max(primal, abs(held - p))
                dual = max(dual, abs(p - s[r, j]))
                s[r, j] = p
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
