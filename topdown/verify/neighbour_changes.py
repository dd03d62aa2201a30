"""What exact statistics and limits say of each kind of change of one record, decided by counting.

Two records agree on every exact statistic if and only if they lie in the same node of the deepest level of any of
them and give the same answers. So some two agree if and only if there are more places for a record than pairs of
(node, answers): the pigeonhole principle. A count that limits fix parts the records of its leaf: those outside
change as before, those inside only among themselves. Only attributes that some rule mentions decide where records can
be; limits on counts matter only if some are from above, as there is always room for more records than the least.

Where limits fix counts: a set of classes is the sum of the sets right inside it and of the classes that are in none of
these; what the whole can be limits the parts, and the parts limit the whole. Sets that cross are not narrowed: they fix
nothing where all least counts of their cluster together are below each of its limits, and elsewhere no record of the
cluster may be touched. Nothing here is shared with the modules that write certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from topdown.arrays import Bools, Ints
from topdown.verify.public_tree import Tree
from topdown.verify.query_labels import Groups, Schema

Name = int | tuple[int]  # a set, or (set,): its classes that are in no set inside it


@dataclass(frozen=True, eq=False)
class CountLimits:
    """What limits say of the counts of sets of classes at the leaves.

    Args:
        sets: one row of classes a set.
        least, most: (sets, leaves); `most` is negative where there is no limit.
    """

    sets: Bools
    least: Ints
    most: Ints


@dataclass(frozen=True, eq=False)
class Propagated:
    """What limits decide of counts.

    Args:
        fixed_count: (sets, leaves), the only count above 0 that is left, else 0.
        untouchable: (sets, leaves), where no record of the set may be touched.
        emptied: (leaves, classes), where limits leave no room for a class.
    """

    fixed_count: Ints
    untouchable: Bools
    emptied: Bools


def propagate_limits(limits: CountLimits, open_at: Bools) -> Propagated:
    """Return what limits decide at leaves that have some classes open."""
    n_sets, n_leaves = limits.least.shape
    out = Propagated(
        np.zeros((n_sets, n_leaves), dtype=np.int64),
        np.zeros((n_sets, n_leaves), dtype=bool),
        np.zeros(open_at.shape, dtype=bool),
    )
    for cluster in _clusters(limits.sets):
        if (limits.most[cluster] < 0).all():
            continue
        if _crosses(limits.sets[cluster]):
            tight = _without_slack(limits, cluster, open_at)
            out.untouchable[cluster] = tight
        else:
            _narrow_nested(limits, cluster, open_at, out)
    return out


def _clusters(sets: Bools) -> list[list[int]]:
    """Return the sets that hang together by classes they share."""
    out: list[tuple[list[int], Bools]] = []
    for i, classes in enumerate(sets):
        near = [c for c in out if (c[1] & classes).any()]
        out = [c for c in out if not (c[1] & classes).any()]
        members = [i, *(m for c in near for m in c[0])]
        out.append((sorted(members), np.any([classes, *(c[1] for c in near)], axis=0)))
    return [members for members, _ in out]


def _crosses(sets: Bools) -> bool:
    """Tell whether two sets overlap and neither holds the other."""
    for i, one in enumerate(sets):
        for other in sets[:i]:
            both = int((one & other).sum())
            if both and both < min(int(one.sum()), int(other.sum())):
                return True
    return False


def _without_slack(limits: CountLimits, cluster: list[int], open_at: Bools) -> Bools:
    """Mark the leaves where sets that cross may leave no room: least counts reach a limit, or nobody can be counted."""
    total = limits.least[cluster].sum(axis=0)
    out = np.zeros(len(open_at), dtype=bool)
    for s in cluster:
        out |= (limits.most[s] > 0) & (total >= limits.most[s])
        out |= (limits.least[s] > 0) & ~open_at[:, limits.sets[s]].any(axis=1)
    return out


def _narrow_nested(limits: CountLimits, cluster: list[int], open_at: Bools, out: Propagated) -> None:
    """Write what nested sets decide: each is narrowed by those around and inside it until nothing moves."""
    sets = {s: set(np.flatnonzero(limits.sets[s]).tolist()) for s in cluster}
    above = {s: [t for t in cluster if sets[s] < sets[t]] for s in cluster}
    inside = {
        t: [s for s in cluster if above[s] and min(above[s], key=lambda u: len(sets[u])) == t]
        for t in cluster
    }
    own = {s: sorted(sets[s].difference(*(sets[t] for t in inside[s]))) for s in cluster}
    # So many records meet every least count, with room for one more: no end above this makes a difference.
    plenty = limits.least[cluster].sum(axis=0) + 1
    low: dict[Name, Ints] = {s: limits.least[s].copy() for s in cluster}
    high: dict[Name, Ints] = {
        s: np.where(limits.most[s] < 0, plenty, np.minimum(limits.most[s], plenty)) for s in cluster
    }
    for s in cluster:
        low[s,] = np.zeros_like(plenty)
        high[s,] = np.where(open_at[:, own[s]].any(axis=1), plenty, 0)
    for _ in range(2 * len(cluster) + 1):  # a tree has no longer way up and down
        moved = [_narrow_whole_and_parts(low, high, s, [*inside[s], (s,)]) for s in cluster]
        if not any(moved):
            break
    wrong = np.any([low[k] > high[k] for k in low], axis=0)
    for s in cluster:
        out.untouchable[s] = wrong
        out.fixed_count[s] = np.where(~wrong & (low[s] == high[s]), high[s], 0)
        out.emptied[np.ix_(~wrong & (high[s] == 0), sorted(sets[s]))] = True
        out.emptied[np.ix_(~wrong & (high[s,] == 0), own[s])] = True


def _narrow_whole_and_parts(
    low: dict[Name, Ints], high: dict[Name, Ints], whole: Name, parts: Sequence[Name]
) -> bool:
    """Narrow a set and its parts by each other; tell whether anything moved."""
    before = [(low[k], high[k]) for k in (whole, *parts)]
    fewest = np.sum([low[p] for p in parts], axis=0)
    most = np.sum([high[p] for p in parts], axis=0)
    low[whole], high[whole] = np.maximum(low[whole], fewest), np.minimum(high[whole], most)
    for p in parts:
        others_low, others_high = fewest - low[p], most - high[p]
        low[p], high[p] = (
            np.maximum(low[p], low[whole] - others_high),
            np.minimum(high[p], high[whole] - others_low),
        )
    after = [(low[k], high[k]) for k in (whole, *parts)]
    return not all(
        np.array_equal(a, b)
        for old, new in zip(before, after, strict=True)
        for a, b in zip(old, new, strict=True)
    )


RENUMBER = 30  # rules between two renumberings: up to 2^31 classes times 2^30 fit a whole number


@dataclass(frozen=True)
class Closing:
    """A rule that no record breaks: where `leaves` are marked, nobody has values marked 1 in all of `values`."""

    name: str
    values: Groups
    leaves: Bools


@dataclass(frozen=True)
class Limit:
    """A rule that counts: at each leaf those with values marked 1 in all of `values` are at most or least `number`."""

    name: str
    values: Groups
    number: Ints
    most: bool


@dataclass(frozen=True, eq=False)
class FixedCount:
    """Where one limit fixes a count.

    Args:
        name: of the limit.
        classes: that it counts.
        at_limit: leaves where their count can only be the limit's.
        untouchable: leaves where none of their records may be touched.
    """

    name: str
    classes: Bools
    at_limit: Bools
    untouchable: Bools


@dataclass(frozen=True, eq=False)
class FreeCells:
    """What the rules leave open, by classes of cells that no rule tells apart.

    Args:
        sizes: number of values of every attribute.
        attributes: those that the rules mention; all others are left out.
        class_of: class of each combination of their values, int64, one axis an attribute.
        open_at: (leaves, classes), whether a record can be there.
        movable: per level, (nodes, classes), whether a record can come and go at some leaf of the node.
        exchanges: (any, classes), classes between which a record can change at one leaf but not come or go.
        fixed: limits that fix a count somewhere.
        rules: names of rules that close or fix something, or could.
    """

    sizes: dict[str, int]
    attributes: tuple[str, ...]
    class_of: Ints
    open_at: Bools
    movable: tuple[Bools, ...]
    exchanges: Bools
    fixed: tuple[FixedCount, ...]
    rules: tuple[str, ...]

    @cached_property
    def n_cells(self) -> Ints:
        """Number of cells of each class."""
        others = prod(n for name, n in self.sizes.items() if name not in self.attributes)
        return np.bincount(self.class_of.reshape(-1), minlength=self.open_at.shape[1]) * others

    @cached_property
    def n_movable_nodes(self) -> tuple[Ints, ...]:
        """Per level, number of nodes where records of each class can come and go."""
        return tuple(level.sum(axis=0, dtype=np.int64) for level in self.movable)

    @cached_property
    def exchangeable(self) -> Bools:
        """Mark the pairs of classes between which a record can change at one leaf."""
        leaves, groups = self.movable[-1].astype(np.float32), self.exchanges.astype(np.float32)
        return np.asarray((leaves.T @ leaves > 0) | (groups.T @ groups > 0), dtype=bool)

    @cached_property
    def open_where_fixed(self) -> tuple[tuple[Bools, Bools], ...]:
        """Per fixed count, the distinct sets of classes open at its `at_limit` leaves and at its `untouchable` ones."""
        return tuple(
            (_distinct_rows(self.open_at[f.at_limit]), _distinct_rows(self.open_at[f.untouchable]))
            for f in self.fixed
        )

    def values_of(self, attribute: str, classes: Bools) -> Ints:
        """Return the values of an attribute that records of some classes can have."""
        marked = classes[self.class_of]
        if attribute not in self.attributes:
            return np.arange(self.sizes[attribute] * bool(marked.any()))
        others = tuple(i for i, name in enumerate(self.attributes) if name != attribute)
        return np.flatnonzero(marked.any(axis=others))

    def classes_along(self, attribute: str) -> list[Ints]:
        """Return the distinct rows of classes that one attribute goes through while all others stay."""
        last = np.moveaxis(self.class_of, self.attributes.index(attribute), -1)
        rows = np.ascontiguousarray(last.reshape(-1, self.sizes[attribute]))
        return list({row.tobytes(): row for row in rows}.values())

    def numbered(self, groups: Groups) -> Ints:
        """Return a number for each combination of groups of values, in the shape of `class_of`."""
        out = np.zeros(self.class_of.shape, dtype=np.int64)
        for i, name in enumerate(self.attributes):
            if name in groups:
                shape = [1] * len(self.attributes)
                shape[i] = -1
                out = out * (max(groups[name]) + 1) + np.array(groups[name], dtype=np.int64).reshape(shape)
        return out


def free_cells(
    schema: Schema, tree: Tree, closings: Sequence[Closing], limits: Sequence[Limit] = ()
) -> FreeCells:
    """Return what some rules leave open."""
    if all(not limit.most for limit in limits):
        limits = ()
    sizes = {a.name: len(a.group_labels) for a in schema.attributes}
    every: list[Closing | Limit] = [*closings, *limits]
    attributes = tuple(name for name in sizes if any(name in rule.values for rule in every))
    shape = tuple(sizes[name] for name in attributes)
    class_of = np.zeros(shape, dtype=np.int64)
    for i, rule in enumerate(every):
        class_of = 2 * class_of + _covered_cells(rule, attributes, shape)
        if i % RENUMBER == RENUMBER - 1:
            class_of = np.unique(class_of, return_inverse=True)[1].reshape(shape)
    class_of = np.unique(class_of, return_inverse=True)[1].reshape(shape)
    example = np.zeros(int(class_of.max()) + 1, dtype=np.int64)
    example[class_of.reshape(-1)] = np.arange(class_of.size)
    open_at = np.ones((tree.n_leaves, len(example)), dtype=bool)
    for closing in closings:
        covered = _covered_cells(closing, attributes, shape).reshape(-1)[example]
        open_at[np.ix_(closing.leaves, covered)] = False
    counted = [_covered_cells(limit, attributes, shape).reshape(-1)[example] for limit in limits]
    for limit, classes in zip(limits, counted, strict=True):
        if limit.most:
            open_at[np.ix_(limit.number == 0, classes)] = False
    movable, exchanges, fixed = _fix_counts(open_at, limits, counted)
    names = {f.name for f in fixed} | {x.name for x in limits if x.most and not x.number.all()}
    rules = [c.name for c in closings] + [x.name for x in limits if x.name in names]
    # per level, the nodes that have a leaf where a class is movable
    out = [movable]
    for depth in range(len(tree.names) - 1, 0, -1):
        above = np.zeros((len(tree.geocodes[depth - 1]), movable.shape[1]), dtype=bool)
        for nodes_above, nodes in zip(above.T, out[-1].T, strict=True):
            nodes_above[tree.parent[depth][nodes]] = True
        out.append(above)
    return FreeCells(
        sizes, attributes, class_of, open_at, tuple(reversed(out)), exchanges, fixed,
        tuple(dict.fromkeys(rules)),
    )  # fmt: skip


def _fix_counts(
    open_at: Bools, limits: Sequence[Limit], counted: Sequence[Bools]
) -> tuple[Bools, Bools, tuple[FixedCount, ...]]:
    """Decide which counts the limits fix, and which changes of a record that leaves possible.

    What limits leave no room for is taken from `open_at`.

    Returns:
        (leaves, classes) where a record can come and go; (any, classes) between which one can change at a leaf; counts.
    """
    if not limits:
        return open_at, open_at[:0], ()
    somewhere = open_at.any(axis=0)
    of_set: dict[bytes, list[int]] = {}  # limits by the set of classes that they count
    for i, classes in enumerate(counted):
        if (classes & somewhere).any():
            of_set.setdefault((classes & somewhere).tobytes(), []).append(i)
    sets = np.array([np.frombuffer(key, dtype=bool) for key in of_set]).reshape(len(of_set), open_at.shape[1])
    least = np.zeros((len(of_set), len(open_at)), dtype=np.int64)
    most = np.full((len(of_set), len(open_at)), -1, dtype=np.int64)
    for s, members in enumerate(of_set.values()):
        for i in members:
            if limits[i].most:
                most[s] = np.where((most[s] < 0) | (limits[i].number < most[s]), limits[i].number, most[s])
            else:
                least[s] = np.maximum(least[s], limits[i].number)
    found = propagate_limits(CountLimits(sets, least, most), open_at)
    open_at &= ~found.emptied
    fixed = []
    for i in range(len(limits)):
        for s, members in enumerate(of_set.values()):
            number = limits[i].number
            at_limit = (number > 0) & (found.fixed_count[s] == number)
            untouchable = (number > 0) & found.untouchable[s]
            if i in members and (at_limit | untouchable).any():
                fixed.append(FixedCount(limits[i].name, counted[i], at_limit, untouchable))
    movable = open_at.copy()
    for s, classes in enumerate(sets):
        movable[np.ix_(found.untouchable[s] | (found.fixed_count[s] > 0), classes)] = False
    return movable, _exchanges(open_at, sets, found), tuple(fixed)


def _exchanges(open_at: Bools, sets: Bools, found: Propagated) -> Bools:
    """Return the groups of open classes in the same fixed counts of a leaf: a record can change between them."""
    some_fixed = np.flatnonzero((found.fixed_count > 0).any(axis=0))
    patterns = np.concatenate(
        [open_at[some_fixed], (found.fixed_count.T > 0)[some_fixed], found.untouchable.T[some_fixed]], axis=1
    )
    out = []
    for pattern in _distinct_rows(patterns):
        here, fixed, untouchable = np.split(pattern, (open_at.shape[1], open_at.shape[1] + len(sets)))
        here = here & ~sets[untouchable].any(axis=0)
        memberships = sets[fixed][:, here].T  # of each class here, the fixed counts that it is in
        groups: dict[bytes, list[int]] = {}
        for member, counts in zip(np.flatnonzero(here).tolist(), memberships, strict=True):
            if counts.any():
                groups.setdefault(counts.tobytes(), []).append(member)
        for members in groups.values():
            group = np.zeros_like(here)
            group[members] = True
            out.append(group)
    return _distinct_rows(np.array(out, dtype=bool).reshape(-1, open_at.shape[1]))


def _distinct_rows(rows: Bools) -> Bools:
    last = {row.tobytes(): i for i, row in enumerate(rows)}
    return np.asarray(rows[sorted(last.values())])


def _covered_cells(rule: Closing | Limit, attributes: tuple[str, ...], shape: tuple[int, ...]) -> Bools:
    """Mark the combinations of values that a rule speaks of."""
    out = np.ones(shape, dtype=bool)
    for i, name in enumerate(attributes):
        if name in rule.values:
            along = [1] * len(attributes)
            along[i] = -1
            out &= np.array(rule.values[name], dtype=bool).reshape(along)
    return out


NOTHING = ("nothing",)  # stands for what excludes a change until it is named


@dataclass(frozen=True)
class Statistic:
    """An exact statistic: its level (index from the root) and what its query tells apart."""

    name: str
    depth: int
    groups: Groups


@dataclass(frozen=True)
class DerivedChange:
    """One kind of change: `of` names the attribute or level; `status` and `exact` as a certificate states them."""

    kind: str
    of: str
    status: str
    exact: tuple[str, ...]


def derive_changes(
    schema: Schema,
    tree: Tree,
    closings: Sequence[Closing],
    limits: Sequence[Limit],
    statistics: Sequence[Statistic],
    *,
    whole: Sequence[str],
) -> tuple[DerivedChange, ...]:
    """Return every kind of change in the order of a certificate: those of `whole` records, attributes, levels."""
    free = free_cells(schema, tree, closings, limits)
    decide = {"presence": _presence_change, "everything": _everything_change}
    out = [decide[kind](free, statistics) for kind in whole]
    out += [_attribute_change(free, statistics, name) for name in free.sizes]
    out += [_within_level_change(free, tree, statistics, depth) for depth in range(len(tree.names) - 1)]
    return tuple(replace(c, exact=_excluded_by(c, free, tree)) if c.exact is NOTHING else c for c in out)


def _excluded_by(change: DerivedChange, free: FreeCells, tree: Tree) -> tuple[str, ...]:
    """Name what leaves no change of a kind: too few areas or values, or else the rules."""
    if change.kind == "within_level":
        too_few = len(tree.geocodes[tree.names.index(change.of)]) == tree.n_leaves
        return free.rules if free.rules and not too_few else ("the geography",)
    if change.kind == "attribute":
        too_few = free.sizes[change.of] == 1
    else:
        too_few = prod(free.sizes.values()) == 1 and tree.n_leaves == 1
    return free.rules if free.rules and not too_few else ("the schema",)


def _verdict(
    kind: str, of: str, *, possible: bool, agree: bool, altered: list[str], fixed: list[str]
) -> DerivedChange:
    """Return the status of a kind of change.

    Args:
        possible: whether the rules leave such a change at all.
        agree: whether some such change alters no exact statistic.
        altered: exact statistics that some such change alters.
        fixed: limits whose fixed counts some such change alters.
    """
    if not possible:
        return DerivedChange(kind, of, "disclosed", NOTHING)
    names = tuple(dict.fromkeys([*altered, *fixed]))
    return DerivedChange(
        kind, of, "disclosed" if not agree else "conditional" if names else "protected", names
    )


def _presence_change(free: FreeCells, statistics: Sequence[Statistic]) -> DerivedChange:
    """Decide about one record more or less: every statistic counts it, and every fixed count that it is in."""
    names = [s.name for s in statistics]
    fixed = [f.name for f in free.fixed if free.open_at[np.ix_(f.at_limit | f.untouchable, f.classes)].any()]
    possible = bool(free.movable[-1].any())
    return _verdict("presence", "", possible=possible, agree=not names, altered=names, fixed=fixed)


def _everything_change(free: FreeCells, statistics: Sequence[Statistic]) -> DerivedChange:
    """Decide about a record that is replaced by any other, anywhere.

    Records that can come and go are (leaf, cell); those that can only be exchanged at their leaf are cells of one
    group. Some two agree on all exact statistics if there are more of them than different answers.
    """
    n_records = int(free.n_cells @ free.n_movable_nodes[-1])
    answer_groups = _combined_groups(statistics, free.sizes)
    n_other_answers = prod(max(answer_groups[a]) + 1 for a in free.sizes if a not in free.attributes)
    deepest = max((s.depth for s in statistics), default=0)
    agree = n_records > _n_distinct_answers(free, answer_groups, deepest) * n_other_answers
    answer_of = free.numbered(answer_groups)
    exchanges = [group for group in free.exchanges if int(free.n_cells[group].sum()) > 1]
    for group in exchanges:
        n_answers = len(np.unique(answer_of[group[free.class_of]])) * n_other_answers
        agree |= int(free.n_cells[group].sum()) > n_answers
    movable = free.movable[-1].any(axis=0)
    altered = [
        s.name
        for s in statistics
        if int(free.movable[s.depth].any(axis=1).sum()) > 1
        or any(
            len({groups[v] for v in free.values_of(name, classes)}) > 1
            for classes in (movable, *exchanges)
            for name, groups in s.groups.items()
        )
    ]
    possible, fixed = n_records > 1 or bool(exchanges), _limits_on_everything(free)
    return _verdict("everything", "", possible=possible, agree=agree, altered=altered, fixed=fixed)


def _limits_on_everything(free: FreeCells) -> list[str]:
    """Return the limits whose fixed count some record leaves for another, or that fix one of two records by itself."""
    if not free.fixed:
        return []
    n_records = free.open_at.astype(np.int64) * free.n_cells
    in_all, out = int(n_records.sum()), []
    for f in free.fixed:
        counted = n_records[:, f.classes].sum(axis=1)
        left = f.at_limit & (counted > 0) & (counted < in_all)
        left |= f.untouchable & (counted > 0) & (in_all > 1)
        out += [f.name] if left.any() else []
    return out


def _combined_groups(statistics: Sequence[Statistic], sizes: dict[str, int]) -> Groups:
    """Return numbers of the values of every attribute, equal where no statistic tells them apart."""
    out = {}
    for name, n in sizes.items():
        answers = list(zip(*(s.groups.get(name, (0,) * n) for s in statistics), strict=True)) or [()] * n
        number = {answer: i for i, answer in enumerate(dict.fromkeys(answers))}
        out[name] = tuple(number[answer] for answer in answers)
    return out


def _n_distinct_answers(free: FreeCells, answer_groups: Groups, depth: int) -> int:
    """Count the pairs of a node of a level and an answer of the rules' attributes that some record can have."""
    answer_of = free.numbered(answer_groups).reshape(-1)
    has_class: Bools = np.zeros((int(answer_of.max()) + 1, len(free.n_movable_nodes[-1])), dtype=bool)
    has_class[answer_of, free.class_of.reshape(-1)] = True
    kinds_of_answer, n_alike = np.unique(has_class, axis=0, return_counts=True)
    kinds_of_node, n_nodes = np.unique(free.movable[depth], axis=0, return_counts=True)
    meets = (kinds_of_node.astype(np.float32) @ kinds_of_answer.T.astype(np.float32)) > 0
    return sum(int(n) * int(row @ n_alike) for n, row in zip(n_nodes, meets.astype(np.int64), strict=True))


