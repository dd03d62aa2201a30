"""Run file in, plan and public context out. Opens public files only."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from topdown.errors import BudgetError, ConfigError
from topdown.model.constraint import Invariants
from topdown.model.geography import Geography
from topdown.model.public import PublicFacts, Rules, derive_rules
from topdown.model.query import Query, parse_query
from topdown.model.schema import Schema
from topdown.plan.budget import check_shares, gaussian_variance, geometric_scale
from topdown.plan.files import LevelTable, PassTable, load_invariants, load_schema
from topdown.plan.plan import (
    LevelPlan,
    MeasurementPlan,
    Pass,
    Plan,
    ReleaseInfo,
    Rounding,
    plan_from_document,
)
from topdown.plan.public_tables import public_sha256, read_public, read_release_public
from topdown.plan.runfile import RunFile, load_runfile
from topdown.resources import find


@dataclass(frozen=True, eq=False)
class Context:
    """A plan with the public facts it was made from: all that measure, solve and publish need to know."""

    plan: Plan
    geography: Geography
    facts: PublicFacts

    @cached_property
    def rules(self) -> Rules:
        """Open classes and lower bounds of every node."""
        return derive_rules(self.plan.schema, self.geography, self.plan.invariants, self.facts)

    def queries(self, level: str) -> tuple[Query, ...]:
        """Return the queries measured at a level, in the order of their answers in the measurement files."""
        return tuple(parse_query(self.plan.schema, m.query) for m in self.plan.level(level).measurements)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A context together with the run file it came from (paths and ledger policy are not part of the plan)."""

    context: Context
    run: RunFile
    path: Path

    @property
    def records_path(self) -> Path:
        """The confidential records."""
        return self.path.parent / self.run.input.records

    @property
    def ledger_path(self) -> Path:
        """The ledger of the data set."""
        return self.path.parent / self.run.ledger.path


def prepare(path: Path) -> Prepared:
    """Read a run file and everything public it names, and make the plan.

    Raises:
        ConfigError, DataError, BudgetError: what is wrong, where, and the fix; nothing is spent.
    """
    run = load_runfile(path)
    beside = path.resolve().parent
    schema = load_schema(find("schemas", run.schema, beside))
    invariants = load_invariants(find("invariants", run.invariants, beside), schema)
    geography, facts = read_public(beside / run.input.leaves, run.geography, invariants.columns, beside)
    return Prepared(Context(_plan(run, schema, invariants, geography, facts), geography, facts), run, path)


def load_context(release: Path) -> Context:
    """Read a plan and its public facts back from a release folder.

    Raises:
        ConfigError: plan.json is missing, damaged, or was made for other public facts.
    """
    document = read_plan_document(release / "plan.json")
    plan = plan_from_document(document)
    geography, facts = read_release_public(release / "public")
    if public_sha256(geography, facts) != plan.public_sha256:
        raise ConfigError(
            f"the public facts in {release / 'public'} are not those of plan.json",
            code="C017",
            fix="get the release again; do not mix files of two runs",
        )
    return Context(plan, geography, facts)


def read_plan_document(path: Path) -> dict[str, object]:
    """Read plan.json without its own hash; ConfigError if it does not match that hash."""
    import json

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        stated = document.pop("plan_hash")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not a plan ({type(error).__name__})",
            code="C016",
            fix="make it with: topdown plan RUN.toml",
        ) from None
    document.pop("run_file", None)
    if plan_from_document(document).plan_hash != stated:
        raise ConfigError(
            f"{path} was altered: its hash does not match", code="C018", fix="make the plan again"
        )
    return dict(document)


