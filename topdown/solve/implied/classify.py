"""What can be promised about a set of invariants, level by level, before anything is computed.

The verdict is read from the objects the solver itself works with: `Polytopes` says whether a level keeps everything
that splits down to the leaves, `chain` whether its rounding is a flow. Soft rules promise nothing and are left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from topdown.errors import ConfigError
from topdown.model.constraint import Invariants
from topdown.model.geography import Geography
from topdown.model.kinds import MAX_KINDS
from topdown.model.public import PublicFacts, derive_rules
from topdown.model.schema import Schema
from topdown.plan.make import check_exact_levels, check_supported
from topdown.plan.prepare import Context
from topdown.solve.chain import NoFlow, chain_of, fitting_tables, places
from topdown.solve.implied.causes import Ground, causes_of, public_regions, worst_case
from topdown.solve.polytopes import Limits

Kind = Literal["complete_integral", "complete", "always_splits", "not_guaranteed", "refused"]
Needs = Literal["nothing", "combination_table"]
SOFT = "; soft rules are kept where possible and reported where not"
TITLES: dict[Kind, str] = {
    "complete_integral": "complete and integral",
    "complete": "complete, integrality not guaranteed",
    "always_splits": "always splits, narrower than complete",
    "not_guaranteed": "not guaranteed",
    "refused": "refused",
}


@dataclass(frozen=True)
class Verdict:
    """What holds for the constraints that the solver enforces at the nodes of one level.

    Complete: every whole table that satisfies them can be split down to the leaves. Integral: the rounding of the
    level is a flow, so a linear program already gives whole numbers. An extension of a release always splits, but may
    leave out tables that would split as well (`extend/verdict.py`).

    Args:
        level: name.
        kind: the promise.
        theorems: that give it; numbers are those of Census TopDown.
        needs: constraints enforced beside sums of lower bounds, zeros and exact totals.
        sentence: the verdict with its reason.
        constraints: names of the constraints that stand in the way of a better verdict.
        code: of the error that a plan ends with, if the constraints are refused.
    """

    level: str
    kind: Kind
    theorems: tuple[str, ...]
    needs: Needs
    sentence: str
    constraints: tuple[str, ...] = ()
    code: str = ""

    @property
    def title(self) -> str:
        """The promise in words."""
        return TITLES[self.kind]


def verdicts(schema: Schema, invariants: Invariants, levels: Sequence[str]) -> tuple[Verdict, ...]:
    """Judge every level, root first, for the worst public facts: every bound binds, every rule closes something.

    Args:
        schema: of the records.
        invariants: constraints on leaves and exact tables.
        levels: names from the root to the leaves.

    Raises:
        ConfigError: an exact table names a level that is not given (C032), or an unknown query.
    """
    return judge(schema, invariants, *worst_case(invariants, levels))


def plan_verdicts(context: Context) -> tuple[Verdict, ...]:
    """Judge every level of a plan, root first, with its rounding chains."""
    plan = context.plan
    tables = tuple(tuple(r.table for r in level.rounding) for level in plan.levels)
    return judge(plan.schema, plan.invariants, context.geography, context.facts, tables)


def judge(
    schema: Schema,
    invariants: Invariants,
    geography: Geography,
    facts: PublicFacts,
    tables: tuple[tuple[str, ...], ...] = (),
) -> tuple[Verdict, ...]:
    """Judge every level of a tree with public facts, root first; `tables` as in `Ground`."""
    rules = derive_rules(schema, geography, invariants, facts)
    check_exact_levels(invariants, geography)
    try:
        check_supported(invariants, schema, geography, rules)
    except ConfigError as error:
        code = error.code
        said = f"{error.text}; a plan is refused ({code})"
        return tuple(
            Verdict(name, "refused", (), "nothing", said, (), code) for name in geography.level_names
        )
    ground = Ground(schema, invariants, rules, public_regions(schema, invariants, geography, rules), tables)
    judged = tuple(_judge(ground, depth) for depth in range(len(geography.levels)))
    return with_soft(judged, invariants)


def with_soft(judged: tuple[Verdict, ...], invariants: Invariants) -> tuple[Verdict, ...]:
    """Say of every level that soft rules, if there are any, are not part of the promise."""
    if not invariants.no_more_than:
        return judged
    return tuple(replace(verdict, sentence=verdict.sentence + SOFT) for verdict in judged)


def _judge(ground: Ground, depth: int) -> Verdict:
    polytopes, name = ground.polytopes, ground.level_names[depth]
    causes = causes_of(ground, depth)
    decided = polytopes.decided(depth)
    limited = decided is Limits.KEPT
    asked = "; ".join(text for text, _, _ in causes)
    followed = decided.format(k=polytopes.kinds.n_kinds, most=MAX_KINDS - 1)
    if decided is Limits.TOO_MANY:
        names = tuple(dict.fromkeys(n for _, found, _ in causes for n in found))
        return Verdict(name, "not_guaranteed", (), "nothing", f"{asked}; {followed}", names)
    exact, names = ground.beside(depth)
    laminar = ("Edmonds 1970",) if names else ()  # two laminar families (`model.exact_tables`)
    named = (*_plain_theorems(ground, limited), *(t for _, _, found in causes for t in found), *laminar)
    theorems = tuple(dict.fromkeys(named))
    why = f"{asked}: {followed}" if limited else _plain(ground, depth)
    if limited and names:
        why += f'; "{" and ".join(names)}", exact here, is kept beside them'
    needs: Needs = "combination_table" if limited else "nothing"
    tables = ground.chain(depth) if ground.tables else fitting_tables(ground.rules, polytopes, depth, exact)
    chain = chain_of(polytopes, depth, tables, (0,) * len(tables), exact)
    found = places(ground.rules, polytopes, depth, chain)
    if not isinstance(found, NoFlow):
        return Verdict(name, "complete_integral", theorems, needs, why)
    hindrance = f'the exact table "{" and ".join(names)}" cuts across other constraints'
    if ground.tables:
        hindrance, names = found.told(ground.tables[depth], ground.rules.bound_names, names)
    why += f"; rounding is an integer program, because {hindrance}"
    return Verdict(name, "complete", theorems, needs, why, names)


def _plain(ground: Ground, depth: int) -> str:
    here = [f'"{e.query}"' for e in ground.invariants.exact if e.level == ground.level_names[depth]]
    parts = [
        *(["lower bounds add up"] if ground.invariants.at_least else []),
        *(["what is closed at every leaf is closed above"] if _zeros(ground.invariants) else []),
        *([f"{' and '.join(here)} {'is' if len(here) == 1 else 'are'} exact here"] if here else []),
    ]
    return f"{', '.join(parts) or 'there is nothing to satisfy'}; no exact table lies below this level"


def _plain_theorems(ground: Ground, limited: bool) -> tuple[str, ...]:
    bounds = ("Theorem 3",) if ground.invariants.at_least or limited else ()
    return (*bounds, *(("Theorem 8",) if _zeros(ground.invariants) else ()))


def _zeros(invariants: Invariants) -> bool:
    return bool(invariants.none_where_zero or invariants.never)
