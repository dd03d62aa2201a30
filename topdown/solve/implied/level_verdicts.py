"""What can be promised about a set of invariants, level by level, before anything is computed.

The verdict is read from the objects the solver itself works with: `SplitConstraints` says whether a level keeps
everything that splits down to the leaves, `LevelBounds` whether its rounding is a flow. Soft rules promise nothing
and are left aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from topdown.errors import ConfigError
from topdown.formats.plan_documents import Needs, Verdict, VerdictKind
from topdown.model import (
    MAX_KINDS,
    ConstraintSystem,
    Geography,
    Invariants,
    Level,
    LimitReason,
    LimitUse,
    PublicFacts,
    Schema,
    SplitConstraints,
    parse_query,
)
from topdown.plan import PublicContext, check_supported
from topdown.plan.planning import check_exact_levels
from topdown.solve.rounding.chain import ChainTables, LevelBounds, NoFlow, level_bounds


@dataclass(frozen=True, eq=False)
class VerdictInputs:
    """What a verdict is read from.

    Args:
        schema, invariants: of the release.
        rules: from public facts, without exact tables. constraints: with them; their answers may be unknown (zero).
        tables: names of each level's rounding chain; empty where no settings are known.
    """

    schema: Schema
    invariants: Invariants
    rules: ConstraintSystem
    constraints: SplitConstraints
    tables: tuple[tuple[str, ...], ...]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Levels from the root to the leaves."""
        return self.constraints.geography.level_names

    def chain(self, depth: int) -> ChainTables:
        """Return the rounding chain of a level, as the settings name it."""
        return tuple(parse_query(self.schema, name).labels.astype(np.int64) for name in self.tables[depth])

    def exact_beside(self, bounds: LevelBounds) -> tuple[str, ...]:
        """Name the exact tables that rounding keeps beside the bounds of a level."""
        if not bounds.exact_beside:
            return ()
        own = bounds.depth == 0 and self.constraints.form.root_table
        return self.exact_tables(0 if own else self.constraints.unit_depth)

    def exact_tables(self, depth: int) -> tuple[str, ...]:
        """Name the exact tables of a level other than totals."""
        exact = [e for e in self.invariants.exact if e.level == self.level_names[depth]]
        return tuple(e.name for e in exact if parse_query(self.schema, e.query).factors)


def worst_case_facts(invariants: Invariants, levels: Sequence[str]) -> tuple[Geography, PublicFacts]:
    """Return a tree of one leaf and facts for which every bound binds and everything is open."""
    geography = Geography(tuple(Level(name, ("0",), np.zeros(1, dtype=np.int64)) for name in levels))
    return geography, PublicFacts({column: np.ones(1, dtype=np.int64) for column in invariants.columns})


Cause = tuple[str, tuple[str, ...], tuple[str, ...]]  # text, names of constraints, theorems


def _totals_below(ground: VerdictInputs) -> Cause:
    where = ground.level_names[ground.constraints.unit_depth]
    found = tuple(e.name for e in ground.invariants.exact if e.level == where)
    return f"totals are fixed at level {where}", found, ("Theorem 3", "Theorems 4-7")


def _inner_table(ground: VerdictInputs) -> Cause:
    deepest = ground.constraints.unit_depth
    found = ground.exact_tables(deepest)
    text = f"{_quoted(found)} fixed at level {ground.level_names[deepest]}"
    return text, found, ("Theorem 3", "Edmonds 1970")


def _leaf_tables(ground: VerdictInputs) -> Cause:
    found = ground.exact_tables(len(ground.level_names) - 1)
    return f"{_quoted(found)} fixed at every leaf", found, ("Frank 1984",)


def _upper_bounds(ground: VerdictInputs) -> Cause:
    return "upper bounds at the leaves", ground.rules.cap_names, ("Frank 1984",)


def _nested_bounds(ground: VerdictInputs) -> Cause:
    found = tuple(ground.rules.bound_names[b] for b in ground.rules.nested)
    return "lower bounds inside each other", found, ("Frank 1984",)


def _spread_bounds(ground: VerdictInputs) -> Cause:
    kinds, rules = ground.constraints.partition, ground.rules
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
_WORDS: dict[LimitReason, tuple[Callable[[VerdictInputs], Cause], ...]] = {
    LimitReason.TOTALS_BELOW: (_totals_below,),
    LimitReason.INNER_TABLE: (_inner_table,),
    LimitReason.UPPER_BOUNDS: (_leaf_tables, _upper_bounds),
    LimitReason.NESTED_BOUNDS: (_nested_bounds,),
    LimitReason.SPREAD_BOUNDS: (_spread_bounds,),
}


def causes_of(ground: VerdictInputs, depth: int) -> list[Cause]:
    """Say what asks for more at a level: the reasons of the solver's own decision, with the constraints behind them."""
    reasons = ground.constraints.form.needed[depth]
    return [cause for reason in reasons for tell in _WORDS[reason] if (cause := tell(ground))[1]]


SOFT = "; soft rules are kept where possible and reported where not"


