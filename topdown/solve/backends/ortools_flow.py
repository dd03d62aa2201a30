"""Minimum-cost flow with OR-Tools (default backend)."""

from __future__ import annotations

import numpy as np
from ortools.graph.python import min_cost_flow

from topdown.errors import InternalError
from topdown.solve.flow import Network
from topdown.solve.groups import Ints

COARSER = 4  # bits of cost given up at a time


def solve(network: Network) -> Ints | None:
    """Return an optimal flow per arc, or None if the supplies cannot be met.

    The library keeps prices of nodes, multiples of its own scaled costs, in 64 bits and gives up where they leave
    them; then costs lose their last bits, and the flow is optimal for what is left: the caller tells how good it is.

    Raises:
        InternalError: X002 the library refuses the numbers of a network without costs.
    """
    if not len(network.tails):
        return np.zeros(0, dtype=np.int64) if not network.supplies.any() else None
    costs = network.costs
    while True:
        solver = min_cost_flow.SimpleMinCostFlow()
        arcs = solver.add_arcs_with_capacity_and_unit_cost(
            network.tails, network.heads, network.capacities, costs
        )
        solver.set_nodes_supplies(np.arange(len(network.supplies)), network.supplies)
        status = solver.solve()
        if status == solver.OPTIMAL:
            return np.asarray(solver.flows(arcs), dtype=np.int64)
        if status == solver.INFEASIBLE:
            return None
        if status != solver.BAD_COST_RANGE or not costs.any():
            raise InternalError(f"the flow solver says {status.name}", code="X002")
        costs = np.sign(costs) * (np.abs(costs) >> COARSER)
