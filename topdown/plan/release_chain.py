"""A release and all that it extends: their plans and public facts, and what these say of each change of one record.

Statements about privacy are made from a `ReleaseChain`. An extension carries plan, manifest and records of its base,
and plan and public facts of whatever that extends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from topdown.arrays import Ints
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.file_names import file_sha256
from topdown.formats.common import USUAL_NEIGHBOURS
from topdown.inputs import TableColumn, TableProblem, TableReader
from topdown.inputs.reading_process import NOT_READ
from topdown.inputs.table_reader import public_error
from topdown.model import (
    AttributeMapping,
    BoundRule,
    ConstraintSystem,
    Geography,
    Histogram,
    KnownStatistic,
    NeighbourChange,
    PublicFacts,
    Schema,
    Support,
    ZeroRule,
    analyse_neighbours,
    base_labels,
    compose_mappings,
    group_values,
    identity_mapping,
    leaf_rows,
    map_attributes,
)
from topdown.model.sections import files_at, part_path
from topdown.plan.plan_values import Base, Plan, read_plan
from topdown.plan.public_tables import public_sha256, read_leaves


@dataclass(frozen=True, eq=False)
class BaseRelease:
    """A release that is extended: its plan, and the public facts that it was made from."""

    plan: Plan
    facts: PublicFacts


@dataclass(frozen=True, eq=False)
class ReleaseChain:
    """A plan, the releases it extends, and the public facts: all that statements are made from.

    Args:
        plan, facts: of the release.
        bases: the releases it extends, oldest first.
        geography: of all of them.
    """

    plan: Plan
    bases: tuple[BaseRelease, ...]
    geography: Geography
    facts: PublicFacts

    @cached_property
    def steps(self) -> tuple[tuple[Plan, AttributeMapping], ...]:
        """Every plan, oldest first, and how its attributes read in the schema of the newest."""
        out = [(self.plan, identity_mapping(self.plan.schema))]
        for base in reversed(self.bases):
            above, reading = out[-1]
            names = dict(above.base.map) if above.base is not None else {}
            out.append(
                (base.plan, compose_mappings(map_attributes(above.schema, base.plan.schema, names), reading))
            )
        return tuple(reversed(out))

    @cached_property
    def known(self) -> tuple[KnownStatistic, ...]:
        """The exact statistics of every step, each under a name of its own."""
        found: dict[str, KnownStatistic] = {}
        for plan, reading in self.steps:
            for exact in plan.invariants.exact:
                name, n = exact.name, 1
                while name in found:
                    name = f"{exact.name} ({plan.release.id}{f', {n}' * (n > 1)})"
                    n += 1
                depth = self.geography.index(exact.level)
                found[name] = KnownStatistic(name, depth, group_values(plan.query(exact.query), reading))
        return tuple(found.values())

    @property
    def loss(self) -> Fraction:
        """Total rho or epsilon of the plan and of those it extends."""
        return sum((plan.loss for plan in (*(b.plan for b in self.bases), self.plan)), Fraction(0))

    @property
    def conditional_on(self) -> tuple[str, ...]:
        """Names of all statistics that are exact."""
        return tuple(k.name for k in self.known)

    @property
    def has_public_facts(self) -> bool:
        """Whether rules that hold for every true population narrow what an answer can be."""
        return any(plan.invariants.leaf_rules for plan, _ in self.steps)

    @cached_property
    def changes(self) -> tuple[NeighbourChange, ...]:
        """What exact statistics and public facts say of each kind of change; the neighbours' own comes first."""
        zeros, bounds = [], []
        # Lower bounds alone leave room for anybody.
        limited = any(plan.invariants.upper_bounds for plan, _ in self.steps)
        for (plan, reading), facts in zip(
            self.steps, (*(b.facts for b in self.bases), self.facts), strict=True
        ):
            rows = leaf_rows(plan.schema, plan.invariants, facts.columns, self.geography)
            for row in sorted(rows, key=lambda row: bool(row.rule.read_columns)):  # definitions first
                values = {}
                for name, labels in row.selection:
                    here, value = reading[name]
                    inside = [label in labels for label in plan.schema.attribute(name).labels]
                    values[here] = tuple(inside[v] for v in value)
                if row.rule.closes:
                    zeros.append(ZeroRule(row.name, values, row.high == 0))
                    continue
                if limited and row.rule.is_lower:
                    bounds.append(BoundRule(row.name, values, row.low, above=False))
                if limited and row.rule.is_upper:
                    bounds.append(BoundRule(row.name, values, row.high, above=True))
        return analyse_neighbours(
            self.plan.schema, self.geography, self.known, zeros, bounds, whole=self.plan.relation.stated
        )


