"""Make the plan from a run file and public facts: exact numbers, every name checked.

zCDP: a query with squared L2 sensitivity S and discrete Gaussian variance v costs rho = S / (2 v)
(Canonne, Kamath, Steinke 2020, Theorem 4). Pure DP: L1 sensitivity S and two-sided geometric scale t cost
epsilon = S / t (Ghosh, Roughgarden, Sundararajan 2009). Levels and queries add; nodes of one level do not,
because a record lies in one node of a level (the move between two nodes is inside the sensitivity).

Numbers that files or solver cannot hold exactly are refused here: better than after the budget is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from topdown import optimal_noise
from topdown.arrays import Bools
from topdown.errors import BudgetError, ConfigError, InternalError
from topdown.file_names import refuse_same_file
from topdown.formats.strict_toml import locating_errors
from topdown.model import (
    MAX_KINDS,
    ConstraintSystem,
    Geography,
    Invariants,
    PublicFacts,
    Query,
    Schema,
    SplitConstraints,
    find_contradiction,
    parse_query,
    public_constraints,
)
from topdown.optimal_noise.noise_request import NoiseRequest, Promise, parse_loss, refuse_large_delta
from topdown.plan.plan_values import Estimates, LevelPlan, MeasurementPlan, Plan
from topdown.plan.public_tables import geography_sha256, public_sha256
from topdown.plan.release_chain import ReleaseChain, check_guarantee
from topdown.plan.run_file import RunFile
from topdown.plan.settings import EstimatesTable, LevelTable, Pass, Rounding
from topdown.privacy.laws import LAWS, NoiseLaw, law_of_mechanism
from topdown.privacy.relation import Relation

if TYPE_CHECKING:
    from topdown.formats.common import LawName


def check_shares(shares: Mapping[str, Fraction], what: str) -> None:
    """Refuse shares that are zero or do not sum to exactly one (BudgetError B001, B002)."""
    for name, share in shares.items():
        if share <= 0:
            raise BudgetError(
                f"{what}: the share of {name!r} is {share}",
                code="B002",
                fix="give a positive share or remove it",
            )
    total = sum(shares.values(), Fraction(0))
    if total != 1:
        off = total - 1
        raise BudgetError(
            f"{what}: the shares sum to {total}, not 1 ({'+' if off > 0 else '-'}{abs(off)})",
            code="B001",
            fix="correct the shares; they are exact, so they must sum to exactly 1",
        )


def calibrate_noise(law: NoiseLaw, loss: Fraction, query: Query, relation: Relation) -> Fraction:
    """Return the parameter of a law, in records or records squared, that makes `query` cost `loss`.

    Raises: ConfigError A081 noise whose loss is not known for units of several records.
    """
    relation.check_noise(law)
    return law.calibrated(loss, relation.l1_sensitivity(query), relation.l2_sensitivity_squared(query))


@lru_cache(maxsize=256)
def optimal_weights(epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Return the weights of 0, 1, 2, .. of the law of least |x| on the integers for one count that moves by 1.

    It is made in exact numbers, the same on every machine, and checked as it is made.

    Args:
        epsilon, delta: of the count, 0 .. 10 and 10^-12 .. 1; exact.

    Returns: whole numbers over 2^128 as decimal text; the law is symmetric.
    Raises: ConfigError C151 epsilon, C152 delta, C155 too many values.
    """
    law = optimal_noise.optimal_law(NoiseRequest((Promise(epsilon, delta),), 1, parse_loss("l1")))
    if law.weights != law.weights[::-1] or law.first != -law.last or min(law.weights) < 1:
        raise InternalError("a law of one count is not symmetric", code="X052", fix="please report this plan")
    return tuple(str(weight) for weight in law.weights[law.last :])


