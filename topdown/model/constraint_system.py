"""The constraints of a release: what invariants ask of every node, open cells and bounds, cells no rule tells apart.

A row says: at every node of a level, the records in some cells number `low` to `high`. One derivation for all who ask:
zeros are [0, 0], exact answers [n, n], lower bounds [n, no limit], upper bounds [0, n]. Leaving a constraint out is
leaving its rows out. Soft rules, which compare sets of cells, are integer rows over the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.model.cell_sets import (
    NO_LIMIT,
    CellClasses,
    LaminarFamily,
    binary_digits,
    group_cells,
    laminar_family,
)
from topdown.model.geography import Geography
from topdown.model.histogram import NarrowColumns
from topdown.model.invariants import Exact, Invariants, LeafRule, Selection
from topdown.model.query import parse_query
from topdown.model.schema import Schema

MAX_KINDS = 14  # a table over all subsets of the kinds is kept at some nodes


@final
class PublicFacts:
    """Named integer columns, one value a leaf, in the geography's leaf order.

    Args:
        columns: column name to int64 array of shape (n_leaves,), nonnegative.
    """

    def __init__(self, columns: Mapping[str, Ints]) -> None:
        self.columns: Mapping[str, Ints] = NarrowColumns.pack(columns)

    def at(self, places: slice | Ints) -> PublicFacts:
        """Return the facts of some leaves."""
        return PublicFacts(NarrowColumns.pack(self.columns).at(places))


BATCH_LEAVES = 1 << 21  # whose numbers, of all bounds, are held at once


@dataclass(frozen=True, eq=False)
class ConstraintRow:
    """What one constraint asks of the nodes of a level; an exact table is one row an answer.

    Numbers are made when they are asked for: those of a nation's leaves, all rows at once, would take a gigabyte.

    Args:
        rule: as the invariants state it.
        depth: position of the level, 0 at the root.
        cells: bool (n_cells,), whose records are counted.
        n_nodes: of the level.
        counts: makes the number of each node, int64 (n_nodes,): of the bound, the exact answer, or the most records in
            cells that are closed somewhere.
    """

    rule: Exact | LeafRule
    depth: int
    cells: Bools
    n_nodes: int
    counts: Callable[[], Ints]

    @property
    def low(self) -> Ints:
        """Fewest records of the cells at every node, int64 (n_nodes,)."""
        return self.counts() if self.rule.is_lower else np.zeros(self.n_nodes, dtype=np.int64)

    @property
    def high(self) -> Ints:
        """Most records of the cells, int64 (n_nodes,); NO_LIMIT for no upper bound."""
        return self.counts() if self.rule.is_upper else np.full(self.n_nodes, NO_LIMIT, dtype=np.int64)

    def at(self, nodes: Ints) -> ConstraintRow:
        """Return what it asks of some nodes; their numbers are held."""
        counts = self.counts()[nodes]
        return replace(self, n_nodes=len(nodes), counts=lambda: counts)

    @property
    def name(self) -> str:
        """Name of the constraint."""
        return self.rule.name

    @property
    def selection(self) -> Selection:
        """Cells as the invariants choose them; () for answers of an exact statistic."""
        return self.rule.cells if isinstance(self.rule, LeafRule) else ()

    @property
    def asks(self) -> Bools:
        """Nodes of which it asks anything."""
        return np.asarray((self.low > 0) | (self.high < NO_LIMIT))


def leaf_rows(
    schema: Schema, invariants: Invariants, columns: Mapping[str, Ints], geography: Geography
) -> tuple[ConstraintRow, ...]:
    """Return what public facts say of the leaves, one row a constraint.

    Args:
        schema, geography: of the release.
        invariants: soft rules and exact statistics are left out.
        columns: public facts, int64 (n_leaves,), by name.
    """
    depth, n_leaves = len(geography.levels) - 1, len(geography.leaves)
    cells = {chosen: schema.select(dict(chosen)) for chosen in {rule.cells for rule in invariants.leaf_rules}}
    return tuple(
        ConstraintRow(rule, depth, cells[rule.cells], n_leaves, partial(rule.numbers, columns, n_leaves))
        for rule in invariants.leaf_rules
    )


def exact_rows(
    schema: Schema, invariants: Invariants, exact: Mapping[str, Ints], geography: Geography
) -> tuple[ConstraintRow, ...]:
    """Return exact statistics at any level, one row an answer.

    Args:
        exact: answers by name, int64 (n_nodes, n_answers); statistics that are not there are left out.
    """
    rows = []
    for statistic in invariants.exact:
        if statistic.name in exact:
            labels = parse_query(schema, statistic.query).labels
            answers = np.asarray(exact[statistic.name], dtype=np.int64)
            depth = geography.index(statistic.level)
            rows += [
                ConstraintRow(statistic, depth, labels == a, len(n), partial(np.array, n))
                for a, n in enumerate(answers.T)
            ]
    return tuple(rows)


def unknown_exact_rows(
    schema: Schema, invariants: Invariants, geography: Geography
) -> tuple[ConstraintRow, ...]:
    """Return exact statistics with zeros for their answers: what is exact is known before they are."""
    shapes = {
        e.name: (len(geography.levels[geography.index(e.level)]), parse_query(schema, e.query).n_answers)
        for e in invariants.exact
    }
    none = {name: np.zeros(shape, dtype=np.int64) for name, shape in shapes.items()}
    return exact_rows(schema, invariants, none, geography)


def soft_rule_rows(schema: Schema, invariants: Invariants) -> NDArray[np.int64]:
    """Return one row a soft rule, int64 (n_rules, n_cells): a table keeps the rule if its sum is <= 0."""
    rows = [rule.weights(schema) for rule in invariants.soft_rules]
    return np.array(rows, dtype=np.int64).reshape(-1, schema.n_cells)


@dataclass(frozen=True, eq=False)
class ConstraintSystem:
    """Where each cell may hold records, and how many a set of cells may hold, at every node of every level.

    Cells that the same constraints forbid form a *class*. A class is open at a leaf if no constraint forbids
    it there, and at an inner node if it is open at one of its leaves (Census TopDown, Theorem 8). A lower
    bound of an inner node is the sum of its leaves' bounds (Theorem 3, part 2).

    Args:
        class_of_cell: int64 (n_cells,), class of every cell.
        open: per level, bool (n_nodes, n_classes).
        bound_cells: per lower bound, bool (n_cells,).
        lower: per level, int64 (n_nodes, n_bounds).
        cap_cells: per upper bound, bool (n_cells,).
        caps: int64 (n_leaves, n_caps), upper bounds of the leaves.
        bound_names, cap_names: of the constraints.
        n_exact: how many of the bounds, the last ones, are exact answers of leaves; as many upper bounds.
    """

    class_of_cell: Ints
    open: tuple[Bools, ...]
    bound_cells: tuple[Bools, ...]
    lower: tuple[Ints, ...]
    cap_cells: tuple[Bools, ...]
    caps: Ints
    bound_names: tuple[str, ...] = ()
    cap_names: tuple[str, ...] = ()
    n_exact: int = 0

    @staticmethod
    def from_facts(
        schema: Schema, geography: Geography, invariants: Invariants, facts: PublicFacts
    ) -> ConstraintSystem:
        """Return what public facts say of every node."""
        rows = leaf_rows(schema, invariants, facts.columns, geography)
        return ConstraintSystem.from_rows(schema, geography, rows)

    @staticmethod
    def from_rows(schema: Schema, geography: Geography, rows: Iterable[ConstraintRow]) -> ConstraintSystem:
        """Return what rows of leaves that close or bound cells say of every node."""
        rows, n_leaves = tuple(rows), len(geography.leaves)
        never = np.zeros(schema.n_cells, dtype=bool)
        zeros = []
        for row in (row for row in rows if row.rule.closes):
            if row.rule.closes_everywhere:
                never |= row.cells
            else:
                zeros.append(row)
        least = [row for row in rows if row.rule.is_lower]
        most = [row for row in rows if row.rule.is_upper and not row.rule.closes]
        cells = group_cells([never, *(row.cells for row in zeros)], schema.n_cells)
        leaf_open = np.repeat(~cells.marked([never]), n_leaves, axis=0)
        for row, marked in zip(zeros, cells.marked([row.cells for row in zeros]), strict=True):
            leaf_open[:, marked] &= (row.high > 0)[:, None]
        return ConstraintSystem(
            cells.of_cell,
            geography.at_every_level(leaf_open, np.logical_or),
            tuple(row.cells for row in least),
            geography.at_every_level(_by_leaf((row.low for row in least), n_leaves, len(least))),
            tuple(row.cells for row in most),
            _by_leaf((row.high for row in most), n_leaves, len(most)),
            tuple(row.name for row in least),
            tuple(row.name for row in most),
        )

    def with_exact(self, geography: Geography, rows: Iterable[ConstraintRow]) -> ConstraintSystem:
        """Return the same with exact answers of leaves: each is a lower and an upper bound.

        Args:
            geography: of the system.
            rows: exact statistics; those above the leaves, and the totals of leaves, are left out.
        """
        rows = [row for row in rows if row.depth == len(geography.levels) - 1 and not row.cells.all()]
        if not rows:
            return self
        names, cells = tuple(row.name for row in rows), tuple(row.cells for row in rows)
        levels = geography.at_every_level(np.array([row.low for row in rows]).T)
        return self._with_bounds(names, cells, levels)

    def with_exact_of(self, other: ConstraintSystem) -> ConstraintSystem:
        """Return the same with the exact answers of another system of the same nodes."""
        exact = slice(other.n_public_bounds, None)
        levels = tuple(level[:, exact] for level in other.lower)
        return self._with_bounds(other.bound_names[exact], other.bound_cells[exact], levels)

    def _with_bounds(
        self, names: tuple[str, ...], cells: tuple[Bools, ...], numbers: tuple[Ints, ...]
    ) -> ConstraintSystem:
        return replace(
            self,
            bound_names=(*self.bound_names, *names),
            bound_cells=(*self.bound_cells, *cells),
            lower=tuple(map(np.hstack, zip(self.lower, numbers, strict=True))),
            cap_names=(*self.cap_names, *names),
            cap_cells=(*self.cap_cells, *cells),
            caps=np.hstack([self.caps, numbers[-1]]),
            n_exact=self.n_exact + len(names),
        )

    @property
    def bounded(self) -> tuple[tuple[str, Bools], ...]:
        """Name and cells of every lower bound, then of every upper bound."""
        named = (self.bound_names, self.bound_cells), (self.cap_names, self.cap_cells)
        return tuple(pair for names, cells in named for pair in zip(names, cells, strict=True))

    @property
    def n_public_bounds(self) -> int:
        """How many of the lower bounds public facts give."""
        return len(self.bound_cells) - self.n_exact

    @cached_property
    def public(self) -> ConstraintSystem:
        """The same without exact answers."""
        n_bounds, n_caps = self.n_public_bounds, len(self.cap_cells) - self.n_exact
        return replace(
            self,
            bound_cells=self.bound_cells[:n_bounds],
            lower=tuple(level[:, :n_bounds] for level in self.lower),
            cap_cells=self.cap_cells[:n_caps],
            caps=self.caps[:, :n_caps],
            bound_names=self.bound_names[:n_bounds],
            cap_names=self.cap_names[:n_caps],
            n_exact=0,
        )

    def of_leaves(self, geography: Geography, leaves: Ints) -> ConstraintSystem:
        """Return the constraints of a smaller tree.

        Args:
            geography: the tree of some of its leaves.
            leaves: int64, increasing, their places in the whole tree.
        """
        return replace(
            self,
            open=geography.at_every_level(self.open[-1][leaves], np.logical_or),
            lower=geography.at_every_level(self.lower[-1][leaves]),
            caps=self.caps[leaves],
        )

    def cell_classes(self, answers: Ints | int = 0) -> CellClasses:
        """Return the cells that no constraint, and no exact table, tells apart, in order of class, bounds and caps.

        Args:
            answers: int64 (n_cells,), answer of each cell in an exact table, which comes last in the order.
        """
        n_cells = len(self.class_of_cell)
        table = binary_digits(np.broadcast_to(np.int64(answers), n_cells))
        sets = [*binary_digits(self.class_of_cell), *self.bound_cells, *self.cap_cells, *table]
        return group_cells(sets, n_cells)

    def partition(self, answers: Ints | int = 0) -> CellPartition:
        """Return the possible cells by the constraints they are under.

        Args:
            answers: int64 (n_cells,), answer of each cell in the exact table above the leaves.

        Raises:
            ConfigError: C073 two bounds share some cells, and neither's hold the other's.
        """
        cells = self.cell_classes(answers)
        class_of = self.class_of_cell[cells.first]
        possible = self.open[0][0][class_of]
        kind = np.where(possible, np.cumsum(possible) - 1, -1)
        groups = cells.marked([*self.bound_cells, *self.cap_cells])[:, possible]
        laminar_family(groups, (*self.bound_names, *self.cap_names))  # refuses those that cross
        answer = np.broadcast_to(np.int64(answers), len(self.class_of_cell))[cells.first]
        members, set_of = np.unique(groups, axis=0, return_inverse=True)
        order = np.argsort(members.sum(axis=1), kind="stable")
        return CellPartition(
            kind[cells.of_cell],
            class_of[possible],
            members[order],
            answer[possible],
            np.argsort(order)[set_of.reshape(-1)],
        )

    @cached_property
    def possible_cells(self) -> Bools:
        """Cells that may hold records somewhere, bool (n_cells,)."""
        return np.asarray(self.open[0][0][self.class_of_cell], dtype=bool)

    @cached_property
    def nested(self) -> tuple[int, ...]:
        """Lower bounds that share cells with another one."""
        held = np.zeros(len(self.class_of_cell), dtype=np.int64)
        for cells in self.bound_cells:
            held += cells
        shared = held > 1
        return tuple(b for b, cells in enumerate(self.bound_cells) if cells[shared].any())

    @cached_property
    def inhabited(self) -> tuple[Bools, ...]:
        """Per level, whether a node may hold any record at all."""
        return tuple(np.asarray(level.any(axis=1), dtype=bool) for level in self.open)


@dataclass(frozen=True, eq=False)
class CellPartition:
    """Kinds of cells that no constraint tells apart, and the sets of them that are bounded.

    Two cells are of one kind if the same constraints close, bound and limit them. Sets are nested or disjoint,
    small ones first.

    Args:
        of_cell: int64 (n_cells,), kind of each cell, -1 for cells that are closed everywhere.
        class_of: int64 (n_kinds,), class of each kind (see `ConstraintSystem`).
        members: bool (n_sets, n_kinds).
        answer_of: int64 (n_kinds,), answer of each kind in the exact table above the leaves; 0 if there is none.
        set_of: int64 (n_bounds + n_caps,), set of each lower bound and each upper bound.
    """

    of_cell: Ints
    class_of: Ints
    members: Bools
    answer_of: Ints
    set_of: Ints

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return len(self.class_of)

    @cached_property
    def family(self) -> LaminarFamily:
        """Which set lies in which."""
        return laminar_family(self.members)

    @property
    def answers(self) -> Ints:
        """Answer of each possible cell in the exact table above the leaves, as `partition` takes it."""
        return np.where(self.of_cell >= 0, self.answer_of[self.of_cell], 0)

    @property
    def spans_answers(self) -> Bools:
        """Whether the kinds of a set lie in several answers of the exact table, bool (n_sets,)."""
        return np.array([len(np.unique(self.answer_of[row])) > 1 for row in self.members], dtype=bool)

    def set_bounds(self, lower: Ints, caps: Ints) -> tuple[Ints, Ints]:
        """Return the bounds of each set at some leaves, least and most, int64 (n, n_sets); NO_LIMIT for none.

        Args:
            lower, caps: int64 (n, n_bounds) and (n, n_caps).
        """
        shape = len(caps), len(self.members)
        low, high = np.zeros(shape, dtype=np.int64), np.broadcast_to(np.int64(NO_LIMIT), shape)
        if caps.shape[1]:
            high = high.copy()  # without upper bounds it takes no memory
        of_lower, of_caps = np.split(self.set_of, [lower.shape[1]])
        for bound, its_set in enumerate(of_lower.tolist()):
            low[:, its_set] = np.maximum(low[:, its_set], lower[:, bound])
        for cap, its_set in enumerate(of_caps.tolist()):
            high[:, its_set] = np.minimum(high[:, its_set], caps[:, cap])
        return low, high


def _by_leaf(numbers: Iterable[Sequence[int] | Ints], n_leaves: int, k: int) -> Ints:
    """Return columns side by side, made one at a time."""
    out = np.empty((n_leaves, k), dtype=np.int64)
    for column, values in enumerate(numbers):
        out[:, column] = values
    return out
