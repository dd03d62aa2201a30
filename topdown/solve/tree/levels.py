"""Nodes of a level by their open dense values, and sums of what children hold over their parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.errors import InternalError
from topdown.model.cell_classes import distinct_rows
from topdown.solve.tree.lattice import Floats, Ints


@dataclass(frozen=True, eq=False)
class Shape:
    """The nodes of one level sorted by *pattern*, the set T of dense values open there.

    Args:
        values: per pattern, its dense values, int64, increasing.
        nodes: per pattern, its nodes, int64, increasing.
        pattern: int64 (n_nodes,), pattern of each node, -1 where nothing is open.
        place: int64 (n_nodes,), place of each node among those of its pattern.
        parent: int64 (n_nodes,), index of each node's parent in the level above.
    """

    values: tuple[Ints, ...]
    nodes: tuple[Ints, ...]
    pattern: Ints
    place: Ints
    parent: Ints


def shape_of(is_open: NDArray[np.bool_], parent: Ints) -> Shape:
    """Sort nodes by what is open.

    Args:
        is_open: bool (n_nodes, n_dense). parent: int64 (n_nodes,).
    """
    found, which = distinct_rows(is_open)
    kept = np.flatnonzero(found.any(axis=1))
    number = np.full(len(found), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    pattern = number[which]
    place = np.zeros(len(pattern), dtype=np.int64)
    nodes = tuple(np.flatnonzero(pattern == i).astype(np.int64) for i in range(len(kept)))
    for of in nodes:
        place[of] = np.arange(len(of))
    values = tuple(np.flatnonzero(found[i]).astype(np.int64) for i in kept)
    return Shape(values, nodes, pattern, place, parent)


def add_up(
    above: Shape, out: Sequence[Floats], nodes: Ints, below: Shape, held: Floats, *, square: bool
) -> None:
    """Add what some nodes of one pattern hold to their parents, in place.

    Args:
        above: of the parents. out: per pattern of theirs, (n_nodes, ..., t, t) or (n_nodes, t, n_product).
        nodes: increasing, all of one pattern.
        below: of the nodes. held: what each holds, or one for all (first axis 1).
        square: whether what is held is matrices by dense values, not tables.

    Raises:
        InternalError: a dense value is open at a node and not at its parent.
    """
    if not len(nodes):
        return
    own = below.values[below.pattern[nodes[0]]]
    parents = below.parent[nodes]
    for pattern in np.unique(above.pattern[parents]):
        here = above.pattern[parents] == pattern
        theirs = above.values[pattern] if pattern >= 0 else own[:0]
        at = np.searchsorted(theirs, own)
        if pattern < 0 or (at >= len(theirs)).any() or (theirs[at] != own).any():
            raise InternalError(
                "an area has cells open that its parent has not",
                code="X047",
                fix="report it with plan.json and public/; the noise is kept, nothing more is spent",
            )
        rows = above.place[parents[here]]
        starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        if len(held) == 1:
            counts = np.diff(np.append(starts, len(rows))).astype(np.float64)
            sums = counts.reshape(-1, *[1] * (held.ndim - 1)) * held
        else:
            sums = np.add.reduceat(held[here], starts, axis=0)
        into = rows[starts]
        if square:
            components = np.arange(held.shape[1])
            out[pattern][np.ix_(into, components, at, at)] += sums
        else:
            out[pattern][np.ix_(into, at, np.arange(held.shape[2]))] += sums


def from_parent(above: Shape, held: Sequence[Floats], nodes: Ints, below: Shape, *, square: bool) -> Floats:
    """Return what the parents of some nodes of one pattern hold, on the nodes' dense values; as `add_up`."""
    own = below.values[below.pattern[nodes[0]]]
    parents = below.parent[nodes]
    first = held[above.pattern[parents[0]]]
    shape = (first.shape[1], len(own), len(own)) if square else (len(own), first.shape[2])
    out = np.empty((len(nodes), *shape))
    for pattern in np.unique(above.pattern[parents]):
        here = np.flatnonzero(above.pattern[parents] == pattern)
        at = np.searchsorted(above.values[pattern], own)
        rows = above.place[parents[here]]
        last = at if square else np.arange(shape[1])
        middle = np.arange(shape[0]) if square else at
        grid = (rows, middle, at, last) if square else (rows, middle, last)
        out[here] = held[pattern][np.ix_(*grid)]
    return out