def check_guarantee(policy: ReleaseChain) -> None:
    """Refuse a plan whose neighbours all differ in what is exact: its guarantee would speak of nothing (C120).

    Also rules of which it is not known what changes of a unit of several records they leave open (A082).
    """
    most = (rule.name for plan, _ in policy.steps for rule in plan.invariants.upper_bounds)
    policy.plan.relation.check_rules(policy.conditional_on, tuple(most))
    first = policy.changes[0]
    if first.status != "disclosed":
        return
    if first.kind == "presence" and policy.known:
        names = ", ".join(f'"{name}"' for name in policy.conditional_on)
        raise ConfigError(
            f"with neighbours = {policy.plan.neighbours} every record more or less changes {names}, which "
            f"{'is' if len(policy.known) == 1 else 'are'} published exactly: the guarantee would be empty",
            code="C120",
            fix=f'use neighbours = "{USUAL_NEIGHBOURS}", or leave the exact statistics out of the invariants',
            key=("neighbours",),
        )
    names = ", ".join(f'"{name}"' for name in first.exact)
    raise ConfigError(
        f"no two data sets that differ in one record agree on {names}: the guarantee would be empty",
        code="C120",
        fix="keep fewer statistics exact, close fewer cells, or leave out bounds that meet",
        key=("invariants",),
    )


BASE_FOLDER, PLAN_FILE = "base", "plan.json"
CARRIED_FILES = {  # inside an extension: inside the base release
    PLAN_FILE: PLAN_FILE,
    "manifest.json": "manifest.json",
    "persons.parquet": "microdata/persons.parquet",
}
LEAVES_FILE = "public/leaves.parquet"  # beside the plan, in a release and where it is carried


@dataclass(frozen=True, eq=False)
class BaseFiles:
    """The files of a base release that an extension needs, as in a release of one section, or copied."""

    plan: Path
    manifest: Path
    table: Path

    @staticmethod
    def of_release(release: Path) -> BaseFiles:
        """Return the files of a release itself."""
        return BaseFiles(*(release / path for path in CARRIED_FILES.values()))

    @staticmethod
    def of_extension(release: Path) -> BaseFiles:
        """Return the copies inside an extension."""
        return BaseFiles(*(release / BASE_FOLDER / name for name in CARRIED_FILES))

    @property
    def copies(self) -> dict[str, Path]:
        """The files, by where an extension of them has them."""
        tables, name = files_at(self.table), f"{BASE_FOLDER}/persons.parquet"
        parted = tables != [self.table]
        out = {f"{BASE_FOLDER}/{PLAN_FILE}": self.plan, f"{BASE_FOLDER}/manifest.json": self.manifest}
        return out | {part_path(name, i) if parted else name: path for i, path in enumerate(tables)}

    @property
    def table_sha256(self) -> str:
        """SHA-256 of the table, in hex; of one in parts, of the lines `hash  part-000.parquet`, in order."""
        tables = files_at(self.table)
        if tables == [self.table]:
            return file_sha256(self.table)
        lines = (f"{file_sha256(path)}  {path.name}\n" for path in tables)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def bytes_of(self) -> dict[str, bytes]:
        """Return what an extension carries of its base, by path inside it."""
        out = {name: path.read_bytes() for name, path in self.copies.items()}
        folder, depth = self.plan.parent, 1
        while (folder / PLAN_FILE).is_file():  # the base, what it extends itself, and so on
            for path in carried_paths(depth):
                out[path] = (folder / Path(path).relative_to(f"{BASE_FOLDER}/" * depth)).read_bytes()
            folder, depth = folder / BASE_FOLDER, depth + 1
        return out


def carried_paths(depth: int) -> tuple[str, str]:
    """Return where an extension carries plan and public facts of its base (1), of the base of that (2), and so on."""
    return f"{BASE_FOLDER}/" * depth + PLAN_FILE, f"{BASE_FOLDER}/" * depth + LEAVES_FILE


def check_same_base(plan: Plan, files: BaseFiles) -> None:
    """Refuse files that are not those a plan was made from (CertificateError V160)."""
    base = plan.base
    there = all(path.is_file() for path in files.copies.values())
    for path, found, wanted in (
        (files.manifest, file_sha256(files.manifest) if there else "", base.manifest_sha256 if base else "-"),
        (files.table, files.table_sha256 if there else "", base.table_sha256 if base else "-"),
    ):
        if found != wanted:
            raise CertificateError(
                f"{path} is not the file of the base release that the plan names",
                code="V160",
                file=str(path),
                fix="give the base release the plan was made from",
            )


def describe_base(there: Plan, files: BaseFiles, support: Support, plan: Plan, names: dict[str, str]) -> Base:
    """Return what the plan of an extension says of its base release."""
    queries = [tuple(support.query(m.query) for m in level.measurements) for level in plan.levels]
    return Base(
        release=there.release.id,
        plan_hash=there.plan_hash,
        manifest_sha256=file_sha256(files.manifest),
        table_sha256=files.table_sha256,
        map=tuple((a.name, names.get(a.name, a.name)) for a in there.schema.attributes),
        n_numbers=tuple(int(support.lengths(i, q).sum()) for i, q in enumerate(queries)),
    )


