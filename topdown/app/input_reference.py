"""The reference of every input file: texts in TOML, facts from the structs that read the files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from msgspec import NODEFAULT
from msgspec.structs import fields

from topdown.app.help_pages import REFERENCE_TEXTS, TITLES
from topdown.formats.command_documents import Reference, ReferenceKey, ReferenceTable
from topdown.formats.strict_toml import Chance
from topdown.inputs import ValueLabels
from topdown.model import KEYS, KINDS, ConstraintTable, InvariantsFile
from topdown.plan import run_file as runfile
from topdown.plan import settings as held

if TYPE_CHECKING:
    from msgspec import Struct


@dataclass(frozen=True)
class FileTable:
    """One table of an input file, and the struct that reads it."""

    name: str  # in reference.toml
    written: str  # as TOML has it
    struct: type[Struct]


def reference(name: str) -> Reference:
    """Return the reference of an input file.

    Args:
        name: one of `TITLES`.
    """
    told = key_texts()
    tables = []
    for table in file_tables(name):
        keys = []
        for field in fields(table.struct):
            text, example, codes = told[table.name][field.encode_name]
            made = field.default_factory is not NODEFAULT  # of dicts and lists
            default = field.default_factory() if made else field.default
            keys.append(
                ReferenceKey(
                    key=field.encode_name,
                    type=_type_words(field.type),
                    default="" if field.required else _default_text(default),
                    required=field.required,
                    text=text,
                    example=f"{field.encode_name} = {example}" if example else "",
                    codes=codes.split(),
                )
            )
        tables.append(ReferenceTable(table=table.written, keys=keys))
    return Reference(file=name, title=TITLES[name], tables=tables)


def key_texts() -> dict[str, dict[str, tuple[str, str, str]]]:
    """Return text, example and error codes of every key, by table and key."""
    told = tomllib.loads(REFERENCE_TEXTS.read_text(encoding="utf-8"))
    told["invariants"] |= {kind.kind: (kind.text, "", kind.error_codes) for kind in KINDS}
    told["invariants.constraint"] |= {name: (key.text, key.example, key.codes) for name, key in KEYS.items()}
    return told


def file_tables(name: str) -> tuple[FileTable, ...]:
    """Return the tables of an input file, by its name in `TITLES`."""
    geography = FileTable("run.geography", "[geography]", runfile.GeographyTable)
    shared = (
        FileTable("run.budget", "[budget]", held.Budget),
        FileTable("run.level", "[[level]]", held.LevelTable),
        FileTable("run.level.passes", "passes, root_passes", held.Pass),
        FileTable("run.level.rounding", "rounding", held.Rounding),
        FileTable("run.estimates", "[estimates]", held.EstimatesTable),
    )
    return {
        "run": (
            FileTable("run", "", runfile.RunFile),
            FileTable("run.release", "[release]", held.ReleaseInfo),
            FileTable("run.input", "[input]", runfile.InputTable),
            FileTable("run.input.values", "[input.values.ATTRIBUTE]", ValueLabels),
            geography,
            FileTable("run.ledger", "[ledger]", runfile.LedgerTable),
            *shared,
            FileTable("run.base", "[base]", runfile.BaseTable),
        ),
        "schema": (
            FileTable("schema", "", runfile.SchemaFile),
            FileTable("schema.attribute", "[[attribute]]", runfile.AttributeTable),
        ),
        "invariants": (
            FileTable("invariants", "", InvariantsFile),
            FileTable("invariants.constraint", "[[exact]], [[at_least]], ...", ConstraintTable),
        ),
        "settings": (FileTable("settings", "", held.Settings), *shared),
        "geography": (geography,),
    }[name]


def _type_words(kind: Any) -> str:
    plain = {
        str: "text",
        int: "whole number",
        bool: "true or false",
        Fraction: "exact number",
        Chance: "exact number",
    }
    if kind in plain:
        return plain[kind]
    origin, inner = get_origin(kind), [of for of in get_args(kind) if of not in (type(None), ...)]
    if origin is Literal:
        return "one of " + ", ".join(f'"{of}"' for of in inner)
    if origin is tuple:
        return f"list of {_plural(_type_words(inner[0]))}"
    if origin is dict:
        return f"table of {_plural(_type_words(inner[1]))} by name"
    return _type_words(inner[0]) if inner else "table"


def _plural(name: str) -> str:
    return name if name.startswith(("list", "table of")) else f"{name}s"


def _default_text(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str):
        return f'"{default}"'
    return {"()": "[]"}.get(str(default), str(default))
