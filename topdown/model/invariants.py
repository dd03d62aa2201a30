"""Public knowledge that a release must reproduce: every kind of invariant, and the rows that follow from it.

A kind is one class. It says everything that depends on the kind: the keys of its TOML table, the public columns that it
reads, its numbers, its words. Whoever handles invariants finds the kinds through `KINDS` and asks what they are: rows
that close or bound cells of leaves, exact statistics of a level, soft rules. `topdown/verify/rule_kinds.py` reads and
checks every kind once more, by its own code; a kind that is missing there is refused.

A row says: at every node of a level, the records in some cells number `low` to `high`. One derivation for all who ask:
zeros are [0, 0], exact answers [n, n], lower bounds [n, no limit], upper bounds [0, n]. Leaving a constraint out is
leaving its rows out. Soft rules, which compare sets of cells, are integer rows over the cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.formats import InvariantKindName
from topdown.model.cell_sets import NO_LIMIT
from topdown.model.geography import Geography
from topdown.model.query import parse_query
from topdown.model.schema import Schema

Selection = tuple[tuple[str, tuple[str, ...]], ...]  # ((attribute, labels), ...): cells with all of them
NameCells = Callable[[Selection], str]
Line = tuple[str, str]  # algebra, reason


@dataclass(frozen=True)
class TableKey:
    """A key of the tables of invariants files: what it means, an example in TOML, errors that a wrong value ends in."""

    text: str
    example: str
    codes: str


KEYS = {
    "level": TableKey("Of an exact table.", '"country"', "C032"),
    "query": TableKey("total, an attribute, a recode, or several joined by ` * `.", '"total"', "C024"),
    "cells": TableKey(
        "Labels by attribute or recode; {} is everybody.", '{ age = ["65+"] }', "C024 C025 C134"
    ),
    "column": TableKey("Public column of the leaves.", '"beds"', "D004"),
    "columns": TableKey("Public columns of the leaves.", '["homes"]', "D004"),
    "per": TableKey("Factor of the column.", "2", "C031"),
    "than": TableKey("As cells, of the other side.", "{}", "C134"),
    "times": TableKey("Factor of the other side.", "3", "C031"),
}
"""Every key of some kind, beside its name and legal basis. A whole number is a factor, and may be left out."""


@dataclass(frozen=True)
class Basis:
    """Why a statistic is published without noise; answers a person must give, "?" while open."""

    legal_basis: str = "?"
    decided_by: str = "?"
    date: str = "?"


class InvariantKind(ABC):
    """What every invariant says of its kind; its fields, other than name and basis, are the keys of its TOML table.

    Attributes:
        kind: name of its tables in an invariants file.
        text, error_codes: what it promises, and what wrong tables of it end in, for the reference of invariants files.
        closes: whether it says where nobody can be.
        is_lower, is_upper: whether its numbers are lower bounds, upper bounds, or both.
        always_listed: whether plans that have none say so, as the first kinds do.
    """

    kind: ClassVar[InvariantKindName]
    text: ClassVar[str]
    error_codes: ClassVar[str] = "C031"
    closes: ClassVar[bool] = False
    is_lower: ClassVar[bool] = False
    is_upper: ClassVar[bool] = False
    always_listed: ClassVar[bool] = False
    name: str
    basis: Basis

    @classmethod
    def table_keys(cls) -> dict[str, bool]:
        """Return the keys of its table, beside name and legal basis, and whether each is needed."""
        return {f.name: f.default is MISSING for f in fields(cls) if f.name not in ("name", "basis")}  # type: ignore[arg-type]

    @property
    def read_columns(self) -> tuple[str, ...]:
        """Public leaf columns that it reads."""
        return ()

    @property
    def closes_everywhere(self) -> bool:
        """Whether nobody is in its cells, by definition."""
        return self.closes and not self.read_columns

    @abstractmethod
    def algebra(self, name_cells: NameCells) -> Line:
        """Write what it asks of any area above the leaves, whose numbers are sums over them, and why."""


class LeafRule(InvariantKind):
    """A hard rule on the records of some cells at every leaf."""

    cells: Selection

    @abstractmethod
    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return the bound at each leaf, int64 (n_leaves,); NO_LIMIT for none.

        Args:
            columns: public facts, int64 (n_leaves,), by name.
        """

    def made_columns(self, n_people: Ints) -> dict[str, Ints]:
        """Return its columns as a made-up census needs them: the least numbers with which so many people keep it.

        Of kinds that bound counts from above; where people are made for columns instead, there is nothing to return.

        Args:
            n_people: in its cells at each leaf, int64 (n_leaves,).
        """
        raise NotImplementedError(f"made-up people cannot keep {self.kind}")


class SoftRule(InvariantKind):
    """A rule that is known of every true population and not promised of the released one.

    It is kept wherever that is possible and reported where it is not.
    """

    @abstractmethod
    def weights(self, schema: Schema) -> Ints:
        """Return a number for each cell, int64 (n_cells,): records keep the rule if their numbers add up to 0 or less.

        Added up over leaves they stay so: every node above keeps the rule too (necessary; not sufficient).
        """

    @property
    @abstractmethod
    def attributes(self) -> frozenset[str]:
        """Attributes that it speaks of."""


@dataclass(frozen=True)
class Exact(InvariantKind):
    """Equality: the answers of `query` at every node of `level` are those of the confidential records."""

    kind = "exact"
    text = "As counted, at every area of a level: level, query."
    error_codes = "C031 C033"
    is_lower = True
    is_upper = True
    always_listed = True
    name: str
    level: str
    query: str
    basis: Basis = Basis()

    def algebra(self, name_cells: NameCells) -> Line:
        """Write that it is known at its level."""
        return f"x[{self.query}] = its exact answers, at level {self.level} and sums of them above", self.name


