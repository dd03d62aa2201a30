"""Run file or values in, plan and public context out. Opens public files only."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.arrays import Bools
from topdown.errors import ConfigError, TopdownError, quoted
from topdown.file_names import checked_name
from topdown.formats.common import USUAL_NEIGHBOURS, Neighbours
from topdown.formats.strict_toml import add_location, locating_errors, toml_text
from topdown.inputs import (
    MemoryTable,
    TableLocation,
    check_values,
    containing_file,
    header_if_readable,
    locate_table,
    printable,
)
from topdown.model import (
    ConstraintRow,
    ConstraintSystem,
    DerivedValues,
    Geography,
    Invariants,
    PublicFacts,
    Query,
    Schema,
    Support,
    leaf_rows,
    parse_query,
)
from topdown.output_paths import refuse_needed, write_new
from topdown.plan.drafts import draft_files, suggest_limit
from topdown.plan.plan_values import Plan, read_plan
from topdown.plan.planning import make_plan
from topdown.plan.public_tables import (
    geography_sha256,
    public_sha256,
    read_facts,
    read_public,
    read_release_public,
)
from topdown.plan.release_chain import (
    BaseFiles,
    BaseRelease,
    ReleaseChain,
    check_guarantee,
    check_same_base,
    describe_base,
    read_base_facts,
    read_base_plans,
    read_support,
    refuse_resolved,
)
from topdown.plan.run_file import (
    GeographyTable,
    InputTable,
    LedgerTable,
    RunFile,
    load_invariants,
    load_run_file,
    load_schema,
    name_asking_constraint,
)
from topdown.plan.settings import Budget, ReleaseInfo, Settings
from topdown.privacy.laws import law_of_mechanism
from topdown.resources import find

if TYPE_CHECKING:
    from topdown.formats.common import Mechanism


@dataclass(frozen=True, eq=False)
class PublicContext:
    """A plan with the public facts it was made from: all that measure, solve and publish need to know.

    Args:
        plan, geography, facts: what a release folder holds of it.
        support: what the base release leaves open, if this one extends it.
        bases: the releases it extends, oldest first.
        given_rules: what the facts imply, where that is known already; derived if None.
    """

    plan: Plan
    geography: Geography
    facts: PublicFacts
    support: Support | None = None
    bases: tuple[BaseRelease, ...] = ()
    given_rules: ConstraintSystem | None = None
    derived: DerivedValues = field(default_factory=DerivedValues, init=False, repr=False)

    @property
    def inhabited(self) -> tuple[Bools, ...]:
        """Per level, the nodes that are measured."""
        return self.rules.inhabited if self.support is None else self.support.inhabited

    @property
    def rules(self) -> ConstraintSystem:
        """Open classes and lower bounds of every node."""
        if self.given_rules is not None:
            return self.given_rules
        if self.support is not None:
            return self.support.rules
        return self.derived.get(
            "rules", lambda: ConstraintSystem.from_rows(self.plan.schema, self.geography, self.leaf_rows)
        )

    @property
    def leaf_rows(self) -> tuple[ConstraintRow, ...]:
        """What public facts say of the leaves, one row a constraint; those of releases that it extends left out."""
        return leaf_rows(self.plan.schema, self.plan.invariants, self.facts.columns, self.geography)

    @cached_property
    def policy(self) -> ReleaseChain:
        """What statements about privacy are made from."""
        return ReleaseChain(self.plan, self.bases, self.geography, self.facts)

    def release_derived(self) -> None:
        """Forget what is derived again when it is asked for: of a nation nearly a gigabyte, which few stages read."""
        self.derived.release()
        self.geography.derived.release()

    def queries(self, level: str) -> tuple[Query, ...]:
        """Return the queries measured at a level, in the order of their answers in the measurement files."""
        make = partial(parse_query, self.plan.schema) if self.support is None else self.support.query
        return tuple(make(m.query) for m in self.plan.level(level).measurements)


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A context together with the run file it came from (paths and ledger policy are not part of the plan)."""

    context: PublicContext
    run: RunFile
    path: Path
    base: BaseFiles | None = None  # files of the release that is extended

    @property
    def plan(self) -> Plan:
        """What will be measured."""
        return self.context.plan

    @property
    def records_path(self) -> TableLocation:
        """Where the confidential records are."""
        return locate_table(self.run.input.records, self.path.parent)

    @property
    def needed(self) -> tuple[Path, ...]:
        """Files the run reads or keeps: nothing else may be written there."""
        beside, run = self.path.parent, self.run
        named = [run.geography.table, *(n for n in (run.schema, run.invariants) if n.endswith(".toml"))]
        tables = [
            containing_file(locate_table(text, beside)) for text in (run.input.records, run.input.leaves)
        ]
        return (self.path, *tables, *(beside / name for name in named if name), self.ledger_path)

    @property
    def ledger_path(self) -> Path:
        """The ledger of the data set."""
        return self.path.parent / self.run.ledger.path


