"""Hard constraints row by row: at every node of a level, the records in some cells number `low` to `high`.

One derivation for all who ask: zeros are [0, 0], exact answers [n, n], lower bounds [n, no limit], upper bounds [0, n].
Leaving a constraint out is leaving its rows out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import AtLeast, AtMost, Exact, Invariants, Never, NoneWhereZero, Selection
from topdown.model.geography import Geography
from topdown.model.query import parse_query
from topdown.model.schema import Schema

NO_LIMIT = 2**50  # persons; stands for "no upper bound"
Kind = Literal["exact", "at_least", "at_most", "none_where_zero", "never"]
CLOSING: tuple[Kind, ...] = ("never", "none_where_zero")  # these say where nobody can be
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ConstraintRow:
    """What one constraint asks of the nodes of a level; an exact table is one row an answer.

    Args:
        kind, rule: as the invariants state it.
        depth: position of the level, 0 at the root.
        cells: bool (n_cells,), whose records are counted.
        low, high: int64 (n_nodes,), fewest and most records of them; NO_LIMIT for no upper bound.
    """

    kind: Kind
    rule: Exact | AtLeast | AtMost | NoneWhereZero | Never
    depth: int
    cells: Marks
    low: Ints
    high: Ints

    @property
    def name(self) -> str:
        """Name of the constraint."""
        return self.rule.name

    @property
    def selection(self) -> Selection:
        """Cells as the invariants choose them; () for answers of an exact statistic."""
        return () if isinstance(self.rule, Exact) else self.rule.cells

    @property
    def asks(self) -> Marks:
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
    none, boundless = np.zeros(n_leaves, dtype=np.int64), np.full(n_leaves, NO_LIMIT, dtype=np.int64)

    def row(
        kind: Kind, rule: AtLeast | AtMost | NoneWhereZero | Never, low: Ints, high: Ints
    ) -> ConstraintRow:
        return ConstraintRow(kind, rule, depth, schema.select(dict(rule.cells)), low, high)

    rows = [row("at_least", b, b.per * columns[b.column], boundless) for b in invariants.at_least]
    rows += [row("at_most", b, none, b.per * columns[b.column]) for b in invariants.at_most]
    for zero in invariants.none_where_zero:
        shut = np.all([columns[c] == 0 for c in zero.columns], axis=0)
        rows.append(row("none_where_zero", zero, none, np.where(shut, none, boundless)))
    return (*rows, *(row("never", rule, none, none) for rule in invariants.never))


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
                ConstraintRow("exact", statistic, depth, labels == a, n, n) for a, n in enumerate(answers.T)
            ]
    return tuple(rows)


def unknown_answers(
    schema: Schema, invariants: Invariants, geography: Geography
) -> tuple[ConstraintRow, ...]:
    """Return exact statistics with zeros for their answers: what is exact is known before they are."""
    shapes = {
        e.name: (len(geography.levels[geography.index(e.level)]), parse_query(schema, e.query).n_answers)
        for e in invariants.exact
    }
    none = {name: np.zeros(shape, dtype=np.int64) for name, shape in shapes.items()}
    return exact_rows(schema, invariants, none, geography)


def of_kinds(rows: Iterable[ConstraintRow], *kinds: Kind) -> list[ConstraintRow]:
    """Return the rows of some kinds, kind by kind."""
    rows = tuple(rows)
    return [row for kind in kinds for row in rows if row.kind == kind]
