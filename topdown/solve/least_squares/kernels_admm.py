"""Kernels of ADMM on splits: the linear step's right side, projections, multipliers, and whole runs of steps.

The linear step is a product with one matrix for all children or one for each, or it is applied by means over product
axes (`solve.tree.lattice`): a child's table is then kept on all product cells of its open dense values; cells where the
parent has no records are entries that must be zero, with multipliers of their own. NumPy twins: `solver_twins.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.arrays import (
    Bools,
    Floats,
    FloatsOut,
    FloatStack,
    FloatTable,
    FloatTableOut,
    Ints,
    IntsOut,
    IntTable,
    IntTableOut,
    Whole,
)

RELAX = 1.6


@dataclass(eq=False, repr=False)
class Frame:
    """What stays the same in all steps of one penalty.

    Args:
        g: (n, m). rho, rho_bound: penalties. pointers, sums, allowed: see `project_segments` (flat n * m).
        bound_of: int64 (n,), bound each row belongs to, -1 for none. lower: (n_bounds, m).
        limits: (m, 2^n_bounds or twice that), (m, 0) for none.
        rows: (k, n). most: (k, m). rho_row: (k,), penalties. hinge: see `problem.Compared`.
    """

    g: FloatTable
    rho: float
    rho_bound: float
    pointers: Ints
    sums: Floats
    allowed: Bools
    bound_of: Ints
    lower: FloatTable
    limits: FloatTable
    rows: FloatTable
    most: FloatTable
    rho_row: Floats
    hinge: float


@dataclass(eq=False, repr=False)
class State:
    """What steps change in place: z, u (scaled multipliers of x = z), y, w (of bound sums), s, t (of rules)."""

    z: FloatTableOut
    u: FloatTableOut
    y: FloatTableOut
    w: FloatTableOut
    s: FloatTableOut
    t: FloatTableOut


@dataclass(eq=False, repr=False)
class Axes:
    """Tables summed over sets of product axes, each from a finer one that is summed over one axis less.

    Args:
        finer: int64 (n_sets,), the set of that table; 0, of no axis, for the set of none.
        place: int64 (n_sets, n_product), where cells of the finer table go.
        starts: int64 (n_sets + 1,), first place of each table if they lie one after the other.
    """

    finer: Ints
    place: IntTable
    starts: Ints


@dataclass(eq=False, repr=False)
class Children:
    """Complete tables of all children, one after the other; child j has entries pointers[j]:pointers[j + 1].

    A child has t open dense values, and k answers are fixed.

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
    at: IntTable
    outside: Bools
    g: Floats
    u: FloatsOut
    factors: Floats
    factor_pointers: Ints
    gain: Floats
    gain_pointers: Ints
    push: Floats
    push_pointers: Ints
    bound: Ints
    fixed: Ints
    value_pointers: Ints
    answers: FloatTable


def project_segments(v: Floats, pointers: Ints, sums: Floats, allowed: Bools, out: FloatsOut) -> None:
    """Project each segment of v on {z >= 0, sum z = s, z = 0 where not allowed}; s < 0 means no sum.

    Michelot's algorithm: drop entries at or below the threshold until none is left to drop.

    Args:
        v, allowed, out: flat arrays; segment i is pointers[i]:pointers[i + 1].
        pointers: int64 (n_segments + 1,).
        sums: float64 (n_segments,).
    """
    for i in range(sums.shape[0]):
        first, last = pointers[i], pointers[i + 1]
        s: float = sums[i]
        if s < 0.0:
            for k in range(first, last):
                out[k] = v[k] if allowed[k] and v[k] > 0.0 else 0.0
            continue
        count: Whole = 0
        total: float = 0.0
        for k in range(first, last):
            if allowed[k]:
                count += 1
                total += v[k]
        if count == 0 or s == 0.0:
            for k in range(first, last):
                out[k] = 0.0
            continue
        threshold: float = (total - s) / count
        while True:
            kept: Whole = 0
            total = 0.0
            for k in range(first, last):  # no branch: a processor would guess half of them wrong
                above: Whole = (v[k] > threshold) & allowed[k]
                kept += above
                total += above * v[k]
            if kept >= count or kept == 0:  # "more" can only be rounding
                break
            count = kept
            threshold = (total - s) / count
        for k in range(first, last):
            z: float = v[k] - threshold
            out[k] = z if allowed[k] and z > 0.0 else 0.0


