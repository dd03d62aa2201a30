"""Public knowledge that a release must reproduce, as it is stated and as rows.

A row says: at every node of a level, the records in some cells number `low` to `high`. One derivation for all who ask:
zeros are [0, 0], exact answers [n, n], lower bounds [n, no limit], upper bounds [0, n]. Leaving a constraint out is
leaving its rows out. Soft rules, which compare two sets of cells, are integer rows over the cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.model.cell_sets import NO_LIMIT
from topdown.model.geography import Geography
from topdown.model.query import parse_query
from topdown.model.schema import Schema

ConstraintKind = Literal["exact", "at_least", "at_most", "none_where_zero", "never", "no_more_than"]
Selection = tuple[tuple[str, tuple[str, ...]], ...]  # ((attribute, labels), ...): cells with all of them


@dataclass(frozen=True)
class Basis:
    """Why a statistic is published without noise; answers a person must give, "?" while open."""

    legal_basis: str = "?"
    decided_by: str = "?"
    date: str = "?"


class InvariantKind(ABC):
    """What every invariant says of its kind; what else a kind needs is its fields.

    Attributes:
        kind: name of its tables in an invariants file. keys: those that a table needs beside name and legal basis.
        factor: the key of a whole number that may be left out; "" for none.
        closes: whether it says where nobody can be.
        is_lower, is_upper: whether its numbers are lower bounds, upper bounds, or both.
        always_listed: whether plans that have none say so.
    """

    kind: ClassVar[ConstraintKind]
    keys: ClassVar[frozenset[str]]
    factor: ClassVar[str] = ""
    closes: ClassVar[bool] = False
    is_lower: ClassVar[bool] = False
    is_upper: ClassVar[bool] = False
    always_listed: ClassVar[bool] = True
    name: str
    basis: Basis

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return ()


class LeafRule(InvariantKind):
    """A hard rule on the records of some cells at every leaf."""

    cells: Selection

    @abstractmethod
    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return the bound at each leaf, int64 (n_leaves,); NO_LIMIT for none.

        Args:
            columns: public facts, int64 (n_leaves,), by name.
        """


@dataclass(frozen=True)
class Exact(InvariantKind):
    """Equality: the answers of `query` at every node of `level` are those of the confidential records."""

    kind: ClassVar[ConstraintKind] = "exact"
    keys: ClassVar[frozenset[str]] = frozenset({"level", "query"})
    is_lower: ClassVar[bool] = True
    is_upper: ClassVar[bool] = True
    name: str
    level: str
    query: str
    basis: Basis = Basis()


@dataclass(frozen=True)
class ColumnBound(LeafRule):
    """At every leaf, the records in `cells` are bounded by `per` times a public column."""

    keys: ClassVar[frozenset[str]] = frozenset({"cells", "column"})
    factor: ClassVar[str] = "per"
    name: str
    cells: Selection
    column: str
    per: int = 1
    basis: Basis = Basis()

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return (self.column,)

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return the bound at each leaf, a number of records."""
        return np.asarray(self.per * columns[self.column], dtype=np.int64)


@dataclass(frozen=True)
class AtLeast(ColumnBound):
    """At every leaf, the records in `cells` number at least `per` times the public column."""

    kind: ClassVar[ConstraintKind] = "at_least"
    is_lower: ClassVar[bool] = True


@dataclass(frozen=True)
class AtMost(ColumnBound):
    """At every leaf, the records in `cells` number at most `per` times the public column."""

    kind: ClassVar[ConstraintKind] = "at_most"
    is_upper: ClassVar[bool] = True
    always_listed: ClassVar[bool] = False


@dataclass(frozen=True)
class NoneWhereZero(LeafRule):
    """At every leaf where the public columns are all zero, no record lies in `cells`."""

    kind: ClassVar[ConstraintKind] = "none_where_zero"
    keys: ClassVar[frozenset[str]] = frozenset({"cells", "columns"})
    closes: ClassVar[bool] = True
    is_upper: ClassVar[bool] = True
    name: str
    cells: Selection
    columns: tuple[str, ...]
    basis: Basis = Basis()

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return self.columns

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return 0 where nobody can be."""
        return np.where(np.all([columns[c] == 0 for c in self.columns], axis=0), 0, NO_LIMIT)


