"""Where records can be: which places leave which combinations of values open, with alike combinations as one kind.

Only attributes that some rule mentions make a difference to that; all others are left out of the board. Limits on
counts come in only if some of them are from above: there is always room for more records than the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from topdown.model.schema import Schema
from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.privacy.labels import Groups
from topdown.publish.verify.privacy.limits import Settled, Side, settle
from topdown.publish.verify.tree import Tree

Marks = NDArray[np.bool_]
RENUMBER = 30  # rules between two renumberings: up to 2^31 kinds times 2^30 fit a whole number


@dataclass(frozen=True)
class Closing:
    """A rule that no record breaks: where `leaves` are marked, nobody has values marked 1 in all of `values`."""

    name: str
    values: Groups
    leaves: Marks


@dataclass(frozen=True)
class Limit:
    """A rule that counts: at each leaf those with values marked 1 in all of `values` are at most or least `number`."""

    name: str
    values: Groups
    number: Whole
    most: bool


@dataclass(frozen=True, eq=False)
class Held:
    """Where one limit holds something still: the count of `kinds` at `met` leaves, each record at `still` ones."""

    name: str
    kinds: Marks
    met: Marks
    still: Marks


@dataclass(frozen=True, eq=False)
class Board:
    """What the rules leave open.

    Args:
        sizes: number of values of every attribute.
        axes: attributes that the rules mention.
        kind: int64 array over the axes; combinations of one kind are open at the same leaves.
        cells: bool array (leaves, kinds), whether a record can be there.
        opened: per level, bool array (nodes, kinds), whether one can come and go at some leaf of the node.
        circles: bool array (any, kinds), kinds between which a record can change at one leaf but not come or go.
        held: limits that hold a count still somewhere.
        rules: names of rules that close or hold something, or could.
    """

    sizes: dict[str, int]
    axes: tuple[str, ...]
    kind: Whole
    cells: Marks
    opened: tuple[Marks, ...]
    circles: Marks
    held: tuple[Held, ...]
    rules: tuple[str, ...]

    @cached_property
    def n_cells(self) -> Whole:
        """Number of combinations of all attributes of each kind."""
        outside = prod(n for name, n in self.sizes.items() if name not in self.axes)
        return np.bincount(self.kind.reshape(-1), minlength=self.cells.shape[1]) * outside

    @cached_property
    def n_nodes(self) -> tuple[Whole, ...]:
        """Per level, number of nodes where records of each kind can come and go."""
        return tuple(level.sum(axis=0, dtype=np.int64) for level in self.opened)

    @cached_property
    def together(self) -> Marks:
        """Mark the pairs of kinds between which a record can change at one leaf."""
        leaves, circles = self.opened[-1].astype(np.float32), self.circles.astype(np.float32)
        return np.asarray((leaves.T @ leaves > 0) | (circles.T @ circles > 0), dtype=bool)

    def values(self, attribute: str, kinds: Marks) -> Whole:
        """Return the values of an attribute that records of some kinds can have."""
        marked = kinds[self.kind]
        if attribute not in self.axes:
            return np.arange(self.sizes[attribute] * bool(marked.any()))
        others = tuple(i for i, name in enumerate(self.axes) if name != attribute)
        return np.flatnonzero(marked.any(axis=others))

    @cached_property
    def held_rows(self) -> tuple[tuple[Marks, Marks], ...]:
        """Per limit in `held`, the distinct rows of open kinds at its `met` leaves and at its `still` ones."""
        return tuple((_distinct(self.cells[h.met]), _distinct(self.cells[h.still])) for h in self.held)

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


def lay_out(schema: Schema, tree: Tree, closings: Sequence[Closing], limits: Sequence[Limit] = ()) -> Board:
    """Return the board of some rules."""
    if all(not limit.most for limit in limits):
        limits = ()
    sizes = {a.name: len(a.labels) for a in schema.attributes}
    every: list[Closing | Limit] = [*closings, *limits]
    axes = tuple(name for name in sizes if any(name in rule.values for rule in every))
    shape = tuple(sizes[name] for name in axes)
    kind = np.zeros(shape, dtype=np.int64)
    for i, rule in enumerate(every):
        kind = 2 * kind + _covered(rule, axes, shape)
        if i % RENUMBER == RENUMBER - 1:
            kind = np.unique(kind, return_inverse=True)[1].reshape(shape)
    kind = np.unique(kind, return_inverse=True)[1].reshape(shape)
    example = np.zeros(int(kind.max()) + 1, dtype=np.int64)
    example[kind.reshape(-1)] = np.arange(kind.size)
    cells = np.ones((tree.n_leaves, len(example)), dtype=bool)
    for closing in closings:
        cells[np.ix_(closing.leaves, _covered(closing, axes, shape).reshape(-1)[example])] = False
    covered = [_covered(limit, axes, shape).reshape(-1)[example] for limit in limits]
    for limit, inside in zip(limits, covered, strict=True):
        if limit.most:
            cells[np.ix_(limit.number == 0, inside)] = False
    free, circles, held = _hold(cells, limits, covered) if limits else (cells, cells[:0], ())
    opened = [free]
    for depth in range(len(tree.names) - 1, 0, -1):
        above = np.zeros((len(tree.geocodes[depth - 1]), len(example)), dtype=bool)
        for kind_above, kind_below in zip(above.T, opened[-1].T, strict=True):
            kind_above[tree.parent[depth][kind_below]] = True
        opened.append(above)
    names = {h.name for h in held} | {x.name for x in limits if x.most and not x.number.all()}
    rules = [c.name for c in closings] + [x.name for x in limits if x.name in names]
    return Board(
        sizes, axes, kind, cells, tuple(reversed(opened)), circles, held, tuple(dict.fromkeys(rules))
    )


def _hold(
    cells: Marks, limits: Sequence[Limit], covered: Sequence[Marks]
) -> tuple[Marks, Marks, tuple[Held, ...]]:
    """Return where records can come and go, the circles in which they can change, and what holds still.

    What limits leave no room for is taken from `cells`.
    """
    somewhere = cells.any(axis=0)
    rows: dict[bytes, list[int]] = {}
    for i, kinds in enumerate(covered):
        if (kinds & somewhere).any():
            rows.setdefault((kinds & somewhere).tobytes(), []).append(i)
    sets = np.array([np.frombuffer(key, dtype=bool) for key in rows]).reshape(len(rows), cells.shape[1])
    least = np.zeros((len(rows), len(cells)), dtype=np.int64)
    most = np.full((len(rows), len(cells)), -1, dtype=np.int64)
    for s, members in enumerate(rows.values()):
        for i in members:
            if limits[i].most:
                most[s] = np.where((most[s] < 0) | (limits[i].number < most[s]), limits[i].number, most[s])
            else:
                least[s] = np.maximum(least[s], limits[i].number)
    found = settle(Side(sets, least, most), cells)
    cells &= ~found.emptied
    held = []
    for i in range(len(limits)):
        for s, members in enumerate(rows.values()):
            number = limits[i].number
            met, still = (number > 0) & (found.count[s] == number), (number > 0) & found.untouchable[s]
            if i in members and (met | still).any():
                held.append(Held(limits[i].name, covered[i], met, still))
    free, circles = _circles(cells, sets, found)
    return free, circles, tuple(held)


def _circles(cells: Marks, sets: Marks, found: Settled) -> tuple[Marks, Marks]:
    """Split the open kinds of each leaf by the counts that hold still there."""
    free, out = cells.copy(), []
    for s, kinds in enumerate(sets):
        free[np.ix_(found.untouchable[s] | (found.count[s] > 0), kinds)] = False
    settled = np.flatnonzero((found.count > 0).any(axis=0))
    signs = np.concatenate(
        [cells[settled], (found.count.T > 0)[settled], found.untouchable.T[settled]], axis=1
    )
    for row in _distinct(signs):
        here, fixed, still = np.split(row, (cells.shape[1], cells.shape[1] + len(sets)))
        here = here & ~sets[still].any(axis=0)
        inside = sets[fixed][:, here].T  # of each kind here, the fixed sets that it is in
        members: dict[bytes, list[int]] = {}
        for kind, pattern in zip(np.flatnonzero(here).tolist(), inside, strict=True):
            if pattern.any():
                members.setdefault(pattern.tobytes(), []).append(kind)
        for kinds_of_one in members.values():
            circle = np.zeros_like(here)
            circle[kinds_of_one] = True
            out.append(circle)
    return free, _distinct(np.array(out, dtype=bool).reshape(-1, cells.shape[1]))


def _distinct(rows: Marks) -> Marks:
    packed = {row.tobytes(): i for i, row in enumerate(rows)}
    return np.asarray(rows[sorted(packed.values())])


def _covered(rule: Closing | Limit, axes: tuple[str, ...], shape: tuple[int, ...]) -> Marks:
    out = np.ones(shape, dtype=bool)
    for i, name in enumerate(axes):
        if name in rule.values:
            along = [1] * len(axes)
            along[i] = -1
            out &= np.array(rule.values[name], dtype=bool).reshape(along)
    return out