def prepare(path: Path, base: Path | None = None, *, leaves: MemoryTable | None = None) -> PreparedRun:
    """Read a run file and everything public it names, and make the plan.

    Args:
        path: the run file.
        base: the release to extend; needed if the run file has a table [base], and only then.
        leaves: public leaf table in memory; the file that the run file names if None.

    Raises:
        ConfigError, DataError, BudgetError: what is wrong, where, and the fix; nothing is spent.
    """
    run = load_run_file(path)
    _check_base_given(run, path, base)
    beside = path.resolve().parent
    try:
        with locating_errors("schema"):
            schema = load_run_schema(run, path)
        with locating_errors("invariants"):
            invariants = load_invariants(find("invariants", run.invariants, beside), schema)
        with locating_errors("input", "ignore"):
            _check_ignored(run, schema, invariants)
        with locating_errors("input", "columns"):
            _check_renamed(run, schema, invariants)
        _check_values(run, schema)
        with locating_errors("input", "leaves"):
            table = locate_table(run.input.leaves, beside) if leaves is None else leaves
            words = (run.input.ignore, run.input.columns)
            try:
                geography, facts = read_public(table, run.geography, invariants.columns, beside, *words)
            except TopdownError as error:
                name_asking_constraint(error, invariants)
                raise
        if base is None:
            context = PublicContext(make_plan(run, schema, invariants, geography, facts), geography, facts)
        else:
            context = _prepare_extension(run, schema, invariants, geography, facts, base)
    except TopdownError as error:
        add_location(error, path)
        raise
    prepared = PreparedRun(context, run, path, None if base is None else BaseFiles.of_release(base))
    with locating_errors("ledger", "path"):
        refuse_needed(prepared.ledger_path, "ledger.path", prepared.needed[:-1])
    return prepared


def _check_ignored(run: RunFile, schema: Schema, invariants: Invariants) -> None:
    """Refuse to ignore a column that is read (ConfigError C133)."""
    read = {"geocode", *(a.name for a in schema.attributes), *invariants.columns}
    read |= {"count"} if run.input.count else set()
    both = [name for name in run.input.ignore if name in read]
    if both:
        raise ConfigError(
            f"input.ignore names the column {both[0]!r}, which is read",
            code="C133",
            fix="take it out of the list"
            + ("; for one record a row, write count = false" if both[0] == "count" else ""),
        )


def _check_renamed(run: RunFile, schema: Schema, invariants: Invariants) -> None:
    """Refuse another name for a column that no table has, or one name for two columns (ConfigError C138)."""
    known = {"geocode", "count", *(a.name for a in schema.attributes), *invariants.columns}
    called = run.input.columns
    unknown = [name for name in called if name not in known]
    names = [called.get(name, name) for name in known]
    twice = [name for name in called if names.count(called[name]) > 1]
    if unknown or twice:
        problem = f"{unknown[0]!r}, which is not read" if unknown else f"{twice[0]!r} as another column is"
        raise ConfigError(
            f"input.columns names {problem}",
            code="C138",
            fix=f"name each of these at most once: {', '.join(sorted(known))}",
        )