def project_base(
    v: Floats, limits: Floats, out: FloatsOut, subset_sum: FloatsOut, subset: IntsOut, places: IntTableOut
) -> None:
    """Project v on the base polytope {y : y(A) <= limits[A] for all sets A, y(everything) = limits[-1]}.

    Groenevelt's decomposition: meet the total alone; where a set is too full, split into it and the rest.

    Args:
        v: float64 (k,). limits: float64 (2^k,), or (2^(k + 1),) where a last entry of no cost takes up the slack.
        out: float64 (k + 1,), the projection in its first k entries.
        subset_sum: float64, subset: int64, both as long as `limits`, overwritten. places: int64 (3, k + 2), the same.
    """
    k = v.shape[0]
    size = limits.shape[0]
    slack = size >> (k + 1)  # 1 if there is an entry of no cost
    # Rows of `places`: entries of the set at hand; sets that are still to do, and what is full before each.
    n_todo: Whole = 1
    places[1, 0], places[2, 0] = size - 1, 0
    for i in range(k):  # an entry that must be zero stays out
        if limits[1 << i] == 0.0 and limits[size - 1] == limits[size - 1 - (1 << i)]:
            out[i] = 0.0
            places[1, 0] -= 1 << i
    while n_todo:
        n_todo -= 1
        here, base = places[1, n_todo], places[2, n_todo]
        if here == 0:
            continue
        count: Whole = 0
        total: float = limits[base | here] - limits[base]
        rest: float = total
        for i in range(k + slack):
            if (here >> i) & 1:
                places[0, count] = i
                count += 1
                if i < k:
                    rest -= v[i]
        if slack and (here >> k) & 1:
            for c in range(count):
                out[places[0, c]] = rest if places[0, c] == k else v[places[0, c]]
        else:
            for c in range(count):
                out[places[0, c]] = v[places[0, c]] + rest / count
        worst: float = 1e-12 + 1e-15 * abs(total)
        split: Whole = 0
        subset_sum[0] = 0.0
        subset[0] = 0
        for c in range(count):
            for a in range(1 << c):
                b = a | (1 << c)
                subset_sum[b] = subset_sum[a] + out[places[0, c]]
                subset[b] = subset[a] | (1 << places[0, c])
                over: float = subset_sum[b] - (limits[base | subset[b]] - limits[base])
                if over > worst and subset[b] != here:
                    worst = over
                    split = subset[b]
        if split:
            places[1, n_todo], places[2, n_todo] = split, base
            places[1, n_todo + 1], places[2, n_todo + 1] = here & ~split, base | split
            n_todo += 2


def right_side(frame: Frame, state: State, right: FloatTableOut) -> None:
    """Write g plus every penalty times where its part should be into `right`, (n, m)."""
    n, m, n_rules = right.shape[0], right.shape[1], frame.rows.shape[0]
    for c in range(n):
        b = frame.bound_of[c]
        for j in range(m):
            right[c, j] = frame.g[c, j] + frame.rho * (state.z[c, j] - state.u[c, j])
            if b >= 0:
                right[c, j] += frame.rho_bound * (state.y[b, j] - state.w[b, j])
            for r in range(n_rules):
                right[c, j] += frame.rho_row[r] * frame.rows[r, c] * (state.s[r, j] - state.t[r, j])


