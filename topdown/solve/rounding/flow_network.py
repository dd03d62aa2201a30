"""What is to be rounded, and its form as a minimum-cost flow (Census TopDown, Eq. 7 and 11, on a laminar chain).

Each record still to be placed is one unit that flows from its child through the chain of tables to a cell.
A unit in a cell costs 1 - 2 frac (L1 distance to the estimate); a tree edge of a coarser table carries the L1
distance of that table's answer as three parallel arcs, which is exact because the cost is convex with kinks
at the two neighbouring whole numbers. Lower bounds and exact totals are mandatory flow, never a large penalty.
Where classes of cells have limits, all records of a child, whole parts included, pass through its own network
from its total to its classes, where the whole parts leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.arrays import Floats, Ints
from topdown.model import FlowArcs
from topdown.solve.backends import Network
from topdown.solve.group_constraints import Bounds, FixedTable, occurring
from topdown.solve.rounding.chain import BoundPositions, NoFlow


class UnroundableError(Exception):
    """No way of rounding up the chosen cells meets the constraints."""


@dataclass(frozen=True, eq=False)
class RoundingProblem:
    """An estimate to round.

    Args:
        estimate: float64 (n, m), nonnegative; allowed: bool (n, m).
        sums: int64 (n,), the parent's counts; below 0 where unknown, as at the root.
        chain: answers of each row in each table, coarse to fine, int64 (n_tables, n); the last tells rows apart.
        weights: weight of one person of error in each table.
        totals: exact totals of the children; if there are any, the first table of the chain is the total.
        exact: an exact table that tells more.
        exact_place: its place in the chain where it is kept as mandatory flow there; None where `arcs` keep it.
        bounds: lower bounds of disjoint rows, or limits on sets of kinds of rows.
        bound_places: (table, answer) of each lower bound, or why the chain cannot express them as a flow.
        arcs: limits as a flow network for each child.
        comparisons: int64 (n_rules, n), soft rules: rows that should add up to at most `most`, int64 (n_rules, m).
    """

    estimate: Floats
    allowed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    sums: Ints
    chain: Ints
    weights: tuple[int, ...]
    totals: FixedTable
    exact: FixedTable
    exact_place: int | None
    bounds: Bounds
    bound_places: BoundPositions | NoFlow
    arcs: tuple[FlowArcs, ...]
    comparisons: Ints
    most: Ints

    def excess(self, counts: Ints) -> int:
        """Return by how many records a table breaks the soft rules in all."""
        return int(np.maximum(self.comparisons @ counts - self.most, 0).sum())

    @property
    def is_flow(self) -> bool:
        """Whether the chain expresses everything but soft rules as a flow."""
        return not isinstance(self.bound_places, NoFlow)

    @property
    def places(self) -> BoundPositions:
        """(table, answer) of each lower bound that is mandatory flow."""
        return () if isinstance(self.bound_places, NoFlow) else self.bound_places

    @property
    def placed(self) -> tuple[tuple[int, FixedTable], ...]:
        """Exact tables that are mandatory flow, each with its place in the chain."""
        found = [(0, self.totals), (self.exact_place, self.exact)]
        return tuple((place, table) for place, table in found if table.n_groups and place is not None)


def child_networks(
    problem: RoundingProblem, whole: Ints, most: Ints, supplies: Ints
) -> tuple[FlowArcs, Ints, Ints]:
    """Join the children's networks for people who pass from a child's total to their kinds.

    Whole parts enter at the totals and leave at their kinds; flow that bounds force is taken out beforehand.

    Args:
        problem: with limits and arcs. whole: whole parts. most: int64 (m,), most people at each child.
        supplies: int64, of the nodes so far, of which 1 + j is the total of child j.

    Returns:
        arcs with `high` as capacity, the node of each (kind, child), supplies of all nodes.

    Raises:
        UnroundableError: a bound is beyond everybody who can be there.
    """
    m, n_kinds, n_nodes = whole.shape[1], problem.bounds.n_groups, len(supplies)
    kind_node = np.zeros((n_kinds, m), dtype=np.int64)
    parts = []
    for j, arcs in enumerate(problem.arcs):
        place = n_nodes - 1 + np.arange(arcs.n_nodes)
        place[0] = 1 + j
        kind_node[:, j] = place[1 : 1 + n_kinds]
        n_nodes += arcs.n_nodes - 1
        parts.append((place[arcs.tails], place[arcs.heads], arcs.low, np.minimum(arcs.high, most[j])))
    tails, heads, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    if (high < low).any():
        raise UnroundableError
    supplies = np.concatenate([supplies, np.zeros(n_nodes - len(supplies), dtype=np.int64)])
    supplies[1 : 1 + m] += whole.sum(axis=0)
    for nodes, held in zip(kind_node, problem.bounds.sums(whole), strict=True):
        supplies[nodes] -= held
    np.subtract.at(supplies, tails, low)
    np.add.at(supplies, heads, low)
    return FlowArcs(tails, heads, low, high - low, n_nodes), kind_node, supplies


UNIT = 1_000_000  # integer cost of one person of error


SNAP = 1e-6  # closer to a whole number than this counts as whole


def whole_parts(problem: RoundingProblem) -> tuple[Ints, Floats]:
    """Return whole parts and fractions; values within SNAP of a whole number count as whole."""
    whole = np.floor(problem.estimate + SNAP)
    fraction = np.clip(problem.estimate - whole, 0.0, 1.0)
    fraction[fraction < SNAP] = 0.0
    return whole.astype(np.int64), fraction


def build_network(problem: RoundingProblem, *, every_cell: bool) -> tuple[Network, Ints]:
    """Return the network and the whole parts that the flow adds to.

    Args:
        problem: with `bound_places` (see `laminar_positions`).
        every_cell: let any allowed cell go one up, not only those with a fraction.

    Raises:
        UnroundableError: the cells that may go up cannot meet a sum or a bound.
    """
    m = problem.estimate.shape[1]
    through_kinds = len(problem.arcs) > 0
    whole, fraction = whole_parts(problem)
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
        if through_kinds and not occurs:
            present, number = np.arange(m), child  # every child's people pass through its network
        else:
            present, number = occurring(key[row] * m + child)
        node_of.append(number)
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
        must = _units_of_codes(occurs[t], *_forced_units(problem, t, whole))
        if t in certain:
            most = must
        if (most < must).any() or (must < 0).any():
            raise UnroundableError
        forced = np.flatnonzero(must)
        np.subtract.at(supplies, tail[forced], must[forced])
        np.add.at(supplies, head[forced], must[forced])
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


def _units_of_codes(occurs: Ints, codes: Ints, units: Ints) -> Ints:
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
    base: Ints = np.bincount(code, weights=whole.reshape(-1), minlength=size).astype(
        np.int64
    )  # exact: below 2^53
    value = np.bincount(code, weights=problem.estimate.reshape(-1), minlength=size).astype(np.float64)
    most: Ints = np.bincount(code[up.reshape(-1)], minlength=size)
    return base[occurs], value[occurs], most[occurs]


def _l1_pieces(base: Ints, value: Floats, most: Ints) -> list[tuple[Ints, Floats]]:
    """Cut |base + y - value| for y = 0..most into runs of constant slope: [(length, slope), ...]."""
    goal = np.floor(value + SNAP)
    part = np.clip(value - goal, 0.0, 1.0)
    down = np.clip(goal.astype(np.int64) - base, 0, most)
    middle = np.clip(goal.astype(np.int64) + 1 - base, 0, most) - down
    ones = np.ones(len(base))
    return [(down, -ones), (middle, 1 - 2 * part), (most - down - middle, ones)]
