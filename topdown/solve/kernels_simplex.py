"""The network simplex method for minimum-cost flows in integers, and the check of a flow that knows nothing of it.

Compiled when the package is installed (`topdown.resources`); tests compare it with networkx.

The tree of the basis hangs below a root. Each of its nodes could receive one more unit from the root along the tree,
and the arc that leaves is chosen so that this stays true (Cunningham, 1976, with all arcs turned around): the method
ends without cycling. Every choice depends on the numbers of the network and the order of its arcs alone.
"""

from __future__ import annotations

import numpy as np

from topdown.arrays import Ints, IntsOut, IntTableOut, Whole


def network_simplex(
    tails: Ints,
    heads: Ints,
    capacities: Ints,
    costs: Ints,
    supplies: Ints,
    root: Whole,
    flows: IntsOut,
    above: IntsOut,
) -> bool:
    """Make a flow one of least cost in place; False if the supplies cannot be met.

    Args:
        tails, heads, capacities, costs: int64 (n_arcs,). Four times the number of nodes times the largest cost is below
            2^62.
        supplies: int64 (n_nodes,), their sum is zero.
        root: of the tree; its own supply is not looked at.
        flows: int64 (n_arcs,), where to start: 0 or the capacity on arcs outside the tree.
        above: int64 (n_nodes,), the arc of each node to the node above it in the first tree, where all that flows
            through the node is balanced; -1 for an arc to the root that is not in the network and takes what is not
            balanced. Overwritten. An arc that comes from above has room left, one that goes up has flow.
    """
    unlimited: Whole = 1 << 62
    n_arcs, n = tails.shape[0], supplies.shape[0]
    # A few tables in place of many arrays, which would cost more than small networks take to solve.
    arcs: IntTableOut = np.empty((5, n_arcs + n), dtype=np.int64)
    tail: IntsOut = arcs[0]
    head: IntsOut = arcs[1]
    room: IntsOut = arcs[2]
    cost: IntsOut = arcs[3]
    flow: IntsOut = arcs[4]
    nodes: IntTableOut = np.empty((7, n), dtype=np.int64)
    rest: IntsOut = nodes[0]
    parent: IntsOut = nodes[1]
    depth: IntsOut = nodes[2]
    price: IntsOut = nodes[3]
    child: IntsOut = nodes[4]  # first
    before: IntsOut = nodes[5]  # among the children of one node
    behind: IntsOut = nodes[6]
    for v in range(n):
        a = n_arcs + v
        tail[a], head[a], room[a], cost[a], flow[a] = v, root, unlimited, 0, 0
        rest[v], parent[v], depth[v], price[v] = supplies[v], -1, 0, 0
        child[v], before[v], behind[v] = -1, -1, -1
    dear: Whole = 0
    for a in range(n_arcs):
        tail[a], head[a], room[a], cost[a], flow[a] = tails[a], heads[a], capacities[a], costs[a], flows[a]
        dear = max(dear, abs(cost[a]))
        rest[tail[a]] -= flow[a]
        rest[head[a]] += flow[a]
    dear = n * dear + 1  # no cycle of arcs of the network costs so much
    for v in range(n):
        if v == root:
            continue
        a = above[v]
        if a < 0:
            a = n_arcs + v
            above[v] = a
            cost[a] = dear
            flow[a] = abs(rest[v])
            if rest[v] <= 0:
                tail[a], head[a] = root, v
        up = head[a] if tail[a] == v else tail[a]
        parent[v] = up
        behind[v] = child[up]
        if child[up] >= 0:
            before[child[up]] = v
        child[up] = v
    _price_subtree(root, tail, cost, above, parent, child, behind, depth, price)

    block: Whole = 24  # arcs among which the steepest enters the basis: about the square root of all
    while block * block < n_arcs:
        block += 8
    position: Whole = 0
    looked: Whole = 0
    steepest: Whole = 0
    entering: Whole = -1
    while looked < n_arcs:
        stop = min(position + block, n_arcs)
        for a in range(position, stop):
            slope = cost[a] + price[tail[a]] - price[head[a]]
            if slope < -steepest and flow[a] < room[a]:
                steepest, entering = -slope, a
            elif slope > steepest and flow[a] > 0:
                steepest, entering = slope, a
        looked += stop - position
        position = 0 if stop == n_arcs else stop
        if entering < 0:
            continue
        e = entering
        looked, steepest, entering = 0, 0, -1
        slope = cost[e] + price[tail[e]] - price[head[e]]
        if slope < 0:
            first, last, own = tail[e], head[e], room[e] - flow[e]
        else:
            first, last, own = head[e], tail[e], flow[e]
        # Units go down from the apex to `first`, through the arc to `last`, and up again.
        down, lowered, up_room, raised = unlimited, -1, unlimited, -1
        x, y = first, last
        while x != y:
            if depth[x] >= depth[y]:
                a = above[x]
                free = room[a] - flow[a] if head[a] == x else flow[a]
                if free <= down:
                    down, lowered = free, x
                x = parent[x]
            else:
                a = above[y]
                free = room[a] - flow[a] if tail[a] == y else flow[a]
                if free < up_room:
                    up_room, raised = free, y
                y = parent[y]
        units = min(down, own, up_room)
        if units > 0:
            flow[e] += units if slope < 0 else -units
            apex = x
            x = first
            while x != apex:
                a = above[x]
                flow[a] += units if head[a] == x else -units
                x = parent[x]
            y = last
            while y != apex:
                a = above[y]
                flow[a] += units if tail[a] == y else -units
                y = parent[y]
        # The first arc without room, seen from the apex, leaves.
        if down == units:
            leaving, node, other = lowered, first, last
        elif own == units:
            continue
        else:
            leaving, node, other = raised, last, first
        top, arc = node, e
        while True:
            old_parent, old_arc = parent[node], above[node]
            if before[node] >= 0:
                behind[before[node]] = behind[node]
            else:
                child[old_parent] = behind[node]
            if behind[node] >= 0:
                before[behind[node]] = before[node]
            parent[node], above[node] = other, arc
            before[node], behind[node] = -1, child[other]
            if child[other] >= 0:
                before[child[other]] = node
            child[other] = node
            if node == leaving:
                break
            other, arc, node = node, old_arc, old_parent
        _price_subtree(top, tail, cost, above, parent, child, behind, depth, price)
    for a in range(n_arcs):
        flows[a] = flow[a]
    unmet: Whole = 0
    for v in range(n):
        unmet += flow[n_arcs + v]
    return unmet == 0


