"""The run file: everything one release needs, in one strict TOML file."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from topdown.errors import ConfigError, TopdownError
from topdown.model.query import Neighbours
from topdown.names import checked_name, checked_path, refuse_same_file
from topdown.plan.document import locate, read_toml
from topdown.plan.files import BudgetTable, EstimatesTable, LevelTable, Mechanism
from topdown.stores.place import table_at

OPEN = "?"  # an answer only a person can give, not given yet


class ReleaseTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the release is called, and answers only people can give ("?" while open)."""

    id: str
    title: str
    data_set: str
    agency: str = OPEN
    contact: str = OPEN


class InputTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the tables are, relative to the run file. `records` is confidential, `leaves` is public.

    A CSV (packed or not), a Parquet or Arrow file, or sqlite:FILE?table=NAME, or duckdb:FILE?table=NAME.

    `ignore` names columns of any table that are there and not read; `count` is false if each row is one record.
    `columns` says what columns are called in the tables, as geocode = "settlement_id".
    """

    records: str
    leaves: str
    ignore: tuple[str, ...] = ()
    count: bool = True
    columns: dict[str, str] = {}


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
    """The ledger of the data set and the most that may ever be spent on it (rho or epsilon, like the budget).

    `delta_limit` is the most delta, for mechanism "optimal" only.
    `id` is empty until the ledger was made; `witness` is the folder of the ledger's witness, the records' if empty.
    """

    path: str
    limit: Fraction
    id: str = ""
    witness: str = ""
    reason: str = ""
    delta_limit: Fraction | None = None


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


def load_runfile(path: Path) -> RunFile:
    """Read a run file.

    Raises:
        ConfigError: see `read_toml`; also when geography is given twice or not at all.
    """
    run = read_toml(path, RunFile, "topdown.run")
    try:
        _check(run, path)
    except TopdownError as error:
        locate(error, path)
        raise
    return run


def _check(run: RunFile, path: Path) -> None:
    geo = run.geography
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
        _check_path(value, key)
        if key[0] == "input":
            table_at(value, key=key)
    for name in geo.levels:
        checked_name(name, "level", key=("geography", "levels"))
    refuse_same_file(geo.levels, "level", key=("geography", "levels"))


def _check_path(value: str, key: tuple[str, ...]) -> None:
    checked_path(value, ".".join(key), key=key)
    if value.split("/")[-1] in ("", ".", ".."):
        raise ConfigError(
            f"{'.'.join(key)} is no path of a file",
            code="C136",
            fix="give the path of a file, relative to the run file, without a slash at its end",
            key=key,
        )
