"""Which changes of one record the exact statistics and the public facts leave open: decided by labels, without records.

A record is a leaf and a cell. Every record is counted once in every query, so a change of one record leaves an
exact statistic as it is if and only if the node at its level and the answer of the query both stay the same.
Only changes between cells that public facts leave open count: anything else cannot be the truth. Where bounds meet,
the count that they fix is known as an exact statistic is, at that leaf.

Values of an attribute that no rule and no exact statistic tells apart are alike; two of them stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.model.geography import Geography
from topdown.model.possible import Places, ValueBound, Zero, along, find_places
from topdown.model.query import Neighbours
from topdown.model.reading import Groups
from topdown.model.schema import Schema

Kind = Literal["presence", "everything", "attribute", "within_level"]
Status = Literal["protected", "conditional", "disclosed"]
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class KnownStatistic:
    """An exact statistic: the level (from the root, 0) and how its query groups the values of attributes."""

    name: str
    depth: int
    groups: Groups


@dataclass(frozen=True)
class Change:
    """One kind of change of one record and what exact statistics and public facts say of it.

    Args:
        kind: presence (one record more or less), everything (leaf and cell replaced by any others), attribute
            (another value of `of`), within_level (another leaf of the same node of level `of`).
        of: attribute or level; empty for the first two kinds.
        status: protected (no change alters an exact answer or a count that bounds fix), conditional (some do),
            disclosed (every one does, or public facts allow none).
        exact: names of the statistics that some change alters and of the bounds whose fixed count some change
            alters; of what excludes every change if public facts leave none.
    """

    kind: Kind
    of: str
    status: Status
    exact: tuple[str, ...]


def find_changes(
    schema: Schema,
    geography: Geography,
    known: Sequence[KnownStatistic],
    zeros: Sequence[Zero],
    bounds: Sequence[ValueBound],
    neighbours: Neighbours,
) -> tuple[Change, ...]:
    """Decide every kind of change: the neighbours' own first, then each attribute, then each level above the leaves.

    Args:
        schema, geography: of the release.
        known: every exact statistic, those of releases that are extended too.
        zeros, bounds: every rule that closes cells, and every bound; the same.
        neighbours: with "add_remove" the first row is presence, the second everything.
    """
    places = find_places(schema, len(geography.leaves), zeros, bounds)
    find = _ChangeFinder(schema, geography, places, tuple(known))
    first = [find.presence()] if neighbours == "add_remove" else []
    attributes = [find.attribute(axis) for axis in range(len(schema.attributes))]
    within = [find.within(depth) for depth in range(len(geography.levels) - 1)]
    return (*first, find.everything(), *attributes, *within)


@dataclass(frozen=True, eq=False)
class _ChangeFinder:
    schema: Schema
    geography: Geography
    places: Places
    known: tuple[KnownStatistic, ...]

    def presence(self) -> Change:
        """Decide one record more or less: every exact statistic counts it."""
        names = [k.name for k in self.known]
        fixed = [f.name for f in self.places.fixed if self._holds(f.inside, f.met | f.alone)]
        possible = bool(self.places.free.any())
        return self._change("presence", "", possible, agrees=not names, altered=names, fixed=fixed)

    def everything(self) -> Change:
        """Decide a record replaced by any other."""
        kinds, values = self._grid(keep=2)
        held = np.bincount(kinds.reshape(-1), minlength=len(self.places.together))
        twice = np.diag(held > 1)  # two cells of one class
        others = self.places.together & (twice | ~np.eye(len(held), dtype=bool))
        n_free = int(self.places.free.any(axis=1).sum())
        depth = max((k.depth for k in self.known), default=0)
        answers = self._answers(self.known, values, kinds.shape)
        agrees = self._some_agree(kinds.reshape(-1), answers, self._free[depth])
        altered = []
        for k in self.known:
            n_nodes = int((self._free[k.depth] > 0).any(axis=1).sum())
            if n_nodes > 1 or self._some_differ(kinds, self._answers([k], values, kinds.shape), others):
                altered.append(k.name)
        fixed = self.places.altered_by_some(held)
        possible = bool(others.any()) or n_free > 1
        return self._change("everything", "", possible, agrees=agrees, altered=altered, fixed=fixed)

    def attribute(self, axis: int) -> Change:
        """Decide another value of one attribute: same leaf, same other values."""
        name = self.schema.attributes[axis].name
        kinds, values = self._grid(keep=2, axis=axis)
        n = len(values[axis])
        lines = np.unique(np.moveaxis(kinds, axis, -1).reshape(-1, n), axis=0)
        both = self._met_in(lines, self.places.together)
        apart = {k.name: _apart(k.groups.get(name), values[axis]) for k in self.known}
        agrees = both.copy()
        for matrix in apart.values():
            agrees &= ~matrix
        altered = [known for known, matrix in apart.items() if (both & matrix).any()]
        fixed = self.places.altered_along(lines)
        possible, left = bool(both.any()), bool(agrees.any())
        return self._change("attribute", name, possible, agrees=left, altered=altered, fixed=fixed)

    def within(self, depth: int) -> Change:
        """Decide another leaf of the same node of a level, all values the same."""
        deepest = max([depth, *(k.depth for k in self.known)])
        altered = [k.name for k in self.known if k.depth > depth and self._two_nodes(depth, k.depth)]
        fixed = []
        if self.places.fixed:
            leaf_in = self.geography.ancestors_of_leaves[depth]
            elsewhere = self.places.is_open & (self._open[depth] > 1)[leaf_in]
            fixed = [f.name for f in self.places.fixed if elsewhere[f.met | f.alone][:, f.inside].any()]
        name, possible = self.geography.level_names[depth], self._two_leaves(depth)
        agrees = self._two_leaves(deepest)
        return self._change("within_level", name, possible, agrees=agrees, altered=altered, fixed=fixed)

    def _change(
        self, kind: Kind, of: str, possible: bool, *, agrees: bool, altered: list[str], fixed: list[str]
    ) -> Change:
        if not possible:
            return Change(kind, of, "disclosed", self._excluding(kind, of))
        names = tuple(dict.fromkeys([*altered, *fixed]))
        status: Status = "disclosed" if not agrees else "conditional" if names else "protected"
        return Change(kind, of, status, names)

    def _excluding(self, kind: Kind, of: str) -> tuple[str, ...]:
        """Name what excludes every change of a kind: too few places or values, or the rules about records."""
        geography, schema, rules = self.geography, self.schema, self.places.closing
        if kind == "within_level":
            single = len(geography.leaves) == len(geography.levels[geography.index(of)])
            return ("the geography",) if single or not rules else rules
        n = len(schema.attribute(of).labels) if kind == "attribute" else schema.n_cells
        single = n == 1 and (kind == "attribute" or len(geography.leaves) == 1)
        return ("the schema",) if single or not rules else rules

    @cached_property
    def _free(self) -> tuple[Ints, ...]:
        """Per level, how many leaves of each node have each class free."""
        return self._count_leaves(self.places.free)

    @cached_property
    def _open(self) -> tuple[Ints, ...]:
        """Per level, how many leaves of each node have each class open."""
        return self._count_leaves(self.places.is_open)

    def _count_leaves(self, marks: Marks) -> tuple[Ints, ...]:
        return self.geography.at_every_level(marks.astype(np.int64))

    def _two_leaves(self, depth: int) -> bool:
        return bool((self._free[depth] > 1).any())

    def _two_nodes(self, depth: int, below: int) -> bool:
        """Tell whether some node of a level has two nodes of a lower one with one class free at both."""
        here = (self._free[below] > 0).astype(np.int64)
        return bool((self.geography.upward(here, below, depth) > 1).any())

    def _holds(self, inside: Marks, leaves: Marks) -> bool:
        """Tell whether some class can have records at some of these leaves."""
        return bool(self.places.is_open[leaves][:, inside].any())

    def _met_in(self, lines: Ints, pairs: Marks) -> Marks:
        """Mark the pairs of different positions of which some line has classes that make a pair."""
        both = np.zeros((lines.shape[1], lines.shape[1]), dtype=bool)
        for line in lines:
            both |= pairs[np.ix_(line, line)]
        np.fill_diagonal(both, val=False)
        return both

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
        alike = [of[kept] for of, kept in zip(self.places.alike, values, strict=True)]
        return self.places.kind[np.ix_(*alike)], values

    def _standing(self, axis: int, keep: int, *, exact: bool) -> Ints:
        name = self.schema.attributes[axis].name
        labels = [tuple(self.places.alike[axis].tolist())]
        if exact:
            labels += [k.groups[name] for k in self.known if name in k.groups]
        seen: dict[tuple[int, ...], int] = {}
        out = []
        for value, alike in enumerate(zip(*labels, strict=True)):
            seen[alike] = seen.get(alike, 0) + 1
            if seen[alike] <= keep:
                out.append(value)
        return np.array(out, dtype=np.int64)

    def _answers(
        self, known: Sequence[KnownStatistic], values: tuple[Ints, ...], shape: tuple[int, ...]
    ) -> Ints:
        """Return one number a cell: equal where every one of the statistics gives the same answer."""
        grid = np.zeros(shape, dtype=np.int64)
        for i, attribute in enumerate(self.schema.attributes):
            groups = [k.groups[attribute.name] for k in known if attribute.name in k.groups]
            if groups:
                kept = list(zip(*(np.asarray(g)[values[i]].tolist() for g in groups), strict=True))
                number = {alike: n for n, alike in enumerate(dict.fromkeys(kept))}
                grid = grid * len(number) + along(np.array([number[a] for a in kept]), i, len(shape))
        return np.ascontiguousarray(grid.reshape(-1))

    def _some_agree(self, kinds: Ints, answers: Ints, free: Ints) -> bool:
        """Tell whether two records of one node that a change leads between have one answer.

        Args:
            kinds, answers: of every cell.
            free: leaves of each node where each class is free.
        """
        n = len(self.places.together)
        keep = np.diagonal(self.places.together)[kinds]
        pairs, held = np.unique(kinds[keep] + n * answers[keep], return_counts=True)
        if (held > 1).any() or (free > 1).any():
            return True
        kind_of, answer = pairs % n, pairs // n
        order = np.argsort(answer, kind="stable")
        kind_of, answer = kind_of[order], answer[order]
        shared = np.diff(answer, prepend=-1, append=-1) == 0  # another kind has this answer too
        kind_of, answer = kind_of[shared[1:] | shared[:-1]], answer[shared[1:] | shared[:-1]]
        here = (free > 0).astype(np.float32)
        together = (here.T @ here > 0) | self.places.together
        sharing = np.split(kind_of, np.flatnonzero(np.diff(answer)) + 1)
        return any(together[a, b] for kinds_of_one in sharing for a, b in combinations(kinds_of_one, 2))

    def _some_differ(self, kinds: Ints, answers: Ints, others: Marks) -> bool:
        """Tell whether two records that a change leads between have two answers, wherever they are."""
        least = np.full(len(others), answers.max(initial=0))
        most = np.full(len(others), answers.min(initial=0))
        np.minimum.at(least, kinds.reshape(-1), answers)
        np.maximum.at(most, kinds.reshape(-1), answers)
        free = self.places.free.any(axis=0)
        if free.any() and least[free].min() != most[free].max():
            return True
        differ = (least[:, None] != most[None, :]) | (most[:, None] != least[None, :])  # of some two cells
        return bool((others & differ).any())


def _apart(groups: tuple[int, ...] | None, values: Ints) -> Marks:
    """Mark the pairs of values that a statistic tells apart."""
    if groups is None:
        return np.zeros((len(values), len(values)), dtype=bool)
    kept = np.asarray(groups)[values]
    return np.asarray(kept[:, None] != kept[None, :])
