"""Kernels that set up a family's least squares, solve it where it is small, and check its optimum and its rounding.

Compiled when the package is installed (`topdown.resources`); NumPy twins are in `tests/oracles/solver_twins.py`. In the
check of an optimum tables are flat, row by row; a segment is a run of them with one sum, unknown where it is negative.
The slow twin of `solve_small_split` is `admm.run` with a `DenseStep`, which takes whatever is handed back; the check
calls nothing that it calls.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import (
    Bools,
    Floats,
    FloatsOut,
    FloatTable,
    FloatTableOut,
    Ints,
    IntsOut,
    IntTable,
    ShortTable,
    Whole,
)
from topdown.solve.least_squares.kernels_admm import Frame, State, matrix_steps


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


def linear_term(labels: IntTable, offsets: Ints, weights: Floats, answers: ShortTable) -> NDArray[np.float64]:
    """Return g with g[c, j] = sum over queries q of weights[q] times the answer of child j that row c is part of.

    Args:
        labels: int64 (n_queries, n_rows), answer of each row in each query. offsets: where each query's answers begin.
        weights: float64 (n_queries,). answers: int32 (m, n_answers_of_all_queries), of the children.
    """
    n_queries, n, m = labels.shape[0], labels.shape[1], answers.shape[0]
    filled = np.empty((n, m))
    out: FloatTableOut = filled
    for c in range(n):
        for j in range(m):
            total: float = 0.0
            for q in range(n_queries):
                total += weights[q] * answers[j, offsets[q] + labels[q, c]]
            out[c, j] = total
    return filled


def add_by_group(group: Ints, values: FloatTable, out: FloatTableOut) -> None:
    """Add each row of values, (n, m), to the row of `out` that `group` names, one after the other; -1 names none."""
    n_groups, m = out.shape[0], values.shape[1]
    for c in range(values.shape[0] if n_groups else 0):
        g = group[c]
        if g >= 0:
            for j in range(m):
                out[g, j] += values[c, j]


def separating_weight(labels: IntTable, weights: Floats) -> float:
    """Return the weight of all queries that put no two rows in one answer: H is at least so much times the identity.

    Args:
        labels: int64 (n_queries, n_rows). weights: float64 (n_queries,).
    """
    total: float = 0.0
    for q in range(labels.shape[0]):
        together: Whole = 0
        for c in range(labels.shape[1]):
            for d in range(c):
                together += labels[q, c] == labels[q, d]
            if together:
                break
        if together == 0:
            total += weights[q]
    return total


def solve_small_split(
    hessian: FloatTable,
    g: FloatTable,
    smallest: float,
    sums: Floats,
    pointers: Ints,
    allowed: Bools,
    fixed_of: Ints,
    fixed: FloatTable,
    tolerance: float,
    pace: Ints,
) -> tuple[NDArray[np.float64], NDArray[np.float64], int] | None:
    """Minimise 1/2 x'Hx - g'x over x >= 0 with known sums of rows, known sums of groups, and zeros.

    Args:
        hessian: (n, n). g: (n, m). smallest: eigenvalue of H, or what stands for it, see `first_penalty`.
        sums, pointers, allowed: see `project_segments`; allowed is flat, (n * m,).
        fixed_of, fixed: group of each row, -1 for none, and the sums, (k, m).
        tolerance: of both residuals, in persons. pace: int64 (3,), most steps between two looks, two corrections of
            the penalty, and in all.

    Returns:
        (table (n, m), multipliers of the groups (k, m), steps); None where rows are not the segments, where float64
        does not do, or where there are too many steps.
    """
    n, m, k = g.shape[0], g.shape[1], fixed.shape[0]
    if sums.shape[0] != n:
        return None
    for c in range(n):
        if pointers[c] != c * m or pointers[c + 1] != c * m + m or sums[c] < 0.0:
            return None
    for c in range(n):
        if fixed_of[c] >= k:
            raise IndexError("a row of a group that has no sum")
    largest: float = largest_eigenvalue(hessian)
    first: float = sqrt(max(smallest, largest * 1e-5) * largest)
    rho: float = first
    inverse, constant, half, middle = (
        np.empty((1, n, n)),
        np.zeros((n, m)),
        np.zeros((n, k)),
        np.empty((k, k)),
    )
    if not factor(hessian, rho, fixed_of, fixed, inverse[0], constant, half, middle):
        return None
    z_array, u_array = np.zeros((n, m)), np.zeros((n, m))
    z: FloatTableOut = z_array
    u: FloatTableOut = u_array
    share: float = 0.0
    for c in range(n):
        count: Whole = 0
        for j in range(m):
            count += allowed[c * m + j]
        share = sums[c] / max(count, 1)
        for j in range(m):
            if allowed[c * m + j]:
                z[c, j] = share
    none, no_rows, no_groups = np.zeros((0, m)), np.zeros((0, n)), np.full(n, -1, dtype=np.int64)
    no_limits, no_weights = np.zeros((m, 0)), np.zeros(0)
    state = State(z_array, u_array, none, none, none, none)
    taken: Whole = 0
    primal: float = 0.0
    dual: float = 0.0
    ratio: float = 0.0
    scale: float = 0.0
    while True:
        frame = Frame(
            g, rho, rho, pointers, sums, allowed, no_groups, none, no_limits, no_rows, none, no_weights, 0.0
        )
        steps: Whole = min(pace[0] - taken % pace[0], pace[2] - taken)
        done: Whole = 0
        done, primal, dual = matrix_steps(inverse, constant, frame, state, steps, tolerance)
        taken += done
        if primal <= tolerance and dual <= tolerance:
            break
        if taken >= pace[2] or not primal >= 0.0:
            return None
        ratio = primal / max(dual, 1e-300)
        if taken % pace[1] == 0 and not 0.2 < ratio < 5.0:
            scale = min(max(rho * min(max(sqrt(ratio), 0.2), 5.0), first / 1e4), first * 1e4) / rho
            if scale != 1.0:
                rho *= scale
                for c in range(n):
                    for j in range(m):
                        u[c, j] /= scale
                if not factor(hessian, rho, fixed_of, fixed, inverse[0], constant, half, middle):
                    return None
    multipliers = np.zeros((k, m))
    out: FloatTableOut = multipliers
    by_row: FloatTableOut = half
    by_group: FloatTableOut = middle
    missing: float = 0.0
    for a in range(k):
        for j in range(m):
            missing = -fixed[a, j]
            for c in range(n):
                missing += by_row[c, a] * (g[c, j] + rho * (z[c, j] - u[c, j]))
            for b in range(k):
                out[b, j] -= by_group[b, a] * missing
    return z_array, multipliers, int(taken)  # where this is not compiled, a NumPy integer, which JSON refuses


def largest_eigenvalue(matrix: FloatTable) -> float:
    """Return about the largest eigenvalue of a symmetric matrix, as `problem.power_method` does."""
    n = matrix.shape[0]
    vectors: FloatTableOut = np.ones((2, n))
    norm: float = 0.0
    total: float = 0.0
    for step in range(13):
        norm = 0.0
        for c in range(n):
            total = 0.0
            for d in range(n):
                total += matrix[c, d] * vectors[0, d]
            vectors[1, c] = total
            norm += total * total if step < 12 else total * vectors[0, c]
        if step < 12:
            for c in range(n):
                vectors[0, c] = vectors[1, c] / sqrt(norm)
    return norm


def factor(
    hessian: FloatTable,
    rho: float,
    fixed_of: Ints,
    fixed: FloatTable,
    inverse: FloatTableOut,
    constant: FloatTableOut,
    half: FloatTableOut,
    middle: FloatTableOut,
) -> bool:
    """Write the linear step of a penalty, with the groups' sums inside; False where a matrix is not positive.

    Args:
        hessian, rho, fixed_of, fixed: see `solve_small_split`.
        inverse: (n, n), constant: (n, m), half: (n, k), middle: (k, k), as of `DenseStep`; overwritten.
    """
    n, m, k = hessian.shape[0], fixed.shape[1], fixed.shape[0]
    with_penalty = np.array(hessian)
    shifted: FloatTableOut = with_penalty
    for c in range(n):
        shifted[c, c] += rho
    if not invert(with_penalty, inverse):
        return False
    if k == 0:
        return True
    between = np.zeros((k, k))
    sums: FloatTableOut = between
    half[:, :] = 0.0
    for c in range(n):
        for d in range(n):
            if fixed_of[d] >= 0:
                half[c, fixed_of[d]] += inverse[c, d]
    for c in range(n):
        if fixed_of[c] >= 0:
            for a in range(k):
                sums[fixed_of[c], a] += half[c, a]
    if not invert(between, middle):
        return False
    gain: FloatTableOut = np.zeros((n, k))
    for c in range(n):
        for a in range(k):
            for b in range(k):
                gain[c, a] += half[c, b] * middle[b, a]
    for c in range(n):
        for d in range(c + 1):
            for a in range(k):
                inverse[c, d] -= gain[c, a] * half[d, a]
            inverse[d, c] = inverse[c, d]
        for j in range(m):
            constant[c, j] = 0.0
            for a in range(k):
                constant[c, j] += gain[c, a] * fixed[a, j]
    return True


def invert(matrix: FloatTable, out: FloatTableOut) -> bool:
    """Write the inverse of a symmetric positive definite matrix (Cholesky); False if it is none in float64."""
    n = matrix.shape[0]
    lower: FloatTableOut = np.zeros((n, n))  # L, then its inverse
    total: float = 0.0
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i > j:
                lower[i, j] = total / lower[j, j]
            elif total > 0.0:
                lower[i, i] = sqrt(total)
            else:
                return False
    columns: FloatTableOut = np.zeros((n, n))  # of the inverse of L, as rows
    for j in range(n):
        columns[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= lower[i, k] * columns[j, k]
            columns[j, i] = total / lower[i, i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += columns[i, k] * columns[j, k]
            out[i, j] = total
            out[j, i] = total
    return True


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
