"""Compiled steps of ADMM on dense matrices: the linear step's right side, its product, projections and multipliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topdown.arrays import Floats, Ints

RELAX = 1.6


class Frame(NamedTuple):
    """What stays the same in all steps of one penalty.

    Args:
        g: (n, m). rho, rho_bound: penalties. pointers, sums, allowed: see `project_segments` (flat n * m).
        bound_of: int64 (n,), bound each row belongs to, -1 for none. lower: (n_bounds, m).
        limits: (m, 2^n_bounds or twice that), (m, 0) for none.
        rows: (k, n). most: (k, m). rho_row: (k,), penalties. hinge: see `problem.Compared`.
    """

    g: Floats
    rho: float
    rho_bound: float
    pointers: Ints
    sums: Floats
    allowed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    bound_of: Ints
    lower: Floats
    limits: Floats
    rows: Floats
    most: Floats
    rho_row: Floats
    hinge: float


class State(NamedTuple):
    """What steps change in place: z, u (scaled multipliers of x = z), y, w (of bound sums), s, t (of rules)."""

    z: Floats
    u: Floats
    y: Floats
    w: Floats
    s: Floats
    t: Floats


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
def right_side(frame, state, right):
    """Write g plus every penalty times where its part should be into `right`, (n, m)."""
    n, m = right.shape
    for c in range(n):
        b = frame.bound_of[c]
        for j in range(m):
            right[c, j] = frame.g[c, j] + frame.rho * (state.z[c, j] - state.u[c, j])
            if b >= 0:
                right[c, j] += frame.rho_bound * (state.y[b, j] - state.w[b, j])
            for r in range(len(frame.rows)):
                right[c, j] += frame.rho_row[r] * frame.rows[r, c] * (state.s[r, j] - state.t[r, j])


@njit(cache=True)
def dual_update(frame, state, x, v, z_new, sums_x):
    """Project what the linear step gave, x (n, m), and move the multipliers.

    Bound sums go to y >= lower, or, where there are limits, to a base polytope a column (`project_base`); soft rules
    add hinge * sum max(0, s - most) with s = rows @ x.

    Args:
        v, z_new: (n, m), overwritten. sums_x: (n_bounds, m), sums of x over bounds.

    Returns:
        (primal, dual) residual, largest absolute values in persons.
    """
    z, u, y, w, s, t_row = state
    n, m = z.shape
    n_bounds = frame.lower.shape[0]
    primal = 0.0
    for c in range(n):
        for j in range(m):
            v[c, j] = RELAX * x[c, j] + (1.0 - RELAX) * z[c, j] + u[c, j]
    project_segments(v.reshape(-1), frame.pointers, frame.sums, frame.allowed, z_new.reshape(-1))
    dual = 0.0
    for c in range(n):
        for j in range(m):
            u[c, j] = v[c, j] - z_new[c, j]
            primal = max(primal, abs(x[c, j] - z_new[c, j]))
            dual = max(dual, abs(z_new[c, j] - z[c, j]))
            z[c, j] = z_new[c, j]
    if n_bounds:
        t = np.empty(n_bounds)
        y_new = np.empty((n_bounds, m))
        subset_sum = np.zeros(max(frame.limits.shape[1], 1))
        subset = np.zeros(max(frame.limits.shape[1], 1), dtype=np.int64)
        for j in range(m):
            for b in range(n_bounds):
                t[b] = RELAX * sums_x[b, j] + (1.0 - RELAX) * y[b, j] + w[b, j]
                y_new[b, j] = max(t[b], frame.lower[b, j])
            if frame.limits.shape[1]:
                project_base(t, frame.limits[j], y_new[:, j], subset_sum, subset)
            for b in range(n_bounds):
                w[b, j] = t[b] - y_new[b, j]
                primal = max(primal, abs(sums_x[b, j] - y_new[b, j]))
                dual = max(dual, abs(y_new[b, j] - y[b, j]))
                y[b, j] = y_new[b, j]
    for r in range(len(frame.rows)):
        for j in range(m):
            held = 0.0
            for c in range(n):
                held += frame.rows[r, c] * x[c, j]
            p = RELAX * held + (1.0 - RELAX) * s[r, j] + t_row[r, j]
            over = p - frame.most[r, j]
            if over > 0.0:
                p = frame.most[r, j] + max(0.0, over - frame.hinge / frame.rho_row[r])
            t_row[r, j] = RELAX * held + (1.0 - RELAX) * s[r, j] + t_row[r, j] - p
            primal = max(primal, abs(held - p))
            dual = max(dual, abs(p - s[r, j]))
            s[r, j] = p
    return primal, dual


@njit(cache=True)
def bound_sums(bound_of, x, out):
    """Add the rows of x by bound, (n_bounds, m), into `out`."""
    out[:] = 0.0
    if len(out):
        for c in range(len(x)):
            b = bound_of[c]
            if b >= 0:
                for j in range(x.shape[1]):
                    out[b, j] += x[c, j]


@njit(cache=True)
def shared_steps(inverse, constant, frame, state, steps, tolerance):
    """Run ADMM steps on min 1/2 x'Hx - g'x with one matrix for all columns: x = inverse @ right + constant.

    Equalities on x are inside `inverse` and `constant`.

    Args:
        inverse: (n, n). constant: (n, m), zeros if there are no equalities.
        steps: most steps to take. tolerance: stop when both residuals are below, in persons.

    Returns:
        (steps taken, primal residual, dual residual), residuals as largest absolute value in persons.
    """
    n, m = state.z.shape
    right, v, z_new = np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    sums_x = np.zeros(frame.lower.shape)
    primal = dual = 0.0
    for step in range(steps):
        right_side(frame, state, right)
        x = np.dot(inverse, right)
        for c in range(n):
            for j in range(m):
                x[c, j] += constant[c, j]
        bound_sums(frame.bound_of, x, sums_x)
        primal, dual = dual_update(frame, state, x, v, z_new, sums_x)
        if primal <= tolerance and dual <= tolerance:
            return step + 1, primal, dual
    return steps, primal, dual


@njit(cache=True)
def stacked_steps(inverses, constant, frame, state, steps, tolerance):
    """Run the same with one matrix a column, inverses (m, n, n)."""
    n, m = state.z.shape
    right, v, z_new = np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    x = np.empty((n, m))
    sums_x = np.zeros(frame.lower.shape)
    primal = dual = 0.0
    for step in range(steps):
        right_side(frame, state, right)
        for j in range(m):
            x[:, j] = np.dot(inverses[j], right[:, j].copy()) + constant[:, j]
        bound_sums(frame.bound_of, x, sums_x)
        primal, dual = dual_update(frame, state, x, v, z_new, sums_x)
        if primal <= tolerance and dual <= tolerance:
            return step + 1, primal, dual
    return steps, primal, dual
