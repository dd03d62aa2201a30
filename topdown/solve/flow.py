"""Rounding as a minimum-cost flow (Census TopDown, Eq. 7 and 11, on a laminar chain of tables).

Each record still to be placed is one unit that flows from its child through the chain of tables to a cell.
A unit in a cell costs 1 - 2 frac (L1 distance to the estimate); a tree edge of a coarser table carries the L1
distance of that table's answer as three parallel arcs, which is exact because the cost is convex with kinks
at the two neighbouring whole numbers. Lower bounds and exact totals are mandatory flow, never a large penalty.
Where kinds of cells have limits, all records of a child, whole parts included, pass through its own network
(`Polytopes.arcs`) from its total to its kinds, where the whole parts leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.solve.groups import Floats, Ints
from topdown.solve.rounding_problem import RoundingProblem, UnroundableError, child_networks

UNIT = 1_000_000  # integer cost of one person of error
SNAP = 1e-6  # closer to a whole number than this counts as whole


@dataclass(frozen=True, eq=False)
class Network:
    """A minimum-cost flow problem with integer data.

    Args:
        tails, heads, capacities, costs: int64 (n_arcs,).
        supplies: int64 (n_nodes,), positive for sources; they sum to zero.
        cell_arcs: the first `len(cell_arcs)` arcs put one unit in a (row, child); flat index row * m + child.
    """

    tails: Ints
    heads: Ints
    capacities: Ints
    costs: Ints
    supplies: Ints
    cell_arcs: Ints


def floors(problem: RoundingProblem) -> tuple[Ints, Floats]:
    """Return whole parts and fractions; values within SNAP of a whole number count as whole."""
    whole = np.floor(problem.estimate + SNAP)
    fraction = np.clip(problem.estimate - whole, 0.0, 1.0)
    fraction[fraction < SNAP] = 0.0
    return whole.astype(np.int64), fraction


def build_network(problem: RoundingProblem, *, every_cell: bool) -> tuple[Network, Ints]:
    """Return the network and the whole parts that the flow adds to.

    Args:
        problem: with `bound_places` (see `chain.laminar_places`).
        every_cell: let any allowed cell go one up, not only those with a fraction.

    Raises:
        UnroundableError: the cells that may go up cannot meet a sum or a bound.
    """
    m = problem.estimate.shape[1]
    through_kinds = len(problem.arcs) > 0
    whole, fraction = floors(problem)
    up = problem.allowed & ((fraction > 0) | every_cell)
    row, child = np.nonzero(up)
    w = problem.weights
    part = fraction[row, child]
    cost = [np.rint(UNIT * w[-1] * (1 - 2 * part)).astype(np.int64)]
    # Nodes: one a (table, answer, child) that occurs, then one sink a row (or one for all at the root).
    depth = len(problem.chain) - 1
    keys = [problem.chain[t] for t in range(depth)]
    node_of: list[Ints] = []  # of each entry that may go up
    first_node: list[int] = [1]
    occurs: list[Ints] = []
    for key in keys:
        present, number = np.unique(key[row] * m + child, return_inverse=True)
        if through_kinds and not occurs:
            present, number = np.arange(m), child  # every child's people pass through its network
        node_of.append(number.reshape(-1).astype(np.int64))
        occurs.append(present)
        first_node.append(first_node[-1] + len(present))
    known = problem.sums >= 0
    free = not known.all()  # rows without a known sum share one sink, which comes first
    sink_of_row = first_node[-1] + np.where(known, np.cumsum(known) - 1 + free, 0)
    supplies = np.zeros(first_node[-1] + free + int(known.sum()), dtype=np.int64)
    bottom = first_node[depth - 1] + node_of[depth - 1] if depth else np.zeros(len(row), dtype=np.int64)
    tails, heads, capacities = [bottom], [sink_of_row[row]], [np.ones(len(row), dtype=np.int64)]
    if through_kinds:
        inner, kind_node, supplies = child_networks(problem, whole, (whole + up).sum(axis=0), supplies)
        tails = [bottom if depth > 1 else kind_node[problem.bounds.of[row], child], inner.tails]
        heads, capacities = [*heads, inner.heads], [*capacities, inner.high]
        cost.append(np.zeros(len(inner.tails), dtype=np.int64))
    certain = {place for place, _ in problem.placed}
    for t in range(depth):
        base, value, most = _tree_values(problem, t, occurs[t], whole, up)
        head = first_node[t] + np.arange(len(occurs[t]))
        tail = np.zeros(len(occurs[t]), dtype=np.int64)
        if t:
            tail[node_of[t]] = first_node[t - 1] + node_of[t - 1]
            if t == 1 and through_kinds:
                tail[node_of[t]] = kind_node[problem.bounds.of[row], child]
        must = _at(occurs[t], *_forced_units(problem, t, whole))
        if t in certain:
            most = must
        if (most < must).any() or (must < 0).any():
            raise UnroundableError
        np.add.at(supplies, tail, -must)
        np.add.at(supplies, head, must)
        for capacity, slope in _l1_pieces(base + must, value, most - must):
            keep = capacity > 0
            tails.append(tail[keep])
            heads.append(head[keep])
            capacities.append(capacity[keep])
            cost.append(np.rint(UNIT * w[t] * slope[keep]).astype(np.int64))
    left = (problem.sums - whole.sum(axis=1))[known]
    if free:
        counted = problem.totals.n_groups > 0
        rest = int(problem.totals.answers.sum() - whole.sum() - left.sum()) if counted else len(row)
        left = np.concatenate([[rest], left])
        if not counted:  # no known total: a unit may stay at home for nothing
            tails.append(np.array([0]))
            heads.append(np.array([first_node[-1]]))
            capacities.append(np.array([rest]))
            cost.append(np.array([0]))
    if (left < 0).any():
        raise UnroundableError
    supplies[first_node[-1] : first_node[-1] + len(left)] -= left
    supplies[0] += int(left.sum())
    network = Network(
        np.concatenate(tails).astype(np.int64),
        np.concatenate(heads).astype(np.int64),
        np.concatenate(capacities).astype(np.int64),
        np.concatenate(cost).astype(np.int64),
        supplies,
        (row * m + child).astype(np.int64),
    )
    return network, whole


def _forced_units(problem: RoundingProblem, t: int, whole: Ints) -> tuple[Ints, Ints]:
    """Return codes (answer * m + child) of table t and the units that bounds and exact tables force through them."""
    m = whole.shape[1]
    codes, units = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    places, bounds = problem.places, problem.bounds
    here = np.array([b for b, (table, _) in enumerate(places) if table == t], dtype=np.int64)
    answers = np.array([places[b][1] for b in here], dtype=np.int64)
    bound, child = np.nonzero(bounds.lower[here] > 0)
    short = (bounds.lower - bounds.sums(whole))[here][bound, child]
    codes.append(answers[bound][short > 0] * m + child[short > 0])
    units.append(short[short > 0])
    for table in (table for place, table in problem.placed if place == t):
        answer_of = np.zeros(table.n_groups, dtype=np.int64)
        answer_of[table.of] = problem.chain[t]
        codes.append((answer_of[:, None] * m + np.arange(m)).reshape(-1))
        units.append(table.left(whole).reshape(-1))
    found, last = np.unique(np.concatenate(codes)[::-1], return_index=True)  # an exact table outdoes a bound
    return found, np.concatenate(units)[::-1][last]


def _at(occurs: Ints, codes: Ints, units: Ints) -> Ints:
    """Return the units of each occurring code; UnroundableError if some belong to a code that does not occur."""
    must = np.zeros(len(occurs), dtype=np.int64)
    place = np.searchsorted(occurs, codes)
    inside = place < len(occurs)
    inside[inside] = occurs[place[inside]] == codes[inside]
    if units[~inside].any():
        raise UnroundableError
    must[place[inside]] = units[inside]
    return must


def _tree_values(
    problem: RoundingProblem,
    t: int,
    occurs: Ints,
    whole: Ints,
    up: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
) -> tuple[Ints, Floats, Ints]:
    """Whole part, estimate and largest increase of each occurring (answer, child) of table t."""
    m = problem.estimate.shape[1]
    code = (problem.chain[t][:, None] * m + np.arange(m)[None, :]).reshape(-1)
    size = (int(problem.chain[t].max(initial=0)) + 1) * m
    base, value = np.zeros(size, dtype=np.int64), np.zeros(size)
    np.add.at(base, code, whole.reshape(-1))
    np.add.at(value, code, problem.estimate.reshape(-1))
    most = np.bincount(code[up.reshape(-1)], minlength=size)
    return base[occurs], value[occurs], most[occurs]


def _l1_pieces(base: Ints, value: Floats, most: Ints) -> list[tuple[Ints, Floats]]:
    """Cut |base + y - value| for y = 0..most into runs of constant slope: [(length, slope), ...]."""
    goal = np.floor(value + SNAP)
    part = np.clip(value - goal, 0.0, 1.0)
    down = np.clip(goal.astype(np.int64) - base, 0, most)
    middle = np.clip(goal.astype(np.int64) + 1 - base, 0, most) - down
    ones = np.ones(len(base))
    return [(down, -ones), (middle, 1 - 2 * part), (most - down - middle, ones)]
