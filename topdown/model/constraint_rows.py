"""Public knowledge that a release must reproduce, as it is stated and as rows.

A row says: at every node of a level, the records in some cells number `low` to `high`. One derivation for all who ask:
zeros are [0, 0], exact answers [n, n], lower bounds [n, no limit], upper bounds [0, n]. Leaving a constraint out is
leaving its rows out. Soft rules, which compare two sets of cells, are integer rows over the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.model.cell_sets import NO_LIMIT
from topdown.model.geography import Geography
from topdown.model.query import parse_query
from topdown.model.schema import Schema

Selection = tuple[tuple[str, tuple[str, ...]], ...]  # ((attribute, labels), ...): cells with all of them


@dataclass(frozen=True)
class Basis:
    """Why a statistic is published without noise; answers a person must give, "?" while open."""

    legal_basis: str = "?"
    decided_by: str = "?"
    date: str = "?"


@dataclass(frozen=True)
class Exact:
    """Equality: the answers of `query` at every node of `level` are those of the confidential records."""

    name: str
    level: str
    query: str
    basis: Basis = Basis()


@dataclass(frozen=True)
class AtLeast:
    """At every leaf, the records in `cells` number at least `per` times the public column."""

    name: str
    cells: Selection
    column: str
    per: int = 1
    basis: Basis = Basis()


@dataclass(frozen=True)
class AtMost:
    """At every leaf, the records in `cells` number at most `per` times the public column."""

    name: str
    cells: Selection
    column: str
    per: int = 1
    basis: Basis = Basis()


@dataclass(frozen=True)
class NoneWhereZero:
    """At every leaf where the public columns are all zero, no record lies in `cells`."""

    name: str
    cells: Selection
    columns: tuple[str, ...]
    basis: Basis = Basis()


@dataclass(frozen=True)
class Never:
    """Structural zero: no record lies in `cells`, anywhere, by definition."""

    name: str
    cells: Selection
    basis: Basis = Basis()


@dataclass(frozen=True)
class NoMoreThan:
    """At every leaf, the records in `cells` number at most `times` those in `than`.

    Soft: known of every true population, not promised of the released one. It is kept wherever that is possible and
    reported where it is not.
    """

    name: str
    cells: Selection
    than: Selection
    times: int = 1
    basis: Basis = Basis()


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
    def columns(self) -> tuple[str, ...]:
        """Public leaf columns the constraints read, each once."""
        names = [c.column for c in self.at_least] + [c for z in self.none_where_zero for c in z.columns]
        names += [c.column for c in self.at_most]
        return tuple(dict.fromkeys(names))


BATCH_LEAVES = 1 << 21  # whose numbers, of all bounds, are held at once


ConstraintKind = Literal["exact", "at_least", "at_most", "none_where_zero", "never"]


ZERO_KINDS: tuple[ConstraintKind, ...] = ("never", "none_where_zero")  # these say where nobody can be


@dataclass(frozen=True, eq=False)
class ConstraintRow:
    """What one constraint asks of the nodes of a level; an exact table is one row an answer.

    Numbers are made when they are asked for: those of a nation's leaves, all rows at once, would take a gigabyte.

    Args:
        kind, rule: as the invariants state it.
        depth: position of the level, 0 at the root.
        cells: bool (n_cells,), whose records are counted.
        n_nodes: of the level.
        counts: makes the number of each node, int64 (n_nodes,): of the bound, the exact answer, or the most records in
            cells that are closed somewhere.
    """

    kind: ConstraintKind
    rule: Exact | AtLeast | AtMost | NoneWhereZero | Never
    depth: int
    cells: Bools
    n_nodes: int
    counts: Callable[[], Ints]

    @property
    def low(self) -> Ints:
        """Fewest records of the cells at every node, int64 (n_nodes,)."""
        return self.counts() if self.kind in ("at_least", "exact") else np.zeros(self.n_nodes, dtype=np.int64)

    @property
    def high(self) -> Ints:
        """Most records of the cells, int64 (n_nodes,); NO_LIMIT for no upper bound."""
        if self.kind == "at_least":
            return np.full(self.n_nodes, NO_LIMIT, dtype=np.int64)
        return self.counts()

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
        return () if isinstance(self.rule, Exact) else self.rule.cells

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

    def row(
        kind: ConstraintKind, rule: AtLeast | AtMost | NoneWhereZero | Never, counts: Callable[[], Ints]
    ) -> ConstraintRow:
        return ConstraintRow(kind, rule, depth, schema.select(dict(rule.cells)), n_leaves, counts)

    def times(bound: AtLeast | AtMost) -> Ints:
        return np.asarray(bound.per * columns[bound.column], dtype=np.int64)

    def limit(zero: NoneWhereZero) -> Ints:
        shut = np.all([columns[c] == 0 for c in zero.columns], axis=0)
        return np.where(shut, 0, NO_LIMIT)

    def nobody() -> Ints:
        return np.zeros(n_leaves, dtype=np.int64)

    return (
        *(row("at_least", bound, partial(times, bound)) for bound in invariants.at_least),
        *(row("at_most", bound, partial(times, bound)) for bound in invariants.at_most),
        *(row("none_where_zero", zero, partial(limit, zero)) for zero in invariants.none_where_zero),
        *(row("never", rule, nobody) for rule in invariants.never),
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
                ConstraintRow("exact", statistic, depth, labels == a, len(n), partial(np.array, n))
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
