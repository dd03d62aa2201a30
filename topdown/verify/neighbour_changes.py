"""What exact statistics and limits say of each kind of change of one record, decided by counting.

Two records agree on every exact statistic if and only if they lie in the same node of the deepest level of any of
them and give the same answers. So some two agree if and only if there are more places for a record than pairs of
(node, answers): the pigeonhole principle. A count that limits hold still parts the records of its leaf: those outside
change as before, those inside only among themselves. Only attributes that some rule mentions decide where records can
be; limits on counts matter only if some are from above, as there is always room for more records than the least.

Where limits fix counts: a set of kinds is the sum of the sets right inside it and of the kinds that are in none of
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

Name = int | tuple[int]  # a set, or (set,): its kinds that are in no set inside it


@dataclass(frozen=True, eq=False)
class CountLimits:
    """One side of what limits say at the leaves of sets of kinds.

    Args:
        sets: one row of kinds a set.
        least, most: (sets, leaves); `most` is negative where there is no limit.
    """

    sets: Bools
    least: Ints
    most: Ints


@dataclass(frozen=True, eq=False)
class Propagated:
    """What limits settle.

    Args:
        count: (sets, leaves), the only count above 0 that is left, else 0.
        untouchable: (sets, leaves), where no record of the set may be touched.
        emptied: (leaves, kinds), where limits leave no room for a kind.
    """

    count: Ints
    untouchable: Bools
    emptied: Bools


def propagate_limits(side: CountLimits, opened: Bools) -> Propagated:
    """Return what limits settle at leaves that have some kinds open."""
    n_sets, n_leaves = side.least.shape
    out = Propagated(
        np.zeros((n_sets, n_leaves), dtype=np.int64),
        np.zeros((n_sets, n_leaves), dtype=bool),
        np.zeros(opened.shape, dtype=bool),
    )
    for cluster in _clusters(side.sets):
        if (side.most[cluster] < 0).all():
            continue
        if _crosses(side.sets[cluster]):
            tight = _without_slack(side, cluster, opened)
            out.untouchable[cluster] = tight
        else:
            _narrow_nested(side, cluster, opened, out)
    return out


def _clusters(sets: Bools) -> list[list[int]]:
    """Return the sets that hang together by kinds they share."""
    out: list[tuple[list[int], Bools]] = []
    for i, kinds in enumerate(sets):
        near = [c for c in out if (c[1] & kinds).any()]
        out = [c for c in out if not (c[1] & kinds).any()]
        members = [i, *(m for c in near for m in c[0])]
        out.append((sorted(members), np.any([kinds, *(c[1] for c in near)], axis=0)))
    return [members for members, _ in out]


def _crosses(sets: Bools) -> bool:
    for i, one in enumerate(sets):
        for other in sets[:i]:
            both = int((one & other).sum())
            if both and both < min(int(one.sum()), int(other.sum())):
                return True
    return False


def _without_slack(side: CountLimits, cluster: list[int], opened: Bools) -> Bools:
    total = side.least[cluster].sum(axis=0)
    out = np.zeros(len(opened), dtype=bool)
    for s in cluster:
        out |= (side.most[s] > 0) & (total >= side.most[s])
        out |= (side.least[s] > 0) & ~opened[:, side.sets[s]].any(axis=1)
    return out


def _narrow_nested(side: CountLimits, cluster: list[int], opened: Bools, out: Propagated) -> None:
    sets = {s: set(np.flatnonzero(side.sets[s]).tolist()) for s in cluster}
    above = {s: [t for t in cluster if sets[s] < sets[t]] for s in cluster}
    inside = {
        t: [s for s in cluster if above[s] and min(above[s], key=lambda u: len(sets[u])) == t]
        for t in cluster
    }
    own = {s: sorted(sets[s].difference(*(sets[t] for t in inside[s]))) for s in cluster}
    # So many records meet every least count, with room for one more: no end above this makes a difference.
    plenty = side.least[cluster].sum(axis=0) + 1
    low: dict[Name, Ints] = {s: side.least[s].copy() for s in cluster}
    high: dict[Name, Ints] = {
        s: np.where(side.most[s] < 0, plenty, np.minimum(side.most[s], plenty)) for s in cluster
    }
    for s in cluster:
        low[s,] = np.zeros_like(plenty)
        high[s,] = np.where(opened[:, own[s]].any(axis=1), plenty, 0)
    for _ in range(2 * len(cluster) + 1):  # a tree has no longer way up and down
        moved = [_narrow_whole_and_parts(low, high, s, [*inside[s], (s,)]) for s in cluster]
        if not any(moved):
            break
    wrong = np.any([low[k] > high[k] for k in low], axis=0)
    for s in cluster:
        out.untouchable[s] = wrong
        out.count[s] = np.where(~wrong & (low[s] == high[s]), high[s], 0)
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


RENUMBER = 30  # rules between two renumberings: up to 2^31 kinds times 2^30 fit a whole number


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
    """Where one limit holds something still: the count of `kinds` at `met` leaves, each record at `still` ones."""

    name: str
    kinds: Bools
    met: Bools
    still: Bools


@dataclass(frozen=True, eq=False)
class FreeCells:
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
    kind: Ints
    cells: Bools
    opened: tuple[Bools, ...]
    circles: Bools
    held: tuple[FixedCount, ...]
    rules: tuple[str, ...]

    @cached_property
    def n_cells(self) -> Ints:
        """Number of combinations of all attributes of each kind."""
        outside = prod(n for name, n in self.sizes.items() if name not in self.axes)
        return np.bincount(self.kind.reshape(-1), minlength=self.cells.shape[1]) * outside

    @cached_property
    def n_nodes(self) -> tuple[Ints, ...]:
        """Per level, number of nodes where records of each kind can come and go."""
        return tuple(level.sum(axis=0, dtype=np.int64) for level in self.opened)

    @cached_property
    def together(self) -> Bools:
        """Mark the pairs of kinds between which a record can change at one leaf."""
        leaves, circles = self.opened[-1].astype(np.float32), self.circles.astype(np.float32)
        return np.asarray((leaves.T @ leaves > 0) | (circles.T @ circles > 0), dtype=bool)

    def values(self, attribute: str, kinds: Bools) -> Ints:
        """Return the values of an attribute that records of some kinds can have."""
        marked = kinds[self.kind]
        if attribute not in self.axes:
            return np.arange(self.sizes[attribute] * bool(marked.any()))
        others = tuple(i for i, name in enumerate(self.axes) if name != attribute)
        return np.flatnonzero(marked.any(axis=others))

    @cached_property
    def held_rows(self) -> tuple[tuple[Bools, Bools], ...]:
        """Per limit in `held`, the distinct rows of open kinds at its `met` leaves and at its `still` ones."""
        return tuple(
            (_distinct_rows(self.cells[h.met]), _distinct_rows(self.cells[h.still])) for h in self.held
        )

    def lines(self, attribute: str) -> list[Ints]:
        """Return the distinct rows of kinds met when one attribute takes all of its values and nothing else moves."""
        moved = np.moveaxis(self.kind, self.axes.index(attribute), -1).reshape(-1, self.sizes[attribute])
        distinct = {row.tobytes(): row for row in np.ascontiguousarray(moved)}
        return list(distinct.values())

    def spread(self, groups: Groups) -> Ints:
        """Return a number for each combination of groups over the axes, in the shape of `kind`."""
        out = np.zeros(self.kind.shape, dtype=np.int64)
        for i, name in enumerate(self.axes):
            if name in groups:
                shape = [1] * len(self.axes)
                shape[i] = -1
                out = out * (max(groups[name]) + 1) + np.array(groups[name], dtype=np.int64).reshape(shape)
        return out


def free_cells(
    schema: Schema, tree: Tree, closings: Sequence[Closing], limits: Sequence[Limit] = ()
) -> FreeCells:
    """Return the board of some rules."""
    if all(not limit.most for limit in limits):
        limits = ()
    sizes = {a.name: len(a.group_labels) for a in schema.attributes}
    every: list[Closing | Limit] = [*closings, *limits]
    axes = tuple(name for name in sizes if any(name in rule.values for rule in every))
    shape = tuple(sizes[name] for name in axes)
    kind = np.zeros(shape, dtype=np.int64)
    for i, rule in enumerate(every):
        kind = 2 * kind + _covered_cells(rule, axes, shape)
        if i % RENUMBER == RENUMBER - 1:
            kind = np.unique(kind, return_inverse=True)[1].reshape(shape)
    kind = np.unique(kind, return_inverse=True)[1].reshape(shape)
    example = np.zeros(int(kind.max()) + 1, dtype=np.int64)
    example[kind.reshape(-1)] = np.arange(kind.size)
    cells = np.ones((tree.n_leaves, len(example)), dtype=bool)
    for closing in closings:
        cells[np.ix_(closing.leaves, _covered_cells(closing, axes, shape).reshape(-1)[example])] = False
    covered = [_covered_cells(limit, axes, shape).reshape(-1)[example] for limit in limits]
    for limit, inside in zip(limits, covered, strict=True):
        if limit.most:
            cells[np.ix_(limit.number == 0, inside)] = False
    free, circles, held = _fix_counts(cells, limits, covered) if limits else (cells, cells[:0], ())
    opened = [free]
    for depth in range(len(tree.names) - 1, 0, -1):
        above = np.zeros((len(tree.geocodes[depth - 1]), len(example)), dtype=bool)
        for kind_above, kind_below in zip(above.T, opened[-1].T, strict=True):
            kind_above[tree.parent[depth][kind_below]] = True
        opened.append(above)
    names = {h.name for h in held} | {x.name for x in limits if x.most and not x.number.all()}
    rules = [c.name for c in closings] + [x.name for x in limits if x.name in names]
    return FreeCells(
        sizes, axes, kind, cells, tuple(reversed(opened)), circles, held, tuple(dict.fromkeys(rules))
    )


def _fix_counts(
    cells: Bools, limits: Sequence[Limit], covered: Sequence[Bools]
) -> tuple[Bools, Bools, tuple[FixedCount, ...]]:
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
    found = propagate_limits(CountLimits(sets, least, most), cells)
    cells &= ~found.emptied
    held = []
    for i in range(len(limits)):
        for s, members in enumerate(rows.values()):
            number = limits[i].number
            met, still = (number > 0) & (found.count[s] == number), (number > 0) & found.untouchable[s]
            if i in members and (met | still).any():
                held.append(FixedCount(limits[i].name, covered[i], met, still))
    free, circles = _exchange_groups(cells, sets, found)
    return free, circles, tuple(held)


def _exchange_groups(cells: Bools, sets: Bools, found: Propagated) -> tuple[Bools, Bools]:
    """Split the open kinds of each leaf by the counts that hold still there."""
    free, out = cells.copy(), []
    for s, kinds in enumerate(sets):
        free[np.ix_(found.untouchable[s] | (found.count[s] > 0), kinds)] = False
    settled = np.flatnonzero((found.count > 0).any(axis=0))
    signs = np.concatenate(
        [cells[settled], (found.count.T > 0)[settled], found.untouchable.T[settled]], axis=1
    )
    for row in _distinct_rows(signs):
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
    return free, _distinct_rows(np.array(out, dtype=bool).reshape(-1, cells.shape[1]))


def _distinct_rows(rows: Bools) -> Bools:
    packed = {row.tobytes(): i for i, row in enumerate(rows)}
    return np.asarray(rows[sorted(packed.values())])


def _covered_cells(rule: Closing | Limit, axes: tuple[str, ...], shape: tuple[int, ...]) -> Bools:
    out = np.ones(shape, dtype=bool)
    for i, name in enumerate(axes):
        if name in rule.values:
            along = [1] * len(axes)
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
    neighbours: str,
) -> tuple[DerivedChange, ...]:
    """Return every kind of change in the order of a certificate: the neighbours' own, attributes, levels."""
    board = free_cells(schema, tree, closings, limits)
    last = len(tree.names) - 1
    out = [_presence_change(board, statistics)] if neighbours == "add_remove" else []
    out.append(_everything_change(board, statistics))
    out += [_attribute_change(board, statistics, name) for name in board.sizes]
    out += [_within_level_change(board, tree, statistics, depth) for depth in range(last)]
    return tuple(replace(c, exact=_excluded_by(c, board, tree)) if c.exact is NOTHING else c for c in out)


