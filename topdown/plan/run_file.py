"""The files a release is described in: the run file, the schema and invariants that it names. TOML in, values out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from topdown.errors import ConfigError, TopdownError
from topdown.file_names import checked_name, checked_path, refuse_same_file
from topdown.formats.caps import ATTRIBUTES, EXACT_STATISTICS, LEVELS
from topdown.formats.common import Mechanism, Neighbours
from topdown.formats.strict_toml import add_location, read_toml
from topdown.inputs import ControlTotals, ValueLabels, locate_table
from topdown.model import Attribute, Invariants, InvariantsFile, Schema
from topdown.plan.settings import Budget, EstimatesTable, LevelTable, ReleaseInfo
from topdown.privacy.ledger import Limits
from topdown.resources import find


class AttributeTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[attribute]]` of a schema file."""

    name: str
    labels: tuple[str, ...]
    recodes: dict[str, dict[str, tuple[str, ...]]] = {}


class SchemaFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schema file."""

    type: str
    version: int
    name: str
    title: str
    unit: str
    source: str
    attribute: tuple[AttributeTable, ...]


def load_schema(path: Path) -> Schema:
    """Read a schema file; ConfigError if it is not one."""
    file = read_toml(path, SchemaFile, "topdown.schema")
    if len(file.attribute) > ATTRIBUTES:
        raise ConfigError(
            f"{path} has {len(file.attribute):,} attributes; {ATTRIBUTES} are the most",
            code="C281",
            file=str(path),
            fix="leave out attributes of one value, and release the others in several schemas",
            key=("attribute",),
        )
    lists = {table.name: table.labels for table in file.attribute}
    if len(lists) < len(file.attribute):
        attributes = tuple(Attribute(table.name, table.labels) for table in file.attribute)
        return Schema(file.name, file.title, file.unit, attributes, file.source)  # which says what is twice
    try:
        made = Schema.from_lists(
            lists, {t.name: t.recodes for t in file.attribute}, name=file.name, unit=file.unit
        )
    except ConfigError as error:
        error.file = error.file or str(path)
        raise
    return replace(made, title=file.title, source=file.source)


def load_invariants(path: Path, schema: Schema) -> Invariants:
    """Read an invariants file and check every name it uses against the schema.

    What it `adds_to` is read first and comes first.

    Raises:
        ConfigError: another schema, missing or superfluous key, unknown attribute or label; a name used twice.
    """
    return _load_recursively(path, schema, ())


def _load_recursively(path: Path, schema: Schema, above: tuple[Path, ...]) -> Invariants:
    file: Any = read_toml(path, InvariantsFile, "topdown.invariants")
    if len(file.exact) > EXACT_STATISTICS:
        raise ConfigError(
            f"{path} has {len(file.exact):,} exact statistics; {EXACT_STATISTICS} are the most",
            code="C283",
            file=str(path),
            fix="keep each statistic once; a statistic of a level need not be repeated for the levels above",
            key=("exact",),
        )
    if file.schema != schema.name:
        raise ConfigError(
            f"invariants {file.name!r} are for schema {file.schema!r}, not {schema.name!r}",
            code="C030",
            file=str(path),
            fix="choose invariants written for this schema",
        )
    try:
        own = Invariants.of_file(file, schema, f" of {path}")
    except TopdownError as error:
        add_location(error, path)
        raise
    return own if not file.adds_to else _add_to_base(path, file.adds_to, schema, own, above)


def _add_to_base(
    path: Path, name: str, schema: Schema, own: Invariants, above: tuple[Path, ...]
) -> Invariants:
    first = find("invariants", name, path.parent)
    if first.resolve() in (path.resolve(), *above):
        raise ConfigError(
            f"{path} adds to itself", code="C034", file=str(path), fix="remove adds_to, or name another file"
        )
    base = _load_recursively(first, schema, (*above, path.resolve()))
    both: dict[str, Any] = {kind: rules + own.by_kind[kind] for kind, rules in base.by_kind.items()}
    made = replace(own, **both)
    try:
        made.refuse_twice(f" of {path}, or of what it adds to,")
    except ConfigError as error:
        error.file = str(path)
        raise
    return made


def name_asking_constraint(error: TopdownError, invariants: Invariants) -> None:
    """Add to the error of a missing public column (D004) which constraint asks for it."""
    asking = [(rule.name, column) for rule in invariants.leaf_rules for column in rule.read_columns]
    named = [
        name for name, column in asking if error.code == "D004" and f"no column {column!r}" in error.text
    ]
    if named:
        error.details = (*error.details, ("asked for by", f"constraint {named[0]!r}"))


class InputTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the tables are, relative to the run file. `records` is confidential, `leaves` is public.

    A CSV (packed or not), a Parquet or Arrow file, or sqlite:FILE?table=NAME, or duckdb:FILE?table=NAME.

    `ignore` names columns of any table that are there and not read; `count` is false if each row is one record.
    `columns` says what columns are called in the tables, as geocode = "settlement_id". `values` says by attribute how
    the values in the records become labels.

    `rows`, `people` and `sha256` are control totals of the records from whoever made them: the table read must have as
    many rows and people, and its file, or database, these bytes. They stay in this file.
    """

    records: str
    leaves: str
    ignore: tuple[str, ...] = ()
    count: bool = True
    columns: dict[str, str] = {}
    values: dict[str, ValueLabels] = {}
    rows: int | None = None
    people: int | None = None
    sha256: str = ""


class GeographyTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Levels from the root down: by prefixes of the geocode, a table geocode,parent,level, or columns of the leaves.

    `columns` names those with the code of the area that a leaf lies in, one a level above the leaves; the root may lack
    one and is then everything. "region + district" joins two codes.
    """

    levels: tuple[str, ...]
    prefix_lengths: tuple[int, ...] = ()
    table: str = ""
    columns: tuple[str, ...] = ()


class LedgerTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ledger of the data set and the most that everything charged to it may cost together; see `Limits`.

    `rho_limit`: most zCDP; `epsilon_limit`: most epsilon at `delta_limit`, which is 0 if absent: for every delta.
    `id` is empty until the ledger was made; `registry` is the folder of the ledger's registry, the records' if empty.
    """

    path: str
    rho_limit: Fraction | None = None
    epsilon_limit: Fraction | None = None
    delta_limit: Fraction | None = None
    id: str = ""
    registry: str = ""
    reason: str = ""

    @property
    def limits(self) -> Limits:
        """The limits (ConfigError C158: there is none, one is not above 0, or a delta without an epsilon)."""
        try:
            return Limits(self.rho_limit, self.epsilon_limit, self.delta_limit or Fraction(0), self.reason)
        except ValueError:
            raise ConfigError(
                "the ledger has no limit, or one not above 0, or a delta_limit without epsilon_limit or not below 1",
                code="C158",
                fix='write under [ledger] rho_limit = "3", or epsilon_limit = "2" and delta_limit = "1/100000"',
                key=("ledger",),
            ) from None


class BaseTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a release that is extended reads in the new schema: base attribute = attribute or recode here.

    Attributes that are not named are those of the same name.
    """

    map: dict[str, str] = {}


class RunFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole run file."""

    type: str
    version: int
    schema: str
    invariants: str
    neighbours: Neighbours
    mechanism: Mechanism
    release: ReleaseInfo
    input: InputTable
    geography: GeographyTable
    ledger: LedgerTable
    budget: Budget
    level: tuple[LevelTable, ...]
    settings: str = ""
    base: BaseTable | None = None
    estimates: EstimatesTable | None = None


def load_run_file(path: Path) -> RunFile:
    """Read a run file.

    Raises:
        ConfigError: see `read_toml`; also when geography is given twice or not at all.
    """
    run = read_toml(path, RunFile, "topdown.run")
    try:
        _check_run_file(run, path)
    except TopdownError as error:
        add_location(error, path)
        raise
    return run


def _check_control_totals(given: InputTable, path: Path) -> None:
    wrong = ControlTotals(given.rows, given.people, given.sha256).malformed
    if wrong:
        raise ConfigError(
            f"{path}: input.{wrong[0]} is no control total",
            code="C280",
            file=str(path),
            fix="give rows and people as whole numbers from 0, sha256 as the 64 digits that sha256sum prints",
            key=("input", wrong[0]),
        )


def _check_run_file(run: RunFile, path: Path) -> None:
    _check_control_totals(run.input, path)
    geo = run.geography
    if len(geo.levels) > LEVELS:
        raise ConfigError(
            f"{path}: geography.levels has {len(geo.levels):,} levels; {LEVELS} are the most",
            code="C282",
            file=str(path),
            fix="keep the levels that are measured",
            key=("geography", "levels"),
        )
    if sum(map(bool, (geo.prefix_lengths, geo.table, geo.columns))) != 1:
        raise ConfigError(
            f"{path}: geography needs one of prefix_lengths, table and columns",
            code="C040",
            file=str(path),
            fix="keep one of the three",
        )
    if geo.columns and len(geo.levels) - len(geo.columns) not in (1, 2):
        raise ConfigError(
            f"{path}: geography.columns has {len(geo.columns)} columns for {len(geo.levels)} levels",
            code="C041",
            file=str(path),
            fix="name a column for every level above the leaves, or for all of these but the first",
            key=("geography", "columns"),
        )
    if geo.prefix_lengths and (
        len(geo.prefix_lengths) != len(geo.levels)
        or any(a >= b for a, b in pairwise(geo.prefix_lengths))
        or geo.prefix_lengths[0] < 0
    ):
        raise ConfigError(
            f"{path}: geography.prefix_lengths must be one increasing length a level",
            code="C041",
            file=str(path),
            fix=f"give {len(geo.levels)} increasing whole numbers",
        )
    if len(set(geo.levels)) != len(geo.levels) or not geo.levels:
        raise ConfigError(
            f"{path}: geography.levels must name each level once",
            code="C042",
            file=str(path),
            fix="rename a level",
        )
    paths = {("input", "records"): run.input.records, ("input", "leaves"): run.input.leaves}
    paths |= {("ledger", "path"): run.ledger.path}
    if geo.table:
        paths |= {("geography", "table"): geo.table}
    for key, value in paths.items():
        _check_file_path(value, key)
        if key[0] == "input":
            locate_table(value, key=key)
    for name in geo.levels:
        checked_name(name, "level", key=("geography", "levels"))
    refuse_same_file(geo.levels, "level", key=("geography", "levels"))


def _check_file_path(value: str, key: tuple[str, ...]) -> None:
    checked_path(value, ".".join(key), key=key)
    if value.split("/")[-1] in ("", ".", ".."):
        raise ConfigError(
            f"{'.'.join(key)} is no path of a file",
            code="C136",
            fix="give the path of a file, relative to the run file, without a slash at its end",
            key=key,
        )
