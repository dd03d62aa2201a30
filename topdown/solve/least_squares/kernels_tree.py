"""Compiled loops of an extension's least squares: the tree's inverse, and whole ADMM steps of one stage.

Compiled once per installation and cached as `topdown.solve.kernels_shared`; NumPy twins are in
`tests/oracles/structured_step_twin.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topdown.arrays import Floats, Ints


class Tree(NamedTuple):
    """The inverse of a diagonal plus nested blocks, sum of w e e', as a tree of blocks.

    Args:
        inverse_d: (n,), inverse diagonal. node: (n,), the finest block of each row, -1 for none.
        above: (n_blocks,), the next coarser block, -1 for none; a block comes after all inside it.
        coefficient, keep: (n_blocks,), w / (1 + w t) and 1 / (1 + w t), where t is the sum of the inverse of what
            is finer over the block.
    """

    inverse_d: Floats
    node: Ints
    above: Ints
    coefficient: Floats
    keep: Floats


class Schur(NamedTuple):
    """Crossing answers, soft rules and group sums on top of a tree.

    Args:
        pointers, answer, value: entries of each row, (n + 1,) and twice (n_entries,); rules come after answers.
        n_answers: crossing answers that are no rules.
        lower, lower_t: (r, r), inverse Cholesky factor of the complement and its transpose; r answers and rules.
        group: (n,). block_pointers, block_group, block_value: inverse of the groups' complement, by group; no
            groups if there is none.
        across, across_t: (n_groups, r), that inverse times the part shared with the answers, and its transpose.
    """

    pointers: Ints
    answer: Ints
    value: Floats
    n_answers: int
    lower: Floats
    lower_t: Floats
    group: Ints
    block_pointers: Ints
    block_group: Ints
    block_value: Floats
    across: Floats
    across_t: Floats


@njit(cache=True)
def _through(tree, held):
    """Turn sums over the rows of each block, (n_blocks, m), into what is taken off the rows, in place."""
    m = held.shape[1]
    for k in range(len(tree.above)):
        p = tree.above[k]
        if p >= 0:
            for j in range(m):
                held[p, j] += tree.keep[k] * held[k, j]
    for k in range(len(tree.above) - 1, -1, -1):
        p = tree.above[k]
        for j in range(m):
            held[k, j] *= tree.coefficient[k]
        if p >= 0:
            for j in range(m):
                held[k, j] += tree.keep[k] * held[p, j]


@njit(cache=True)
def apply_tree(tree, v):
    """Return the inverse times v, (n, m)."""
    n, m = v.shape
    out = np.empty((n, m))
    held = np.zeros((len(tree.above), m))
    for c in range(n):
        p = tree.node[c]
        if p >= 0:
            for j in range(m):
                held[p, j] += tree.inverse_d[c] * v[c, j]
    _through(tree, held)
    for c in range(n):
        p = tree.node[c]
        if p >= 0:
            for j in range(m):
                out[c, j] = tree.inverse_d[c] * (v[c, j] - held[p, j])
        else:
            for j in range(m):
                out[c, j] = tree.inverse_d[c] * v[c, j]
    return out


@njit(cache=True)
def project_from(v, allowed, s, threshold, out):
    """Project v on {z >= 0, sum z = s, z = 0 where not allowed}, starting from a guessed threshold; return the true.

    As `project_segments`, whose start is the threshold of all entries: a Newton step from any guess with an entry
    above it ends at or below the true threshold, and from there entries are only dropped.

    Args:
        v, allowed, out: (n,). s: persons, negative where the sum is free. threshold: any number, infinite for no guess.
    """
    if s < 0.0:
        for k in range(len(v)):
            out[k] = max(v[k], 0.0) if allowed[k] else 0.0
        return 0.0
    count = 0
    total = 0.0
    for k in range(len(v)):
        if allowed[k] and v[k] > threshold:
            count += 1
            total += v[k]
    guessed = count > 0
    if not guessed:
        for k in range(len(v)):
            if allowed[k]:
                count += 1
                total += v[k]
    if count == 0 or s == 0.0:
        for k in range(len(v)):
            out[k] = 0.0
        return np.inf
    threshold = (total - s) / count
    while True:
        kept = 0
        total = 0.0
        for k in range(len(v)):
            if allowed[k] and v[k] > threshold:
                kept += 1
                total += v[k]
        if kept == count or kept == 0 or (kept > count and not guessed):  # "more" can only be rounding
            break
        guessed = False
        count = kept
        threshold = (total - s) / count
    for k in range(len(v)):
        z = v[k] - threshold
        out[k] = z if allowed[k] and z > 0.0 else 0.0
    return threshold


@njit(cache=True)
def admm_steps(
    tree, schur, fixed, g, rho, relax, z, u, pointers, sums, allowed, threshold,
    most, pull, room, s, t, steps, tolerance,
):  # fmt: skip
    """Take ADMM steps of one stage (see `structured`); change z, u, threshold, s, t in place.

    Args:
        tree, schur: of this penalty. fixed: (n_groups, m). g: (n, m), linear term. rho: penalty. relax: 1 to 2.
        z, u: (n, m). pointers, sums: runs of the flattened table, and their sums. allowed: flat n * m.
        threshold: per run, of the step before; infinite for none.
        most, s, t: (n_rules, m), of soft rules. pull, room: (n_rules,), their penalty and the price over it.
        steps: most steps to take. tolerance: stop when both residuals are below, in persons.

    Returns:
        (steps taken, primal residual, dual residual, multipliers of the group sums (n_groups, m)).
    """
    n, m = z.shape
    n_groups, n_cross, n_rules = len(schur.block_pointers) - 1, len(schur.lower), len(most)
    held = np.empty((len(tree.above), m))
    b = np.empty((n, m))
    x = np.empty((n, m))
    y = np.empty(m)
    right = np.zeros((n_cross, m))
    half = np.zeros((n_cross, m))
    mu = np.zeros((n_cross, m))
    left = np.zeros((n_groups, m))
    h = np.zeros((n_groups, m))
    shared = np.zeros((n_groups, m))
    sums_x = np.zeros((n_rules, m))
    flat, flat_z, flat_u, flat_x = b.reshape(-1), z.reshape(-1), u.reshape(-1), x.reshape(-1)
    longest = 0
    for i in range(len(sums)):
        longest = max(longest, pointers[i + 1] - pointers[i])
    new = np.empty(longest)
    primal = 0.0
    dual = 0.0
    for step in range(steps):
        held[:] = 0.0
        for c in range(n):
            for j in range(m):
                b[c, j] = g[c, j] + rho * (z[c, j] - u[c, j])
            if n_rules:
                for e in range(schur.pointers[c], schur.pointers[c + 1]):
                    a = schur.answer[e] - schur.n_answers
                    if a >= 0:
                        for j in range(m):
                            b[c, j] += schur.value[e] * pull[a] * (s[a, j] - t[a, j])
            p = tree.node[c]
            if p >= 0:
                d = tree.inverse_d[c]
                for j in range(m):
                    held[p, j] += d * b[c, j]
        _through(tree, held)
        right[:] = 0.0
        left[:] = 0.0
        for c in range(n):
            p, d = tree.node[c], tree.inverse_d[c]
            if p >= 0:
                for j in range(m):
                    y[j] = d * (b[c, j] - held[p, j])
            else:
                for j in range(m):
                    y[j] = d * b[c, j]
            for e in range(schur.pointers[c], schur.pointers[c + 1]):
                a, value = schur.answer[e], schur.value[e]
                for j in range(m):
                    right[a, j] += value * y[j]
            if n_groups:
                a = schur.group[c]
                for j in range(m):
                    left[a, j] += y[j]
        if n_groups:
            left -= fixed
        if n_cross:
            if n_groups:
                np.dot(schur.across_t, left, half)
                right -= half
            np.dot(schur.lower, right, half)
            np.dot(schur.lower_t, half, mu)
        if n_groups:
            h[:] = 0.0
            for a in range(n_groups):
                for e in range(schur.block_pointers[a], schur.block_pointers[a + 1]):
                    for j in range(m):
                        h[a, j] += schur.block_value[e] * left[schur.block_group[e], j]
            if n_cross:
                np.dot(schur.across, mu, shared)
                h -= shared
        held[:] = 0.0
        for c in range(n):
            if n_groups:
                a = schur.group[c]
                for j in range(m):
                    b[c, j] -= h[a, j]
            for e in range(schur.pointers[c], schur.pointers[c + 1]):
                a, value = schur.answer[e], schur.value[e]
                for j in range(m):
                    b[c, j] -= value * mu[a, j]
            p = tree.node[c]
            if p >= 0:
                d = tree.inverse_d[c]
                for j in range(m):
                    held[p, j] += d * b[c, j]
        _through(tree, held)
        for c in range(n):
            p, d = tree.node[c], tree.inverse_d[c]
            if p >= 0:
                for j in range(m):
                    x[c, j] = d * (b[c, j] - held[p, j])
            else:
                for j in range(m):
                    x[c, j] = d * b[c, j]
            for j in range(m):
                b[c, j] = relax * x[c, j] + (1.0 - relax) * z[c, j] + u[c, j]
        primal = 0.0
        dual = 0.0
        for i in range(len(sums)):
            first, last = pointers[i], pointers[i + 1]
            z_new = new[: last - first]
            threshold[i] = project_from(flat[first:last], allowed[first:last], sums[i], threshold[i], z_new)
            for k in range(first, last):
                value = z_new[k - first]
                flat_u[k] = flat[k] - value
                primal = max(primal, abs(flat_x[k] - value))
                dual = max(dual, abs(value - flat_z[k]))
                flat_z[k] = value
        if n_rules:
            sums_x[:] = 0.0
            for c in range(n):
                for e in range(schur.pointers[c], schur.pointers[c + 1]):
                    a = schur.answer[e] - schur.n_answers
                    if a >= 0:
                        for j in range(m):
                            sums_x[a, j] += schur.value[e] * x[c, j]
            for a in range(n_rules):
                for j in range(m):
                    p_new = relax * sums_x[a, j] + (1.0 - relax) * s[a, j] + t[a, j]
                    kept = p_new
                    if kept > most[a, j]:
                        kept = most[a, j] + max(kept - most[a, j] - room[a], 0.0)
                    primal = max(primal, abs(sums_x[a, j] - kept))
                    dual = max(dual, abs(kept - s[a, j]))
                    s[a, j] = kept
                    t[a, j] = p_new - kept
        if primal <= tolerance and dual <= tolerance:
            return step + 1, primal, dual, -h
    return steps, primal, dual, -h
