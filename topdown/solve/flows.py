"""Minimum-cost flows in integers: the problem, its solution by the network simplex method, and the proof of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.arrays import Ints
from topdown.solve.kernels_shared import has_negative_cycle
from topdown.solve.kernels_simplex import is_feasible_flow, network_simplex

LARGEST_COST = 2**60  # of an arc, times nodes of the network: costs of its paths add up exactly in 64 bits
COARSER = 4  # bits of cost given up at a time


@dataclass(frozen=True, eq=False)
class Network:
    """A minimum-cost flow problem with integer data.

    Args:
        tails, heads, capacities, costs: int64 (n_arcs,).
        supplies: int64 (n_nodes,), positive for sources.
    """

    tails: Ints
    heads: Ints
    capacities: Ints
    costs: Ints
    supplies: Ints

    @property
    def adds_up(self) -> bool:
        """Whether costs of paths, one arc more than nodes, add up exactly in 64 bits."""
        return int(np.abs(self.costs).max(initial=0)) * (len(self.supplies) + 1) <= LARGEST_COST


@dataclass(frozen=True, eq=False)
class FlowStart:
    """A flow to improve: int64 (n_arcs,), and the tree of a basis below node 0, see `network_simplex`."""

    flows: Ints
    above: Ints


def minimum_cost_flow(network: Network, start: FlowStart | None = None) -> Ints | None:
    """Return an optimal flow per arc, int64 (n_arcs,), or None if the supplies cannot be met.

    Among flows of equal cost, which one is found depends on the network and the start alone. Costs that do not add up
    exactly in 64 bits lose their last bits, and the flow is optimal for what is left: `is_optimal` tells.

    Cost: about 0.2 ms for the rounding of a block group of 30 blocks.
    """
    if network.supplies.sum():
        return None
    n, costs = len(network.supplies), network.costs
    while int(np.abs(costs).max(initial=0)) * (n + 2) > LARGEST_COST:
        costs = np.sign(costs) * (np.abs(costs) >> COARSER)
    if start is None:  # below a node of its own
        supplies, root = np.append(network.supplies, 0), n
        start = FlowStart(np.zeros(len(costs), dtype=np.int64), np.full(n + 1, -1, dtype=np.int64))
    else:
        supplies, root = network.supplies, 0
    flows = start.flows.copy()
    met = network_simplex(
        network.tails, network.heads, network.capacities, costs, supplies, root, flows, start.above.copy()
    )
    return flows if met else None


def is_feasible(network: Network, flows: Ints) -> bool:
    """Tell whether a flow keeps capacities and meets supplies."""
    return is_feasible_flow(network.tails, network.heads, network.capacities, network.supplies, flows)


def is_optimal(network: Network, flows: Ints) -> bool:
    """Tell whether no flow costs less than a feasible one; not asked where costs are too large to add up exactly."""
    return network.adds_up and not has_negative_cycle(
        network.tails, network.heads, network.capacities, network.costs, flows, len(network.supplies)
    )