TITLES: dict[VerdictKind, str] = {
    "complete_integral": "complete and integral",
    "complete": "complete, integrality not guaranteed",
    "always_splits": "always splits, narrower than complete",
    "not_guaranteed": "not guaranteed",
    "refused": "refused",
}


def verdicts(schema: Schema, invariants: Invariants, levels: Sequence[str]) -> tuple[Verdict, ...]:
    """Judge every level, root first, for the worst public facts: every bound binds, every rule closes something.

    Args:
        schema: of the records.
        invariants: constraints on leaves and exact tables.
        levels: names from the root to the leaves.

    Raises:
        ConfigError: an exact table names a level that is not given (C032), or an unknown query.
    """
    return judge_levels(schema, invariants, *worst_case_facts(invariants, levels))


def plan_verdicts(context: PublicContext) -> tuple[Verdict, ...]:
    """Judge every level of a plan, root first, with its rounding chains."""
    plan = context.plan
    tables = tuple(tuple(r.table for r in level.rounding) for level in plan.levels)
    return judge_levels(plan.schema, plan.invariants, context.geography, context.facts, tables)


def judge_levels(
    schema: Schema,
    invariants: Invariants,
    geography: Geography,
    facts: PublicFacts,
    tables: tuple[tuple[str, ...], ...] = (),
) -> tuple[Verdict, ...]:
    """Judge every level of a tree with public facts, root first; `tables` as in `VerdictInputs`."""
    rules = ConstraintSystem.from_facts(schema, geography, invariants, facts)
    check_exact_levels(invariants, geography)
    try:
        constraints = check_supported(invariants, schema, geography, rules)
    except ConfigError as error:
        code = error.code
        said = f"{error.text}; a plan is refused ({code})"
        return tuple(
            Verdict(level=name, kind="refused", sentence=said, code=code) for name in geography.level_names
        )
    ground = VerdictInputs(schema, invariants, rules, constraints, tables)
    judged = tuple(_judge_level(ground, depth) for depth in range(len(geography.levels)))
    return with_soft(judged, invariants)


def with_soft(judged: tuple[Verdict, ...], invariants: Invariants) -> tuple[Verdict, ...]:
    """Say of every level that soft rules, if there are any, are not part of the promise."""
    if not invariants.soft_rules:
        return judged
    return tuple(structs.replace(verdict, sentence=verdict.sentence + SOFT) for verdict in judged)


def _judge_level(ground: VerdictInputs, depth: int) -> Verdict:
    constraints, name = ground.constraints, ground.level_names[depth]
    causes = causes_of(ground, depth)
    decided = constraints.decided(depth)
    limited = decided is LimitUse.KEPT
    asked = "; ".join(text for text, _, _ in causes)
    followed = decided.format(k=constraints.partition.n_kinds, most=MAX_KINDS - 1)
    if decided is LimitUse.TOO_MANY:
        names = tuple(dict.fromkeys(n for _, found, _ in causes for n in found))
        return Verdict(
            level=name, kind="not_guaranteed", sentence=f"{asked}; {followed}", constraints=list(names)
        )
    bounds = level_bounds(constraints, depth)
    names = ground.exact_beside(bounds)
    laminar = ("Edmonds 1970",) if names else ()  # two laminar families (`model/exact_tables.py`)
    named = (*_plain_theorems(ground, limited), *(t for _, _, found in causes for t in found), *laminar)
    theorems = list(dict.fromkeys(named))
    why = f"{asked}: {followed}" if limited else _plain_reason(ground, depth)
    if limited and names:
        why += f'; "{" and ".join(names)}", exact here, is kept beside them'
    needs: Needs = "combination_table" if limited else "nothing"
    tables = ground.chain(depth) if ground.tables else bounds.fitting_tables()
    found = bounds.positions(bounds.chain(tables, (0,) * len(tables)))
    if not isinstance(found, NoFlow):
        return Verdict(level=name, kind="complete_integral", theorems=theorems, needs=needs, sentence=why)
    hindrance = f'the exact table "{" and ".join(names)}" cuts across other constraints'
    if ground.tables:
        hindrance, names = found.explain(ground.tables[depth], ground.rules.bound_names, names)
    why += f"; rounding is an integer program, because {hindrance}"
    return Verdict(
        level=name, kind="complete", theorems=theorems, needs=needs, sentence=why, constraints=list(names)
    )


def _plain_reason(ground: VerdictInputs, depth: int) -> str:
    here = [f'"{e.query}"' for e in ground.invariants.exact if e.level == ground.level_names[depth]]
    parts = [
        *(["lower bounds add up"] if ground.invariants.lower_bounds else []),
        *(["what is closed at every leaf is closed above"] if ground.invariants.closing else []),
        *([f"{' and '.join(here)} {'is' if len(here) == 1 else 'are'} exact here"] if here else []),
    ]
    return f"{', '.join(parts) or 'there is nothing to satisfy'}; no exact table lies below this level"


def _plain_theorems(ground: VerdictInputs, limited: bool) -> tuple[str, ...]:
    bounds = ("Theorem 3",) if ground.invariants.lower_bounds or limited else ()
    return (*bounds, *(("Theorem 8",) if ground.invariants.closing else ()))