def _excluded_by(change: DerivedChange, board: FreeCells, tree: Tree) -> tuple[str, ...]:
    """Name what leaves no change of a kind: too few places or values, or else the rules."""
    rules = board.rules
    if change.kind == "within_level":
        few = len(tree.geocodes[tree.names.index(change.of)]) == tree.n_leaves
        return rules if rules and not few else ("the geography",)
    if change.kind == "attribute":
        few = board.sizes[change.of] == 1
    else:
        few = prod(board.sizes.values()) == 1 and tree.n_leaves == 1
    return rules if rules and not few else ("the schema",)


def _verdict(
    kind: str, of: str, *, possible: bool, agree: bool, altered: list[str], still: list[str]
) -> DerivedChange:
    """Return the verdict; a change that is not possible is disclosed by what excludes it."""
    if not possible:
        return DerivedChange(kind, of, "disclosed", NOTHING)
    names = tuple(dict.fromkeys([*altered, *still]))
    return DerivedChange(
        kind, of, "disclosed" if not agree else "conditional" if names else "protected", names
    )


def _presence_change(board: FreeCells, statistics: Sequence[Statistic]) -> DerivedChange:
    """Every statistic counts every record, and every count that is held still."""
    names = [s.name for s in statistics]
    still = [h.name for h in board.held if board.cells[np.ix_(h.met | h.still, h.kinds)].any()]
    possible = bool(board.opened[-1].any())
    return _verdict("presence", "", possible=possible, agree=not names, altered=names, still=still)