class Room:
    """What steps overwrite: v, z (flat n * m), a column's bounds (2, n_bounds + 1), and what `project_base` takes.

    Args:
        n, m, n_bounds: sizes. n_limits: second of `Frame.limits`.
    """

    v: FloatsOut
    z: FloatsOut
    bound: FloatTableOut
    subset_sum: FloatsOut
    subset: IntsOut
    places: IntTableOut
    primal: float
    dual: float

    def __init__(self, n: Whole, m: Whole, n_bounds: Whole, n_limits: Whole) -> None:
        self.v, self.z = np.empty(n * m), np.empty(n * m)
        self.bound = np.zeros((2, n_bounds + 1))
        self.subset_sum, self.subset = np.zeros(max(n_limits, 1)), np.zeros(max(n_limits, 1), dtype=np.int64)
        self.places = np.zeros((3, n_bounds + 2), dtype=np.int64)
        self.primal = self.dual = 0.0


def dual_update(frame: Frame, state: State, x: FloatTable, sums_x: FloatTable, room: Room) -> None:
    """Project what the linear step gave, x (n, m), and move the multipliers.

    Bound sums go to y >= lower, or, where there are limits, to a base polytope a column (`project_base`); soft rules
    add hinge * sum max(0, s - most) with s = rows @ x.

    Args:
        sums_x: (n_bounds, m), sums of x over bounds.
        room: overwritten; its primal and dual residual are the largest absolute values in persons.
    """
    z: FloatTableOut = state.z
    u: FloatTableOut = state.u
    y: FloatTableOut = state.y
    w: FloatTableOut = state.w
    s: FloatTableOut = state.s
    t: FloatTableOut = state.t
    v: FloatsOut = room.v
    z_new: FloatsOut = room.z
    bound: FloatTableOut = room.bound
    relax: float = RELAX
    n, m, n_bounds = z.shape[0], z.shape[1], frame.lower.shape[0]
    primal: float = 0.0
    dual: float = 0.0
    for c in range(n):
        for j in range(m):
            v[c * m + j] = relax * x[c, j] + (1.0 - relax) * z[c, j] + u[c, j]
    project_segments(v, frame.pointers, frame.sums, frame.allowed, z_new)
    for c in range(n):
        for j in range(m):
            new: float = z_new[c * m + j]
            u[c, j] = v[c * m + j] - new
            primal = max(primal, abs(x[c, j] - new))
            dual = max(dual, abs(new - z[c, j]))
            z[c, j] = new
    if n_bounds:
        for j in range(m):
            for b in range(n_bounds):
                bound[0, b] = relax * sums_x[b, j] + (1.0 - relax) * y[b, j] + w[b, j]
                bound[1, b] = max(bound[0, b], frame.lower[b, j])
            if frame.limits.shape[1]:
                project_base(
                    bound[0, :n_bounds], frame.limits[j], bound[1], room.subset_sum, room.subset, room.places
                )
            for b in range(n_bounds):
                w[b, j] = bound[0, b] - bound[1, b]
                primal = max(primal, abs(sums_x[b, j] - bound[1, b]))
                dual = max(dual, abs(bound[1, b] - y[b, j]))
                y[b, j] = bound[1, b]
    for r in range(frame.rows.shape[0]):
        for j in range(m):
            held: float = 0.0
            for c in range(n):
                held += frame.rows[r, c] * x[c, j]
            p: float = relax * held + (1.0 - relax) * s[r, j] + t[r, j]
            over: float = p - frame.most[r, j]
            if over > 0.0:
                p = frame.most[r, j] + max(0.0, over - frame.hinge / frame.rho_row[r])
            t[r, j] = relax * held + (1.0 - relax) * s[r, j] + t[r, j] - p
            primal = max(primal, abs(held - p))
            dual = max(dual, abs(p - s[r, j]))
            s[r, j] = p
    room.primal, room.dual = primal, dual


def bound_sums(bound_of: Ints, x: FloatTable, out: FloatTableOut) -> None:
    """Add the rows of x by bound, (n_bounds, m), into `out`."""
    out[:, :] = 0.0
    if out.shape[0]:
        for c in range(x.shape[0]):
            b = bound_of[c]
            if b >= 0:
                for j in range(x.shape[1]):
                    out[b, j] += x[c, j]


