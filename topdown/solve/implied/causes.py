"""Why sums of lower bounds and open cells are not enough at the nodes of a level, from the solver's own objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topdown.model.constraint import Invariants
from topdown.model.constraint_table import unknown_answers
from topdown.model.exact_tables import Arrangement, arrange, tables_of
from topdown.model.geography import Geography, Level
from topdown.model.kinds import find_kinds
from topdown.model.public import PublicFacts, Rules, with_answers
from topdown.model.query import parse_query
from topdown.model.schema import Schema
from topdown.solve.chain import Tables, exact_beside
from topdown.solve.groups import Ints
from topdown.solve.polytopes import Polytopes, Reason, polytopes_of


@dataclass(frozen=True, eq=False)
class Ground:
    """What a verdict is read from.

    Args:
        schema, invariants: of the release.
        rules: from public facts, without exact tables. polytopes: with them; their answers may be unknown (zero).
        tables: names of each level's rounding chain; empty where no settings are known.
    """

    schema: Schema
    invariants: Invariants
    rules: Rules
    polytopes: Polytopes
    tables: tuple[tuple[str, ...], ...]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Levels from the root to the leaves."""
        return self.polytopes.geography.level_names

    @cached_property
    def kept(self) -> Arrangement:
        """How exact tables are kept."""
        return arranged(self.schema, self.invariants, self.level_names, self.rules)

    def chain(self, depth: int) -> Tables:
        """Return the rounding chain of a level, as the settings name it."""
        return tuple(parse_query(self.schema, name).labels.astype(np.int64) for name in self.tables[depth])

    def beside(self, depth: int) -> tuple[Ints, tuple[str, ...]]:
        """Return the exact table that rounding keeps beside the limits of a level, and the names that make it.

        Zeros and no names where there is none.
        """
        root, split = self.kept.root, self.kept.split
        if not exact_beside(self.polytopes, depth, root=root.tells_more, split=split.tells_more):
            return np.zeros(self.schema.n_cells, dtype=np.int64), ()
        own = depth == 0 and root.tells_more
        return (root if own else split).labels, self.exact_tables(0 if own else self.kept.depth)

    def exact_tables(self, depth: int) -> tuple[str, ...]:
        """Name the exact tables of a level other than totals."""
        exact = [e for e in self.invariants.exact if e.level == self.level_names[depth]]
        return tuple(e.name for e in exact if parse_query(self.schema, e.query).factors)


def arranged(schema: Schema, invariants: Invariants, level_names: Sequence[str], rules: Rules) -> Arrangement:
    """Return how exact tables are kept. Raises ConfigError (C033) as `model.exact_tables.arrange`."""
    return arrange(tables_of(schema, invariants, level_names), rules, level_names)


def worst_case(invariants: Invariants, levels: Sequence[str]) -> tuple[Geography, PublicFacts]:
    """Return a tree of one leaf and facts for which every bound binds and everything is open."""
    geography = Geography(tuple(Level(name, ("0",), np.zeros(1, dtype=np.int64)) for name in levels))
    return geography, PublicFacts({column: np.ones(1, dtype=np.int64) for column in invariants.columns})


def public_regions(schema: Schema, invariants: Invariants, geography: Geography, rules: Rules) -> Polytopes:
    """Return the polytopes of a release whose exact statistics are not known: they stand as zeros.

    Kinds of cells and which levels have limits are as they will be; the limits are not, where something is exact.
    """
    full = with_answers(rules, geography, unknown_answers(schema, invariants, geography))
    kept = arranged(schema, invariants, geography.level_names, rules)
    totals = {d: np.zeros(len(geography.levels[d]), np.int64) for d in range(kept.depth + 1)}
    kinds = find_kinds(full, answers=kept.split.labels)
    answers = np.zeros((len(geography.levels[kept.depth]), len(kept.split.sources)), np.int64)
    return polytopes_of(kinds, full, geography, totals, answers if kept.split.tells_more else None)


Cause = tuple[str, tuple[str, ...], tuple[str, ...]]  # text, names of constraints, theorems


def _totals_below(ground: Ground) -> Cause:
    where = ground.level_names[ground.polytopes.unit_depth]
    found = tuple(e.name for e in ground.invariants.exact if e.level == where)
    return f"totals are fixed at level {where}", found, ("Theorem 3", "Theorems 4-7")


def _inner_table(ground: Ground) -> Cause:
    deepest = ground.polytopes.unit_depth
    found = ground.exact_tables(deepest)
    text = f"{_quoted(found)} fixed at level {ground.level_names[deepest]}"
    return text, found, ("Theorem 3", "Edmonds 1970")


def _leaf_tables(ground: Ground) -> Cause:
    found = ground.exact_tables(len(ground.level_names) - 1)
    return f"{_quoted(found)} fixed at every leaf", found, ("Frank 1984",)


def _upper_bounds(ground: Ground) -> Cause:
    return "upper bounds at the leaves", ground.rules.cap_names, ("Frank 1984",)


def _nested_bounds(ground: Ground) -> Cause:
    found = tuple(ground.rules.bound_names[b] for b in ground.rules.nested)
    return "lower bounds inside each other", found, ("Frank 1984",)


def _spread_bounds(ground: Ground) -> Cause:
    kinds, rules = ground.polytopes.kinds, ground.rules
    found = tuple(
        name
        for name, cells, low in zip(rules.bound_names, rules.bound_cells, rules.lower[-1].T, strict=True)
        if low.any()
        and len(np.unique(kinds.class_of[np.unique(kinds.of_cell[cells & (kinds.of_cell >= 0)])])) > 1
    )
    text = f"the cells of {_quoted(found)} are open and closed apart at different leaves"
    return text, found, ("Theorem 3", "Frank 1984")


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f'"{name}"' for name in names)


# Another reason needs its words here.
_WORDS: dict[Reason, tuple[Callable[[Ground], Cause], ...]] = {
    Reason.TOTALS_BELOW: (_totals_below,),
    Reason.INNER_TABLE: (_inner_table,),
    Reason.UPPER_BOUNDS: (_leaf_tables, _upper_bounds),
    Reason.NESTED_BOUNDS: (_nested_bounds,),
    Reason.SPREAD_BOUNDS: (_spread_bounds,),
}


def causes_of(ground: Ground, depth: int) -> list[Cause]:
    """Say what asks for more at a level: the reasons of the solver's own decision, with the constraints behind them."""
    reasons = ground.polytopes.all_leaves.needed[depth]
    return [cause for reason in reasons for tell in _WORDS[reason] if (cause := tell(ground))[1]]