def count_weights(law: NoiseLaw, epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Return the weights of 0, 1, 2, .. of a law that keeps a promise of one count; see `optimal_weights`."""
    if law.weights is None:
        return optimal_weights(epsilon, delta)
    return tuple(map(str, law.weights(epsilon, delta)))


def check_delta(delta: Fraction | None, *, large: bool) -> Fraction:
    """Return the delta of a budget, which all queries share; ConfigError C050, C152, C154 for one that may not be."""
    if delta is None:
        raise ConfigError(
            'mechanism "optimal" needs budget.epsilon and budget.delta and nothing else',
            code="C050",
            fix='write [budget] epsilon = "..." and delta = "1/1000000"',
            key=("budget",),
        )
    if delta == 0:
        raise ConfigError(
            "delta is 0, and no noise of finitely many values keeps delta 0",
            code="C152",
            fix='for delta 0 write mechanism = "geometric"; else give a delta above 0, e.g. "1/1000000"',
            key=("budget", "delta"),
        )
    allow = "large_delta = true under [budget]"
    refuse_large_delta(delta, is_allowed=large, how=allow, key=("budget", "delta"))
    return delta


LEAST_COVERAGE, MOST_COVERAGE = Fraction(1, 2), Fraction(9999, 10_000)  # of intervals


def plan_estimates(given: EstimatesTable | None) -> Estimates | None:
    """Return what a plan says of estimates: nothing where they are each area's own and no interval is asked for."""
    if given is None or (given.targets == "own" and given.coverage is None):
        return None
    if given.coverage is not None and not LEAST_COVERAGE <= given.coverage <= MOST_COVERAGE:
        raise ConfigError(
            f"estimates.coverage is {given.coverage}, not between {LEAST_COVERAGE} and {MOST_COVERAGE}",
            code="C210",
            fix='write coverage = "19/20" for intervals of 95 in 100',
            key=("estimates", "coverage"),
        )
    return Estimates(given.targets, given.coverage)


def plan_passes(level: LevelTable, schema: Schema, *, is_root: bool) -> tuple[Pass, ...]:
    """Return the passes of a level, those of the root where it has its own; ConfigError C053 or C054."""
    measured = [parse_query(schema, name).name for name in level.queries]
    passes = []
    for table in (is_root and level.root_passes) or level.passes:
        names = [parse_query(schema, name).name for name in table.queries] or measured
        absent = [name for name in names if name not in measured]
        if absent:
            raise ConfigError(
                f"a pass of level {level.name!r} uses {absent[0]!r}, which is not measured there",
                code="C053",
                fix="use queries listed under [level.queries]",
            )
        passes.append(Pass(table=parse_query(schema, table.table).name, queries=tuple(names)))
    queries = [parse_query(schema, p.table) for p in passes]
    ordered = all(b.refines(a) for a, b in pairwise(queries))
    if not passes or passes[-1].table != "detailed" or not ordered:
        raise ConfigError(
            f"passes of level {level.name!r} must go from coarse to fine and end with the table 'detailed'",
            code="C054",
            fix="order the passes so that each table refines the one before; end with detailed",
        )
    return tuple(passes)


def plan_rounding(level: LevelTable, schema: Schema) -> tuple[Rounding, ...]:
    """Return the rounding chain of a level; ConfigError C055 or C135."""
    chain = [parse_query(schema, r.table) for r in level.rounding]
    backwards = [b.name for i, b in enumerate(chain) for a in chain[:i] if a.refines(b)]
    if backwards or not chain or chain[-1].name != "detailed":
        problem = f"has {backwards[0]!r} after a finer table" if backwards else "does not end with 'detailed'"
        raise ConfigError(
            f"the rounding chain of level {level.name!r} {problem}",
            code="C135",
            fix="order the tables from coarse to fine, without repeats, and end with detailed",
        )
    if any(r.weight < 1 for r in level.rounding):
        raise ConfigError(
            f"level {level.name!r}: rounding weights start at 1", code="C055", fix="raise the weight"
        )
    return tuple(
        Rounding(table=query.name, weight=r.weight) for query, r in zip(chain, level.rounding, strict=True)
    )


MOST_NUMBER = 2**63 - 1  # of numerator and denominator in measurement files
MOST_RATIO = 10**6  # between the variances of one level: beyond, least squares in float64 do not converge
MOST_ROUNDING_WEIGHT = 10**6  # of one person of rounding error
MOST_FLOW_COST = 2**60 // 10**6  # weight times nodes of a flow network: `flows.LARGEST_COST` in persons


def check_solvable(plan: Plan, geography: Geography, *, is_extension: bool) -> None:
    """Refuse a plan whose noise cannot be written, or whose levels cannot be solved and rounded.

    Raises:
        ConfigError: C072 a variance is too long a fraction, C078 too large for 32-bit answers, C076 the variances of
            a level are too far apart, C055 a rounding weight is too large for the areas below one parent; `key` is
            that of the level.
    """
    for depth, level in enumerate(plan.levels):
        with locating_errors("level", str(depth)):
            for m in level.measurements:
                if max(m.variance.numerator, m.variance.denominator) > MOST_NUMBER:
                    raise ConfigError(
                        f"the variance of query {m.query!r} at level {level.name!r} is too long a fraction",
                        code="C072",
                        fix="choose budget and shares with smaller numerators and denominators",
                    )
                if m.parameter > LAWS[m.law].most:
                    raise ConfigError(
                        f"the noise of query {m.query!r} at level {level.name!r} is too large for 32-bit answers",
                        code="C078",
                        fix="raise the budget or the share of the query",
                    )
            by_variance = sorted(level.measurements, key=lambda m: m.variance)
            if by_variance and by_variance[-1].variance > MOST_RATIO * by_variance[0].variance:
                raise ConfigError(
                    f"the noise of {by_variance[-1].query!r} at level {level.name!r} has more than "
                    f"{MOST_RATIO:,} times the variance of that of {by_variance[0].query!r}",
                    code="C076",
                    fix="bring the shares nearer to each other, or leave the query with the smallest share out",
                )
            _check_weights(level, most_flow_nodes(plan, geography, depth), is_extension=is_extension)


def _check_weights(level: LevelPlan, n_nodes: int, *, is_extension: bool) -> None:
    """Refuse weights whose costs in a network of at most `n_nodes` nodes do not stay exact.

    An extension rounds stage by stage, in networks of its own, which only a weight itself bounds.
    """
    most = MOST_ROUNDING_WEIGHT if is_extension else min(MOST_ROUNDING_WEIGHT, MOST_FLOW_COST // n_nodes)
    large = next((step for step in level.rounding if step.weight > most), None)
    if large is not None:
        raise ConfigError(
            f"level {level.name!r}: the rounding weight {large.weight} of {large.table!r} is too large for exact "
            "costs of that many areas below one parent",
            code="C055",
            fix=f"give at most {most:,}" if most else "give the level fewer tables in its rounding chain",
        )


def most_flow_nodes(plan: Plan, geography: Geography, depth: int) -> int:
    """Return one more than the most nodes that the flow network of a level's rounding can have (`flow_network.py`).

    * One for everybody, one for people of unknown rows, one a cell.
    * One a child and answer of each table but the last, whose nodes are the cells; of the total that may come first,
      and of the exact table that may join the chain (`chain_of`).
    * A network of kinds for each child (`polytopes.leaf_network`): one a kind; one an answer of the exact table and
      area that has one, in all at most one an answer and leaf; one a bounded set and leaf. Sets of 14 kinds that are
      nested or disjoint are at most 27.
    """
    tables = [plan.query(step.table).n_answers for step in plan.levels[depth].rounding]
    exact = prod(plan.query(e.query).n_answers for e in plan.invariants.exact)
    answers = min(exact, plan.schema.n_cells)
    n_children, n_leaves = _largest_family(geography, depth)
    by_child = sum(tables[:-1]) + 1 + answers + MAX_KINDS
    return 3 + plan.schema.n_cells + n_children * by_child + n_leaves * (answers + 2 * MAX_KINDS - 1)


def _largest_family(geography: Geography, depth: int) -> tuple[int, int]:
    """Return the most children and the most leaves below one parent of the nodes of a level; all below none."""
    if depth == 0:
        return 1, len(geography.leaves)
    leaves = np.bincount(geography.ancestors_of_leaves[depth - 1])
    return int(np.diff(geography.child_pointers[depth - 1]).max()), int(leaves.max())


def make_plan(
    run: RunFile,
    schema: Schema,
    invariants: Invariants,
    geography: Geography,
    facts: PublicFacts,
    inhabited: Sequence[Bools] | None = None,
) -> Plan:
    """Return the plan; every share, query and pass of the run file is checked.

    Args:
        run, schema, invariants, geography, facts: what was read.
        inhabited: per level, the nodes to measure; those the invariants leave open if None.

    Raises:
        ConfigError, BudgetError: what is wrong; `key` is the path of the key in the run file.
    """
    budget, delta = _plan_budget(run)
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
    with locating_errors("level", "0", "share"):
        check_shares({table.name: table.share for table in run.level}, "levels")
    with locating_errors("level"):
        _check_table_names(run, schema, geography)
    rules = None
    if inhabited is None:  # an extension's facts are checked against its base table instead
        rules = ConstraintSystem.from_facts(schema, geography, invariants, facts)
        with locating_errors("invariants"):
            check_supported(invariants, schema, geography, rules)
            found = find_contradiction(schema, geography, invariants, facts, {}, rules=rules)
            if found is not None:
                raise found.error()
        inhabited = rules.inhabited
    levels = []
    for i, level in enumerate(geography.levels):
        with locating_errors("level", number[level.name]):
            n_measured = int(inhabited[i].sum())
            levels.append(
                _plan_level(
                    run, tables[level.name], schema, budget, i, len(level), n_measured, number[level.name]
                )
            )
    plan = Plan(
        release=run.release,
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
        estimates=plan_estimates(run.estimates),
        delta=delta,
    )
    check_solvable(plan, geography, is_extension=run.base is not None)
    if rules is not None:
        check_guarantee(ReleaseChain(plan, (), geography, facts))
    return plan


def _plan_budget(run: RunFile) -> tuple[Fraction, Fraction]:
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
    limits = run.ledger.limits
    if law.has_delta and (limits.rho is not None or not limits.delta):
        raise ConfigError(
            f"mechanism {run.mechanism!r} has no rho, and no epsilon for every delta: no such limit can be checked",
            code="B023",
            fix='write under [ledger], without rho_limit: epsilon_limit = "2" and delta_limit = "1/100000"',
            key=("ledger",),
        )
    return budget, check_delta(given.delta, large=given.large_delta) if law.has_delta else Fraction(0)


def _plan_measurement(
    run: RunFile, query: Query, relation: Relation, share: Fraction, cost: Fraction
) -> MeasurementPlan:
    """Return a query with the noise that makes it cost a part of the budget."""
    law = law_of_mechanism(run.mechanism)
    parameter = calibrate_noise(law, cost, query, relation)
    plain = MeasurementPlan(query.name, query.n_answers, share, cost, cast("LawName", law.name), parameter)
    if not law.has_delta or run.budget.epsilon is None or run.budget.delta is None:
        return plain
    paid = replace(plain, delta=run.budget.delta * cost / run.budget.epsilon)
    return replace(paid, weights=count_weights(law, parameter, paid.count_delta))


def _plan_level(
    run: RunFile,
    table: LevelTable,
    schema: Schema,
    budget: Fraction,
    depth: int,
    n_nodes: int,
    n_measured: int,
    number: str,
) -> LevelPlan:
    with locating_errors("level", number, "queries"):
        check_shares(table.queries, f"queries of level {table.name!r}")
        names = [parse_query(schema, name).name for name in table.queries]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(
                f"level {table.name!r} measures {twice!r} twice, in two spellings",
                code="C075",
                fix="keep one of them, with the share of both",
            )
    loss, relation = budget * table.share, Relation.named(run.neighbours, schema.unit)
    measurements = []
    for name, share in table.queries.items():
        with locating_errors("level", number, "queries", name):
            query = parse_query(schema, name)
            measurements.append(_plan_measurement(run, query, relation, share, loss * share))
    of_root = depth == 0 and bool(table.root_passes)
    with locating_errors("level", number, "root_passes" if of_root else "passes"):
        passes = plan_passes(table, schema, is_root=of_root)
    with locating_errors("level", number, "rounding"):
        rounding = plan_rounding(table, schema)
    return LevelPlan(
        table.name, n_nodes, n_measured, table.share, loss, tuple(measurements), passes, rounding
    )


def _check_table_names(run: RunFile, schema: Schema, geography: Geography) -> None:
    """Refuse queries whose tables would be written to one file."""
    names = [
        parse_query(schema, name).name
        for level in run.level
        if level.name in geography.level_names
        for name in level.queries
    ]
    refuse_same_file(dict.fromkeys(["total", *names]), "table")


def check_supported(
    invariants: Invariants, schema: Schema, geography: Geography, rules: ConstraintSystem
) -> SplitConstraints:
    """Return the constraints on splits; refuse those that the solver would not enforce completely.

    Raises:
        ConfigError: C032 as `check_exact_levels`, C033 and C073 as `public_constraints`, C074 too many kinds of cells.
    """
    check_exact_levels(invariants, geography)
    constraints = public_constraints(schema, invariants, geography, rules)
    deepest, system = max(constraints.unit_depth, 0), constraints.form.system
    most = MAX_KINDS - (deepest < len(geography.levels) - 1)
    if (deepest or system.cap_cells or system.nested) and constraints.partition.n_kinds > most:
        raise ConfigError(
            f"the constraints tell {constraints.partition.n_kinds} kinds of cells apart; exact statistics below the "
            f"root, upper bounds and nested bounds are supported for at most {most}",
            code="C074",
            fix="merge constraints on similar cells, or keep statistics exact at the root only, without such bounds",
        )
    return constraints


def check_exact_levels(invariants: Invariants, geography: Geography) -> None:
    """Refuse an exact statistic of a level that there is not (ConfigError C032)."""
    for exact in invariants.exact:
        if exact.level not in geography.level_names:
            raise ConfigError(
                f"invariant {exact.name!r} names level {exact.level!r}, which the geography lacks",
                code="C032",
                fix="use one of: " + ", ".join(geography.level_names),
            )
