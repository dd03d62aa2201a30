"""Why sums of lower bounds and open cells are not enough at the nodes of a level, from the solver's own objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from topdown.model.constraint import Invariants
from topdown.model.geography import Geography, Level
from topdown.model.kinds import are_nested, find_kinds
from topdown.model.public import PublicFacts, Rules, one_cell_each, with_exact_tables
from topdown.model.query import parse_query
from topdown.model.schema import Schema
from topdown.solve.regions import Regions
from topdown.solve.route import Chain


@dataclass(frozen=True, eq=False)
class Ground:
    """What a verdict is read from.

    Args:
        schema, invariants: of the release.
        rules: from public facts, without exact tables. regions: with them; their answers may be unknown (zero).
        tables: names of each level's rounding chain; empty where no settings are known.
    """

    schema: Schema
    invariants: Invariants
    rules: Rules
    regions: Regions
    tables: tuple[tuple[str, ...], ...]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Levels from the root to the leaves."""
        return self.regions.geography.level_names

    def chain(self, depth: int) -> Chain:
        """Return the rounding chain of a level."""
        return tuple(parse_query(self.schema, name).labels.astype(np.int64) for name in self.tables[depth])


def worst_case(invariants: Invariants, levels: Sequence[str]) -> tuple[Geography, PublicFacts]:
    """Return a tree of one leaf and facts for which every bound binds and everything is open."""
    geography = Geography(tuple(Level(name, ("0",), np.zeros(1, dtype=np.int64)) for name in levels))
    return geography, PublicFacts({column: np.ones(1, dtype=np.int64) for column in invariants.columns})


def public_regions(schema: Schema, invariants: Invariants, geography: Geography, rules: Rules) -> Regions:
    """Return the regions of a release whose exact statistics are not known: they stand as zeros.

    Kinds of cells and which levels have limits are as they will be; the limits are not, where something is exact.
    """
    n_leaves = len(geography.leaves)
    queries = [parse_query(schema, e.query) for e in invariants.exact]
    unknown = tuple((q.labels, np.zeros((n_leaves, q.n_answers), np.int64)) for q in queries if q.factors)
    full = with_exact_tables(rules, unknown)
    deepest = max((geography.index(e.level) for e in invariants.exact), default=-1)
    totals = {d: np.zeros(len(geography.levels[d]), np.int64) for d in range(deepest + 1)}
    small, cell = one_cell_each(full)
    kinds = find_kinds(small)
    return Regions(replace(kinds, of_cell=kinds.of_cell[cell]), full, geography, totals)


Cause = tuple[str, tuple[str, ...], tuple[str, ...]]  # text, names of constraints, theorems


def _totals_below(ground: Ground, depth: int) -> Cause | None:
    deepest = ground.regions.unit_depth
    if depth >= deepest:
        return None
    where = ground.level_names[deepest]
    found = tuple(e.name for e in ground.invariants.exact if e.level == where)
    return f"totals are fixed at level {where}", found, ("Theorem 3", "Theorems 4-7")


def _exact_tables(ground: Ground, _: int) -> Cause | None:
    found = tuple(e.name for e in ground.invariants.exact if parse_query(ground.schema, e.query).factors)
    said = " and ".join(f'"{name}"' for name in found)
    return (f"{said} fixed at every leaf", found, ("Frank 1984",)) if found else None


def _upper_bounds(ground: Ground, _: int) -> Cause | None:
    found = tuple(cap.name for cap in ground.invariants.at_most)
    return ("upper bounds at the leaves", found, ("Frank 1984",)) if found else None


def _nested_bounds(ground: Ground, _: int) -> Cause | None:
    if not are_nested(ground.rules):
        return None
    cells = ground.rules.bound_cells
    found = tuple(
        bound.name
        for b, bound in enumerate(ground.invariants.at_least)
        if any((cells[b] & other).any() for c, other in enumerate(cells) if c != b)
    )
    return "lower bounds inside each other", found, ("Frank 1984",)


def _spread_bounds(ground: Ground, depth: int) -> Cause | None:
    if depth == len(ground.level_names) - 1:
        return None
    kinds, rules = ground.regions.kinds, ground.rules
    found = tuple(
        bound.name
        for bound, cells, low in zip(
            ground.invariants.at_least, rules.bound_cells, rules.lower[-1].T, strict=True
        )
        if low.any()
        and len(np.unique(kinds.class_of[np.unique(kinds.of_cell[cells & (kinds.of_cell >= 0)])])) > 1
    )
    said = " and ".join(f'"{name}"' for name in found)
    text = f"the cells of {said} are open and closed apart at different leaves"
    return (text, found, ("Theorem 3", "Frank 1984")) if found else None


# Another kind of constraint that asks for more adds a function here.
_CAUSES = (_totals_below, _exact_tables, _upper_bounds, _nested_bounds, _spread_bounds)


def causes_of(ground: Ground, depth: int) -> list[Cause]:
    """List what asks for more at a level."""
    found = [find(ground, depth) for find in _CAUSES]
    return [cause for cause in found if cause is not None]
