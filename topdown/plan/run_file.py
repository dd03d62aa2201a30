"""The files a release is described in: the run file, and the schema and settings that it names. TOML in, values out."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from topdown.errors import ConfigError, TopdownError
from topdown.formats.caps import ATTRIBUTES, LEVELS
from topdown.formats.common import Mechanism
from topdown.formats.strict_toml import Chance, add_location, dec_hook, read_toml
from topdown.inputs import ControlTotals, ValueLabels, locate_table
from topdown.model import Attribute, Schema
from topdown.output_paths import checked_name, checked_path, refuse_same_file
from topdown.privacy.ledger import Limits
from topdown.privacy.relation import Neighbours


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


class PassTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One pass of a level: solve `table` for the best fit to `queries` (all measured ones if empty), then fix it."""

    table: str
    queries: tuple[str, ...] = ()


class RoundingTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of the rounding chain and the weight of one person of rounding error in it."""

    table: str
    weight: int


class LevelTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Budget share, queries and solving order of one level."""

    name: str
    share: Fraction
    queries: dict[str, Fraction]
    passes: tuple[PassTable, ...]
    rounding: tuple[RoundingTable, ...]
    root_passes: tuple[PassTable, ...] = ()


class BudgetTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Total privacy loss of all levels together: rho (zCDP), epsilon (pure DP), or epsilon and delta.

    A delta above 1/1000 needs `large_delta`.
    """

    rho: Fraction | None = None
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    large_delta: bool = False


class EstimatesTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What splits are fitted to, the children's own measurements or those below them too; coverage of intervals.

    `tuned_for` says which targets the shares were tuned for; it changes no release, but `plan` warns of others.
    """

    targets: Literal["own", "tree"] = "own"
    coverage: Chance | None = None
    tuned_for: Literal["", "own", "tree"] = ""


class SettingsFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A settings file: who measures what with which share."""

    type: str
    version: int
    name: str
    title: str
    schema: str
    invariants: str
    neighbours: Neighbours
    mechanism: Mechanism
    budget: BudgetTable
    level: tuple[LevelTable, ...]
    source: str = ""
    extends: str = ""  # schema of the release it extends
    estimates: EstimatesTable | None = None


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


def parse_settings(text: str) -> SettingsFile:
    """Return settings that are drafted and in no file yet."""
    return msgspec.convert(tomllib.loads(text), SettingsFile, dec_hook=dec_hook)


def load_settings(path: Path) -> SettingsFile:
    """Read a settings file; its numbers are checked when a plan is made from them."""
    return read_toml(path, SettingsFile, "topdown.settings")


UNANSWERED = "?"  # an answer only a person can give, not given yet


class ReleaseTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the release is called, and answers only people can give ("?" while open)."""

    id: str
    title: str
    data_set: str
    agency: str = UNANSWERED
    contact: str = UNANSWERED
    licence: str = ""


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
    release: ReleaseTable
    input: InputTable
    geography: GeographyTable
    ledger: LedgerTable
    budget: BudgetTable
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
