"""Which changes of one record the exact statistics leave open: decided by labels, without any record.

A record is a leaf and a cell. Every record is counted once in every query, so a change of one record leaves an
exact statistic as it is if and only if the node at its level and the answer of the query both stay the same.
Only changes between cells that public facts leave open count: anything else cannot be the truth.

Values of an attribute that no rule and no exact statistic tells apart are alike; two of them stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from topdown.model.geography import Geography
from topdown.model.public import Rules, classes
from topdown.model.query import Neighbours
from topdown.model.reading import Groups
from topdown.model.schema import Schema

Kind = Literal["presence", "everything", "attribute", "within_level"]
Status = Literal["protected", "conditional", "disclosed"]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Known:
    """An exact statistic: the level (from the root, 0) and how its query groups the values of attributes."""

    name: str
    depth: int
    groups: Groups


@dataclass(frozen=True)
class Zero:
    """A rule that closes cells: which values of each attribute it speaks of (attributes left out: all of them).

    `everywhere`: it closes them at every leaf and is not among the rules; otherwise the rules say where.
    """

    name: str
    values: dict[str, tuple[bool, ...]]
    everywhere: bool = False


@dataclass(frozen=True)
class Change:
    """One kind of change of one record and what exact statistics say of it.

    Args:
        kind: presence (one record more or less), everything (leaf and cell replaced by any others), attribute
            (another value of `of`), within_level (another leaf of the same node of level `of`).
        of: attribute or level; empty for the first two kinds.
        status: protected (no change alters an exact answer), conditional (some do), disclosed (every one does,
            or public facts allow none).
        exact: names of the statistics that some change alters; of what excludes every change if there is none.
    """

    kind: Kind
    of: str
    status: Status
    exact: tuple[str, ...]


def find_changes(
    schema: Schema,
    geography: Geography,
    rules: Rules,
    known: Sequence[Known],
    zeros: Sequence[Zero],
    neighbours: Neighbours,
) -> tuple[Change, ...]:
    """Decide every kind of change: the neighbours' own first, then each attribute, then each level above the leaves.

    Args:
        schema, geography, rules: of the release; rules say which classes of cells are open at which leaf.
        known: every exact statistic, those of releases that are extended too.
        zeros: every rule that closes cells, the same.
        neighbours: with "add_remove" the first row is presence, the second everything.
    """
    find = _Finder(schema, geography, rules, tuple(known), tuple(zeros))
    first = [find.presence()] if neighbours == "add_remove" else []
    attributes = [find.attribute(axis) for axis in range(len(schema.attributes))]
    places = [find.within(depth) for depth in range(len(geography.levels) - 1)]
    return (*first, find.everything(), *attributes, *places)


@dataclass(frozen=True, eq=False)
class _Finder:
    schema: Schema
    geography: Geography
    rules: Rules
    known: tuple[Known, ...]
    zeros: tuple[Zero, ...]

    def presence(self) -> Change:
        """Decide one record more or less: every exact statistic counts it."""
        names = [k.name for k in self.known]
        return self._change("presence", "", bool(self.used.any()), agrees=not names, altered=names)

    def everything(self) -> Change:
        """Decide a record replaced by any other."""
        kinds, values = self._grid(keep=2)
        held = np.bincount(kinds.reshape(-1), minlength=len(self.used))
        somewhere = self._leaves_with[0][0] > 0
        possible = int((self._leaves_with[0][0] * held).sum()) >= 2
        depth = max((k.depth for k in self.known), default=0)
        answers = self._answers(self.known, values, kinds.shape)
        agrees = self._some_agree(kinds.reshape(-1), answers, self._leaves_with[depth])
        altered = []
        for k in self.known:
            n_nodes = int((self._leaves_with[k.depth][:, self.used] > 0).any(axis=1).sum())
            found = self._answers([k], values, kinds.shape)[somewhere[kinds.reshape(-1)]]
            if n_nodes > 1 or (len(found) and found.min() != found.max()):
                altered.append(k.name)
        return self._change("everything", "", possible, agrees=agrees, altered=altered)

    def attribute(self, axis: int) -> Change:
        """Decide another value of one attribute: same leaf, same other values."""
        name = self.schema.attributes[axis].name
        kinds, values = self._grid(keep=2, axis=axis)
        n = len(values[axis])
        lines = np.moveaxis(kinds, axis, -1).reshape(-1, n)
        both = np.zeros((n, n), dtype=bool)
        for line in np.unique(lines, axis=0):
            both |= self._open_together[np.ix_(line, line)]
        np.fill_diagonal(both, val=False)
        apart = {k.name: _apart(k.groups.get(name), values[axis]) for k in self.known}
        agrees = both.copy()
        for matrix in apart.values():
            agrees &= ~matrix
        altered = [known for known, matrix in apart.items() if (both & matrix).any()]
        return self._change("attribute", name, bool(both.any()), agrees=bool(agrees.any()), altered=altered)

    def within(self, depth: int) -> Change:
        """Decide another leaf of the same node of a level, all values the same."""
        deepest = max([depth, *(k.depth for k in self.known)])
        possible = self._two_leaves(depth)
        altered = [k.name for k in self.known if k.depth > depth and self._two_nodes(depth, k.depth)]
        name = self.geography.level_names[depth]
        return self._change("within_level", name, possible, agrees=self._two_leaves(deepest), altered=altered)

    def _change(self, kind: Kind, of: str, possible: bool, *, agrees: bool, altered: list[str]) -> Change:
        if not possible:
            return Change(kind, of, "disclosed", self._excluding(kind, of))
        status: Status = "disclosed" if not agrees else "conditional" if altered else "protected"
        return Change(kind, of, status, tuple(altered))

    def _excluding(self, kind: Kind, of: str) -> tuple[str, ...]:
        """Name what excludes every change of a kind: too few places or values, or the rules that close cells."""
        geography, schema = self.geography, self.schema
        if kind == "within_level":
            single = len(geography.leaves) == len(geography.levels[geography.index(of)])
            return ("the geography",) if single or not self.zeros else tuple(z.name for z in self.zeros)
        n = len(schema.attribute(of).labels) if kind == "attribute" else schema.n_cells
        single = n == 1 and (kind == "attribute" or len(geography.leaves) == 1)
        return ("the schema",) if single or not self.zeros else tuple(z.name for z in self.zeros)

    @cached_property
    def _leaf_open(self) -> Bools:
        """Open classes of every leaf, with one more class for what other releases close everywhere."""
        shut = np.zeros((len(self.geography.leaves), 1), dtype=bool)
        return np.concatenate([self.rules.open[-1], shut], axis=1)

    @cached_property
    def used(self) -> Bools:
        """Mark the classes that some cell is in and some leaf leaves open."""
        kinds, _ = self._grid(keep=1)
        held = np.bincount(kinds.reshape(-1), minlength=self._leaf_open.shape[1]) > 0
        return np.asarray(held & self._leaf_open.any(axis=0))

    @cached_property
    def _leaves_with(self) -> tuple[Ints, ...]:
        """Per level, how many leaves of each node leave each used class open."""
        counts = [(self._leaf_open & self.used).astype(np.int64)]
        for first in reversed(self.geography.child_pointers):
            counts.append(np.add.reduceat(counts[-1], first[:-1], axis=0))
        return tuple(reversed(counts))

    @cached_property
    def _open_together(self) -> Bools:
        """Mark the pairs of classes that some leaf leaves open both."""
        patterns = classes(self._leaf_open)[0].astype(np.int64)
        return np.asarray((patterns.T @ patterns) > 0)

    def _two_leaves(self, depth: int) -> bool:
        return bool((self._leaves_with[depth] > 1).any())

    def _two_nodes(self, depth: int, below: int) -> bool:
        """Tell whether some node of a level has two nodes of a lower one with one class open at both."""
        here = (self._leaves_with[below] > 0).astype(np.int64)
        for level in range(below, depth, -1):
            here = np.add.reduceat(here, self.geography.child_pointers[level - 1][:-1], axis=0)
        return bool((here > 1).any())

    def _grid(self, keep: int, axis: int | None = None) -> tuple[Ints, tuple[Ints, ...]]:
        """Return the classes of the cells of the values that stand for all, and these values.

        Args:
            keep: how many of the values that are alike are kept.
            axis: only here do exact statistics tell values apart and are more than one kept; None: everywhere.
        """
        values = tuple(
            self._standing(i, keep if axis in (None, i) else 1, exact=axis in (None, i))
            for i in range(len(self.schema.attributes))
        )
        kinds = self.rules.class_of_cell[self.schema.cells(np.ix_(*values))]
        for zero in self.zeros:
            if zero.everywhere:
                inside = np.ones(kinds.shape, dtype=bool)
                for i, attribute in enumerate(self.schema.attributes):
                    if attribute.name in zero.values:
                        inside &= _along(np.asarray(zero.values[attribute.name])[values[i]], i, kinds.ndim)
                kinds = np.where(inside, self._leaf_open.shape[1] - 1, kinds)
        return kinds, values

    def _standing(self, axis: int, keep: int, *, exact: bool) -> Ints:
        attribute = self.schema.attributes[axis]
        told = [z.values[attribute.name] for z in self.zeros if attribute.name in z.values]
        told_by: list[tuple[int, ...]] = [tuple(map(int, t)) for t in told]
        if exact:
            told_by += [k.groups[attribute.name] for k in self.known if attribute.name in k.groups]
        seen: dict[tuple[int, ...], int] = {}
        out = []
        for value, alike in enumerate(
            zip(*told_by, strict=True) if told_by else [()] * len(attribute.labels)
        ):
            seen[alike] = seen.get(alike, 0) + 1
            if seen[alike] <= keep:
                out.append(value)
        return np.array(out, dtype=np.int64)

    def _answers(self, known: Sequence[Known], values: tuple[Ints, ...], shape: tuple[int, ...]) -> Ints:
        """Return one number a cell: equal where every one of the statistics gives the same answer."""
        grid = np.zeros(shape, dtype=np.int64)
        for i, attribute in enumerate(self.schema.attributes):
            told = [k.groups[attribute.name] for k in known if attribute.name in k.groups]
            if told:
                kept = list(zip(*(np.asarray(t)[values[i]].tolist() for t in told), strict=True))
                number = {alike: n for n, alike in enumerate(dict.fromkeys(kept))}
                grid = grid * len(number) + _along(np.array([number[a] for a in kept]), i, len(shape))
        return np.ascontiguousarray(grid.reshape(-1))

    def _some_agree(self, kinds: Ints, answers: Ints, leaves_with: Ints) -> bool:
        """Tell whether two open (leaf, cell) pairs of one node have one answer."""
        keep = self.used[kinds]
        pairs, held = np.unique(kinds[keep] + len(self.used) * answers[keep], return_counts=True)
        if (held > 1).any() or (leaves_with > 1).any():
            return True
        kind_of, answer = pairs % len(self.used), pairs // len(self.used)
        shared = np.diff(answer, prepend=-1, append=-1) == 0  # another kind has this answer too
        kind_of, answer = kind_of[shared[1:] | shared[:-1]], answer[shared[1:] | shared[:-1]]
        open_here = (leaves_with > 0).astype(np.int64)
        together = (open_here.T @ open_here) > 0
        sharing = np.split(kind_of, np.flatnonzero(np.diff(answer)) + 1)
        return any(together[a, b] for kinds_of_one in sharing for a, b in combinations(kinds_of_one, 2))


def _along(values: NDArray[Any], axis: int, ndim: int) -> NDArray[Any]:
    shape = [1] * ndim
    shape[axis] = len(values)
    return values.reshape(shape)


def _apart(groups: tuple[int, ...] | None, values: Ints) -> Bools:
    """Mark the pairs of values that a statistic tells apart."""
    if groups is None:
        return np.zeros((len(values), len(values)), dtype=bool)
    kept = np.asarray(groups)[values]
    return np.asarray(kept[:, None] != kept[None, :])
