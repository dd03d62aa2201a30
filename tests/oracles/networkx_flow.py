"""Minimum-cost flow with networkx: the readable twin of `topdown.solve.flows`. Slow; for tests and small cases."""

import numpy as np

from topdown.arrays import Ints
from topdown.solve import Network


def minimum_cost_flow(network: Network) -> Ints | None:
    """Return an optimal flow per arc, or None if the supplies cannot be met."""
    import networkx as nx

    graph = nx.MultiDiGraph()
    for node, supply in enumerate(network.supplies):
        graph.add_node(node, demand=-int(supply))
    for arc, (tail, head) in enumerate(zip(network.tails.tolist(), network.heads.tolist(), strict=True)):
        capacity, cost = int(network.capacities[arc]), int(network.costs[arc])
        graph.add_edge(tail, head, key=arc, capacity=capacity, weight=cost)
    try:
        _, flow = nx.network_simplex(graph)
    except nx.NetworkXUnfeasible:
        return None
    out = np.zeros(len(network.tails), dtype=np.int64)
    for heads in flow.values():
        for arcs in heads.values():
            for arc, units in arcs.items():
                out[arc] = units
    return out