def _everything_change(board: FreeCells, statistics: Sequence[Statistic]) -> DerivedChange:
    outside = [name for name in board.sizes if name not in board.axes]
    places = int(board.n_cells @ board.n_nodes[-1])
    deepest = max((s.depth for s in statistics), default=0)
    answers = _combined_groups(statistics, board.sizes)
    beyond = prod(max(answers[name]) + 1 for name in outside)
    agree = places > _n_distinct_answers(board, answers, deepest) * beyond
    rooms = [(circle, int(board.n_cells[circle].sum())) for circle in board.circles]
    wide = [circle for circle, n in rooms if n > 1]
    combination = board.spread(answers)
    agree |= any(n > len(np.unique(combination[circle[board.kind]])) * beyond for circle, n in rooms)
    free = board.opened[-1].any(axis=0)
    altered = [
        s.name
        for s in statistics
        if int(board.opened[s.depth].any(axis=1).sum()) > 1
        or any(
            len({groups[v] for v in board.values(name, kinds)}) > 1
            for kinds in (free, *wide)
            for name, groups in s.groups.items()
        )
    ]
    possible = places > 1 or bool(wide)
    still = _limits_on_everything(board)
    return _verdict("everything", "", possible=possible, agree=agree, altered=altered, still=still)


def _limits_on_everything(board: FreeCells) -> list[str]:
    """Return the limits whose count some record leaves for another, or that hold one of two records by itself."""
    if not board.held:
        return []
    at = board.cells.astype(np.int64) * board.n_cells
    every, out = int(at.sum()), []
    for h in board.held:
        inside = at[:, h.kinds].sum(axis=1)
        left = (h.met & (inside > 0) & (inside < every)) | (h.still & (inside > 0) & (every > 1))
        out += [h.name] if left.any() else []
    return out