def matrix_steps(
    inverses: FloatStack, constant: FloatTable, frame: Frame, state: State, steps: Whole, tolerance: float
) -> tuple[int, float, float]:
    """Run ADMM steps on min 1/2 x'Hx - g'x with a matrix for all columns, or one each: x = inverse @ right + constant.

    Equalities on x are inside the inverse and `constant`.

    Args:
        inverses: (1, n, n) or (m, n, n). constant: (n, m), zeros if there are no equalities.
        steps: most steps to take. tolerance: stop when both residuals are below, in persons.

    Returns:
        (steps taken, primal residual, dual residual), residuals as largest absolute value in persons.
    """
    n, m = state.z.shape[0], state.z.shape[1]
    room = Room(n, m, frame.lower.shape[0], frame.limits.shape[1])
    right_array, x_array = np.empty((n, m)), np.empty((n, m))  # as NumPy multiplies them
    right: FloatTableOut = right_array
    x: FloatTableOut = x_array
    sums_x: FloatTableOut = np.zeros((frame.lower.shape[0], m))
    of_column, matrices, matrix = inverses.shape[0] > 1, np.asarray(inverses), np.asarray(inverses[0])
    columns, images = right_array.T[:, :, None], x_array.T[:, :, None]
    for step in range(steps):
        right_side(frame, state, right)
        if of_column:
            np.matmul(matrices, columns, images)
        else:
            np.dot(matrix, right_array, x_array)
        for c in range(n):
            for j in range(m):
                x[c, j] += constant[c, j]
        bound_sums(frame.bound_of, x, sums_x)
        dual_update(frame, state, x, sums_x, room)
        if room.primal <= tolerance and room.dual <= tolerance:
            return step + 1, room.primal, room.dual
    return steps, room.primal, room.dual


def apply_sums(
    factors: Floats, axes: Axes, x: Floats, out: FloatsOut, sums: FloatsOut, image: FloatsOut
) -> None:
    """Write the sum over sets S of factors[S] times (x summed over S) into `out`, (t, n_product).

    Each table of sums is added up from a finer one, and each image goes back by the same way: work in proportion to x
    times the axes, not times their sets.

    Args:
        factors: (n_sets, t, t), flat, divided by how many cells a mean covers. x, out: (t, n_product), flat.
        sums, image: (t times all places of `axes`,) or longer, overwritten.
    """
    place: IntTable = axes.place
    n_sets, n_product = place.shape[0], place.shape[1]
    t = x.shape[0] // n_product
    for p in range(t * n_product):
        sums[p] = x[p]
    for s in range(n_sets):
        size, first = axes.starts[s + 1] - axes.starts[s], t * axes.starts[s]
        fine = axes.finer[s]
        fine_size, fine_first = axes.starts[fine + 1] - axes.starts[fine], t * axes.starts[fine]
        for d in range(t):
            for r in range(size):
                image[first + d * size + r] = 0.0
            if s:
                for r in range(size):
                    sums[first + d * size + r] = 0.0
                for r in range(fine_size):
                    sums[first + d * size + place[s, r]] += sums[fine_first + d * fine_size + r]
        for d in range(t):
            for e in range(t):
                f: float = factors[(s * t + d) * t + e]
                for r in range(size):
                    image[first + d * size + r] += f * sums[first + e * size + r]
    for s in range(n_sets - 1, 0, -1):
        size, first = axes.starts[s + 1] - axes.starts[s], t * axes.starts[s]
        fine = axes.finer[s]
        fine_size, fine_first = axes.starts[fine + 1] - axes.starts[fine], t * axes.starts[fine]
        for d in range(t):
            for r in range(fine_size):
                image[fine_first + d * fine_size + r] += image[first + d * size + place[s, r]]
    for p in range(t * n_product):
        out[p] = image[p]


class LatticeRoom:
    """What a linear step on complete tables overwrites, flat: of one child, its table and what `apply_sums` takes.

    Args:
        n_fixed: number of fixed answers. n_entries: of the largest child. n_sums: places of `axes` for it.
    """

    table: FloatsOut
    sums: FloatsOut
    image: FloatsOut
    left: FloatsOut

    def __init__(self, n_fixed: Whole, n_entries: Whole, n_sums: Whole) -> None:
        self.table, self.sums, self.image = np.empty(n_entries), np.empty(n_sums), np.empty(n_sums)
        self.left = np.empty(n_fixed)