def _plan(
    run: RunFile, schema: Schema, invariants: Invariants, geography: Geography, facts: PublicFacts
) -> Plan:
    gaussian = run.mechanism == "discrete_gaussian"
    budget = run.budget.rho if gaussian else run.budget.epsilon
    if budget is None or (run.budget.rho is None) == (run.budget.epsilon is None):
        need = "rho" if gaussian else "epsilon"
        raise ConfigError(
            f"mechanism {run.mechanism!r} needs budget.{need} and nothing else",
            code="C050",
            fix=f'write [budget] {need} = "..." only',
        )
    if budget <= 0:
        raise BudgetError(f"the budget is {budget}", code="B003", fix="give a positive budget")
    tables = {table.name: table for table in run.level}
    if len(tables) != len(run.level):
        raise ConfigError("a level has two [[level]] tables", code="C051", fix="keep one [[level]] a level")
    missing = [name for name in geography.level_names if name not in tables]
    if missing:
        raise ConfigError(
            f"level {missing[0]!r} of the geography has no [[level]] table",
            code="C052",
            fix="add one with share, queries, passes and rounding",
        )
    check_shares({table.name: table.share for table in run.level}, "levels")
    _check_exact(invariants, schema, geography)
    rules = derive_rules(schema, geography, invariants, facts)
    levels = tuple(
        _level(run, tables[level.name], schema, budget, i, len(level), int(rules.inhabited[i].sum()))
        for i, level in enumerate(geography.levels)
    )
    return Plan(
        release=ReleaseInfo(
            run.release.id, run.release.title, run.release.data_set, run.release.agency, run.release.contact
        ),
        schema=schema,
        invariants=invariants,
        neighbours=run.neighbours,
        mechanism=run.mechanism,
        settings=run.settings,
        budget=budget,
        levels=levels,
        unspent=tuple((t.name, t.share) for t in run.level if t.name not in geography.level_names),
        public_sha256=public_sha256(geography, facts),
        simulate=run.simulate,
    )


def _level(
    run: RunFile,
    table: LevelTable,
    schema: Schema,
    budget: Fraction,
    depth: int,
    n_nodes: int,
    n_measured: int,
) -> LevelPlan:
    check_shares(table.queries, f"queries of level {table.name!r}")
    loss = budget * table.share
    measurements = []
    for name, share in table.queries.items():
        query = parse_query(schema, name)
        cost = loss * share
        if run.mechanism == "discrete_gaussian":
            variance = gaussian_variance(cost, query, run.neighbours)
            measurements.append(
                MeasurementPlan(query.name, query.n_answers, share, cost, "discrete_gaussian", variance)
            )
        else:
            scale = geometric_scale(cost, query, run.neighbours)
            measurements.append(
                MeasurementPlan(query.name, query.n_answers, share, cost, "two_sided_geometric", scale)
            )
    use_root = depth == 0 and table.root_passes
    passes = _passes(table.root_passes if use_root else table.passes, table, schema)
    rounding = tuple(Rounding(parse_query(schema, r.table).name, r.weight) for r in table.rounding)
    if any(r.weight < 1 for r in rounding):
        raise ConfigError(
            f"level {table.name!r}: rounding weights start at 1", code="C055", fix="raise the weight"
        )
    return LevelPlan(
        table.name, n_nodes, n_measured, table.share, loss, tuple(measurements), passes, rounding
    )


def _passes(tables: tuple[PassTable, ...], level: LevelTable, schema: Schema) -> tuple[Pass, ...]:
    measured = [parse_query(schema, name).name for name in level.queries]
    passes = []
    for table in tables:
        names = [parse_query(schema, name).name for name in table.queries] or measured
        absent = [name for name in names if name not in measured]
        if absent:
            raise ConfigError(
                f"a pass of level {level.name!r} uses {absent[0]!r}, which is not measured there",
                code="C053",
                fix="use queries listed under [level.queries]",
            )
        passes.append(Pass(parse_query(schema, table.table).name, tuple(names)))
    queries = [parse_query(schema, p.table) for p in passes]
    ordered = all(b.refines(a) for a, b in pairwise(queries))
    if not passes or passes[-1].table != "detailed" or not ordered:
        raise ConfigError(
            f"passes of level {level.name!r} must go from coarse to fine and end with the table 'detailed'",
            code="C054",
            fix="order the passes so that each table refines the one before; end with detailed",
        )
    return tuple(passes)


def _check_exact(invariants: Invariants, schema: Schema, geography: Geography) -> None:
    for exact in invariants.exact:
        if exact.level not in geography.level_names:
            raise ConfigError(
                f"invariant {exact.name!r} names level {exact.level!r}, which the geography lacks",
                code="C032",
                fix="use one of: " + ", ".join(geography.level_names),
            )
        if parse_query(schema, exact.query).name != "total":
            raise ConfigError(
                f"invariant {exact.name!r}: only totals can be kept exact",
                code="C033",
                fix='write query = "total", or measure the table with noise',
            )