def _combined_groups(statistics: Sequence[Statistic], sizes: dict[str, int]) -> Groups:
    """Return numbers of the values of every attribute, equal where no statistic tells them apart."""
    out = {}
    for name, n in sizes.items():
        answers = list(zip(*(s.groups.get(name, (0,) * n) for s in statistics), strict=True)) or [()] * n
        number = {answer: i for i, answer in enumerate(dict.fromkeys(answers))}
        out[name] = tuple(number[answer] for answer in answers)
    return out


def _n_distinct_answers(board: FreeCells, answers: Groups, depth: int) -> int:
    """Count the pairs of a node of a level and a combination of answers over the axes that some record can have."""
    combination = board.spread(answers).reshape(-1)
    holds: Bools = np.zeros((int(combination.max()) + 1, len(board.n_nodes[-1])), dtype=bool)
    holds[combination, board.kind.reshape(-1)] = True
    signature, times = np.unique(holds, axis=0, return_counts=True)
    pattern, nodes = np.unique(board.opened[depth], axis=0, return_counts=True)
    met = (pattern.astype(np.float32) @ signature.T.astype(np.float32)) > 0
    return sum(int(n) * int(row @ times) for n, row in zip(nodes, met.astype(np.int64), strict=True))


def _attribute_change(board: FreeCells, statistics: Sequence[Statistic], name: str) -> DerivedChange:
    n = board.sizes[name]
    pairs: Bools = np.zeros((n, n), dtype=bool)
    if name in board.axes:
        for line in board.lines(name):
            pairs |= board.together[np.ix_(line, line)]
    else:
        pairs |= bool(board.together.any())
    pairs &= ~np.eye(n, dtype=bool)
    apart = {s.name: _told_apart(s.groups[name]) for s in statistics if name in s.groups}
    left = pairs.copy()
    for told in apart.values():
        left &= ~told
    altered = [other for other, told in apart.items() if bool((pairs & told).any())]
    possible, agree = bool(pairs.any()), bool(left.any())
    still = _limits_on_attribute(board, name)
    return _verdict("attribute", name, possible=possible, agree=agree, altered=altered, still=still)


