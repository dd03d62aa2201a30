"""Public facts rule by rule: at every leaf, the records in some cells number `low` to `high`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import AtLeast, AtMost, Invariants, Never, NoneWhereZero, Selection

NO_LIMIT = 2**50  # persons; stands for "no upper bound"
Kind = Literal["exact", "at_least", "at_most", "none_where_zero", "never"]
CLOSING: tuple[Kind, ...] = ("never", "none_where_zero")  # these say where nobody can be
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LeafRule:
    """What one rule asks of the leaves.

    Args:
        kind, rule: as the invariants state it.
        low, high: int64 (n_leaves,), fewest and most records of its cells; NO_LIMIT for no upper bound.
    """

    kind: Kind
    rule: AtLeast | AtMost | NoneWhereZero | Never
    low: Ints
    high: Ints

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.rule.name

    @property
    def cells(self) -> Selection:
        """Cells whose records are counted."""
        return self.rule.cells

    @property
    def asks(self) -> Marks:
        """Leaves of which it asks anything."""
        return np.asarray((self.low > 0) | (self.high < NO_LIMIT))


def leaf_rules(invariants: Invariants, columns: Mapping[str, Ints], n_leaves: int) -> tuple[LeafRule, ...]:
    """Return what public facts say of the leaves, rule by rule.

    Args:
        invariants: soft rules and exact statistics are left out.
        columns: public facts, int64 (n_leaves,), by name.
    """
    none, boundless = np.zeros(n_leaves, dtype=np.int64), np.full(n_leaves, NO_LIMIT, dtype=np.int64)
    rows = [LeafRule("at_least", b, b.per * columns[b.column], boundless) for b in invariants.at_least]
    rows += [LeafRule("at_most", b, none, b.per * columns[b.column]) for b in invariants.at_most]
    for zero in invariants.none_where_zero:
        shut = np.all([columns[c] == 0 for c in zero.columns], axis=0)
        rows.append(LeafRule("none_where_zero", zero, none, np.where(shut, none, boundless)))
    return (*rows, *(LeafRule("never", rule, none, none) for rule in invariants.never))


def of_kinds(rules: Iterable[LeafRule], *kinds: Kind) -> list[LeafRule]:
    """Return the rules of some kinds, kind by kind."""
    rules = tuple(rules)
    return [rule for kind in kinds for rule in rules if rule.kind == kind]
