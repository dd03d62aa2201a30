"""Pairs of neighbours: all records of one unit changed so that exact statistics and public facts stay as they are.

Where a unit has several records they are alike, before and after.

The people of a leaf are made up such that every public rule holds with and without the change.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from topdown.arrays import Bools, Ints
from topdown.formats.common import SecretKind
from topdown.model import ConstraintSystem, NeighbourChange, Query, on_axis
from topdown.plan import PublicContext
from topdown.progress import Event, Report, silent


@dataclass(frozen=True, eq=False)
class LeafPeople:
    """Find people of a leaf."""

    rules: ConstraintSystem

    @cached_property
    def _sets(self) -> Bools:
        """Return the cells of every bound, then of every cap: (n_sets, n_cells)."""
        sets = [*self.rules.bound_cells, *self.rules.cap_cells]
        return np.array(sets, dtype=bool).reshape(len(sets), len(self.rules.class_of_cell))

    @cached_property
    def _one_of_each(self) -> Ints:
        """Return the first of all cells that no rule tells apart, increasing."""
        return np.sort(self.rules.cell_classes().first)

    def allows(self, leaf: int, cell: int) -> bool:
        """Tell whether no rule closes a cell at a leaf."""
        return bool(self.rules.open[-1][leaf, self.rules.class_of_cell[cell]])

    def around(self, leaf: int, gone: int | None, come: int | None) -> dict[int, int] | None:
        """Return as few people as a leaf can hold so that all rules are met before and after a change.

        Args:
            leaf: index.
            gone: cell of the record that leaves; one is among the people. None: nobody leaves.
            come: cell of the record that comes. None: nobody comes.

        Returns:
            records by cell before the change, or None if no people meet the rules both times.
        """
        if not all(self.allows(leaf, cell) for cell in (gone, come) if cell is not None):
            return None
        sets, n_caps = self._sets, len(self.rules.cap_cells)
        if not len(sets):
            return {} if gone is None else {gone: 1}
        low = np.concatenate([self.rules.lower[-1][leaf], np.zeros(n_caps, dtype=np.int64)])
        high = np.concatenate([np.full(len(sets) - n_caps, np.inf), self.rules.caps[leaf]])
        change = np.zeros(len(sets), dtype=np.int64)
        if gone is not None:
            change -= sets[:, gone]
        if come is not None:
            change += sets[:, come]
        low, high = np.maximum(low, low - change), np.minimum(high, high - change)
        alone = np.zeros(len(sets)) if gone is None else sets[:, gone].astype(float)
        if (low <= alone).all() and (alone <= high).all():
            return {} if gone is None else {gone: 1}
        return self._fewest(leaf, gone, low, high)

    def _fewest(
        self, leaf: int, gone: int | None, low: Ints, high: NDArray[np.float64]
    ) -> dict[int, int] | None:
        """Solve for the fewest people; cells in the same sets are one unknown."""
        sets, usable = self._sets, self._one_of_each
        usable = usable[self.rules.open[-1][leaf, self.rules.class_of_cell[usable]]]
        kinds, first = np.unique(sets[:, usable], axis=1, return_index=True)
        cells = usable[first]
        least = np.zeros(len(cells))
        if gone is not None:
            here = (kinds == sets[:, [gone]]).all(axis=0)
            cells = np.where(here, gone, cells)
            least[here] = 1
        found = milp(
            np.ones(len(cells)),
            constraints=LinearConstraint(kinds.astype(float), low, high),
            bounds=Bounds(least, np.inf),
            integrality=np.ones(len(cells)),
        )
        if found.x is None:
            return None
        held = np.rint(found.x).astype(np.int64)
        return {int(c): int(n) for c, n in zip(cells, held, strict=True) if n}


LEAST_PAIRS = 50
_TRIES = 3000  # candidates for one pair, before it is said that none was found
AuditedAnswer = tuple[int, int]  # index of a level and of one of its measurements
LeafPlace = tuple[int, int]  # leaf and cell of a record


@dataclass(frozen=True)
class NeighbourPair:
    """Two data sets that are neighbours.

    Args:
        kind, of: which secret tells them apart; see `Change`.
        gone: leaf and cell of the records that only the first has.
        come: of those that only the second has; None if it has none instead.
        people: (leaf, cell, count) of the first data set at the leaves concerned.
        moved: per level and measurement, how many counts differ: 0, 1 or 2.
        targets: what the pair was chosen for.
        n_records: that go, and that come: as many as one unit has.
    """

    kind: SecretKind
    of: str
    gone: LeafPlace
    come: LeafPlace | None
    people: tuple[tuple[int, int, int], ...]
    moved: tuple[tuple[int, ...], ...]
    targets: tuple[AuditedAnswer, ...] = ()
    n_records: int = 1

    @property
    def after(self) -> tuple[tuple[int, int, int], ...]:
        """People of the second data set at the leaves concerned."""
        count = {(leaf, cell): n for leaf, cell, n in self.people}
        count[self.gone] -= self.n_records
        if self.come is not None:
            count[self.come] = count.get(self.come, 0) + self.n_records
        return tuple((leaf, cell, n) for (leaf, cell), n in sorted(count.items()) if n)


def find_pairs(
    context: PublicContext, *, at_least: int = LEAST_PAIRS, report: Report = silent
) -> tuple[tuple[NeighbourPair, ...], tuple[tuple[NeighbourChange, AuditedAnswer], ...]]:
    """Choose pairs for every secret that is not disclosed, each query at each level that it can touch.

    Args:
        context: plan and public facts; not of an extension.
        at_least: how many pairs, where there are so many.
        report: called for every secret.

    Returns:
        the pairs, and for which secret, level and measurement none was found.
    """
    finder = _PairFinder(context, np.random.Generator(np.random.PCG64(int(context.plan.plan_hash[:16], 16))))
    changes = [c for c in context.policy.changes if c.status != "disclosed"]
    pairs: dict[tuple[SecretKind, str, LeafPlace, LeafPlace | None], NeighbourPair] = {}
    missing = []
    for change in changes:
        covered: set[AuditedAnswer] = set()
        for target in finder.targets(change):
            report(Event("audit", 0, at_least, f"pairs that differ in {change.of or change.kind}"))
            if target in covered:
                continue
            pair = finder.find(change, target)
            if pair is None:
                missing.append((change, target))
                continue
            new = {t for t in finder.targets(change) if pair.moved[t[0]][t[1]]} - covered
            covered |= new
            pairs[change.kind, change.of, pair.gone, pair.come] = replace(pair, targets=tuple(sorted(new)))
    idle = turn = 0  # one secret after the other and one target after the other, until there are enough
    while len(pairs) < at_least and idle < 4 * len(changes):
        change = changes[turn % len(changes)]
        targets = finder.targets(change)
        chosen = targets[turn // len(changes) % len(targets)] if targets else None
        turn, idle = turn + 1, idle + 1
        pair = finder.find(change, chosen)
        key = (change.kind, change.of, pair.gone, pair.come) if pair else None
        if pair is not None and key is not None and key not in pairs:
            pairs[key] = replace(pair, targets=() if chosen is None else (chosen,))
            idle = 0
    return tuple(pairs.values()), tuple(missing)


def queries_of(context: PublicContext) -> tuple[tuple[Query, ...], ...]:
    """Return the queries of every level in the order of its measurements, each made once: their labels are large."""
    every = {q.name: q for level in context.plan.levels for q in context.queries(level.name)}
    return tuple(tuple(every[m.query] for m in level.measurements) for level in context.plan.levels)


@dataclass(frozen=True, eq=False)
class _PairFinder:
    context: PublicContext
    random: np.random.Generator
    _listed: dict[tuple[AuditedAnswer, int], frozenset[int]] = field(default_factory=dict)

    @cached_property
    def people(self) -> LeafPeople:
        return LeafPeople(self.context.rules)

    @cached_property
    def queries(self) -> tuple[tuple[Query, ...], ...]:
        return queries_of(self.context)

    @cached_property
    def exact(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """Return the node of every leaf and the answer of every cell, for each exact statistic of every step."""
        schema, up = self.context.plan.schema, self.context.geography.ancestors_of_leaves
        out = []
        for known in self.context.policy.known:
            answer = np.zeros(schema.shape, dtype=np.int64)
            for axis, attribute in enumerate(schema.attributes):
                group = np.asarray(known.groups.get(attribute.name, (0,) * len(attribute.labels)))
                answer = answer * (group.max() + 1) + on_axis(group, axis, len(schema.shape))
            out.append((up[known.depth], answer.reshape(-1)))
        return tuple(out)

    def targets(self, change: NeighbourChange) -> tuple[AuditedAnswer, ...]:
        """Return the levels and measurements that some change of a kind can touch, by labels."""
        above = self.context.geography.index(change.of) if change.kind == "within_level" else -1
        return tuple(
            (depth, q)
            for depth, queries in enumerate(self.queries)
            for q, query in enumerate(queries)
            if depth > above
            and (change.kind != "attribute" or change.of in query.attributes)
            and (depth > 0 or query.attributes or change.kind == "presence")
        )

    def find(self, change: NeighbourChange, target: AuditedAnswer | None) -> NeighbourPair | None:
        """Return a pair that differs by one change of a kind and moves a target, if any; None if none was found."""
        for _ in range(_TRIES):
            gone, come = self._propose(change)
            if gone == come or not self._agrees(gone, come):
                continue
            if target is not None and not self._counts(target, gone, come):
                continue
            people = self._people(gone, come)
            if people is not None:
                n = self.context.plan.relation.most_records
                moved = tuple(
                    tuple(self._counts((depth, q), gone, come) for q in range(len(queries)))
                    for depth, queries in enumerate(self.queries)
                )
                return NeighbourPair(change.kind, change.of, gone, come, people, moved, n_records=n)
        return None

    def _propose(self, change: NeighbourChange) -> tuple[LeafPlace, LeafPlace | None]:
        schema, leaves = self.context.plan.schema, len(self.context.geography.leaves)
        leaf, cell = self._below(leaves), self._below(schema.n_cells)
        if change.kind == "presence":
            return (leaf, cell), None
        if change.kind == "attribute":
            axis = [a.name for a in schema.attributes].index(change.of)
            return (leaf, cell), (leaf, self._other_value(cell, axis))
        if change.kind == "within_level":
            return (leaf, cell), (self._near(leaf, self.context.geography.index(change.of)), cell)
        way = self._below(5)
        if way == 0:
            return (leaf, cell), (self._below(leaves), self._below(schema.n_cells))
        if way == 1:
            return (leaf, cell), (leaf, self._below(schema.n_cells))
        if way == 2:
            return (leaf, cell), (leaf, self._other_value(cell, self._below(len(schema.attributes))))
        if way == 3:
            near = self._near(leaf, self._below(len(self.context.geography.levels)))
            return (leaf, cell), (near, self._below(schema.n_cells))
        return (leaf, cell), (self._below(leaves), cell)

    def _below(self, n: int) -> int:
        return int(self.random.integers(n))

    def _other_value(self, cell: int, axis: int) -> int:
        shape = self.context.plan.schema.shape
        values = [int(v) for v in np.unravel_index(cell, shape)]
        values[axis] = self._below(shape[axis])
        return int(np.ravel_multi_index(values, shape))

    def _near(self, leaf: int, depth: int) -> int:
        """Return a leaf of the same node of a level; a node's leaves are a contiguous run."""
        node = self.context.geography.ancestors_of_leaves[depth]
        first, end = np.searchsorted(node, (node[leaf], node[leaf] + 1))
        return int(first) + self._below(int(end - first))

    def _agrees(self, gone: LeafPlace, come: LeafPlace | None) -> bool:
        if come is None:
            return not self.exact
        return all(
            node[gone[0]] == node[come[0]] and answer[gone[1]] == answer[come[1]]
            for node, answer in self.exact
        )

    def _counts(self, target: AuditedAnswer, gone: LeafPlace, come: LeafPlace | None) -> int:
        """Return how many measured counts of a level and measurement differ."""
        node = self.context.geography.ancestors_of_leaves[target[0]]
        answer = self.queries[target[0]][target[1]].labels
        if come is not None and node[gone[0]] == node[come[0]] and answer[gone[1]] == answer[come[1]]:
            return 0
        return sum(self.is_listed(target, place) for place in (gone, come) if place is not None)

    def is_listed(self, target: AuditedAnswer, place: LeafPlace) -> bool:
        """Tell whether the answer that a record is in is measured at its node."""
        if self.context.support is None:
            return True
        node = int(self.context.geography.ancestors_of_leaves[target[0]][place[0]])
        if (target, node) not in self._listed:
            query = self.queries[target[0]][target[1]]
            (listed,) = self.context.support.listed((query,), target[0], node)
            self._listed[target, node] = frozenset(listed.tolist())
        return int(self.queries[target[0]][target[1]].labels[place[1]]) in self._listed[target, node]

    def _people(self, gone: LeafPlace, come: LeafPlace | None) -> tuple[tuple[int, int, int], ...] | None:
        """Return people who meet every rule in both data sets."""
        if come is None or gone[0] == come[0]:
            here = self.people.around(gone[0], gone[1], None if come is None else come[1])
            found = {gone[0]: here}
        else:
            found = {
                gone[0]: self.people.around(gone[0], gone[1], None),
                come[0]: self.people.around(come[0], None, come[1]),
            }
        rows = []
        for leaf, held in sorted(found.items()):
            if held is None:
                return None
            more = {gone[1]: self.context.plan.relation.most_records - 1} if leaf == gone[0] else {}
            rows += [(leaf, cell, n + more.get(cell, 0)) for cell, n in sorted(held.items())]
        return tuple(rows)
