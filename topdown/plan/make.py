"""Make the plan from a run file and public facts: exact numbers, every name checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from topdown.errors import BudgetError, ConfigError
from topdown.laws import law_of_mechanism
from topdown.model.constraint import Invariants
from topdown.model.constraint_table import unknown_answers
from topdown.model.contradiction import find_contradiction
from topdown.model.exact_tables import arrange, tables_of
from topdown.model.geography import Geography
from topdown.model.kinds import MAX_KINDS, kinds_of_cells
from topdown.model.public import PublicFacts, Rules, derive_rules, with_answers
from topdown.model.query import Query, parse_query
from topdown.model.schema import Schema
from topdown.names import refuse_same_file
from topdown.plan.best_noise import best_weights, check_delta
from topdown.plan.budget import calibrated, check_shares
from topdown.plan.document import at
from topdown.plan.files import LevelTable
from topdown.plan.how_solved import chain_of_level, estimates_of, passes_of
from topdown.plan.plan import LevelPlan, MeasurementPlan, Plan, ReleaseInfo
from topdown.plan.public_files import geography_sha256, public_sha256
from topdown.plan.runfile import RunFile
from topdown.plan.secrets import ReleaseChain, check_guarantee
from topdown.plan.solvable import check_solvable


def make_plan(
    run: RunFile,
    schema: Schema,
    invariants: Invariants,
    geography: Geography,
    facts: PublicFacts,
    inhabited: Sequence[NDArray[np.bool_]] | None = None,
) -> Plan:
    """Return the plan; every share, query and pass of the run file is checked.

    Args:
        run, schema, invariants, geography, facts: what was read.
        inhabited: per level, the nodes to measure; those the invariants leave open if None.

    Raises:
        ConfigError, BudgetError: what is wrong; `key` is the path of the key in the run file.
    """
    budget, delta = _budget(run)
    tables = {table.name: table for table in run.level}
    number = {table.name: str(i) for i, table in enumerate(run.level)}
    if len(tables) != len(run.level):
        raise ConfigError("a level has two [[level]] tables", code="C051", fix="keep one [[level]] a level")
    missing = [name for name in geography.level_names if name not in tables]
    if missing:
        raise ConfigError(
            f"level {missing[0]!r} of the geography has no [[level]] table",
            code="C052",
            fix="add one with share, queries, passes and rounding",
            key=("geography", "levels"),
        )
    with at("level", "0", "share"):
        check_shares({table.name: table.share for table in run.level}, "levels")
    with at("level"):
        _check_tables(run, schema, geography)
    with at("invariants"):
        check_exact_levels(invariants, geography)
    rules = None
    if inhabited is None:  # an extension's facts are checked against its base table instead
        rules = derive_rules(schema, geography, invariants, facts)
        with at("invariants"):
            _check_kinds(invariants, schema, geography, rules)
            found = find_contradiction(schema, geography, invariants, facts, {})
            if found is not None:
                raise found.error()
        inhabited = rules.inhabited
    levels = []
    for i, level in enumerate(geography.levels):
        with at("level", number[level.name]):
            n_measured = int(inhabited[i].sum())
            levels.append(
                _level(run, tables[level.name], schema, budget, i, len(level), n_measured, number[level.name])
            )
    plan = Plan(
        release=ReleaseInfo(
            run.release.id, run.release.title, run.release.data_set, run.release.agency, run.release.contact
        ),
        schema=schema,
        invariants=invariants,
        neighbours=run.neighbours,
        mechanism=run.mechanism,
        settings=run.settings,
        budget=budget,
        levels=tuple(levels),
        unspent=tuple((t.name, t.share) for t in run.level if t.name not in geography.level_names),
        public_sha256=public_sha256(geography, facts),
        geography_sha256=geography_sha256(geography),
        estimates=estimates_of(run.estimates),
        delta=delta,
    )
    check_solvable(plan, geography, is_extension=run.base is not None)
    if rules is not None:
        check_guarantee(ReleaseChain(plan, (), geography, facts))
    return plan


def _budget(run: RunFile) -> tuple[Fraction, Fraction]:
    """Return the whole rho or epsilon, and the delta beside it."""
    law, given = law_of_mechanism(run.mechanism), run.budget
    need = "rho" if law.loss_name == "rho" else "epsilon"
    budget = {"rho": given.rho, "epsilon": given.epsilon}[need]
    stray = not law.has_delta and (given.delta is not None or given.large_delta)
    if budget is None or (given.rho is None) == (given.epsilon is None) or stray:
        both = f"budget.{need} and budget.delta" if law.has_delta else f"budget.{need}"
        raise ConfigError(
            f"mechanism {run.mechanism!r} needs {both} and nothing else",
            code="C050",
            fix=f'write [budget] {need} = "..." and delta = "..."'
            if law.has_delta
            else f'write [budget] {need} = "..." only',
            key=("budget",),
        )
    if budget <= 0:
        raise BudgetError(
            f"the budget is {budget}", code="B003", fix="give a positive budget", key=("budget",)
        )
    if law.has_delta != (run.ledger.delta_limit is not None):
        raise ConfigError(
            f"mechanism {run.mechanism!r} needs ledger.delta_limit beside ledger.limit"
            if law.has_delta
            else f"ledger.delta_limit has no meaning for mechanism {run.mechanism!r}: its losses have no delta",
            code="C158",
            fix='write under [ledger]: delta_limit = "1/100000"' if law.has_delta else "remove it",
            key=("ledger",) if law.has_delta else ("ledger", "delta_limit"),
        )
    return budget, check_delta(given.delta, large=given.large_delta) if law.has_delta else Fraction(0)


def _measurement(run: RunFile, query: Query, share: Fraction, cost: Fraction) -> MeasurementPlan:
    """Return a query with the noise that makes it cost a part of the budget."""
    law = law_of_mechanism(run.mechanism)
    parameter = calibrated(law, cost, query, run.neighbours)
    plain = MeasurementPlan(query.name, query.n_answers, share, cost, law.name, parameter)
    if not law.has_delta or run.budget.epsilon is None or run.budget.delta is None:
        return plain
    paid = replace(plain, delta=run.budget.delta * cost / run.budget.epsilon)
    return replace(paid, weights=best_weights(parameter, paid.count_delta))


def _level(
    run: RunFile,
    table: LevelTable,
    schema: Schema,
    budget: Fraction,
    depth: int,
    n_nodes: int,
    n_measured: int,
    number: str,
) -> LevelPlan:
    with at("level", number, "queries"):
        check_shares(table.queries, f"queries of level {table.name!r}")
        names = [parse_query(schema, name).name for name in table.queries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(
                f"level {table.name!r} measures {twice!r} twice, in two spellings",
                code="C075",
                fix="keep one of them, with the share of both",
            )
    loss = budget * table.share
    measurements = []
    for name, share in table.queries.items():
        with at("level", number, "queries", name):
            query = parse_query(schema, name)
            measurements.append(_measurement(run, query, share, loss * share))
    of_root = depth == 0 and bool(table.root_passes)
    with at("level", number, "root_passes" if of_root else "passes"):
        passes = passes_of(table, schema, is_root=of_root)
    with at("level", number, "rounding"):
        rounding = chain_of_level(table, schema)
    return LevelPlan(
        table.name, n_nodes, n_measured, table.share, loss, tuple(measurements), passes, rounding
    )


def _check_tables(run: RunFile, schema: Schema, geography: Geography) -> None:
    """Refuse queries whose tables would be written to one file."""
    names = [
        parse_query(schema, name).name
        for level in run.level
        if level.name in geography.level_names
        for name in level.queries
    ]
    refuse_same_file(dict.fromkeys(["total", *names]), "table")


def check_supported(invariants: Invariants, schema: Schema, geography: Geography, rules: Rules) -> None:
    """Refuse constraints that the solver would not enforce completely (ConfigError), whatever the public facts say."""
    check_exact_levels(invariants, geography)
    _check_kinds(invariants, schema, geography, rules)


def _check_kinds(invariants: Invariants, schema: Schema, geography: Geography, rules: Rules) -> None:
    """Refuse bounds and exact tables that cross each other, and those whose implied constraints are too many."""
    level_names = geography.level_names
    kept = arrange(tables_of(schema, invariants, level_names), rules, level_names)
    full = with_answers(rules, geography, unknown_answers(schema, invariants, geography))
    kinds = kinds_of_cells(full, kept.split.labels)
    deepest = max(kept.depth, 0)
    most = MAX_KINDS - (deepest < len(geography.levels) - 1)
    if (deepest or rules.cap_cells or rules.nested) and kinds.n_kinds > most:
        raise ConfigError(
            f"the constraints tell {kinds.n_kinds} kinds of cells apart; exact statistics below the root, upper "
            f"bounds and nested bounds are supported for at most {most}",
            code="C074",
            fix="merge constraints on similar cells, or keep statistics exact at the root only, without such bounds",
        )


def check_exact_levels(invariants: Invariants, geography: Geography) -> None:
    """Refuse an exact statistic of a level that there is not (ConfigError C032)."""
    for exact in invariants.exact:
        if exact.level not in geography.level_names:
            raise ConfigError(
                f"invariant {exact.name!r} names level {exact.level!r}, which the geography lacks",
                code="C032",
                fix="use one of: " + ", ".join(geography.level_names),
            )
