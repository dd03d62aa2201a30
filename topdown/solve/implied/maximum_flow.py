"""Maximum flow in whole numbers of any size (Dinic's algorithm), for networks of a few hundred nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

Arc = tuple[int, int, int]  # tail, head, capacity


@dataclass(frozen=True)
class Flow:
    """A maximum flow and its proof.

    Args:
        value: units from source to sink.
        on_arc: units on each arc, in the order given.
        source_side: nodes still reachable from the source; the arcs that leave them are full and add up to `value`.
    """

    value: int
    on_arc: tuple[int, ...]
    source_side: frozenset[int]


def maximum_flow(n_nodes: int, arcs: Sequence[Arc], source: int, sink: int) -> Flow:
    """Send as many units as possible.

    Args:
        n_nodes: nodes 0..n_nodes-1.
        arcs: directed, capacities nonnegative.
        source, sink: different nodes.
    """
    head = [node for tail, to, _ in arcs for node in (to, tail)]
    room = [units for *_, capacity in arcs for units in (capacity, 0)]
    leaving: list[list[int]] = [[] for _ in range(n_nodes)]
    for i, (tail, to, _) in enumerate(arcs):
        leaving[tail].append(2 * i)
        leaving[to].append(2 * i + 1)
    value = 0
    while True:
        depth = _depths(n_nodes, head, room, leaving, source)
        if depth[sink] < 0:
            break
        position = [0] * n_nodes
        while sent := _augment(head, room, leaving, depth, position, source, sink):
            value += sent
    reached = frozenset(node for node in range(n_nodes) if depth[node] >= 0)
    return Flow(value, tuple(room[1::2]), reached)


def _depths(
    n_nodes: int, head: Sequence[int], room: Sequence[int], leaving: Sequence[Sequence[int]], source: int
) -> list[int]:
    depth = [-1] * n_nodes
    depth[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for e in leaving[node]:
            if room[e] and depth[head[e]] < 0:
                depth[head[e]] = depth[node] + 1
                queue.append(head[e])
    return depth


def _augment(
    head: Sequence[int],
    room: list[int],
    leaving: Sequence[Sequence[int]],
    depth: Sequence[int],
    position: list[int],
    source: int,
    sink: int,
) -> int:
    """Send units along one path of the layered network; 0 if there is none left."""
    path: list[int] = []
    node = source
    while node != sink:
        if position[node] < len(leaving[node]):
            e = leaving[node][position[node]]
            if room[e] and depth[head[e]] == depth[node] + 1:
                path.append(e)
                node = head[e]
            else:
                position[node] += 1
        elif path:
            node = head[path.pop() ^ 1]
            position[node] += 1
        else:
            return 0
    sent = min(room[e] for e in path)
    for e in path:
        room[e] -= sent
        room[e ^ 1] += sent
    return sent