def _attribute_change(free: FreeCells, statistics: Sequence[Statistic], name: str) -> DerivedChange:
    """Decide about a record whose value of one attribute is replaced, at its leaf."""
    n = free.sizes[name]
    pairs: Bools = np.zeros((n, n), dtype=bool)  # values that some record can change between
    if name in free.attributes:
        for row in free.classes_along(name):
            pairs |= free.exchangeable[np.ix_(row, row)]
    else:
        pairs |= bool(free.exchangeable.any())
    pairs &= ~np.eye(n, dtype=bool)
    differs = {
        s.name: np.not_equal.outer(s.groups[name], s.groups[name]) for s in statistics if name in s.groups
    }
    agreeing = pairs & ~np.any([*differs.values(), np.zeros_like(pairs)], axis=0)
    altered = [statistic for statistic, different in differs.items() if bool((pairs & different).any())]
    possible, agree = bool(pairs.any()), bool(agreeing.any())
    fixed = _limits_on_attribute(free, name)
    return _verdict("attribute", name, possible=possible, agree=agree, altered=altered, fixed=fixed)


def _limits_on_attribute(free: FreeCells, name: str) -> list[str]:
    """Return the limits whose fixed count a record leaves, or that fix it by itself, when one attribute is replaced."""
    if name in free.attributes:
        rows = free.classes_along(name)
    else:
        rows = list(np.repeat(np.arange(free.open_at.shape[1])[:, None], free.sizes[name], 1))
    out = []
    for f, (at_limit, untouchable) in zip(free.fixed, free.open_where_fixed, strict=True):
        for row in rows:
            counted = f.classes[row]
            leaves_it = at_limit[:, row[counted]].any(axis=1) & at_limit[:, row[~counted]].any(axis=1)
            touched = untouchable[:, row[counted]].any(axis=1) & (untouchable[:, row].sum(axis=1) > 1)
            if leaves_it.any() or touched.any():
                out.append(f.name)
                break
    return out


def _within_level_change(
    free: FreeCells, tree: Tree, statistics: Sequence[Statistic], depth: int
) -> DerivedChange:
    """Decide about a record that moves to another leaf of its node of a level, with its values."""

    def two_in_one(level: int, above: int) -> bool:
        # more nodes than nodes above them: two lie in the same one
        return bool((free.n_movable_nodes[level] > free.n_movable_nodes[above]).any())

    deepest = max([depth, *(s.depth for s in statistics)])
    altered = [s.name for s in statistics if s.depth > depth and two_in_one(s.depth, depth)]
    fixed = []
    if free.fixed:
        node_of = tree.ancestors[depth]
        n_open = np.stack([np.bincount(node_of, at_leaves) for at_leaves in free.open_at.T], axis=1)
        can_move = free.open_at & (n_open[node_of] > 1)
        fixed = [f.name for f in free.fixed if can_move[np.ix_(f.at_limit | f.untouchable, f.classes)].any()]
    return _verdict(
        "within_level",
        tree.names[depth],
        possible=two_in_one(len(tree.names) - 1, depth),
        agree=two_in_one(len(tree.names) - 1, deepest),
        altered=altered,
        fixed=fixed,
    )
