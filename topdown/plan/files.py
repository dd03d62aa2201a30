"""Schemas, invariants and settings as files: TOML in, nouns out."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from topdown.errors import ConfigError
from topdown.model.constraint import (
    AtLeast,
    AtMost,
    Basis,
    Exact,
    Invariants,
    Never,
    NoMoreThan,
    NoneWhereZero,
    Selection,
)
from topdown.model.query import Neighbours
from topdown.model.schema import Attribute, Recode, Schema
from topdown.plan.document import dec_hook, read_toml
from topdown.resources import find

MOST_TIMES = 1_000_000
_FACTORS = {"at_least": {"per"}, "at_most": {"per"}, "no_more_than": {"times"}}
Mechanism = Literal["discrete_gaussian", "geometric", "optimal"]


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


class ConstraintTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One constraint of an invariants file; which keys it needs depends on its kind."""

    name: str
    legal_basis: str
    decided_by: str = ""
    date: str = ""
    level: str = ""
    query: str = ""
    cells: dict[str, tuple[str, ...]] = {}
    column: str = ""
    columns: tuple[str, ...] = ()
    per: int = 1
    than: dict[str, tuple[str, ...]] = {}
    times: int = 1


class InvariantsFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An invariants file."""

    type: str
    version: int
    name: str
    title: str
    schema: str
    source: str = ""
    exact: tuple[ConstraintTable, ...] = ()
    at_least: tuple[ConstraintTable, ...] = ()
    none_where_zero: tuple[ConstraintTable, ...] = ()
    never: tuple[ConstraintTable, ...] = ()
    at_most: tuple[ConstraintTable, ...] = ()
    no_more_than: tuple[ConstraintTable, ...] = ()
    adds_to: str = ""  # bundled name or file of invariants that are part of these


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
    coverage: Fraction | None = None
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
    attributes = []
    for table in file.attribute:
        recodes = tuple(_recode(path, table, name, groups) for name, groups in table.recodes.items())
        attributes.append(Attribute(table.name, table.labels, recodes))
    return Schema(file.name, file.title, file.unit, tuple(attributes), file.source)


def _recode(path: Path, table: AttributeTable, name: str, groups: dict[str, tuple[str, ...]]) -> Recode:
    group_of = dict.fromkeys(table.labels, -1)
    for index, (group, labels) in enumerate(groups.items()):
        for label in labels:
            if group_of.get(label) != -1:
                problem = "is in two groups" if label in group_of else f"is no value of {table.name!r}"
                raise ConfigError(
                    f"recode {name!r} in {path}: {label!r} in group {group!r} {problem}",
                    code="C021",
                    file=str(path),
                    fix="put every value of the attribute in exactly one group",
                )
            group_of[label] = index
    left = [label for label, index in group_of.items() if index == -1]
    if left:
        raise ConfigError(
            f"recode {name!r} in {path} leaves out {left[0]!r}",
            code="C021",
            file=str(path),
            fix="put every value of the attribute in exactly one group",
        )
    return Recode(name, tuple(groups), tuple(group_of.values()))


def load_invariants(path: Path, schema: Schema) -> Invariants:
    """Read an invariants file and check every name it uses against the schema.

    What it `adds_to` is read first and comes first.

    Raises:
        ConfigError: another schema, missing or superfluous key, unknown attribute or label; a name used twice.
    """
    return _load_invariants(path, schema, ())


def _load_invariants(path: Path, schema: Schema, above: tuple[Path, ...]) -> Invariants:
    file = read_toml(path, InvariantsFile, "topdown.invariants")
    if file.schema != schema.name:
        raise ConfigError(
            f"invariants {file.name!r} are for schema {file.schema!r}, not {schema.name!r}",
            code="C030",
            file=str(path),
            fix="choose invariants written for this schema",
        )
    needs = {"exact": {"level", "query"}, "at_least": {"cells", "column"}}
    needs |= {"none_where_zero": {"cells", "columns"}, "never": {"cells"}, "at_most": {"cells", "column"}}
    needs |= {"no_more_than": {"cells", "than"}}
    for kind, required in needs.items():
        for table in getattr(file, kind):
            given = {k for k in ("level", "query", "cells", "column", "columns", "than") if getattr(table, k)}
            factors = {"per": table.per, "times": table.times}
            odd = {name for name, factor in factors.items() if factor != 1} - _FACTORS.get(kind, set())
            if given != required or odd or not all(1 <= f <= MOST_TIMES for f in factors.values()):
                raise ConfigError(
                    f"constraint {table.name!r} of {path}: [[{kind}]] needs exactly the keys {sorted(required)}, "
                    f"has {sorted(given | odd)}",
                    code="C031",
                    file=str(path),
                    fix=f"add the missing keys, remove the others; `per` and `times` are from 1 to {MOST_TIMES:,}",
                )
            empty = [name for of in (table.cells, table.than) for name, values in of.items() if not values]
            if empty:
                raise ConfigError(
                    f"constraint {table.name!r} of {path} lists no value of {empty[0]!r}",
                    code="C134",
                    file=str(path),
                    fix="list the values, or leave the attribute out to mean all of them",
                )
            schema.kept(table.cells)
            schema.kept(table.than)
    own = Invariants(
        file.name,
        file.title,
        file.schema,
        tuple(Exact(t.name, t.level, t.query, _basis(t)) for t in file.exact),
        tuple(AtLeast(t.name, _cells(t), t.column, t.per, _basis(t)) for t in file.at_least),
        tuple(NoneWhereZero(t.name, _cells(t), t.columns, _basis(t)) for t in file.none_where_zero),
        tuple(Never(t.name, _cells(t), _basis(t)) for t in file.never),
        file.source,
        tuple(AtMost(t.name, _cells(t), t.column, t.per, _basis(t)) for t in file.at_most),
        tuple(
            NoMoreThan(t.name, _cells(t), tuple(t.than.items()), t.times, _basis(t))
            for t in file.no_more_than
        ),
    )
    return own if not file.adds_to else _joined(path, file.adds_to, schema, own, above)


def _joined(path: Path, name: str, schema: Schema, own: Invariants, above: tuple[Path, ...]) -> Invariants:
    first = find("invariants", name, path.parent)
    if first.resolve() in (path.resolve(), *above):
        raise ConfigError(
            f"{path} adds to itself", code="C034", file=str(path), fix="remove adds_to, or name another file"
        )
    base = _load_invariants(first, schema, (*above, path.resolve()))
    kinds = ("exact", "at_least", "none_where_zero", "never", "at_most", "no_more_than")
    both = {kind: getattr(base, kind) + getattr(own, kind) for kind in kinds}
    names = [rule.name for rules in both.values() for rule in rules]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ConfigError(
            f"constraint {twice[0]!r} is in {path} and in what it adds to",
            code="C034",
            file=str(path),
            fix="give it another name, or remove it",
        )
    return replace(own, **both)


def _basis(table: ConstraintTable) -> Basis:
    return Basis(table.legal_basis, table.decided_by, table.date)


def _cells(table: ConstraintTable) -> Selection:
    return tuple(table.cells.items())


def parse_settings(text: str) -> SettingsFile:
    """Return settings that are drafted and in no file yet."""
    return msgspec.convert(tomllib.loads(text), SettingsFile, dec_hook=dec_hook)


def load_settings(path: Path) -> SettingsFile:
    """Read a settings file; its numbers are checked when a plan is made from them."""
    return read_toml(path, SettingsFile, "topdown.settings")
