"""Constraints of a release as zeros, nested bounds and totals: is there a population? Decided in whole numbers.

At a leaf, open cells and bounds on nested sets leave an interval of possible totals; intervals add up from the leaves,
and an exact total cuts one. This is the maximum flow of the tree (leaves to root, with lower bounds and capacities),
solved in closed form, so a whole state takes milliseconds. An answer of an exact table above the leaves is such a total
for its cells alone, under the bounds inside them: necessary, not complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.model.constraint import Invariants
from topdown.model.geography import Geography
from topdown.model.kinds import NO_LIMIT
from topdown.model.public import PublicFacts, classes
from topdown.model.query import parse_query
from topdown.model.schema import Schema

Kind = Literal["exact", "at_least", "at_most", "none_where_zero", "never"]
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]
MAX_ANSWERS = 64  # of an exact table above the leaves; each takes a pass over the tree


@dataclass(frozen=True, eq=False)
class Bound:
    """Cells of which every leaf holds `low` to `high` records: bool (n_atoms,) and int64 (n_leaves,)."""

    rule: int
    atoms: Marks
    low: Ints
    high: Ints


@dataclass(frozen=True, eq=False)
class Total:
    """Exact numbers of records in some cells at the nodes of one level: bool (n_atoms,) and int64 (n_nodes,)."""

    rule: int
    depth: int
    atoms: Marks
    values: Ints


@dataclass(frozen=True, eq=False)
class Promises:
    """The constraints below some node.

    Args:
        geography: the whole tree.
        rules: kind and name of every constraint; a set of constraints is a set of positions here.
        closes: bool (n_rules, n_atoms), cells a constraint closes where it applies; atoms are cells that no
            constraint tells apart.
        shut: bool (n_patterns, n_rules), where it applies; pattern: int64 (n_leaves,).
        bounds: small sets of atoms first, nested or disjoint.
        totals: exact totals, and exact answers above the leaves.
        leaves, top: the leaves concerned, all those of some nodes of level `top`.
    """

    geography: Geography
    rules: tuple[tuple[Kind, str], ...]
    closes: Marks
    shut: Marks
    pattern: Ints
    bounds: tuple[Bound, ...]
    totals: tuple[Total, ...]
    leaves: Ints
    top: int = 0

    @property
    def all(self) -> frozenset[int]:
        """Every constraint."""
        return frozenset(range(len(self.rules)))

    @cached_property
    def relevant(self) -> frozenset[int]:
        """Constraints that ask anything of these leaves or of the nodes above them."""
        closing = self.closes.any(axis=1) & self.shut[np.unique(self.pattern)].any(axis=0)
        asked = {b.rule for b in self.bounds if (b.low > 0).any() or (b.high < NO_LIMIT).any()}
        asked |= {t.rule for t in self.totals if t.depth >= self.top}
        return frozenset(asked | set(np.flatnonzero(closing).tolist()))

    def below(self, depth: int, node: int) -> Promises:
        """Return what concerns one node and everything below it."""
        inside = np.flatnonzero(self.geography.ancestors_of_leaves[depth][self.leaves] == node)
        bounds = tuple(replace(b, low=b.low[inside], high=b.high[inside]) for b in self.bounds)
        return replace(
            self, pattern=self.pattern[inside], bounds=bounds, leaves=self.leaves[inside], top=depth
        )

    def without_population(self, kept: frozenset[int]) -> tuple[int, int] | None:
        """Return (depth, index) of the first node of the lowest level that no population fits, or None.

        Args:
            kept: constraints to look at.
        """
        everything = np.ones(self.closes.shape[1], dtype=bool)
        parts = {everything.tobytes(): everything}
        parts |= {total.atoms.tobytes(): total.atoms for total in self.totals if total.rule in kept}
        found = [self._part_without_population(kept, atoms) for atoms in parts.values()]
        return min((at for at in found if at is not None), key=lambda at: (-at[0], at[1]), default=None)

    def _part_without_population(self, kept: frozenset[int], atoms: Marks) -> tuple[int, int] | None:
        """Return the same for records in some cells alone, under the bounds inside them."""
        fewest, most, boundless, bad = self._leaf_totals(kept, atoms)
        node: Ints = self.leaves
        levels = self.geography.levels
        totals = [t for t in self.totals if t.rule in kept and np.array_equal(t.atoms, atoms)]
        for depth in reversed(range(self.top, len(levels))):
            for total in totals:
                if total.depth == depth:
                    here = total.values[node]
                    bad |= (here < fewest) | (~boundless & (here > most))
                    fewest, most, boundless = here, here, np.zeros(len(node), dtype=bool)
            if bad.any():
                return depth, int(node[bad.argmax()])
            above, up = np.unique(levels[depth].parent[node], return_inverse=True)
            up = up.reshape(-1)
            node, n = above.astype(np.int64), len(above)
            fewest, most = _sums(fewest, up, n), _sums(np.where(boundless, 0, most), up, n)
            boundless = _sums(boundless.astype(np.int64), up, n) > 0
            bad = np.zeros(n, dtype=bool)
        return None

    def _leaf_totals(self, kept: frozenset[int], atoms: Marks) -> tuple[Ints, Ints, Marks, Marks]:
        """Return fewest and most records of every leaf, where there is no upper end, and leaves without a table."""
        chosen = np.array(sorted(kept), dtype=np.int64)
        closed = self.shut[:, chosen].astype(np.float32) @ self.closes[chosen].astype(np.float32)
        is_open = (closed == 0) & atoms
        bounds = [b for b in self.bounds if b.rule in kept and not (b.atoms & ~atoms).any()]
        innermost = np.full(self.closes.shape[1], -1)
        for s in reversed(range(len(bounds))):
            innermost[bounds[s].atoms] = s
        n = len(self.leaves)
        least, room = np.zeros((len(bounds) + 1, n), np.int64), np.zeros((len(bounds) + 1, n), np.int64)
        bad = np.zeros(n, dtype=bool)
        for s, bound in enumerate([*bounds, None]):  # the last set is everybody
            inside = s if bound is not None else -1
            direct = is_open[:, innermost == inside].any(axis=1)[self.pattern]
            room[s] = np.minimum(room[s] + np.where(direct, NO_LIMIT, 0), NO_LIMIT)
            if bound is None:
                break
            least[s], room[s] = np.maximum(least[s], bound.low), np.minimum(room[s], bound.high)
            bad |= least[s] > room[s]
            outer = next((t for t in range(s + 1, len(bounds)) if bounds[t].atoms[bound.atoms].all()), -1)
            if bound.atoms.any():
                least[outer] += least[s]
                room[outer] += room[s]
        return least[-1], room[-1], room[-1] >= NO_LIMIT, bad


def state(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact: Mapping[str, Ints],
) -> Promises:
    """Put the constraints of a release together.

    Args:
        schema, geography, invariants, facts: of the release.
        exact: answers of the exact statistics that are known, int64 (n_nodes, n_answers), by name. A table above the
            leaves with more than `MAX_ANSWERS` answers counts with its total only.

    Raises:
        ConfigError: two bounds share cells and neither's hold the other's (C073).
    """
    n_leaves = len(geography.leaves)
    rules: list[tuple[Kind, str]] = []
    closing: list[tuple[int, Marks, Marks]] = []
    bounding: list[tuple[int, Marks, Ints, Ints]] = []
    totals: list[tuple[int, int, Marks, Ints]] = []
    everything = np.ones(schema.n_cells, dtype=bool)
    nothing, boundless = np.zeros(n_leaves, dtype=np.int64), np.full(n_leaves, NO_LIMIT, dtype=np.int64)
    for statistic in invariants.exact:
        if statistic.name not in exact:
            continue
        depth, query = geography.index(statistic.level), parse_query(schema, statistic.query)
        answers = np.asarray(exact[statistic.name], dtype=np.int64)
        if query.factors and depth == len(geography.levels) - 1:
            bounding += [(len(rules), query.labels == a, n, n) for a, n in enumerate(answers.T)]
        else:
            totals.append((len(rules), depth, everything, answers.sum(axis=1)))
            if 1 < query.n_answers <= MAX_ANSWERS:
                chosen = [query.labels == a for a in range(query.n_answers)]
                totals += [(len(rules), depth, c, n) for c, n in zip(chosen, answers.T, strict=True)]
        rules.append(("exact", statistic.name))
    for least in invariants.at_least:
        people = least.per * facts.columns[least.column]
        bounding.append((len(rules), schema.select(dict(least.cells)), people, boundless))
        rules.append(("at_least", least.name))
    for most in invariants.at_most:
        people = most.per * facts.columns[most.column]
        bounding.append((len(rules), schema.select(dict(most.cells)), nothing, people))
        rules.append(("at_most", most.name))
    for zero in invariants.none_where_zero:
        where = np.all([facts.columns[c] == 0 for c in zero.columns], axis=0)
        closing.append((len(rules), schema.select(dict(zero.cells)), where))
        rules.append(("none_where_zero", zero.name))
    for never in invariants.never:
        closing.append((len(rules), schema.select(dict(never.cells)), np.ones(n_leaves, dtype=bool)))
        rules.append(("never", never.name))
    columns = [cells for _, cells, _ in closing] + [cells for _, cells, _, _ in bounding]
    columns += [cells for _, _, cells, _ in totals]
    signature = np.stack(columns, axis=1) if columns else np.zeros((schema.n_cells, 0), dtype=bool)
    atoms, _ = classes(signature)
    closes = np.zeros((len(rules), len(atoms)), dtype=bool)
    shut = np.zeros((n_leaves, len(rules)), dtype=bool)
    for i, (rule, _, where) in enumerate(closing):
        closes[rule], shut[:, rule] = atoms[:, i], where
    patterns, pattern = classes(shut)
    bounds = [
        Bound(rule, atoms[:, len(closing) + i], low, high) for i, (rule, _, low, high) in enumerate(bounding)
    ]
    asked = [
        Total(rule, depth, atoms[:, len(closing) + len(bounding) + i], values)
        for i, (rule, depth, _, values) in enumerate(totals)
    ]
    bounds.sort(key=lambda b: int(b.atoms.sum()))
    _check_nested(bounds, rules)
    return Promises(
        geography, tuple(rules), closes, patterns, pattern, tuple(bounds), tuple(asked), np.arange(n_leaves)
    )


def _check_nested(bounds: list[Bound], rules: list[tuple[Kind, str]]) -> None:
    for i, large in enumerate(bounds):
        for small in bounds[:i]:
            both = small.atoms & large.atoms
            if both.any() and not np.array_equal(both, small.atoms):
                raise ConfigError(
                    f"bounds {rules[small.rule][1]!r} and {rules[large.rule][1]!r} share some cells, but neither's "
                    "hold the other's",
                    code="C073",
                    fix="make the cells of bounds nested or disjoint",
                )


def _sums(values: Ints, group: Ints, n_groups: int) -> Ints:
    out = np.zeros(n_groups, dtype=np.int64)
    np.add.at(out, group, values)
    return out