@dataclass(frozen=True)
class Never(LeafRule):
    """Structural zero: no record lies in `cells`, anywhere, by definition."""

    kind: ClassVar[ConstraintKind] = "never"
    keys: ClassVar[frozenset[str]] = frozenset({"cells"})
    closes: ClassVar[bool] = True
    is_upper: ClassVar[bool] = True
    name: str
    cells: Selection
    basis: Basis = Basis()

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return 0 everywhere."""
        return np.zeros(n_leaves, dtype=np.int64)


@dataclass(frozen=True)
class NoMoreThan(InvariantKind):
    """At every leaf, the records in `cells` number at most `times` those in `than`.

    Soft: known of every true population, not promised of the released one. It is kept wherever that is possible and
    reported where it is not.
    """

    kind: ClassVar[ConstraintKind] = "no_more_than"
    keys: ClassVar[frozenset[str]] = frozenset({"cells", "than"})
    factor: ClassVar[str] = "times"
    always_listed: ClassVar[bool] = False
    name: str
    cells: Selection
    than: Selection
    times: int = 1
    basis: Basis = Basis()


KINDS: tuple[type[InvariantKind], ...] = (Exact, AtLeast, NoneWhereZero, Never, AtMost, NoMoreThan)
"""Every kind, in the order of invariants files; `Invariants` has a field for each."""


@dataclass(frozen=True)
class Invariants:
    """Everything one release promises about public knowledge."""

    name: str
    title: str
    schema: str
    exact: tuple[Exact, ...] = ()
    at_least: tuple[AtLeast, ...] = ()
    none_where_zero: tuple[NoneWhereZero, ...] = ()
    never: tuple[Never, ...] = ()
    source: str = ""
    at_most: tuple[AtMost, ...] = ()
    no_more_than: tuple[NoMoreThan, ...] = ()

    @property
    def by_kind(self) -> dict[ConstraintKind, tuple[InvariantKind, ...]]:
        """The constraints of every kind."""
        return {kind.kind: getattr(self, kind.kind) for kind in KINDS}

    @property
    def leaf_rules(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves, kind by kind: bounds first."""
        return (*self.at_least, *self.at_most, *self.none_where_zero, *self.never)

    @property
    def columns(self) -> tuple[str, ...]:
        """Public leaf columns the constraints read, each once."""
        rules = (rule for rules in self.by_kind.values() for rule in rules)
        return tuple(dict.fromkeys(column for rule in rules for column in rule.read_columns))


BATCH_LEAVES = 1 << 21  # whose numbers, of all bounds, are held at once


ZERO_KINDS = (Never.kind, NoneWhereZero.kind)  # these say where nobody can be


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
    def kind(self) -> ConstraintKind:
        """Kind of the constraint."""
        return self.rule.kind

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

    return tuple(
        ConstraintRow(
            rule,
            depth,
            schema.select(dict(rule.cells)),
            n_leaves,
            partial(rule.numbers, columns, n_leaves),
        )
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


def rows_of_kinds(rows: Iterable[ConstraintRow], *kinds: ConstraintKind) -> list[ConstraintRow]:
    """Return the rows of some kinds, kind by kind."""
    rows = tuple(rows)
    return [row for kind in kinds for row in rows if row.kind == kind]


def soft_rule_rows(schema: Schema, invariants: Invariants) -> NDArray[np.int64]:
    """Return one row a rule: 1 in `cells`, -times in `than`, so that a table keeps the rule if its sum is <= 0.

    Added up over leaves such a sum stays <= 0: every node above keeps the rule too (necessary; not sufficient).

    Returns:
        int64 (n_rules, n_cells); a cell in both sets has 1 - times.
    """
    rows = np.zeros((len(invariants.no_more_than), schema.n_cells), dtype=np.int64)
    for row, rule in zip(rows, invariants.no_more_than, strict=True):
        row += schema.select(dict(rule.cells))
        row -= rule.times * schema.select(dict(rule.than)).astype(np.int64)
    return rows