def _check_values(run: RunFile, schema: Schema) -> None:
    """Refuse labels for the values of what is no attribute (ConfigError C337), and as `check_values`."""
    labels = {attribute.name: attribute.labels for attribute in schema.attributes}
    for name, values in run.input.values.items():
        with locating_errors("input", "values", name):
            if name not in labels:
                raise ConfigError(
                    f"input.values names {name!r}, which is no attribute of schema {schema.name}",
                    code="C337",
                    fix=f"name one of: {', '.join(labels)}",
                )
            check_values(values, name, labels[name])


def load_run_schema(run: RunFile, path: Path) -> Schema:
    """Return the schema that a run file names; ConfigError if there is none."""
    return load_schema(find("schemas", run.schema, path.resolve().parent))


def _check_base_given(run: RunFile, path: Path, base: Path | None) -> None:
    if run.base is not None and base is None:
        raise ConfigError(
            f"{path} extends a release",
            code="C097",
            file=str(path),
            fix=f"use: topdown extend {quoted(path)} --base RELEASE --out DIR; to look first: "
            f"topdown plan {quoted(path)} --base RELEASE",
        )
    if run.base is not None and law_of_mechanism(run.mechanism).has_delta:
        raise ConfigError(
            f'an extension cannot have mechanism "{run.mechanism}"',
            code="C157",
            fix='write mechanism = "discrete_gaussian" or "geometric", like the release it extends',
            key=("mechanism",),
        )
    if run.base is None and base is not None:
        raise ConfigError(
            f"{path} does not say how it reads the base release",
            code="C091",
            file=str(path),
            fix="add a table [base]; it may be empty if the attributes have the same names",
        )


def _prepare_extension(
    run: RunFile, schema: Schema, invariants: Invariants, geography: Geography, facts: PublicFacts, base: Path
) -> PublicContext:
    files = BaseFiles.of_release(base)
    plans = read_base_plans(files)
    there = plans[-1]
    refuse_resolved(there)
    if invariants.upper_bounds:
        raise ConfigError(
            f"an extension cannot keep constraints of the kind {invariants.upper_bounds[0].kind!r} yet",
            code="C098",
            fix="remove them from the invariants of the extension; nothing was spent",
        )
    if invariants.exact:
        raise ConfigError(
            f"invariant {invariants.exact[0].name!r} is exact: an extension has the totals of its base",
            code="C095",
            fix="remove it from the invariants of the extension",
        )
    _check_lineage(run, schema, geography, plans)
    bases = read_base_facts(plans, files, geography)
    names = dict(run.base.map) if run.base is not None else {}
    rules = ConstraintSystem.from_facts(schema, geography, invariants, facts)
    with locating_errors("base", "map"):
        support = read_support(schema, rules, geography, there.schema, names, files.table)
    if not support.levels[0].n_records:
        raise ConfigError(
            "the base release has no records, so it leaves nothing to extend",
            code="C099",
            fix="make a release of the whole schema instead; nothing was spent",
        )
    plan = make_plan(run, schema, invariants, geography, facts, support.inhabited)
    stated = describe_base(there, files, support, plan, names)
    context = PublicContext(replace(plan, base=stated), geography, facts, support, bases)
    check_guarantee(context.policy)
    return context


def _check_lineage(run: RunFile, schema: Schema, geography: Geography, bases: tuple[Plan, ...]) -> None:
    """Refuse releases whose losses do not add up (C092): other records, units or neighbours, another tree."""
    for base in bases:
        for what, ours, theirs in (
            ("data set", run.release.data_set, base.release.data_set),
            ("privacy unit", schema.unit, base.schema.unit),
            ("neighbours", run.neighbours, base.neighbours),
            ("mechanism", run.mechanism, base.mechanism),
            ("geography", geography_sha256(geography)[:8], base.geography_sha256[:8]),
        ):
            if ours != theirs:
                raise ConfigError(
                    f"the base release has another {what} ({theirs}) than the run file ({ours})",
                    code="C092",
                    fix="use the same; only then do the losses of both add up in one ledger",
                )


def load_release_chain(release: Path) -> ReleaseChain:
    """Read from a release folder what statements about its privacy are made from; errors as for `load_context`."""
    plan, geography, facts = _load_public(release)
    if plan.base is None:
        return ReleaseChain(plan, (), geography, facts)
    files = BaseFiles.of_extension(release)
    return ReleaseChain(
        plan, read_base_facts(read_base_plans(files, plan.base), files, geography), geography, facts
    )


