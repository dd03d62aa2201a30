"""Which changes of one record the exact statistics and the public facts leave open: decided by labels, without records.

A record is a leaf and a cell. Every record is counted once in every query, so a change of one record leaves an
exact statistic as it is if and only if the node at its level and the answer of the query both stay the same.
Only changes between cells that public facts leave open count: anything else cannot be the truth. Where bounds meet,
the count that they fix is known as an exact statistic is, at that leaf: a change is left if both records are possible
and it keeps every such count. At one leaf both records are then in the same fixed sets; between two leaves, and where
a record comes or goes, neither is in one.

At a leaf, sets of cells hold least to most records. Sets that are nested or disjoint form a tree: least counts add up
from the innermost sets, what an enclosing set leaves over comes back down, and the two ends that are left for a set are
the fewest and the most records it has in any population that keeps all bounds. One record of a set can be replaced by
one outside, or leave it, in some such population if and only if these ends differ for every set that it leaves or
enters; for a tree of sets this is exact.

Sets that cross are not decided exactly. Where the least counts of such sets and of all that overlap them, added up, are
below each of the most, one record more or less breaks nothing, wherever it is. Elsewhere every record of these sets is
taken to be fixed alone, so that no change may touch it: fewer changes are called possible than there may be, never
more.

Values of an attribute that no rule and no exact statistic tells apart are alike; two of them stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from topdown.arrays import Bools, Ints
from topdown.formats.common import SecretKind, Status
from topdown.model.cell_sets import crossing_pairs, distinct_rows, laminar_family
from topdown.model.geography import Geography
from topdown.model.query import ValueGroups, on_axis
from topdown.model.schema import Schema


@dataclass(frozen=True, eq=False)
class FixedCounts:
    """What bounds fix, beyond the cells that an upper bound of nobody closes.

    Args:
        count: int64 (n_leaves, n_sets), the one count a set can have; -1 where it can have several, or none but 0.
        alone: bool (n_leaves, n_sets), sets of which each record is taken to be fixed alone.
        shut: bool (n_leaves, n_classes), classes that the bounds together leave no room for.
    """

    count: Ints
    alone: Bools
    shut: Bools


def tighten_bounds(sets: Bools, low: Ints, high: Ints, is_open: Bools) -> FixedCounts:
    """Return what bounds on sets of classes fix at each leaf.

    Args:
        sets: bool (n_sets, n_classes), distinct, none empty.
        low, high: int64 (n_leaves, n_sets), least and most records; BOUNDLESS where there is no upper bound.
        is_open: bool (n_leaves, n_classes), classes that some record can be in.
    """
    out = FixedCounts(
        np.full(low.shape, -1, dtype=np.int64), np.zeros(low.shape, bool), np.zeros(is_open.shape, bool)
    )
    common = (sets.astype(np.int64) @ sets.T.astype(np.int64)) > 0
    for part in _linked_sets(common):
        if (high[:, part] == BOUNDLESS).all():
            continue  # lower bounds alone leave room for any record more
        if crossing_pairs(sets[part]).any():
            out.alone[:, part] = _may_break(sets[part], low[:, part], high[:, part], is_open)[:, None]
        else:
            _tighten_family(out, part, sets, low, high, is_open)
    return out


def _linked_sets(common: Bools) -> list[Ints]:
    """Split sets into those that are linked by common classes, smaller sets first."""
    left, out = set(range(len(common))), []
    while left:
        found, new = set[int](), {min(left)}
        while new:
            found |= new
            new = {int(k) for k in np.flatnonzero(common[sorted(new)].any(axis=0))} - found
        left -= found
        out.append(np.array(sorted(found), dtype=np.int64))
    return out


def _may_break(sets: Bools, low: Ints, high: Ints, is_open: Bools) -> Bools:
    """Mark leaves where one record more may break a bound, or the least counts have no place."""
    placed = is_open.astype(np.int64) @ sets.T.astype(np.int64) > 0
    most = np.where(high > 0, high, BOUNDLESS).min(axis=1)
    return np.asarray((low.sum(axis=1) >= most) | ((low > 0) & ~placed).any(axis=1))


def _tighten_family(out: FixedCounts, part: Ints, sets: Bools, low: Ints, high: Ints, is_open: Bools) -> None:
    """Fill in what a laminar family of sets fixes."""
    family = laminar_family(sets[part])
    direct = family.open_directly(is_open)
    up = family.add_up(low[:, part], high[:, part], direct, BOUNDLESS)
    tight = family.come_down(up, direct, BOUNDLESS)
    crowded = (up.least > up.most).any(axis=1)
    for i, s in enumerate(part.tolist()):
        least, most = tight.least[:, i], tight.most[:, i]
        inner = up.least[:, family.outer == i].sum(axis=1)
        out.count[:, s] = np.where((least == most) & (most > 0) & ~crowded, most, -1)
        out.alone[:, s] = crowded
        out.shut[:, sets[s]] |= ((most == 0) & ~crowded)[:, None]
        out.shut[:, family.innermost == i] |= ((most == inner) & ~crowded)[:, None]


BOUNDLESS = 1 << 61  # above every sum of public facts, which may be larger than `NO_LIMIT`
Values = dict[str, tuple[bool, ...]]  # attribute -> which of its values; attributes left out: all of them
MOST_PAIRS = 1 << 22  # pairs of classes looked at in one step


@dataclass(frozen=True, eq=False)
class ZeroRule:
    """A rule that closes cells: those with all of `values`, at the leaves marked in bool (n_leaves,)."""

    name: str
    values: Values
    leaves: Bools


@dataclass(frozen=True, eq=False)
class BoundRule:
    """A rule that bounds the records with all of `values` at each leaf: int64 (n_leaves,), above or below."""

    name: str
    values: Values
    number: Ints
    above: bool


@dataclass(frozen=True, eq=False)
class FixedCount:
    """What one bound has a part in fixing.

    Args:
        name: of the bound.
        inside: bool (n_classes,), classes it speaks of.
        met: bool (n_leaves,), where their count is fixed at the number of the bound.
        alone: bool (n_leaves,), where each of their records is taken to be fixed alone.
    """

    name: str
    inside: Bools
    met: Bools
    alone: Bools


@dataclass(frozen=True, eq=False)
class PossibleRecords:
    """Where records can be and what changes public facts leave.

    Args:
        alike: per attribute, int64 (n_values,), values that no rule tells apart have one number.
        kind: class of each combination of these numbers.
        is_open: bool (n_leaves, n_classes), where a record can be.
        free: bool (n_leaves, n_classes), where one can also come and go, or be taken to another leaf.
        together: bool (n_classes, n_classes), whether a record of one can be replaced by one of the other at a leaf.
        fixed: bounds that fix something, in their order.
        closing: names of the rules that close cells, and of the bounds that close or fix some.
    """

    alike: tuple[Ints, ...]
    kind: Ints
    is_open: Bools
    free: Bools
    together: Bools
    fixed: tuple[FixedCount, ...]
    closing: tuple[str, ...]

    def altered_by_some(self, held: Ints) -> list[str]:
        """Name the bounds whose fixed count some replaced record alters; `held`: cells of each class."""
        if not self.fixed:
            return []
        here = self.is_open.astype(np.float64)
        n_records = int(here.sum(axis=0) @ held)
        inside = here @ (held * np.array([f.inside for f in self.fixed])).T
        met = np.array([f.met for f in self.fixed]).T & (inside > 0) & (inside < n_records)
        alone = np.array([f.alone for f in self.fixed]).T & (inside > 0) & (n_records > 1)
        return [f.name for f, some in zip(self.fixed, (met | alone).any(axis=0), strict=True) if some]

    def altered_along(self, lines: Ints) -> list[str]:
        """Name the bounds whose fixed count a record alters that goes along a line, at one leaf.

        Args:
            lines: (n_lines, n_positions), class of each position.
        """
        if not self.fixed:
            return []
        counts = np.zeros((len(lines), len(self.together)), dtype=np.float32)
        np.add.at(counts, (np.arange(len(lines))[:, None], lines), 1)
        some = (counts > 0).astype(np.float32)
        pairs = some.T @ some > 0
        np.fill_diagonal(pairs, (counts > 1).any(axis=0))
        return [f.name for f, left in zip(self.fixed, self._left, strict=True) if (left & pairs).any()]

    @cached_property
    def _left(self) -> tuple[Bools, ...]:
        """Per bound that fixes something, the pairs of classes between which a record leaves it at some leaf."""
        out = []
        for f in self.fixed:
            kept = f.met | f.alone
            here = self.is_open[kept].astype(np.float32)
            beyond = here * (f.alone[kept][:, None] | ~f.inside)
            out.append(np.asarray((here * f.inside).T @ beyond > 0))
        return tuple(out)


def find_possible_records(
    schema: Schema, n_leaves: int, zeros: Sequence[ZeroRule], bounds: Sequence[BoundRule]
) -> PossibleRecords:
    """Decide which records and changes public facts leave.

    Args:
        schema: of the release.
        n_leaves: number of leaves.
        zeros, bounds: every rule, those of releases that are extended too.
    """
    if not any(b.above for b in bounds):
        bounds = ()  # without an upper bound there is room for any record more
    values_of = [*(z.values for z in zeros), *(b.values for b in bounds)]
    alike = tuple(_alike(a.name, len(a.labels), values_of) for a in schema.attributes)
    firsts = [np.unique(of, return_index=True)[1] for of in alike]
    shape = tuple(map(len, firsts))
    by_rule = [_members(schema, values, firsts).reshape(-1) for values in values_of]
    signature, kind = distinct_rows(np.stack([np.ones(int(np.prod(shape)), bool), *by_rule], axis=1))
    members = signature[:, 1:].T
    inside = members[len(zeros) :]
    above = np.array([b.above for b in bounds], dtype=bool)
    closes = np.concatenate([members[: len(zeros)], inside[above]])
    nobody = [b.number == 0 for b in bounds if b.above]
    is_open = _open_classes(n_leaves, [*(z.leaves for z in zeros), *nobody], closes)
    names = [z.name for z in zeros]
    if not bounds:
        rows = distinct_rows(is_open)[0].astype(np.float32)
        together = np.asarray(rows.T @ rows > 0)
        return PossibleRecords(
            alike, kind.reshape(shape), is_open, is_open, together, (), tuple(dict.fromkeys(names))
        )
    sets, of_bound = _distinct_sets(inside & is_open.any(axis=0))
    low = np.zeros((n_leaves, len(sets)), dtype=np.int64)
    high = np.full((n_leaves, len(sets)), BOUNDLESS, dtype=np.int64)
    for bound, s in zip(bounds, of_bound, strict=True):
        if s >= 0:
            ends, narrower = (high, np.minimum) if bound.above else (low, np.maximum)
            ends[:, s] = narrower(ends[:, s], bound.number)
    met = tighten_bounds(sets, low, high, is_open)
    is_open = is_open & ~met.shut
    moving = is_open & ~_covered(met.alone, sets)
    together = _replaceable_pairs(moving, met.count > 0, sets)
    fixed = []
    for bound, cells, s in zip(bounds, inside, of_bound, strict=True):
        if s >= 0:
            at = (bound.number > 0) & (met.count[:, s] == bound.number)
            found = FixedCount(bound.name, cells, at, met.alone[:, s] & (bound.number > 0))
            fixed += [found] if (found.met | found.alone).any() else []
    biting = {f.name for f in fixed} | {b.name for b in bounds if b.above and (b.number == 0).any()}
    names += [b.name for b in bounds if b.name in biting]
    free = moving & ~_covered(met.count > 0, sets)
    return PossibleRecords(
        alike, kind.reshape(shape), is_open, free, together, tuple(fixed), tuple(dict.fromkeys(names))
    )


def _alike(name: str, n_values: int, values_of: Sequence[Values]) -> Ints:
    """Return a number for each value of an attribute, equal where no rule tells them apart."""
    rows = [values[name] for values in values_of if name in values]
    return distinct_rows(np.array(rows, dtype=bool).reshape(len(rows), n_values).T)[1]


def _members(schema: Schema, values: Values, firsts: Sequence[Ints]) -> Bools:
    """Mark the combinations of values that a rule speaks of, over one value of each number."""
    out = np.ones(tuple(map(len, firsts)), dtype=bool)
    for i, attribute in enumerate(schema.attributes):
        if attribute.name in values:
            out &= on_axis(np.asarray(values[attribute.name])[firsts[i]], i, out.ndim)
    return out


def _open_classes(n_leaves: int, leaves: Sequence[Bools], closes: Bools) -> Bools:
    """Mark the classes that no rule closes at each leaf; `closes`: bool (n_rules, n_classes)."""
    patterns, which = distinct_rows(np.stack([np.ones(n_leaves, dtype=bool), *leaves], axis=1))
    closed = patterns[:, 1:].astype(np.float32) @ closes.astype(np.float32)
    return np.asarray((closed == 0)[which])


def _distinct_sets(inside: Bools) -> tuple[Bools, list[int]]:
    """Return the distinct sets of classes that are not empty, and which one each bound speaks of; -1 for none."""
    sets, which = distinct_rows(inside)
    kept = sets.any(axis=1)
    place = np.where(kept, np.cumsum(kept) - 1, -1)
    return sets[kept], place[which].tolist()


def _covered(chosen: Bools, sets: Bools) -> Bools:
    """Mark the classes in some chosen set of each leaf."""
    return np.asarray(chosen.astype(np.float32) @ sets.astype(np.float32) > 0)


def _replaceable_pairs(moving: Bools, fixed: Bools, sets: Bools) -> Bools:
    """Mark the pairs of classes that some leaf has both and that no set fixed there tells apart."""
    n = moving.shape[1]
    patterns = distinct_rows(np.concatenate([moving, fixed], axis=1))[0]
    apart = (sets[:, :, None] != sets[:, None, :]).reshape(len(sets), n * n).astype(np.float32)
    out = np.zeros((n, n), dtype=bool)
    step = max(MOST_PAIRS // (n * n), 1)
    for first in range(0, len(patterns), step):
        here, kept = patterns[first : first + step, :n], patterns[first : first + step, n:]
        same = (kept.astype(np.float32) @ apart == 0).reshape(-1, n, n)
        out |= (here[:, :, None] & here[:, None, :] & same).any(axis=0)
    return out


@dataclass(frozen=True)
class KnownStatistic:
    """An exact statistic: the level (from the root, 0) and how its query groups the values of attributes."""

    name: str
    depth: int
    groups: ValueGroups


@dataclass(frozen=True)
class NeighbourChange:
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

    kind: SecretKind
    of: str
    status: Status
    exact: tuple[str, ...]


def analyse_neighbours(
    schema: Schema,
    geography: Geography,
    known: Sequence[KnownStatistic],
    zeros: Sequence[ZeroRule],
    bounds: Sequence[BoundRule],
    *,
    whole: Sequence[SecretKind],
) -> tuple[NeighbourChange, ...]:
    """Decide every kind of change: the neighbours' own first, then each attribute, then each level above the leaves.

    Args:
        schema, geography: of the release.
        known: every exact statistic, those of releases that are extended too.
        zeros, bounds: every rule that closes cells, and every bound; the same.
        whole: what may happen to a whole record, presence or everything, in the order of the rows.
    """
    places = find_possible_records(schema, len(geography.leaves), zeros, bounds)
    find = _NeighbourAnalysis(schema, geography, places, tuple(known))
    first = [find.presence() if kind == "presence" else find.everything() for kind in whole]
    attributes = [find.attribute(axis) for axis in range(len(schema.attributes))]
    within = [find.within(depth) for depth in range(len(geography.levels) - 1)]
    return (*first, *attributes, *within)


@dataclass(frozen=True, eq=False)
class _NeighbourAnalysis:
    schema: Schema
    geography: Geography
    places: PossibleRecords
    known: tuple[KnownStatistic, ...]

    def presence(self) -> NeighbourChange:
        """Decide one record more or less: every exact statistic counts it."""
        names = [k.name for k in self.known]
        held = self.places.is_open
        fixed = [f.name for f in self.places.fixed if held[f.met | f.alone][:, f.inside].any()]
        possible = bool(self.places.free.any())
        return self._change("presence", "", possible, agrees=not names, altered=names, fixed=fixed)

    def everything(self) -> NeighbourChange:
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

    def attribute(self, axis: int) -> NeighbourChange:
        """Decide another value of one attribute: same leaf, same other values."""
        name = self.schema.attributes[axis].name
        kinds, values = self._grid(keep=2, axis=axis)
        n = len(values[axis])
        lines = np.unique(np.moveaxis(kinds, axis, -1).reshape(-1, n), axis=0)
        both = np.zeros((n, n), dtype=bool)  # positions of which some line has classes that make a pair
        for line in lines:
            both |= self.places.together[np.ix_(line, line)]
        np.fill_diagonal(both, val=False)
        apart = {k.name: _distinguished_pairs(k.groups.get(name), values[axis]) for k in self.known}
        agrees = both.copy()
        for matrix in apart.values():
            agrees &= ~matrix
        altered = [known for known, matrix in apart.items() if (both & matrix).any()]
        fixed = self.places.altered_along(lines)
        possible, left = bool(both.any()), bool(agrees.any())
        return self._change("attribute", name, possible, agrees=left, altered=altered, fixed=fixed)

    def within(self, depth: int) -> NeighbourChange:
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
        self, kind: SecretKind, of: str, possible: bool, *, agrees: bool, altered: list[str], fixed: list[str]
    ) -> NeighbourChange:
        if not possible:
            return NeighbourChange(kind, of, "disclosed", self._excluding(kind, of))
        names = tuple(dict.fromkeys([*altered, *fixed]))
        status: Status = "disclosed" if not agrees else "conditional" if names else "protected"
        return NeighbourChange(kind, of, status, names)

    def _excluding(self, kind: SecretKind, of: str) -> tuple[str, ...]:
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

    def _count_leaves(self, marks: Bools) -> tuple[Ints, ...]:
        return self.geography.at_every_level(marks.astype(np.int64))

    def _two_leaves(self, depth: int) -> bool:
        return bool((self._free[depth] > 1).any())

    def _two_nodes(self, depth: int, below: int) -> bool:
        """Tell whether some node of a level has two nodes of a lower one with one class free at both."""
        here = (self._free[below] > 0).astype(np.int64)
        return bool((self.geography.upward(here, below, depth) > 1).any())

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
                grid = grid * len(number) + on_axis(np.array([number[a] for a in kept]), i, len(shape))
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

    def _some_differ(self, kinds: Ints, answers: Ints, others: Bools) -> bool:
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


def _distinguished_pairs(groups: tuple[int, ...] | None, values: Ints) -> Bools:
    """Mark the pairs of values that a statistic tells apart."""
    if groups is None:
        return np.zeros((len(values), len(values)), dtype=bool)
    kept = np.asarray(groups)[values]
    return np.asarray(kept[:, None] != kept[None, :])
