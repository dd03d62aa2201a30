"""What is to be rounded, and the children's own flow networks where kinds of cells have limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.solve.chain import NoFlow, Places
from topdown.solve.groups import Bounds, FixedTable, Floats, Ints
from topdown.solve.region_network import Arcs


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
    bound_places: Places | NoFlow
    arcs: tuple[Arcs, ...]
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
    def places(self) -> Places:
        """(table, answer) of each lower bound that is mandatory flow."""
        return () if isinstance(self.bound_places, NoFlow) else self.bound_places

    @property
    def placed(self) -> tuple[tuple[int, FixedTable], ...]:
        """Exact tables that are mandatory flow, each with its place in the chain."""
        found = [(0, self.totals), (self.exact_place, self.exact)]
        return tuple((place, table) for place, table in found if table.n_groups and place is not None)


def child_networks(
    problem: RoundingProblem, whole: Ints, most: Ints, supplies: Ints
) -> tuple[Arcs, Ints, Ints]:
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
    return Arcs(tails, heads, low, high - low, n_nodes), kind_node, supplies
