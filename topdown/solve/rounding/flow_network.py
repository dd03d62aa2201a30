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
from topdown.solve.flows import FlowStart, Network
from topdown.solve.group_constraints import Bounds, FixedTable
from topdown.solve.rounding.chain import BoundPositions, NoFlow
from topdown.solve.rounding.kernels_network import laminar_network

NONE, NO_ROWS = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)


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
        return int(np.maximum(self.comparisons @ counts - self.most, 0).sum()) if len(self.most) else 0

    @property
    def is_flow(self) -> bool:
        """Whether the chain expresses everything but soft rules as a flow."""
        return not isinstance(self.bound_places, NoFlow)

    @property
    def places(self) -> BoundPositions:
        """(table, answer) of each lower bound that is mandatory flow."""
        return () if isinstance(self.bound_places, NoFlow) else self.bound_places


UNIT = 1_000_000  # integer cost of one person of error


SNAP = 1e-6  # closer to a whole number than this counts as whole
NEAR_PERSONS = 1 + 1e-5  # a count further than this from its estimate is no rounding of it


def whole_parts(problem: RoundingProblem) -> tuple[Ints, Floats]:
    """Return whole parts and fractions; values within SNAP of a whole number count as whole."""
    whole = np.floor(problem.estimate + SNAP)
    fraction = np.clip(problem.estimate - whole, 0.0, 1.0)
    fraction[fraction < SNAP] = 0.0
    return whole.astype(np.int64), fraction


@dataclass(frozen=True, eq=False)
class RoundingNetwork:
    """A rounding as a flow.

    Args:
        network: its first `len(cell_arcs)` arcs put one unit in a (row, child).
        cell_arcs: their flat indices row * m + child.
        start: a flow to start from.
    """

    network: Network
    cell_arcs: Ints
    start: FlowStart


def build_network(
    problem: RoundingProblem, whole: Ints, fraction: Floats, *, every_cell: bool
) -> RoundingNetwork | None:
    """Return the network of what is added to whole parts; None if cells that may go up cannot meet a sum or bound.

    Args:
        problem: with `bound_places` (see `laminar_positions`).
        whole, fraction: as from `whole_parts`.
        every_cell: let any allowed cell go one up, not only those with a fraction.
    """
    up = problem.allowed if every_cell else problem.allowed & (fraction > 0)
    bounds, places, exact_place = problem.bounds, problem.places, problem.exact_place
    lower = bounds.lower if places else NO_ROWS
    exact = NO_ROWS if exact_place is None else problem.exact.answers
    first, sizes, inner = NONE, NONE, np.zeros((4, 0), dtype=np.int64)
    if problem.arcs:
        parts = [(a.tails, a.heads, a.low, a.high) for a in problem.arcs]
        inner = np.stack([np.concatenate(part) for part in zip(*parts, strict=True)])
        first = np.cumsum([0, *(len(a.tails) for a in problem.arcs)])
        sizes = np.array([a.n_nodes for a in problem.arcs])
    found = laminar_network(
        np.ascontiguousarray(problem.estimate),
        whole,
        fraction,
        up.reshape(-1),
        problem.sums,
        problem.chain,
        np.array(problem.weights, dtype=np.int64),
        bounds.of,
        np.ascontiguousarray(lower),
        np.array([table for table, _ in places], dtype=np.int64),
        problem.totals.of,
        np.ascontiguousarray(problem.totals.answers),
        problem.exact.of,
        np.ascontiguousarray(exact),
        -1 if exact_place is None else exact_place,
        bounds.of,
        first,
        sizes,
        inner,
        UNIT,
        SNAP,
    )
    if found is None:
        return None
    tails, heads, capacities, costs, supplies, cell_arcs, flows, above = found
    return RoundingNetwork(
        Network(tails, heads, capacities, costs, supplies), cell_arcs, FlowStart(flows, above)
    )