def linear_step(
    axes: Axes, children: Children, frame: Frame, state: State, right: FloatTableOut, x: FloatTableOut,
    full: FloatsOut, sums_x: FloatTableOut, pushed: FloatTableOut, room: LatticeRoom,
) -> None:  # fmt: skip
    """Write the linear step into x (n, m) and, on complete tables, into `full`; bound sums and multipliers too.

    Args:
        right: (n, m), overwritten. sums_x: (n_bounds, m). pushed: (k, m), multipliers of the fixed table.
    """
    table: FloatsOut = room.table
    left: FloatsOut = room.left
    n, m, k, n_sets, n_product = (
        x.shape[0],
        x.shape[1],
        pushed.shape[0],
        axes.place.shape[0],
        axes.place.shape[1],
    )
    right_side(frame, state, right)
    sums_x[:, :] = 0.0
    for j in range(m):
        first, last = children.pointers[j], children.pointers[j + 1]
        t = (last - first) // n_product
        v0, f0 = children.value_pointers[j], children.factor_pointers[j]
        for e in range(last - first):
            table[e] = children.g[first + e] - frame.rho * children.u[first + e]
        for d in range(t):
            b = children.bound[v0 + d]
            if b >= 0:
                for p in range(n_product):
                    table[d * n_product + p] += frame.rho_bound * (state.y[b, j] - state.w[b, j])
        for c in range(n):
            if children.at[c, j] >= 0:
                table[children.at[c, j]] = right[c, j]
        apply_sums(
            children.factors[f0 : f0 + n_sets * t * t], axes, table[: last - first], full[first:last],
            room.sums, room.image,
        )  # fmt: skip
        if k:
            for a in range(k):
                left[a] = children.answers[a, j]
            for d in range(t):
                a = children.fixed[v0 + d]
                if a >= 0:
                    for p in range(n_product):
                        left[a] -= full[first + d * n_product + p]
            g0, p0 = children.gain_pointers[j], children.push_pointers[j]
            for d in range(t):
                add: float = 0.0
                for a in range(k):
                    add += children.gain[g0 + d * k + a] * left[a]
                for p in range(n_product):
                    full[first + d * n_product + p] += add / n_product
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
                    sums_x[b, j] += full[first + d * n_product + p]


def lattice_steps(
    axes: Axes,
    children: Children,
    frame: Frame,
    state: State,
    pushed: FloatTableOut,
    steps: Whole,
    tolerance: float,
) -> tuple[int, float, float]:
    """Run ADMM steps as `matrix_steps` does, on complete tables. Changes `children.u` and `pushed` too."""
    relax: float = RELAX
    n, m, n_entries = state.z.shape[0], state.z.shape[1], children.g.shape[0]
    room = Room(n, m, frame.lower.shape[0], frame.limits.shape[1])
    n_product, largest = axes.place.shape[1], 0
    for j in range(m):
        largest = max(largest, children.pointers[j + 1] - children.pointers[j])
    of_child = LatticeRoom(pushed.shape[0], largest, largest // n_product * axes.starts[axes.finer.shape[0]])
    right: FloatTableOut = np.empty((n, m))
    x: FloatTableOut = np.empty((n, m))
    sums_x: FloatTableOut = np.zeros((frame.lower.shape[0], m))
    full: FloatsOut = np.empty(n_entries)
    primal: float = 0.0
    for step in range(steps):
        linear_step(axes, children, frame, state, right, x, full, sums_x, pushed, of_child)
        dual_update(frame, state, x, sums_x, room)
        primal = room.primal
        for e in range(n_entries):
            if children.outside[e]:
                children.u[e] += relax * full[e]
                primal = max(primal, abs(full[e]))
        if primal <= tolerance and room.dual <= tolerance:
            return step + 1, primal, room.dual
    return steps, primal, room.dual
