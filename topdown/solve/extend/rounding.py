"""Round one stage: a minimum-cost flow that enters at every (group, child) and leaves at every row.

The group table is exact, so it is where the flow enters; tables between it and the rows are tree edges with
exact L1 costs as in `solve.flow`; the last edge costs 1 - 2 frac a unit. Such a network is totally unimodular
and, because groups are whole and add up to the rows, a whole table within one of the estimate always exists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.errors import InfeasibleError, InternalError
from topdown.solve.backends import ortools_flow
from topdown.solve.backends.integer_program import Program
from topdown.solve.backends.milp import soft_rows
from topdown.solve.flow import SNAP, UNIT, Network
from topdown.solve.groups import Floats, Ints
from topdown.solve.kernels import has_negative_cycle
from topdown.solve.rounding import Rounded


@dataclass(frozen=True, eq=False)
class StageRounding:
    """An estimate to round.

    Args:
        estimate: (n, m) nonnegative. allowed: bool (n, m).
        row_sums: int64 (n,), or None at the root.
        group: (n,); fixed: int64 (n_groups, m).
        chain: tables between group and row, coarse to fine, each refining the one before; int64 (n,) each.
        weights: of one person of error in each table of the chain, and last in a row.
        comparisons: int64 (n_rules, n), soft rules: rows that should add up to at most `most`, int64 (n_rules, m).
    """

    estimate: Floats
    allowed: NDArray[np.bool_]
    row_sums: Ints | None
    group: Ints
    fixed: Ints
    chain: tuple[Ints, ...]
    weights: tuple[int, ...]
    comparisons: Ints
    most: Ints


def round_stage(problem: StageRounding) -> Rounded:
    """Return the whole table, whether its optimality is proved, and how it was found.

    A flow knows nothing of soft rules; where it breaks one, an integer program is asked.

    Raises:
        InfeasibleError: no whole table satisfies the constraints.
        InternalError: a solver's answer broke a constraint.
    """
    counts, optimal = _by_flow(problem)
    if (problem.comparisons @ counts > problem.most).any():
        found = _by_program(problem, counts)
        if found is not None:
            return found
    return Rounded(counts, optimal, "flow")


def _by_program(problem: StageRounding, flow: Ints) -> Rounded | None:
    """Round by an integer program with the soft rules; None if it does no better than the flow for them."""
    floor = np.floor(problem.estimate + SNAP)
    fraction = np.clip(problem.estimate - floor, 0.0, 1.0)
    fraction[fraction < SNAP] = 0.0
    whole, m = floor.astype(np.int64), problem.estimate.shape[1]
    row, child = np.nonzero(problem.allowed & (fraction > 0))
    program = Program(problem.weights[-1] * (1 - 2 * fraction[row, child]))
    if problem.row_sums is not None:
        left = problem.row_sums - whole.sum(axis=1)
        program.between(program.sums(row, len(left)), left, left)
    left = problem.fixed.copy()
    np.subtract.at(left, problem.group, whole)
    program.between(
        program.sums(problem.group[row] * m + child, left.size), left.reshape(-1), left.reshape(-1)
    )
    for table, weight in zip(problem.chain, problem.weights, strict=False):
        present, group = np.unique(table[row] * m + child, return_inverse=True)
        goal = np.zeros((int(table.max(initial=0)) + 1, m))
        np.add.at(goal, table, problem.estimate - whole)
        program.near(program.sums(group.reshape(-1), len(present)), goal.reshape(-1)[present], float(weight))
    soft, most = soft_rows(problem.comparisons, whole, row, child)
    found = program.solve(soft, most + problem.most.reshape(-1))
    if found is None:
        return None
    counts = whole.copy()
    counts[row, child] += found.up
    _check(problem, counts)
    over = [np.maximum(problem.comparisons @ table - problem.most, 0).sum() for table in (counts, flow)]
    return Rounded(counts, found.optimal, "milp") if over[0] < over[1] else None


def _by_flow(problem: StageRounding) -> tuple[Ints, bool]:
    """Return the whole table and whether its optimality is proved.

    Raises:
        InfeasibleError: no whole table satisfies the constraints.
        InternalError: the flow broke a constraint.
    """
    for every_cell in (False, True):
        built = _network(problem, every_cell=every_cell)
        if built is None:
            continue
        network, whole = built
        flows = ortools_flow.solve(network)
        if flows is None:
            continue
        flat = whole.reshape(-1).copy()
        flat[network.cell_arcs] += flows[: len(network.cell_arcs)]
        counts = flat.reshape(whole.shape)
        _check(problem, counts)
        balance = network.supplies.copy()
        np.subtract.at(balance, network.tails, flows)
        np.add.at(balance, network.heads, flows)
        if balance.any() or (flows < 0).any() or (flows > network.capacities).any():
            raise InternalError("the flow solver returned a flow that is not feasible")
        cycle = len(flows) > 0 and has_negative_cycle(
            network.tails, network.heads, network.capacities, network.costs, flows, len(network.supplies)
        )
        return counts, not cycle
    raise InfeasibleError(
        "no whole table satisfies the constraints of this stage",
        code="I010",
        fix="check the public facts below this node for constraints that exclude each other",
    )


def _network(problem: StageRounding, *, every_cell: bool) -> tuple[Network, Ints] | None:
    n, m = problem.estimate.shape
    floor = np.floor(problem.estimate + SNAP)
    fraction = np.clip(problem.estimate - floor, 0.0, 1.0)
    fraction[fraction < SNAP] = 0.0
    whole = floor.astype(np.int64)
    row, child = np.nonzero(problem.allowed & ((fraction > 0) | every_cell))
    tables = (problem.group, *problem.chain)
    start, starts, node_of = 0, [], []
    for table in tables:
        starts.append(start)
        code = table[:, None] * m + np.arange(m)
        node_of.append(start + code[row, child])
        start += (int(table.max(initial=0)) + 1) * m
    n_inner = start
    sinks = n if problem.row_sums is not None else 1
    supplies = np.zeros(n_inner + sinks, dtype=np.int64)
    left = problem.fixed.copy()
    np.subtract.at(left, problem.group, whole)
    supplies[: left.size] = left.reshape(-1)
    if problem.row_sums is not None:
        needed: Ints = problem.row_sums - whole.sum(axis=1)
        sink_of_row = n_inner + np.arange(n)
    else:
        needed = np.full(1, left.sum())
        sink_of_row = np.full(n, n_inner)
    if (left < 0).any() or (needed < 0).any():
        return None
    supplies[n_inner:] = -needed
    tails, heads, capacities = [node_of[-1]], [sink_of_row[row]], [np.ones(len(row), dtype=np.int64)]
    costs = [np.rint(UNIT * problem.weights[-1] * (1 - 2 * fraction[row, child])).astype(np.int64)]
    for t in range(1, len(tables)):
        used, first = np.unique(node_of[t], return_index=True)
        up = node_of[t - 1][first]
        code, offset = tables[t][:, None] * m + np.arange(m), starts[t]
        size = int(tables[t].max(initial=0) + 1) * m
        base = np.zeros(size, dtype=np.int64)
        value = np.zeros(size)
        np.add.at(base, code, whole)
        np.add.at(value, code, problem.estimate)
        most = np.bincount(node_of[t] - offset, minlength=size)
        at = used - offset
        goal = np.floor(value[at] + SNAP)
        part = np.clip(value[at] - goal, 0.0, 1.0)
        down = np.clip(goal.astype(np.int64) - base[at], 0, most[at])
        middle = np.clip(goal.astype(np.int64) + 1 - base[at], 0, most[at]) - down
        for capacity, slope in (
            (down, -np.ones(len(at))),
            (middle, 1 - 2 * part),
            (most[at] - down - middle, 1.0),
        ):
            keep = capacity > 0
            tails.append(up[keep])
            heads.append(used[keep])
            capacities.append(capacity[keep])
            cost = np.broadcast_to(slope, keep.shape)[keep]
            costs.append(np.rint(UNIT * problem.weights[t - 1] * cost).astype(np.int64))
    joined = [np.concatenate(parts).astype(np.int64) for parts in (tails, heads, capacities, costs)]
    # Only nodes that an arc touches or that need something: the others would slow the solver down.
    touched = np.zeros(len(supplies), dtype=bool)
    touched[joined[0]] = touched[joined[1]] = True
    touched |= supplies != 0
    number = np.cumsum(touched) - 1
    network = Network(
        number[joined[0]].astype(np.int64), number[joined[1]].astype(np.int64), joined[2], joined[3],
        supplies[touched], (row * m + child).astype(np.int64),
    )  # fmt: skip
    return network, whole


def _check(problem: StageRounding, counts: Ints) -> None:
    broken = broken_constraint(problem, counts)
    if not broken and (np.abs(counts - problem.estimate) > 1 + 1e-4).any():
        broken = "a count more than one away from its estimate"
    if broken:
        raise InternalError(f"rounding left {broken}", code="X003")


def broken_constraint(problem: StageRounding, counts: Ints) -> str:
    """Return in words a constraint that a whole table breaks; empty if it keeps all but soft rules."""
    sums = np.zeros_like(problem.fixed)
    np.add.at(sums, problem.group, counts)
    if (counts < 0).any() or counts[~problem.allowed].any():
        return "a negative count, or records where none may be"
    if not np.array_equal(sums, problem.fixed):
        return "a table that is not the one fixed before"
    if problem.row_sums is not None and not np.array_equal(counts.sum(axis=1), problem.row_sums):
        return "children that do not add up to their parent"
    return ""
