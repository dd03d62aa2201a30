"""Hard constraints row by row: at every node of a level, the records in some cells number `low` to `high`.

One derivation for all who ask: zeros are [0, 0], exact answers [n, n], lower bounds [n, no limit], upper bounds [0, n].
Leaving a constraint out is leaving its rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import AtLeast, AtMost, Exact, Invariants, Never, NoneWhereZero, Selection
from topdown.model.geography import Geography
from topdown.model.query import parse_query
from topdown.model.schema import Schema

NO_LIMIT = 2**50  # persons; stands for "no upper bound"
BATCH_LEAVES = 1 << 21  # whose numbers, of all bounds, are held at once
Kind = Literal["exact", "at_least", "at_most", "none_where_zero", "never"]
CLOSING: tuple[Kind, ...] = ("never", "none_where_zero")  # these say where nobody can be
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


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

    kind: Kind
    rule: Exact | AtLeast | AtMost | NoneWhereZero | Never
    depth: int
    cells: Marks
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

    def row(
        kind: Kind, rule: AtLeast | AtMost | NoneWhereZero | Never, counts: Callable[[], Ints]
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
