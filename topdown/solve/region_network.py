"""A node's leaves as a flow network: from everybody through exact answers and bounded sets to the kinds of cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint_table import NO_LIMIT
from topdown.model.kinds import Kinds
from topdown.solve.groups import Ints

Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Leaves of one node, those that add up without loss merged.

    Args:
        is_open: bool (n, n_kinds). low, high: int64 (n, n_sets).
        unit: int64 (n,), 0..n_units-1: the area with an exact total that each piece lies in.
        totals: int64 (n_units, n_answers), of the exact table or total; (1, 0) if none below the node, or at it, is
            exact.
    """

    is_open: Marks
    low: Ints
    high: Ints
    unit: Ints
    totals: Ints


@dataclass(frozen=True, eq=False)
class Arcs:
    """A node's flow network: node 0 holds everybody, nodes 1..n_kinds the kinds, others are in between.

    Args:
        tails, heads, low, high: int64 (n_arcs,). n_nodes: number of nodes.
    """

    tails: Ints
    heads: Ints
    low: Ints
    high: Ints
    n_nodes: int


def network(kinds: Kinds, answer_of: Ints, pieces: Pieces) -> Arcs:
    """Return the flow network of a node.

    Args:
        kinds: of the release. answer_of: int64 (n_kinds,), answer of each kind in the exact table.
        pieces: the node's leaves.
    """
    n_kinds, outer, innermost = kinds.n_kinds, kinds.nest.outer, kinds.nest.innermost
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    n_nodes = 1 + n_kinds
    n_pieces, n_answers = len(pieces.unit), max(pieces.totals.shape[1], 1)
    nodes = np.full((len(outer) + n_answers, n_pieces), -1, dtype=np.int64)
    nodes[len(outer) :] = 0  # rows after the sets: in no set, by answer
    if pieces.totals.size > 1:
        units = n_nodes + np.arange(pieces.totals.size)
        n_nodes += len(units)
        parts.append((np.zeros_like(units), units, pieces.totals.reshape(-1), pieces.totals.reshape(-1)))
        nodes[len(outer) :] = units.reshape(pieces.totals.shape)[pieces.unit].T
    free_row = len(outer) + (answer_of if n_answers > 1 else np.zeros(n_kinds, dtype=np.int64))
    if n_answers > 1:  # the exact table decides lower bounds on sums of its answers
        innermost = np.where(np.append(kinds.spread, False)[innermost], -1, innermost)
    for s in reversed(range(len(outer))):
        if n_answers > 1 and kinds.spread[s]:
            continue
        used = pieces.is_open[:, kinds.members[s]].any(axis=1)
        nodes[s][used] = n_nodes + np.arange(int(used.sum()))
        n_nodes += int(used.sum())
        inside = kinds.members[s].any()
        top = free_row[kinds.members[s].argmax()] if inside else len(outer)
        tail = nodes[outer[s] if outer[s] >= 0 else top]
        parts.append((tail[used], nodes[s][used], pieces.low[used, s], pieces.high[used, s]))
    for k in range(n_kinds):
        where = np.flatnonzero(pieces.is_open[:, k])
        tails = np.unique(nodes[innermost[k] if innermost[k] >= 0 else free_row[k]][where])
        free = np.full(len(tails), NO_LIMIT, dtype=np.int64)
        parts.append((tails, np.full(len(tails), 1 + k, dtype=np.int64), np.zeros_like(tails), free))
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    return Arcs(columns[0], columns[1], columns[2], columns[3], n_nodes)
