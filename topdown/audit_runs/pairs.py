"""Pairs of neighbours: one record changed so that exact statistics and public facts stay as they are.

The people of other leaves are the same in both data sets and are left out: they add the same number to the same
answers. Which pairs are taken follows from the plan: the same plan has the same pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.audit_runs.people import LeafPeople
from topdown.model.changes import Change, Kind
from topdown.model.possible import along
from topdown.model.query import Query
from topdown.plan.prepare import Context

LEAST_PAIRS = 50
_TRIES = 3000  # candidates for one pair, before it is said that none was found
Target = tuple[int, int]  # index of a level and of one of its measurements
Place = tuple[int, int]  # leaf and cell of a record


@dataclass(frozen=True)
class Pair:
    """Two data sets that are neighbours.

    Args:
        kind, of: which secret tells them apart; see `Change`.
        gone: leaf and cell of the record that only the first has.
        come: of the one that only the second has; None if it has none instead.
        people: (leaf, cell, count) of the first data set at the leaves concerned.
        moved: per level and measurement, how many counts differ: 0, 1 or 2.
        targets: what the pair was chosen for.
    """

    kind: Kind
    of: str
    gone: Place
    come: Place | None
    people: tuple[tuple[int, int, int], ...]
    moved: tuple[tuple[int, ...], ...]
    targets: tuple[Target, ...] = ()

    @property
    def after(self) -> tuple[tuple[int, int, int], ...]:
        """People of the second data set at the leaves concerned."""
        count = {(leaf, cell): n for leaf, cell, n in self.people}
        count[self.gone] -= 1
        if self.come is not None:
            count[self.come] = count.get(self.come, 0) + 1
        return tuple((leaf, cell, n) for (leaf, cell), n in sorted(count.items()) if n)


def find_pairs(
    context: Context, *, at_least: int = LEAST_PAIRS
) -> tuple[tuple[Pair, ...], tuple[tuple[Change, Target], ...]]:
    """Choose pairs for every secret that is not disclosed, each query at each level that it can touch.

    Args:
        context: plan and public facts; not of an extension.
        at_least: how many pairs, where there are so many.

    Returns:
        the pairs, and for which secret, level and measurement none was found.
    """
    finder = _PairFinder(context, np.random.Generator(np.random.PCG64(int(context.plan.plan_hash[:16], 16))))
    changes = [c for c in context.policy.changes if c.status != "disclosed"]
    pairs: dict[tuple[Kind, str, Place, Place | None], Pair] = {}
    missing = []
    for change in changes:
        covered: set[Target] = set()
        for target in finder.targets(change):
            if target in covered:
                continue
            pair = finder.find(change, target)
            if pair is None:
                missing.append((change, target))
                continue
            new = {t for t in finder.targets(change) if pair.moved[t[0]][t[1]]} - covered
            covered |= new
            pairs[change.kind, change.of, pair.gone, pair.come] = replace(pair, targets=tuple(sorted(new)))
    _fill(finder, changes, pairs, at_least)
    return tuple(pairs.values()), tuple(missing)


def _fill(
    finder: _PairFinder,
    changes: list[Change],
    pairs: dict[tuple[Kind, str, Place, Place | None], Pair],
    at_least: int,
) -> None:
    """Add pairs, one secret after the other and one target after the other, until there are enough."""
    idle = turn = 0
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


def queries_of(context: Context) -> tuple[tuple[Query, ...], ...]:
    """Return the queries of every level in the order of its measurements, each made once: their labels are large."""
    every = {q.name: q for level in context.plan.levels for q in context.queries(level.name)}
    return tuple(tuple(every[m.query] for m in level.measurements) for level in context.plan.levels)


@dataclass(frozen=True, eq=False)
class _PairFinder:
    context: Context
    random: np.random.Generator
    _listed: dict[tuple[Target, int], frozenset[int]] = field(default_factory=dict)

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
                answer = answer * (group.max() + 1) + along(group, axis, len(schema.shape))
            out.append((up[known.depth], answer.reshape(-1)))
        return tuple(out)

    def targets(self, change: Change) -> tuple[Target, ...]:
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

    def find(self, change: Change, target: Target | None) -> Pair | None:
        """Return a pair that differs by one change of a kind and moves a target, if any; None if none was found."""
        for _ in range(_TRIES):
            gone, come = self._propose(change)
            if gone == come or not self._agrees(gone, come):
                continue
            if target is not None and not self._counts(target, gone, come):
                continue
            people = self._people(gone, come)
            if people is not None:
                return Pair(change.kind, change.of, gone, come, people, self._moved(gone, come))
        return None

    def _propose(self, change: Change) -> tuple[Place, Place | None]:
        """Make up a record and what it changes to."""
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

    def _agrees(self, gone: Place, come: Place | None) -> bool:
        """Tell whether every exact statistic stays as it is."""
        if come is None:
            return not self.exact
        return all(
            node[gone[0]] == node[come[0]] and answer[gone[1]] == answer[come[1]]
            for node, answer in self.exact
        )

    def _counts(self, target: Target, gone: Place, come: Place | None) -> int:
        """Return how many measured counts of a level and measurement differ."""
        node = self.context.geography.ancestors_of_leaves[target[0]]
        answer = self.queries[target[0]][target[1]].labels
        if come is not None and node[gone[0]] == node[come[0]] and answer[gone[1]] == answer[come[1]]:
            return 0
        return sum(self.is_listed(target, place) for place in (gone, come) if place is not None)

    def is_listed(self, target: Target, place: Place) -> bool:
        """Tell whether the answer that a record is in is measured at its node."""
        if self.context.support is None:
            return True
        node = int(self.context.geography.ancestors_of_leaves[target[0]][place[0]])
        if (target, node) not in self._listed:
            query = self.queries[target[0]][target[1]]
            cells = self.context.support.cells(target[0], node)
            self._listed[target, node] = frozenset(self.context.support.listed(query, cells).tolist())
        return int(self.queries[target[0]][target[1]].labels[place[1]]) in self._listed[target, node]

    def _moved(self, gone: Place, come: Place | None) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(self._counts((depth, q), gone, come) for q in range(len(queries)))
            for depth, queries in enumerate(self.queries)
        )

    def _people(self, gone: Place, come: Place | None) -> tuple[tuple[int, int, int], ...] | None:
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
            rows += [(leaf, cell, n) for cell, n in sorted(held.items())]
        return tuple(rows)