def load_context(release: Path, same: PublicContext | None = None) -> PublicContext:
    """Read a plan and its public facts back from a release folder; `same` is returned if it turns out to be that.

    The hash of a plan covers the public facts, and of an extension the base's table and manifest: what is read is
    compared with it, and only then is `same` what the files say.

    Raises:
        ConfigError: plan.json is missing, damaged, or was made for other public facts.
    """
    plan, geography, facts = _load_public(release)
    known = same if same is not None and same.plan.plan_hash == plan.plan_hash else None
    if plan.base is None:
        return known or PublicContext(plan, geography, facts)
    files = BaseFiles.of_extension(release)
    check_same_base(plan, files)
    plans = read_base_plans(files, plan.base)
    bases = read_base_facts(plans, files, geography)
    if known is not None:
        return known
    rules = ConstraintSystem.from_facts(plan.schema, geography, plan.invariants, facts)
    support = read_support(plan.schema, rules, geography, plans[-1].schema, dict(plan.base.map), files.table)
    return PublicContext(plan, geography, facts, support, bases)


def _load_public(release: Path) -> tuple[Plan, Geography, PublicFacts]:
    plan = read_plan(release / "plan.json")
    geography, facts = read_release_public(release / "public")
    if public_sha256(geography, facts) != plan.public_sha256:
        raise ConfigError(
            f"the public facts in {release / 'public'} are not those of plan.json",
            code="C017",
            fix="get the release again; do not mix files of two runs",
        )
    return plan, geography, facts


_RUN, _SCHEMA, _INVARIANTS = "run.toml", "schema.toml", "invariants.toml"
_TREE, _LEAVES, _RECORDS = "geography.csv", "leaves.csv", "records.csv"


@dataclass(frozen=True)
class RunOfValues:
    """What a run file would say.

    Args:
        schema, geography: as `topdown.plan`.
        budget: of the settings if None. neighbours: of the settings, or the usual ones, if None.
        settings: a draft if None. invariants: nothing is exact if None. data_set: whose ledger is charged.
        columns: what the records call geocode, count or an attribute, where that is another name.
    """

    schema: Schema
    geography: Geography
    budget: Budget | None
    neighbours: Neighbours | None
    settings: Settings | None
    invariants: Invariants | None
    data_set: str
    columns: Mapping[str, str] = field(default_factory=dict)


def checked_budget(budget: Budget) -> Budget:
    """Return a budget; ConfigError C341 if it is none, rho beside epsilon, or a delta alone."""
    if (budget.rho is None) == (budget.epsilon is None) or (
        budget.delta is not None and budget.epsilon is None
    ):
        raise ConfigError(
            "a budget is rho, or epsilon, or epsilon and delta",
            code="C341",
            fix='give rho="1/2" or epsilon=1',
        )
    return budget


