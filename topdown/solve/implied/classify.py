"""What can be promised about a set of invariants, level by level, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from topdown.errors import ConfigError
from topdown.model.constraint import Invariants
from topdown.model.query import Query, parse_query
from topdown.model.schema import Schema
from topdown.plan.plan import Plan
from topdown.solve.implied.atoms import Atoms, find_atoms
from topdown.solve.implied.groups import MAX_GROUPS

Kind = Literal["complete_integral", "complete", "not_guaranteed"]
Needs = Literal["nothing", "combination_table", "combination_flows", "margin_bounds"]
TITLES: dict[Kind, str] = {
    "complete_integral": "complete and integral",
    "complete": "complete, integrality not guaranteed",
    "not_guaranteed": "not guaranteed",
}


@dataclass(frozen=True)
class Verdict:
    """What holds for the implied constraints of the nodes of one level.

    Complete: every whole table that satisfies them can be split down to the leaves. Integral: the rounding of the
    level is a flow, so a linear program already gives whole numbers.

    Args:
        level: name.
        kind: the promise.
        theorems: of Census TopDown that give it.
        needs: constraints to enforce beside sums of lower bounds, zeros and exact tables.
        sentence: the verdict with its reason.
    """

    level: str
    kind: Kind
    theorems: tuple[str, ...]
    needs: Needs
    sentence: str

    @property
    def title(self) -> str:
        """The promise in words."""
        return TITLES[self.kind]

    def to_json(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return asdict(self) | {"theorems": list(self.theorems)}


def verdicts(schema: Schema, invariants: Invariants, levels: Sequence[str]) -> tuple[Verdict, ...]:
    """Judge every level, root first.

    Args:
        schema: of the records.
        invariants: constraints on leaves and exact tables.
        levels: names from the root to the leaves.

    Raises:
        ConfigError: an exact table names a level that is not given (C032), or an unknown query.
    """
    tables = []
    for exact in invariants.exact:
        if exact.level not in levels:
            raise ConfigError(
                f"invariant {exact.name!r} names level {exact.level!r}, which is not among {', '.join(levels)}",
                code="C032",
                fix="give all levels from the root to the leaves",
            )
        tables.append((list(levels).index(exact.level), parse_query(schema, exact.query)))
    atoms = find_atoms(schema, invariants)
    return tuple(_judge(schema, invariants, atoms, tables, levels, i) for i in range(len(levels)))


def plan_verdicts(plan: Plan) -> tuple[Verdict, ...]:
    """Judge every level of a plan, root first."""
    return verdicts(plan.schema, plan.invariants, [level.name for level in plan.levels])


def _judge(
    schema: Schema,
    invariants: Invariants,
    atoms: Atoms,
    tables: list[tuple[int, Query]],
    levels: Sequence[str],
    here: int,
) -> Verdict:
    name = levels[here]
    if atoms.shared is not None:
        a, b = (invariants.at_least[i].name for i in atoms.shared)
        why = f'the lower bounds "{a}" and "{b}" share cells; only disjoint ones are understood'
        return Verdict(name, "not_guaranteed", (), "nothing", why)
    below = _finest([(i, q) for i, q in tables if i > here])
    own = _finest([(i, q) for i, q in tables if i == here])
    if not below:
        return _nothing_below(invariants, atoms, own, name, here == len(levels) - 1)
    queries = [q for _, q in below]
    if len(queries) == 1 and not queries[0].factors:
        return _totals_below(atoms, own, name, levels[below[0][0]])
    if len(atoms) == 1 and not atoms.bounded_by.any() and not invariants.never:
        return _margins_below(queries, {i for i, _ in below}, own, name)
    why = (
        f'the table "{queries[0].name}" is fixed further down, together with zeros or lower bounds; complete '
        "constraints are known here for fixed totals, or for tables without other rules"
    )
    return Verdict(name, "not_guaranteed", (), "nothing", why)


def _nothing_below(
    invariants: Invariants, atoms: Atoms, own: list[tuple[int, Query]], name: str, leaf: bool
) -> Verdict:
    """Judge a level below which nothing is fixed: zeros and lower bounds add up."""
    if atoms.spread is not None and not leaf:
        bound = invariants.at_least[atoms.spread].name
        why = f'the lower bound "{bound}" covers cells that other rules close at different leaves'
        return Verdict(name, "not_guaranteed", (), "nothing", why)
    theorems = (
        *(("Theorem 3",) if invariants.at_least else ()),
        *(("Theorem 8",) if _zeros(invariants) else ()),
    )
    queries = [q for _, q in own]
    if len(queries) > 1:
        both = " and ".join(f'"{q.name}"' for q in queries[:2])
        why = (
            f"the constraints stand at this level itself, but {both} are fixed together: rounding is no flow"
        )
        return Verdict(name, "complete", theorems, "nothing", why)
    if queries and queries[0].factors and not _nested(atoms, queries[0]):
        why = f'a lower bound and the fixed table "{queries[0].name}" cut across each other: rounding is no flow'
        return Verdict(name, "complete", theorems, "nothing", why)
    parts = [
        *(["lower bounds add up"] if invariants.at_least else []),
        *(["what is closed at every leaf is closed above"] if _zeros(invariants) else []),
        *([f'"{queries[0].name}" is exact here'] if queries else []),
    ]
    why = ", ".join(parts) or "there is nothing to satisfy"
    return Verdict(
        name, "complete_integral", theorems, "nothing", f"{why}; no exact table lies below this level"
    )


def _totals_below(atoms: Atoms, own: list[tuple[int, Query]], name: str, where: str) -> Verdict:
    """Judge a level above exact totals: section 7.3."""
    if any(q.factors for _, q in own):
        why = f"totals are fixed at level {where}, and a table is fixed here: rounding is no single flow"
        return Verdict(name, "complete", ("Theorem 3", "Theorem 8"), "combination_table", why)
    if len(atoms) == 1:
        why = f"totals of level {where} add up, and no rule tells cells apart"
        return Verdict(name, "complete_integral", ("Theorem 3",), "nothing", why)
    table = len(atoms) <= MAX_GROUPS
    how = f"2^{len(atoms)} subset constraints in a table" if table else "flow variables"
    why = (
        f"totals are fixed at level {where}, so the {len(atoms)} groups must also fit the combinations open "
        f"there ({how})"
    )
    needs: Needs = "combination_table" if table else "combination_flows"
    theorems = ("Theorem 3", "Theorems 4-7", "Theorem 8")
    return Verdict(name, "complete_integral", theorems, needs, why)


def _margins_below(
    queries: list[Query], levels_below: set[int], own: list[tuple[int, Query]], name: str
) -> Verdict:
    """Judge a level above fixed tables when there is no other rule."""
    if len(queries) == 1:
        kind: Kind = "complete" if any(not queries[0].refines(q) for _, q in own) else "complete_integral"
        why = f'"{queries[0].name}" adds up, and within its answers everything is free'
        return Verdict(name, kind, ("Theorem 3",), "nothing", why)
    sizes = [q.n_answers for q in queries]
    shown = " and ".join(f'"{q.name}" ({q.n_answers})' for q in queries)
    if sizes == [2, 2] and len(levels_below) == 1 and _crossed(*queries) and not own:
        why = (
            f"{shown} are fixed further down: two margins of a 2 x 2 table, bounds on one cell complete them"
        )
        return Verdict(name, "complete_integral", ("Lemma 1",), "margin_bounds", why)
    if len(queries) == 2 and min(sizes) >= 3:
        why = f"{shown} are fixed further down; whether two margins of 3 or more values extend is NP-complete"
    else:
        why = f"{shown} are fixed further down; complete constraints are known for 2 x 2 margins of one level only"
    return Verdict(name, "not_guaranteed", (), "nothing", why)


def _finest(tables: list[tuple[int, Query]]) -> list[tuple[int, Query]]:
    """Drop tables that are sums of another one at the same or a lower level."""
    kept: list[tuple[int, Query]] = []
    for i, (level, query) in enumerate(tables):
        others = [(k, t) for k, t in enumerate(tables) if k != i]
        implied = any(
            deep >= level and q.refines(query) and not (k > i and deep == level and query.refines(q))
            for k, (deep, q) in others
        )
        if not implied:
            kept.append((level, query))
    return kept


def _zeros(invariants: Invariants) -> bool:
    return bool(invariants.none_where_zero or invariants.never)


def _nested(atoms: Atoms, query: Query) -> bool:
    """Tell whether every lower bound lies inside one answer of a table."""
    possible = atoms.of_cell >= 0
    for b in range(atoms.bounded_by.shape[1]):
        cells = possible & np.isin(atoms.of_cell, np.flatnonzero(atoms.bounded_by[:, b]))
        if len(np.unique(query.labels[cells])) > 1:
            return False
    return True


def _crossed(a: Query, b: Query) -> bool:
    """Tell whether all four combinations of two binary tables have cells."""
    return len(np.unique(a.labels.astype(np.int64) * 2 + b.labels)) == 4
