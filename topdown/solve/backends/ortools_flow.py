"""Minimum-cost flow with OR-Tools (default backend)."""

from __future__ import annotations

import numpy as np
from ortools.graph.python import min_cost_flow

from topdown.solve.flow import Network
from topdown.solve.groups import Ints


def solve(network: Network) -> Ints | None:
    """Return an optimal flow per arc, or None if the supplies cannot be met."""
    if not len(network.tails):
        return np.zeros(0, dtype=np.int64) if not network.supplies.any() else None
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        network.tails, network.heads, network.capacities, network.costs
    )
    solver.set_nodes_supplies(np.arange(len(network.supplies)), network.supplies)
    if solver.solve() != solver.OPTIMAL:
        return None
    return np.asarray(solver.flows(arcs), dtype=np.int64)