def prepare_values(
    asked: RunOfValues, records: MemoryTable | None, leaves: MemoryTable | None
) -> PreparedRun:
    """Return the run of values, as `prepare` would of its files; they are not there.

    Args:
        records: confidential; the names of its columns only are read.
        leaves: public columns that the invariants read, by `geocode`; other columns are not read.

    Raises:
        ConfigError: C030 settings or invariants of another schema, C341 the budget, C342 the invariants read public
            columns and there are none, C370 the records lack a column, C138 `columns`. DataError: as `read_facts`.
            And as `make_plan`.
    """
    schema, tree, data_set = asked.schema, asked.geography, checked_name(asked.data_set, "data set")
    settings = asked.settings or Settings.from_shares(schema, tree.level_names)
    invariants = asked.invariants or _nothing_exact(schema)
    for what, of in (("settings", settings), ("invariants", invariants)):
        if of.schema != schema.name:
            raise ConfigError(
                f"{what} {of.name!r} are for schema {of.schema!r}, not {schema.name!r}",
                code="C030",
                fix=f"make them of this schema, or call the schema {of.schema!r}",
            )
    if invariants.columns and leaves is None:
        raise ConfigError(
            f"invariants {invariants.name!r} read the public column {invariants.columns[0]!r} of the leaves",
            code="C342",
            fix="give leaves=, a table with geocode and " + ", ".join(invariants.columns),
        )
    facts = PublicFacts({}) if leaves is None else read_facts(leaves, tree, invariants.columns)
    budget = checked_budget(settings.budget if asked.budget is None else asked.budget)
    gaussian = budget.rho is not None
    mechanism: Mechanism = "geometric" if budget.delta is None else "optimal"
    header = () if records is None else tuple(header_if_readable(records))
    called, needed = dict(asked.columns), ("geocode", *(a.name for a in schema.attributes))
    if header:
        _check_header(header, [called.get(name, name) for name in needed])
    read = {called.get(name, name) for name in (*needed, "count")}
    limit = suggest_limit(settings.with_budget(budget), tree.level_names)
    run = RunFile(
        type="topdown.run",
        version=1,
        schema=_SCHEMA,
        invariants=_INVARIANTS,
        neighbours=asked.neighbours or (asked.settings.neighbours if asked.settings else USUAL_NEIGHBOURS),
        mechanism="discrete_gaussian" if gaussian else mechanism,
        release=ReleaseInfo(id=f"{data_set}-r1", title="?", data_set=data_set),
        input=InputTable(
            records=_RECORDS,
            leaves=_LEAVES,
            ignore=tuple(name for name in header if name not in read),
            count=not header or called.get("count", "count") in header,
            columns=called,
        ),
        geography=GeographyTable(levels=tree.level_names, table=_TREE),
        ledger=LedgerTable(
            path=f"ledger/{data_set}.jsonl",
            rho_limit=limit if gaussian else None,
            epsilon_limit=None if gaussian else limit,
            delta_limit=None if budget.delta is None else 2 * budget.delta,
        ),
        budget=budget,
        level=settings.level,
        settings=settings.name,
        estimates=settings.estimates if gaussian else None,
    )
    _check_renamed(run, schema, invariants)
    plan = make_plan(run, schema, invariants, tree, facts)
    return PreparedRun(PublicContext(plan, tree, facts), run, Path(_RUN))


def _check_header(header: Sequence[str], needed: Sequence[str]) -> None:
    """Refuse records that lack a column before anything is made for them (ConfigError C370)."""
    missing = [name for name in needed if name not in header]
    if missing:
        there = ", ".join(map(printable, header[:12]))
        raise ConfigError(
            f"the records have no column {missing[0]!r}; they have: {there}",
            code="C370",
            fix=f"rename it, or say what the records call it: columns={{{missing[0]!r}: COLUMN}}",
        )


def _nothing_exact(schema: Schema) -> Invariants:
    return Invariants("none", "No invariants", schema.name)


def write_run(prepared: PreparedRun, folder: Path) -> Path:
    """Write the files of a run of values; nothing of records. ConfigError C080 where one is there already.

    Returns: the run file.
    """
    context = prepared.context
    schema, levels, invariants = context.plan.schema, context.geography.levels, context.plan.invariants
    facts = {name: context.facts.columns[name] for name in invariants.columns}
    draft = draft_files(schema, context.geography.level_names, schema.source)
    rows = [
        (code, levels[depth - 1].codes[int(up)] if depth else "", level.name)
        for depth, level in enumerate(levels)
        for code, up in zip(level.codes, level.parent, strict=True)
    ]
    texts = {
        _SCHEMA: draft.schema,
        _INVARIANTS: draft.invariants if invariants == _nothing_exact(schema) else toml_text(invariants.file),
        _TREE: _csv(("geocode", "parent", "level"), rows),
        _LEAVES: _csv(
            (prepared.run.input.columns.get("geocode", "geocode"), *facts),
            zip(levels[-1].codes, *(of.tolist() for of in facts.values()), strict=True),
        ),
        _RUN: toml_text(prepared.run),
    }
    for name in texts:
        if (folder / name).exists():
            raise ConfigError(f"{folder / name} exists", code="C080", fix="give another folder")
    for name, text in texts.items():
        write_new(folder / name, text.encode("utf-8"))
    return folder / _RUN


def _csv(header: Sequence[str], rows: Iterable[tuple[object, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()
