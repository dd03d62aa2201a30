"""Where records can be: which places leave which combinations of values open, with alike combinations as one kind.

Only attributes that some closing rule mentions make a difference to that; all others are left out of the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.model.schema import Schema
from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.privacy.labels import Groups
from topdown.publish.verify.tree import Tree

Marks = NDArray[np.bool_]
RENUMBER = 30  # rules between two renumberings: up to 2^31 kinds times 2^30 fit a whole number


@dataclass(frozen=True)
class Closing:
    """A rule that no record breaks: where `leaves` are marked, nobody has values marked 1 in all of `values`."""

    name: str
    values: Groups
    leaves: Marks


@dataclass(frozen=True, eq=False)
class Board:
    """What the closing rules leave open.

    Args:
        sizes: number of values of every attribute.
        axes: attributes that the rules mention.
        kind: int64 array over the axes; combinations of one kind are open at the same leaves.
        opened: per level, bool array (nodes, kinds), whether some leaf of the node has the kind open.
    """

    sizes: dict[str, int]
    axes: tuple[str, ...]
    kind: Whole
    opened: tuple[Marks, ...]

    @cached_property
    def n_nodes(self) -> tuple[Whole, ...]:
        """Per level, number of nodes where each kind is open."""
        return tuple(level.sum(axis=0, dtype=np.int64) for level in self.opened)

    @cached_property
    def possible(self) -> Marks:
        """Mark the combinations of values, over the axes, that somebody can have somewhere."""
        return np.asarray(self.n_nodes[-1][self.kind] > 0, dtype=bool)

    @cached_property
    def together(self) -> Marks:
        """Mark the pairs of kinds that are open at one leaf."""
        leaves = self.opened[-1].astype(np.float32)
        return np.asarray(leaves.T @ leaves > 0, dtype=bool)

    def values(self, attribute: str) -> Whole:
        """Return the values of an attribute that somebody can have somewhere."""
        if attribute not in self.axes:
            return np.arange(self.sizes[attribute] * bool(self.possible.any()))
        others = tuple(i for i, name in enumerate(self.axes) if name != attribute)
        return np.flatnonzero(self.possible.any(axis=others))

    def lines(self, attribute: str) -> list[Whole]:
        """Return the distinct rows of kinds met when one attribute takes all of its values and nothing else moves."""
        moved = np.moveaxis(self.kind, self.axes.index(attribute), -1).reshape(-1, self.sizes[attribute])
        distinct = {row.tobytes(): row for row in np.ascontiguousarray(moved)}
        return list(distinct.values())

    def spread(self, groups: Groups) -> Whole:
        """Return a number for each combination of groups over the axes, in the shape of `kind`."""
        out = np.zeros(self.kind.shape, dtype=np.int64)
        for i, name in enumerate(self.axes):
            if name in groups:
                shape = [1] * len(self.axes)
                shape[i] = -1
                out = out * (max(groups[name]) + 1) + np.array(groups[name], dtype=np.int64).reshape(shape)
        return out


def lay_out(schema: Schema, tree: Tree, closings: Sequence[Closing]) -> Board:
    """Return the board of some rules."""
    sizes = {a.name: len(a.labels) for a in schema.attributes}
    axes = tuple(name for name in sizes if any(name in c.values for c in closings))
    shape = tuple(sizes[name] for name in axes)
    kind = np.zeros(shape, dtype=np.int64)
    for i, closing in enumerate(closings):
        kind = 2 * kind + _covered(closing, axes, shape)
        if i % RENUMBER == RENUMBER - 1:
            kind = np.unique(kind, return_inverse=True)[1].reshape(shape)
    kind = np.unique(kind, return_inverse=True)[1].reshape(shape)
    example = np.zeros(int(kind.max()) + 1, dtype=np.int64)
    example[kind.reshape(-1)] = np.arange(kind.size)
    opened = [np.ones((tree.n_leaves, len(example)), dtype=bool)]
    for closing in closings:
        opened[0][np.ix_(closing.leaves, _covered(closing, axes, shape).reshape(-1)[example])] = False
    for depth in range(len(tree.names) - 1, 0, -1):
        node, kinds = np.nonzero(opened[-1])
        above = np.zeros((len(tree.geocodes[depth - 1]), len(example)), dtype=bool)
        above[tree.parent[depth][node], kinds] = True
        opened.append(above)
    return Board(sizes, axes, kind, tuple(reversed(opened)))


def _covered(closing: Closing, axes: tuple[str, ...], shape: tuple[int, ...]) -> Marks:
    out = np.ones(shape, dtype=bool)
    for i, name in enumerate(axes):
        if name in closing.values:
            along = [1] * len(axes)
            along[i] = -1
            out &= np.array(closing.values[name], dtype=bool).reshape(along)
    return out
