"""Minimum-cost flow with OR-Tools (default backend)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from topdown.arrays import Ints
from topdown.errors import InternalError

COARSER = 4  # bits of cost given up at a time


def minimum_cost_flow(network: Network) -> Ints | None:
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