@dataclass(frozen=True)
class ColumnBound(LeafRule):
    """At every leaf, the records in `cells` are bounded by `per` times a public column."""

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

    def algebra(self, name_cells: NameCells) -> Line:
        """Write the bound."""
        sign, theorem = (">=", " (Theorem 3)") if self.is_lower else ("<=", "")
        times = "" if self.per == 1 else f"{self.per} "
        return f"x[{name_cells(self.cells)}] {sign} {times}sum {self.column}", f"{self.name}{theorem}"


@dataclass(frozen=True)
class AtLeast(ColumnBound):
    """At every leaf, the records in `cells` number at least `per` times the public column."""

    kind = "at_least"
    text = "In every leaf at least `per` times a column: cells, column."
    always_listed = True
    is_lower = True


@dataclass(frozen=True)
class NoneWhereZero(LeafRule):
    """At every leaf where the public columns are all zero, no record lies in `cells`."""

    kind = "none_where_zero"
    text = "Nobody where all columns are zero: cells, columns."
    always_listed = True
    closes = True
    is_upper = True
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

    def algebra(self, name_cells: NameCells) -> Line:
        """Write where nobody is."""
        facts = " + ".join(f"sum {column}" for column in self.columns)
        return f"x[{name_cells(self.cells)}] = 0 if {facts} = 0", f"{self.name} (Theorem 8)"


@dataclass(frozen=True)
class Never(LeafRule):
    """Structural zero: no record lies in `cells`, anywhere, by definition."""

    kind = "never"
    text = "Nobody, anywhere: cells."
    always_listed = True
    closes = True
    is_upper = True
    name: str
    cells: Selection
    basis: Basis = Basis()

    def numbers(self, columns: Mapping[str, Ints], n_leaves: int) -> Ints:
        """Return 0 everywhere."""
        return np.zeros(n_leaves, dtype=np.int64)

    def algebra(self, name_cells: NameCells) -> Line:
        """Write that nobody is there."""
        return f"x[{name_cells(self.cells)}] = 0", f"{self.name} (Theorem 8)"


@dataclass(frozen=True)
class AtMost(ColumnBound):
    """At every leaf, the records in `cells` number at most `per` times the public column."""

    kind = "at_most"
    text = "In every leaf at most `per` times a column: cells, column."
    is_upper = True

    def made_columns(self, n_people: Ints) -> dict[str, Ints]:
        """Return as many as the people need."""
        return {self.column: -(-n_people // self.per)}


@dataclass(frozen=True)
class NoMoreThan(SoftRule):
    """At every leaf, the records in `cells` number at most `times` those in `than`."""

    kind = "no_more_than"
    text = "Soft: no more than `times` the records in `than`: cells, than."
    name: str
    cells: Selection
    than: Selection
    times: int = 1
    basis: Basis = Basis()

    def weights(self, schema: Schema) -> Ints:
        """Return 1 in `cells`, -times in `than`, 1 - times in both."""
        some, others = (schema.select(dict(cells)).astype(np.int64) for cells in (self.cells, self.than))
        return some - self.times * others

    @property
    def attributes(self) -> frozenset[str]:
        """Attributes of both sides."""
        return frozenset(name for name, _ in (*self.cells, *self.than))

    def algebra(self, name_cells: NameCells) -> Line:
        """Write the comparison."""
        times = "" if self.times == 1 else f"{self.times} "
        return f"x[{name_cells(self.cells)}] <= {times}x[{name_cells(self.than)}], soft", self.name


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
    def by_kind(self) -> dict[InvariantKindName, tuple[InvariantKind, ...]]:
        """The constraints of every kind."""
        return {kind.kind: getattr(self, kind.kind) for kind in KINDS}

    @property
    def rules(self) -> tuple[InvariantKind, ...]:
        """All constraints, kind by kind."""
        return tuple(rule for rules in self.by_kind.values() for rule in rules)

    @property
    def leaf_rules(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves, kind by kind: lower bounds, then upper bounds, then what closes cells."""
        rules = (rule for rule in self.rules if isinstance(rule, LeafRule))
        return tuple(sorted(rules, key=lambda rule: (rule.closes, not rule.is_lower)))

    @property
    def closing(self) -> tuple[LeafRule, ...]:
        """Rules that say where nobody can be."""
        return tuple(rule for rule in self.leaf_rules if rule.closes)

    @property
    def bounds(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves that bound counts instead."""
        return tuple(rule for rule in self.leaf_rules if not rule.closes)

    @property
    def lower_bounds(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves that ask for records."""
        return tuple(rule for rule in self.leaf_rules if rule.is_lower)

    @property
    def upper_bounds(self) -> tuple[LeafRule, ...]:
        """Hard rules on leaves that limit how many records there are, other than to none."""
        return tuple(rule for rule in self.bounds if rule.is_upper)

    @property
    def soft_rules(self) -> tuple[SoftRule, ...]:
        """Rules that are kept where that is possible."""
        return tuple(rule for rule in self.rules if isinstance(rule, SoftRule))

    @property
    def columns(self) -> tuple[str, ...]:
        """Public leaf columns the constraints read, each once."""
        return tuple(dict.fromkeys(column for rule in self.rules for column in rule.read_columns))


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


def soft_rule_rows(schema: Schema, invariants: Invariants) -> NDArray[np.int64]:
    """Return one row a soft rule, int64 (n_rules, n_cells): a table keeps the rule if its sum is <= 0."""
    rows = [rule.weights(schema) for rule in invariants.soft_rules]
    return np.array(rows, dtype=np.int64).reshape(-1, schema.n_cells)