def read_support(
    schema: Schema,
    rules: ConstraintSystem,
    geography: Geography,
    base: Schema,
    names: dict[str, str],
    table: Path,
) -> Support:
    """Read the microdata of a base release and say what they leave open at every node.

    Args:
        schema, rules, geography: of the extension.
        base: schema of the base release.
        names: see `base_labels`.
        table: microdata of the base release (`BaseFiles.table`).

    Raises:
        ConfigError: C093 the schemas do not fit together, C094 the base release has other leaves.
        CertificateError: V160 the microdata cannot be read as documented.
    """
    leaves = geography.leaves.codes
    columns = (
        TableColumn("geocode", "label", leaves),
        *(TableColumn(a.name, "label", a.labels) for a in base.attributes),
        TableColumn("count", "whole", most=2**62),
    )
    leaf, *values, count = _read_microdata(table, columns)
    if any((v < 0).any() for v in values) or not (count > 0).all():
        raise _no_microdata(table)
    if (leaf < 0).any():
        raise ConfigError(
            "the base release has records in areas that this geography lacks",
            code="C094",
            fix="use the geography of the base release",
        )
    found = Histogram.build(len(leaves), base.n_cells, leaf, base.cells(tuple(values)), count)
    return Support(schema, rules, base_labels(schema, base, names), found.at_every_level(geography))


def _read_microdata(table: Path, columns: Sequence[TableColumn]) -> list[Ints]:
    """Return columns of a release's microdata, of all its parts; -1 where a value is none of a column's."""
    found: list[list[Ints]] = [[] for _ in columns]
    for path in files_at(table):
        try:
            for batch in TableReader(path, columns, ignored=None, may_be_empty=True).batches():
                for part, column in zip(found, columns, strict=True):
                    part.append(batch[column.name])
        except TableProblem as problem:
            raise public_error(path, problem) if problem.kind == "limit" else _no_microdata(table) from None
    return [np.concatenate(parts) for parts in found]


def _no_microdata(table: Path) -> CertificateError:
    return CertificateError(
        f"{table} is not the microdata of a release",
        code="V160",
        file=str(table),
        fix="check the base release with topdown verify; get it again if a check fails",
    )


def refuse_resolved(there: Plan) -> None:
    """Refuse to extend a release that solves the measurement of another one (ConfigError C253)."""
    if there.measured is not None:
        raise ConfigError(
            f"{there.release.id} solves the measurement of {there.measured.release}: no ledger was charged for it",
            code="C253",
            fix=f"extend {there.measured.release}",
        )


def read_base_plans(files: BaseFiles, named: Base | None = None) -> tuple[Plan, ...]:
    """Return the plans of a base release and of all that it extends, oldest first.

    Raises:
        ConfigError: C016, C018 one is no plan.
        CertificateError: V160 one is not the plan that the next one names.
    """
    found: list[Plan] = []
    path = files.plan
    while not found or found[-1].base is not None:
        found.append(read_plan(path))
        if named is not None and found[-1].plan_hash != named.plan_hash:
            raise CertificateError(
                f"{path} is not the plan of {named.release}, the release that is extended",
                code="V160",
                file=str(path),
                fix="give the base release the plan was made from",
            )
        path, named = path.parent / BASE_FOLDER / PLAN_FILE, found[-1].base
    return tuple(reversed(found))


def read_base_facts(
    plans: tuple[Plan, ...], files: BaseFiles, geography: Geography
) -> tuple[BaseRelease, ...]:
    """Return a base release and all it extends with their public facts; CertificateError V160 if they are others."""
    out, path = [], files.plan
    for plan in reversed(plans):
        out.append(BaseRelease(plan, _read_facts_of_plan(path, plan, geography)))
        path = path.parent / BASE_FOLDER / PLAN_FILE
    return tuple(reversed(out))


def _read_facts_of_plan(path: Path, plan: Plan, geography: Geography) -> PublicFacts:
    """Read the public facts that a plan beside them was made from.

    Raises:
        CertificateError: V160 they are others, or damaged.
        DataError: one of NOT_READ, by which nothing is said of them.
    """
    try:
        facts = read_leaves(path.parent / LEAVES_FILE, geography, of_release=False)
        if public_sha256(geography, facts) == plan.public_sha256:
            return facts
    except (TopdownError, OSError) as error:
        if isinstance(error, TopdownError) and error.code in NOT_READ:
            raise
    raise CertificateError(
        f"{path.parent / LEAVES_FILE} does not hold the public facts that {path.name} of "
        f"{plan.release.id} was made from",
        code="V160",
        file=str(path.parent / LEAVES_FILE),
        fix="get the base release again; an extension carries them too",
    )
