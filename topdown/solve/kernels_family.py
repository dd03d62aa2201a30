"""One family in one call: from the noisy answers of a parent's children to their whole people, with certificates.

Families that nothing binds but the parent's counts, closed cells and lower bounds that hold by themselves are most of a
release. Every step is a kernel that all other splits take too, and so are the proofs: how far the fit is from its
optimum, residual cycles of the flow; every constraint of the result is checked again in integers. What does not come to
a certified end is handed back: the general way (`TopDownSolver.open_split`, `solve_split`), the slow twin, takes all.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import (
    Bools,
    BoolTable,
    BoolTableOut,
    Floats,
    FloatsOut,
    FloatTable,
    FloatTableOut,
    Ints,
    IntsOut,
    IntTable,
    IntTableOut,
    ShortTable,
    Whole,
)
from topdown.solve.flows import LARGEST_COST
from topdown.solve.kernels_shared import (
    add_by_group,
    gram,
    has_negative_cycle,
    leave_gap,
    linear_term,
    separating_weight,
    solve_small_split,
    worst_violation,
)
from topdown.solve.kernels_simplex import is_feasible_flow, network_simplex
from topdown.solve.rounding.flow_network import NEAR_PERSONS
from topdown.solve.rounding.kernels_network import laminar_network


def solve_family(
    labels: IntTable,
    offsets: Ints,
    weights: Floats,
    chain: IntTable,
    chain_weights: Ints,
    class_of_cell: Ints,
    bound_of_cell: Ints,
    bound_table: Ints,
    pace: Ints,
    tolerance: float,
    target: float,
    unit: float,
    snap: float,
    total_offsets: Ints,
    total_weights: Floats,
    cells: Ints,
    counts: Ints,
    is_open: BoolTable,
    lower: IntTable,
    measured: Ints,
    first: Whole,
    answers: ShortTable,
) -> tuple[float, int, int, list[int], list[int], NDArray[np.int64], NDArray[np.int64]] | None:
    """Fit the children of one parent, check the fit, round it and check that.

    Args:
        labels: int64 (n_queries, n_cells), offsets, weights: of the queries of the last pass, see `LevelModel`.
        chain, chain_weights: tables of the rounding by cells, and their weights.
        class_of_cell, bound_of_cell: class of each cell, and its lower bound or -1. bound_table: table of each bound.
        pace, tolerance: see `solve_small_split`. target: of the fit, in persons. unit, snap: see `laminar_network`.
        total_offsets, total_weights: of the queries, of one answer each, to which a pass before fits the children's
            totals; none where there is no such pass.
        cells, counts: int64 (n,), cells where the parent has records, and how many.
        is_open: (n_children, n_classes), where children may have records. lower: (n_children, n_bounds or more).
        measured, answers: the children that have answers, int64 (m,), and these. first: the first of all children.

    Returns:
        (distance of the fit in persons, its steps, its unknowns, children with records, where the records of each begin
        and the last end, their cells, their counts); None for a family that is to go the general way.
    """
    n, m = cells.shape[0], measured.shape[0]
    if m < 2 or not has_open(is_open, measured, first):
        return None
    allowed_table, sums = np.empty((n, m), dtype=bool), np.empty(n)
    labels_here, chain_here = (
        np.empty((labels.shape[0], n), dtype=np.int64),
        np.empty((chain.shape[0], n), dtype=np.int64),
    )
    lower_here, bound_here = np.empty((bound_table.shape[0], m), dtype=np.int64), np.empty(n, dtype=np.int64)
    allowed: BoolTableOut = allowed_table
    known: FloatsOut = sums
    label: IntTableOut = labels_here
    table: IntTableOut = chain_here
    least: IntTableOut = lower_here
    bound: IntsOut = bound_here
    for i in range(n):
        c = cells[i]
        known[i], bound[i] = counts[i], bound_of_cell[c]
        for q in range(labels.shape[0]):
            label[q, i] = labels[q, c]
        for t in range(chain.shape[0]):
            table[t, i] = chain[t, c]
        for j in range(m):
            allowed[i, j] = is_open[measured[j] - first, class_of_cell[c]]
    for b in range(bound_table.shape[0]):
        for j in range(m):
            least[b, j] = lower[measured[j] - first, b]

    smallest: float = separating_weight(labels_here, weights)
    if not smallest > 0.0:
        return None
    totals, total_of, n_unknowns, total_steps = np.zeros((0, m)), np.full(n, -1, dtype=np.int64), n * m, 0
    distance: float = 0.0
    if total_weights.shape[0]:
        first_pass = fit_totals(
            total_offsets,
            total_weights,
            sums,
            allowed_table,
            np.take(class_of_cell, cells),
            bound_here,
            lower_here,
            answers,
            tolerance,
            target,
            pace,
        )
        if first_pass is None:
            return None
        totals, distance, total_steps, n_rows = first_pass
        total_of, n_unknowns = np.zeros(n, dtype=np.int64), n_unknowns + n_rows * m
    hessian, g = gram(labels_here, weights), linear_term(labels_here, offsets, weights, answers)
    flat, pointers = allowed_table.reshape(-1), np.arange(0, n * m + 1, m)
    fitted = solve_small_split(hessian, g, smallest, sums, pointers, flat, total_of, totals, tolerance, pace)
    if fitted is None:
        return None
    estimate, multipliers = fitted[0], fitted[1]
    distance = max(
        distance,
        distance_persons(hessian, g, smallest, smallest, estimate, flat, pointers, sums, totals, multipliers),
    )
    if not distance <= target or not keeps_bounds(estimate, bound_here, lower_here):
        return None
    rounded = round_estimate(
        estimate,
        allowed_table,
        counts,
        chain_here,
        chain_weights,
        bound_here,
        lower_here,
        bound_table,
        unit,
        snap,
    )
    if rounded is None or not is_sound(rounded, estimate, allowed_table, counts, bound_here, lower_here):
        return None
    return distance, total_steps + fitted[2], n_unknowns, *children_with_records(rounded, cells, measured)


def fit_totals(
    offsets: Ints,
    weights: Floats,
    sums: Floats,
    allowed: BoolTable,
    class_of: Ints,
    bound: Ints,
    lower: IntTable,
    answers: ShortTable,
    tolerance: float,
    target: float,
    pace: Ints,
) -> tuple[NDArray[np.float64], float, int, int] | None:
    """Fit the totals of the children to queries of one answer each, and check the fit.

    Its rows are the cells of one bound and class, which is all that it tells apart.

    Args:
        offsets, weights: of the queries. class_of: class of each cell. The rest is that of `solve_family`.

    Returns:
        (totals (1, m), distance of the fit in persons, its steps, its rows); None if the fit is not certified.
    """
    n, m = allowed.shape[0], allowed.shape[1]
    n_classes: Whole = 0
    for i in range(n):
        n_classes = max(n_classes, class_of[i] + 1)
    number: IntsOut = np.full((lower.shape[0] + 1) * n_classes, -1, dtype=np.int64)
    for i in range(n):
        number[(bound[i] + 1) * n_classes + class_of[i]] = i
    n_rows: Whole = 0
    for k in range(number.shape[0]):
        if number[k] >= 0:
            number[k] = n_rows
            n_rows += 1
    row_sums, row_allowed = np.zeros(n_rows), np.empty((n_rows, m), dtype=bool)
    row_bounds = np.empty(n_rows, dtype=np.int64)
    known: FloatsOut = row_sums
    may: BoolTableOut = row_allowed
    bound_of: IntsOut = row_bounds
    for i in range(n):
        r = number[(bound[i] + 1) * n_classes + class_of[i]]
        known[r] += sums[i]
        bound_of[r] = bound[i]
        for j in range(m):
            may[r, j] = allowed[i, j]
    labels = np.zeros((weights.shape[0], n_rows), dtype=np.int64)
    hessian, g = gram(labels, weights), linear_term(labels, offsets, weights, answers)
    curvature: float = separating_weight(labels, weights)
    scale: float = weights[0]
    for q in range(weights.shape[0]):
        scale = min(scale, weights[q])
    flat, pointers = row_allowed.reshape(-1), np.arange(0, n_rows * m + 1, m)
    nobody, nothing = np.full(n_rows, -1, dtype=np.int64), np.zeros((0, m))
    smallest: float = curvature if curvature > 0.0 else scale
    fitted = solve_small_split(
        hessian, g, smallest, row_sums, pointers, flat, nobody, nothing, tolerance, pace
    )
    if fitted is None:
        return None
    table = fitted[0]
    distance: float = distance_persons(
        hessian, g, curvature, scale, table, flat, pointers, row_sums, nothing, nothing
    )
    if not distance <= target or not keeps_bounds(table, row_bounds, lower):
        return None
    totals = np.zeros((1, m))
    add_by_group(np.zeros(n_rows, dtype=np.int64), table, totals)
    return totals, distance, fitted[2], n_rows


def has_open(is_open: BoolTable, measured: Ints, first: Whole) -> bool:
    """Tell whether the measured children are those that may hold any record."""
    place: Whole = 0
    for k in range(is_open.shape[0]):
        n_open: Whole = 0
        for c in range(is_open.shape[1]):
            n_open += is_open[k, c]
        if n_open:
            if place >= measured.shape[0] or measured[place] != first + k:
                return False
            place += 1
    return bool(place == measured.shape[0])


def distance_persons(
    hessian: NDArray[np.float64],
    g: NDArray[np.float64],
    curvature: float,
    scale: float,
    estimate: NDArray[np.float64],
    allowed: Bools,
    pointers: Ints,
    sums: Floats,
    totals: FloatTable,
    multipliers: FloatTable,
) -> float:
    """Return what `optimality.residual_persons` says of a split without bounds, where its first bound suffices.

    Args:
        curvature, scale: of the Hessian, see `Quadratic`. totals, multipliers: of the children, (1, m), or none (0, m).
    """
    n, m = estimate.shape[0], estimate.shape[1]
    violation: float = worst_violation(estimate.reshape(-1), allowed, pointers, sums)
    rest = hessian @ estimate - g
    if totals.shape[0]:
        held = np.zeros((1, m))
        add_by_group(np.zeros(n, dtype=np.int64), estimate, held)
        violation = max(violation, np.abs(totals - held).max())
        rest = rest - multipliers
    leave_gap(estimate.reshape(-1), allowed, pointers, sums, rest.reshape(-1))
    if curvature <= 0.0:
        steepest: float = np.abs(rest).max()
        return max(violation, steepest / scale)
    square: float = (rest * rest).sum()
    b: float = sqrt(square / curvature)
    # the distance of `residual_persons` without multipliers of bounds: c = 0, in the same order of arithmetic
    return max(violation, (b + sqrt(b * b)) / 2 / sqrt(curvature))


def keeps_bounds(estimate: FloatTable, bound: Ints, lower: IntTable) -> bool:
    """Tell whether an estimate without lower bounds keeps them all the same."""
    total: float = 0.0
    for b in range(lower.shape[0]):
        for j in range(lower.shape[1]):
            total = 0.0
            for i in range(bound.shape[0]):
                if bound[i] == b:
                    total += estimate[i, j]
            if not total >= lower[b, j]:
                return False
    return True


def round_estimate(
    estimate: NDArray[np.float64],
    allowed: BoolTable,
    counts: Ints,
    chain: IntTable,
    chain_weights: Ints,
    bound: Ints,
    lower: IntTable,
    bound_table: Ints,
    unit: float,
    snap: float,
) -> NDArray[np.int64] | None:
    """Return the rounding that `rounding.round_table` finds first, proved; None if it finds or proves none.

    Args:
        estimate: (n, m). allowed, counts, chain, bound, lower: of its rows; see `solve_family` for the rest.
    """
    n, m = allowed.shape[0], allowed.shape[1]
    whole_table, fraction_table, may_go_up = (
        np.empty((n, m), dtype=np.int64),
        np.empty((n, m)),
        np.empty(n * m, dtype=bool),
    )
    ups: BoolTableOut = may_go_up.reshape(n, m)
    z: FloatTable = estimate
    whole: IntTableOut = whole_table
    fraction: FloatTableOut = fraction_table
    part: float = 0.0
    for i in range(n):
        for j in range(m):
            whole[i, j] = int(z[i, j] + snap)
            part = min(max(z[i, j] - whole[i, j], 0.0), 1.0)
            fraction[i, j] = 0.0 if part < snap else part
            ups[i, j] = allowed[i, j] and fraction[i, j] > 0.0
    none, no_rows = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)
    of_none = np.full(n, -1, dtype=np.int64)
    network = laminar_network(
        estimate, whole_table, fraction_table, may_go_up, counts, chain, chain_weights, bound, lower, bound_table,
        of_none, no_rows, of_none, no_rows, -1, bound, none, none, np.zeros((4, 0), dtype=np.int64), unit, snap,
    )  # fmt: skip
    if network is None:
        return None
    tails, heads, room, costs, supplies, cell_arcs, flows, above = network
    dearest: Whole = 0
    cost: Ints = costs
    for a in range(cost.shape[0]):
        dearest = max(dearest, abs(cost[a]))
    if supplies.sum() or dearest > LARGEST_COST // (len(supplies) + 2):
        return None
    if not network_simplex(tails, heads, room, costs, supplies, 0, flows, above):
        return None
    if not is_feasible_flow(tails, heads, room, supplies, flows):
        return None
    if has_negative_cycle(tails, heads, room, costs, flows, len(supplies)):
        return None
    place: Ints = cell_arcs
    flow: Ints = flows
    for a in range(place.shape[0]):
        whole[place[a] // m, place[a] % m] += flow[a]
    return whole_table


def is_sound(
    rounded: IntTable, estimate: FloatTable, allowed: BoolTable, counts: Ints, bound: Ints, lower: IntTable
) -> bool:
    """Tell whether a rounding keeps every constraint and is one of its estimate, as `rounding.check_rounding` does."""
    n, m = rounded.shape[0], rounded.shape[1]
    near: float = NEAR_PERSONS
    held: IntTableOut = np.zeros((lower.shape[0], m), dtype=np.int64)
    for i in range(n):
        total: Whole = 0
        for j in range(m):
            r = rounded[i, j]
            if r < 0 or (r > 0 and not allowed[i, j]) or not abs(r - estimate[i, j]) <= near:
                return False
            total += r
            if bound[i] >= 0:
                held[bound[i], j] += r
        if total != counts[i]:
            return False
    for b in range(lower.shape[0]):
        for j in range(m):
            if held[b, j] < lower[b, j]:
                return False
    return True


def children_with_records(
    rounded: IntTable, cells: Ints, nodes: Ints
) -> tuple[list[int], list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Return the nodes (m,) with records, where those of each begin and the last end, their cells and counts."""
    n, m = rounded.shape[0], rounded.shape[1]
    size: Whole = 0
    for i in range(n):
        for j in range(m):
            size += rounded[i, j] > 0
    held_cells, held_counts = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    cell: IntsOut = held_cells
    count: IntsOut = held_counts
    holding: list[int] = []
    begins: list[int] = [0]
    at: Whole = 0
    for j in range(m):
        for i in range(n):
            if rounded[i, j] > 0:
                cell[at], count[at] = cells[i], rounded[i, j]
                at += 1
        if at > begins[len(begins) - 1]:
            holding.append(nodes[j])
            begins.append(at)
    return holding, begins, held_cells, held_counts
