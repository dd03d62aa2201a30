"""Kernels of an extension's least squares: the tree's inverse, and whole ADMM steps of one stage.

NumPy twins are in `tests/oracles/structured_step_twin.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import (
    Bools,
    Floats,
    FloatsOut,
    FloatTable,
    FloatTableOut,
    Ints,
    Whole,
)


@dataclass(eq=False, repr=False)
class Tree:
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


@dataclass(eq=False, repr=False)
class Schur:
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
    n_answers: Whole
    lower: FloatTable
    lower_t: FloatTable
    group: Ints
    block_pointers: Ints
    block_group: Ints
    block_value: Floats
    across: FloatTable
    across_t: FloatTable


def through(tree: Tree, held: FloatTableOut) -> None:
    """Turn sums over the rows of each block, (n_blocks, m), into what is taken off the rows, in place."""
    m, n_blocks = held.shape[1], tree.above.shape[0]
    for k in range(n_blocks):
        p = tree.above[k]
        if p >= 0:
            for j in range(m):
                held[p, j] += tree.keep[k] * held[k, j]
    for k in range(n_blocks - 1, -1, -1):
        p = tree.above[k]
        for j in range(m):
            held[k, j] *= tree.coefficient[k]
        if p >= 0:
            for j in range(m):
                held[k, j] += tree.keep[k] * held[p, j]


def apply_tree(tree: Tree, v: FloatTable) -> NDArray[np.float64]:
    """Return the inverse times v, (n, m)."""
    n, m = v.shape[0], v.shape[1]
    filled = np.empty((n, m))
    out: FloatTableOut = filled
    held: FloatTableOut = np.zeros((tree.above.shape[0], m))
    for c in range(n):
        p = tree.node[c]
        if p >= 0:
            for j in range(m):
                held[p, j] += tree.inverse_d[c] * v[c, j]
    through(tree, held)
    for c in range(n):
        p = tree.node[c]
        if p >= 0:
            for j in range(m):
                out[c, j] = tree.inverse_d[c] * (v[c, j] - held[p, j])
        else:
            for j in range(m):
                out[c, j] = tree.inverse_d[c] * v[c, j]
    return filled


def sums_of_entries(pointers: Ints, index: Ints, x: Floats, n_sums: Whole) -> NDArray[np.float64]:
    """Return the sums that each entry is in, of some number for each: (n_sums,).

    Args:
        pointers, index: the sums of entry i are index[pointers[i]:pointers[i + 1]]. x: (n,).
    """
    filled = np.zeros(n_sums)
    out: FloatsOut = filled
    for i in range(x.shape[0]):
        for k in range(pointers[i], pointers[i + 1]):
            out[index[k]] += x[i]
    return filled


def entries_of_sums(pointers: Ints, index: Ints, sums: Floats) -> NDArray[np.float64]:
    """Return for each entry what its sums hold together, (n,); see `sums_of_entries`, whose transpose this is."""
    n = pointers.shape[0] - 1
    filled = np.empty(n)
    out: FloatsOut = filled
    for i in range(n):
        total: float = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            total += sums[index[k]]
        out[i] = total
    return filled


def project_from(
    v: Floats, allowed: Bools, first: Whole, last: Whole, s: float, threshold: float, out: FloatsOut
) -> float:
    """Project v[first:last] on {z >= 0, sum z = s, z = 0 where not allowed}, from a guessed threshold; return the true.

    As `project_segments`, whose start is the threshold of all entries: a Newton step from any guess with an entry
    above it ends at or below the true threshold, and from there entries are only dropped.

    Args:
        v, allowed: (n,). out: its first entries are filled. s: persons, negative where the sum is free.
        threshold: any number, infinite for no guess.
    """
    if s < 0.0:
        for k in range(first, last):
            out[k - first] = max(v[k], 0.0) if allowed[k] else 0.0
        return 0.0
    count: Whole = 0
    total: float = 0.0
    for k in range(first, last):
        if allowed[k] and v[k] > threshold:
            count += 1
            total += v[k]
    guessed = count > 0
    if not guessed:
        for k in range(first, last):
            if allowed[k]:
                count += 1
                total += v[k]
    if count == 0 or s == 0.0:
        for k in range(first, last):
            out[k - first] = 0.0
        return np.inf
    true: float = (total - s) / count
    while True:
        kept: Whole = 0
        total = 0.0
        for k in range(first, last):
            if allowed[k] and v[k] > true:
                kept += 1
                total += v[k]
        if kept == count or kept == 0 or (kept > count and not guessed):  # "more" can only be rounding
            break
        guessed = False
        count = kept
        true = (total - s) / count
    for k in range(first, last):
        z: float = v[k] - true
        out[k - first] = z if allowed[k] and z > 0.0 else 0.0
    return true


def admm_steps(
    tree: Tree, schur: Schur, base: FloatTable, fixed: FloatTable, g: FloatTable, rho: float, relax: float,
    z: FloatTableOut, u: FloatTableOut, pointers: Ints, sums: Floats, allowed: Bools, threshold: FloatsOut,
    most: FloatTable, pull: Floats, room: Floats, s: FloatTableOut, t: FloatTableOut, steps: Whole, tolerance: float,
) -> tuple[int, float, float, NDArray[np.float64]]:  # fmt: skip
    """Take ADMM steps of one stage (see `structured`); change z, u, threshold, s, t in place.

    Args:
        tree, schur: of this penalty. rho: penalty. relax: 1 to 2.
        base: (n, m), a table near; x is found as what is beyond it, so that rounding errors are those of a small table.
        fixed: (n_groups, m), sums beyond the base. g: (n, m), linear term there.
        z, u: (n, m). pointers, sums: runs of the flattened table, and their sums. allowed: flat n * m.
        threshold: per run, of the step before; infinite for none.
        most, s, t: (n_rules, m), of soft rules. pull, room: (n_rules,), their penalty and the price over it.
        steps: most steps to take. tolerance: stop when both residuals are below, in persons.

    Returns:
        (steps taken, primal residual, dual residual, multipliers of the group sums (n_groups, m)).
    """
    n, m, n_blocks, n_runs = z.shape[0], z.shape[1], tree.above.shape[0], sums.shape[0]
    n_groups, n_cross, n_rules = schur.block_pointers.shape[0] - 1, schur.lower.shape[0], most.shape[0]
    first_entry: Ints = schur.pointers
    answer: Ints = schur.answer
    values: Floats = schur.value
    node: Ints = tree.node
    inverse_d: Floats = tree.inverse_d
    held: FloatTableOut = np.empty((n_blocks, m))
    b_array, x_array = np.empty((n, m)), np.empty((n, m))
    b: FloatTableOut = b_array
    x: FloatTableOut = x_array
    y: FloatsOut = np.empty(m)
    # What NumPy multiplies, beside views of it.
    lower, lower_t = np.asarray(schur.lower), np.asarray(schur.lower_t)
    across, across_t = np.asarray(schur.across), np.asarray(schur.across_t)
    right_array, half_array, mu_array = np.zeros((n_cross, m)), np.zeros((n_cross, m)), np.zeros((n_cross, m))
    left_array, h_array, shared_array = (
        np.zeros((n_groups, m)),
        np.zeros((n_groups, m)),
        np.zeros((n_groups, m)),
    )
    right: FloatTableOut = right_array
    half: FloatTableOut = half_array
    mu: FloatTableOut = mu_array
    left: FloatTableOut = left_array
    shared: FloatTableOut = shared_array
    h: FloatTableOut = h_array
    sums_x: FloatTableOut = np.zeros((n_rules, m))
    flat: FloatsOut = np.reshape(b_array, -1)
    flat_x: FloatsOut = np.reshape(x_array, -1)
    flat_z: FloatsOut = np.reshape(z, -1)
    flat_u: FloatsOut = np.reshape(u, -1)
    longest: Whole = 0
    for i in range(n_runs):
        longest = max(longest, pointers[i + 1] - pointers[i])
    new: FloatsOut = np.empty(longest)
    primal: float = 0.0
    dual: float = 0.0
    d: float
    value: float
    for step in range(steps):
        held[:, :] = 0.0
        for c in range(n):
            for j in range(m):
                b[c, j] = g[c, j] + rho * (z[c, j] - base[c, j] - u[c, j])
            if n_rules:
                for e in range(first_entry[c], first_entry[c + 1]):
                    a = answer[e] - schur.n_answers
                    if a >= 0:
                        for j in range(m):
                            b[c, j] += values[e] * pull[a] * (s[a, j] - t[a, j])
            p = node[c]
            if p >= 0:
                d = inverse_d[c]
                for j in range(m):
                    held[p, j] += d * b[c, j]
        through(tree, held)
        right[:, :] = 0.0
        left[:, :] = 0.0
        for c in range(n):
            p = node[c]
            d = inverse_d[c]
            if p >= 0:
                for j in range(m):
                    y[j] = d * (b[c, j] - held[p, j])
            else:
                for j in range(m):
                    y[j] = d * b[c, j]
            for e in range(first_entry[c], first_entry[c + 1]):
                a = answer[e]
                value = values[e]
                for j in range(m):
                    right[a, j] += value * y[j]
            if n_groups:
                a = schur.group[c]
                for j in range(m):
                    left[a, j] += y[j]
        if n_groups:
            for a in range(n_groups):
                for j in range(m):
                    left[a, j] -= fixed[a, j]
        if n_cross:
            if n_groups:
                np.dot(across_t, left_array, half_array)
                for a in range(n_cross):
                    for j in range(m):
                        right[a, j] -= half[a, j]
            np.dot(lower, right_array, half_array)
            np.dot(lower_t, half_array, mu_array)
        if n_groups:
            h[:, :] = 0.0
            for a in range(n_groups):
                for e in range(schur.block_pointers[a], schur.block_pointers[a + 1]):
                    for j in range(m):
                        h[a, j] += schur.block_value[e] * left[schur.block_group[e], j]
            if n_cross:
                np.dot(across, mu_array, shared_array)
                for a in range(n_groups):
                    for j in range(m):
                        h[a, j] -= shared[a, j]
        held[:, :] = 0.0
        for c in range(n):
            if n_groups:
                a = schur.group[c]
                for j in range(m):
                    b[c, j] -= h[a, j]
            for e in range(first_entry[c], first_entry[c + 1]):
                a = answer[e]
                value = values[e]
                for j in range(m):
                    b[c, j] -= value * mu[a, j]
            p = node[c]
            if p >= 0:
                d = inverse_d[c]
                for j in range(m):
                    held[p, j] += d * b[c, j]
        through(tree, held)
        for c in range(n):
            p = node[c]
            d = inverse_d[c]
            if p >= 0:
                for j in range(m):
                    x[c, j] = base[c, j] + d * (b[c, j] - held[p, j])
            else:
                for j in range(m):
                    x[c, j] = base[c, j] + d * b[c, j]
            for j in range(m):
                b[c, j] = relax * x[c, j] + (1.0 - relax) * z[c, j] + u[c, j]
        primal = 0.0
        dual = 0.0
        for i in range(n_runs):
            first, last = pointers[i], pointers[i + 1]
            threshold[i] = project_from(flat, allowed, first, last, sums[i], threshold[i], new)
            for k in range(first, last):
                value = new[k - first]
                flat_u[k] = flat[k] - value
                primal = max(primal, abs(flat_x[k] - value))
                dual = max(dual, abs(value - flat_z[k]))
                flat_z[k] = value
        if n_rules:
            sums_x[:, :] = 0.0
            for c in range(n):
                for e in range(first_entry[c], first_entry[c + 1]):
                    a = answer[e] - schur.n_answers
                    if a >= 0:
                        for j in range(m):
                            sums_x[a, j] += values[e] * x[c, j]
            for a in range(n_rules):
                for j in range(m):
                    p_new: float = relax * sums_x[a, j] + (1.0 - relax) * s[a, j] + t[a, j]
                    kept: float = p_new
                    if kept > most[a, j]:
                        kept = most[a, j] + max(kept - most[a, j] - room[a], 0.0)
                    primal = max(primal, abs(sums_x[a, j] - kept))
                    dual = max(dual, abs(kept - s[a, j]))
                    s[a, j] = kept
                    t[a, j] = p_new - kept
        if primal <= tolerance and dual <= tolerance:
            return step + 1, primal, dual, -h_array
    return steps, primal, dual, -h_array