def _price_subtree(
    top: Whole,
    tail: IntsOut,
    cost: IntsOut,
    above: IntsOut,
    parent: IntsOut,
    child: IntsOut,
    behind: IntsOut,
    depth: IntsOut,
    price: IntsOut,
) -> None:
    """Set the depth and price of a node and all below it: arcs of the tree cost what prices differ by."""
    node = top
    while True:
        up = parent[node]
        if up >= 0:
            a = above[node]
            price[node] = price[up] - cost[a] if tail[a] == node else price[up] + cost[a]
            depth[node] = depth[up] + 1
        if child[node] >= 0:
            node = child[node]
            continue
        while node != top and behind[node] < 0:
            node = parent[node]
        if node == top:
            return
        node = behind[node]


def is_feasible_flow(tails: Ints, heads: Ints, capacities: Ints, supplies: Ints, flows: Ints) -> bool:
    """Tell whether a flow keeps its capacities and meets all supplies."""
    rest: IntsOut = np.array(supplies)
    for a in range(tails.shape[0]):
        if flows[a] < 0 or flows[a] > capacities[a]:
            return False
        rest[tails[a]] -= flows[a]
        rest[heads[a]] += flows[a]
    unmet: Whole = 0
    for v in range(rest.shape[0]):
        unmet += abs(rest[v])
    return unmet == 0
