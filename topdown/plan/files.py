"""Schemas and settings as files: TOML in, nouns out."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from topdown.errors import ConfigError
from topdown.model.query import Neighbours
from topdown.model.schema import Attribute, Recode, Schema
from topdown.plan.document import dec_hook, read_toml

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


def parse_settings(text: str) -> SettingsFile:
    """Return settings that are drafted and in no file yet."""
    return msgspec.convert(tomllib.loads(text), SettingsFile, dec_hook=dec_hook)


def load_settings(path: Path) -> SettingsFile:
    """Read a settings file; its numbers are checked when a plan is made from them."""
    return read_toml(path, SettingsFile, "topdown.settings")
