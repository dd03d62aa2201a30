"""Compiled steps of ADMM where each child's matrix is applied by means over product axes (`solve.tree.lattice`).

A child's table is kept on all product cells of its open dense values; cells where the parent has no records are entries
that must be zero, with multipliers of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from topdown.arrays import Floats, Ints
from topdown.solve.least_squares.kernels_dense import RELAX, dual_update, right_side


class Axes(NamedTuple):
    """Product cells: per set of axes, int64 (n_sets, n_product) place of each cell in the table summed over them.

    Args:
        place: see above. sizes: int64 (n_sets,), places of each set.
    """

    place: Ints
    sizes: Ints


class Children(NamedTuple):
    """Complete tables of all children, one after the other; child j has entries pointers[j]:pointers[j + 1].

    Args:
        pointers: int64 (m + 1,). at: int64 (n, m), entry of each row within the child's, -1 where it is closed.
        outside: bool, entries that are no row. g: linear term of each entry. u: multipliers of entries outside.
        factors: per child (n_sets, t, t), flat; child j's begin at factor_pointers[j].
        gain: per child (t, k), flat, from gain_pointers[j]: what an error of a fixed answer adds to a dense value.
        push: per child (k, k), flat, from push_pointers[j]: the multipliers that go with it.
        bound, fixed: per child (t,), from value_pointers[j]: bound and fixed answer of each dense value, -1 for none.
        answers: (k, m), the fixed table.
    """

    pointers: Ints
    at: Ints
    outside: np.ndarray[tuple[int], np.dtype[np.bool_]]
    g: Floats
    u: Floats
    factors: Floats
    factor_pointers: Ints
    gain: Floats
    gain_pointers: Ints
    push: Floats
    push_pointers: Ints
    bound: Ints
    fixed: Ints
    value_pointers: Ints
    answers: Floats


@njit(cache=True)
def apply_sums(factors, axes, x, out, sums, image):
    """Write the sum over sets S of factors[S] times (x summed over S) into `out`, (t, n_product).

    Args:
        factors: (n_sets, t, t), divided by how many cells a mean covers. x: (t, n_product).
        sums, image: (t, n_product) or more, overwritten.
    """
    t, n_product = x.shape
    out[:] = 0.0
    for s in range(len(factors)):
        size = axes.sizes[s]
        place = axes.place[s]
        for d in range(t):
            for r in range(size):
                sums[d, r] = 0.0
                image[d, r] = 0.0
            for p in range(n_product):
                sums[d, place[p]] += x[d, p]
        for d in range(t):
            for e in range(t):
                f = factors[s, d, e]
                for r in range(size):
                    image[d, r] += f * sums[e, r]
        for d in range(t):
            for p in range(n_product):
                out[d, p] += image[d, place[p]]


@njit(cache=True)
def linear_step(axes, children, frame, state, right, x, full, sums_x, pushed):
    """Write the linear step into x (n, m) and, on complete tables, into `full`; bound sums and multipliers too.

    Args:
        right: (n, m), overwritten. sums_x: (n_bounds, m). pushed: (k, m), multipliers of the fixed table.
    """
    n, m = x.shape
    n_sets, n_product = axes.place.shape
    k = len(pushed)
    right_side(frame, state, right)
    sums_x[:] = 0.0
    for j in range(m):
        first, last = children.pointers[j], children.pointers[j + 1]
        t = (last - first) // n_product
        v0 = children.value_pointers[j]
        w = np.empty((t, n_product))
        flat = w.reshape(-1)
        for e in range(last - first):
            flat[e] = children.g[first + e] - frame.rho * children.u[first + e]
        for d in range(t):
            b = children.bound[v0 + d]
            if b >= 0:
                for p in range(n_product):
                    w[d, p] += frame.rho_bound * (state.y[b, j] - state.w[b, j])
        for c in range(n):
            if children.at[c, j] >= 0:
                flat[children.at[c, j]] = right[c, j]
        f0 = children.factor_pointers[j]
        factors = children.factors[f0 : f0 + n_sets * t * t].reshape((n_sets, t, t))
        out = full[first:last].reshape((t, n_product))
        apply_sums(factors, axes, w, out, np.empty((t, n_product)), np.empty((t, n_product)))
        if k:
            left = children.answers[:, j].copy()
            for d in range(t):
                a = children.fixed[v0 + d]
                if a >= 0:
                    for p in range(n_product):
                        left[a] -= out[d, p]
            g0, p0 = children.gain_pointers[j], children.push_pointers[j]
            for d in range(t):
                add = 0.0
                for a in range(k):
                    add += children.gain[g0 + d * k + a] * left[a]
                for p in range(n_product):
                    out[d, p] += add / n_product
            for a in range(k):
                pushed[a, j] = 0.0
                for b in range(k):
                    pushed[a, j] += children.push[p0 + a * k + b] * left[b] / n_product
        for c in range(n):
            x[c, j] = full[first + children.at[c, j]] if children.at[c, j] >= 0 else 0.0
        for d in range(t):
            b = children.bound[v0 + d]
            if b >= 0:
                for p in range(n_product):
                    sums_x[b, j] += out[d, p]


@njit(cache=True)
def lattice_steps(axes, children, frame, state, pushed, steps, tolerance):
    """Run ADMM steps; see `kernels_dense.shared_steps`. Changes `children.u` and `pushed` too."""
    n, m = state.z.shape
    right, v, z_new, x = np.empty((n, m)), np.empty((n, m)), np.empty((n, m)), np.empty((n, m))
    sums_x = np.zeros(frame.lower.shape)
    full = np.empty(len(children.g))
    primal = dual = 0.0
    for step in range(steps):
        linear_step(axes, children, frame, state, right, x, full, sums_x, pushed)
        primal, dual = dual_update(frame, state, x, v, z_new, sums_x)
        for e in range(len(full)):
            if children.outside[e]:
                children.u[e] += RELAX * full[e]
                primal = max(primal, abs(full[e]))
        if primal <= tolerance and dual <= tolerance:
            return step + 1, primal, dual
    return steps, primal, dual