def _limits_on_attribute(board: FreeCells, name: str) -> list[str]:
    """Return the limits whose count a record leaves, or that hold it by itself, when one attribute is replaced."""
    out = []
    kinds = np.arange(board.cells.shape[1])
    lines = board.lines(name) if name in board.axes else list(np.repeat(kinds[:, None], board.sizes[name], 1))
    for h, (met, still) in zip(board.held, board.held_rows, strict=True):
        for line in lines:
            inside = h.kinds[line]
            crossed = met[:, line[inside]].any(axis=1) & met[:, line[~inside]].any(axis=1)
            touched = still[:, line[inside]].any(axis=1) & (still[:, line].sum(axis=1) > 1)
            if crossed.any() or touched.any():
                out.append(h.name)
                break
    return out


def _told_apart(groups: tuple[int, ...]) -> Bools:
    of = np.array(groups)
    return np.asarray(of[:, None] != of[None, :], dtype=bool)


def _within_level_change(
    board: FreeCells, tree: Tree, statistics: Sequence[Statistic], depth: int
) -> DerivedChange:
    def two_in_one(level: int, above: int) -> bool:
        # more nodes than nodes above them: two lie in the same one
        return bool((board.n_nodes[level] > board.n_nodes[above]).any())

    last = len(tree.names) - 1
    deepest = max([depth, *(s.depth for s in statistics)])
    altered = [s.name for s in statistics if s.depth > depth and two_in_one(s.depth, depth)]
    still = []
    if board.held:
        above, open_leaf = tree.ancestors[depth], board.cells
        n_open = np.stack([np.bincount(above, column) for column in open_leaf.T], axis=1)
        movable = open_leaf & (n_open[above] > 1)
        still = [h.name for h in board.held if movable[np.ix_(h.met | h.still, h.kinds)].any()]
    return _verdict(
        "within_level",
        tree.names[depth],
        possible=two_in_one(last, depth),
        agree=two_in_one(last, deepest),
        altered=altered,
        still=still,
    )
