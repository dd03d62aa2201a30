"""Invariants as a file: TOML in, nouns out; recodes of `cells` are written as the labels of their attribute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from msgspec import Struct, defstruct

from topdown.errors import ConfigError, TopdownError
from topdown.formats.caps import EXACT_STATISTICS
from topdown.formats.strict_toml import add_location, locating_errors, read_toml
from topdown.model import KEYS, KINDS, Basis, InvariantKind, Invariants, Schema, Selection
from topdown.resources import find

MOST_TIMES = 1_000_000


class NamedTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One constraint of an invariants file: what every kind has; `KEYS` has the other keys.

    `cells` and `than` are the cells with one of the listed labels in every attribute or recode named; {} is everybody.
    """

    name: str
    legal_basis: str
    decided_by: str = ""
    date: str = ""


class FileHead(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An invariants file, without its constraints."""

    type: str
    version: int
    name: str
    title: str
    schema: str
    source: str = ""
    adds_to: str = ""  # bundled name or file of invariants that are part of these


_Labels = dict[str, tuple[str, ...]]  # by attribute or recode
_AS_WRITTEN: dict[Any, tuple[Any, Any]] = {  # in TOML: type of a key, and its value where it is left out
    Selection: (_Labels | None, None),
    str: (str, ""),
    tuple[str, ...]: (tuple[str, ...], ()),
    int: (int, 1),
}
_KEY_TYPES: dict[str, Any] = {key: get_type_hints(kind)[key] for kind in KINDS for key in kind.table_keys()}
ConstraintTable = defstruct(
    "ConstraintTable",
    [(key, *_AS_WRITTEN[_KEY_TYPES[key]]) for key in KEYS],
    bases=(NamedTable,),
    frozen=True,
    kw_only=True,
)
InvariantsFile = defstruct(
    "InvariantsFile",
    [(kind.kind, tuple[ConstraintTable, ...], ()) for kind in KINDS],  # type: ignore[valid-type]
    bases=(FileHead,),
    frozen=True,
    kw_only=True,
)


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
    found: dict[str, Any] = {kind.kind: [] for kind in KINDS}
    try:
        for kind in KINDS:
            for number, table in enumerate(getattr(file, kind.kind)):
                with locating_errors(kind.kind, str(number)):
                    _check_keys(path, kind, table)
        for kind in KINDS:
            tables = enumerate(getattr(file, kind.kind))
            found[kind.kind] = tuple(
                _build_constraint(kind, number, table, schema) for number, table in tables
            )
    except TopdownError as error:
        add_location(error, path)
        raise
    own = Invariants(file.name, file.title, file.schema, source=file.source, **found)
    return own if not file.adds_to else _add_to_base(path, file.adds_to, schema, own, above)


def _check_keys(path: Path, kind: type[InvariantKind], table: NamedTable) -> None:
    """Refuse keys that the kind does not have or that are missing, and factors out of range (ConfigError C031)."""
    values = {key: getattr(table, key) for key in KEYS}
    given = {key for key, value in values.items() if value != _AS_WRITTEN[_KEY_TYPES[key]][1]}
    factors = [value for value in values.values() if isinstance(value, int)]
    keys = kind.table_keys()
    needed = {key for key, is_needed in keys.items() if is_needed}
    if not needed <= given <= set(keys) or not all(1 <= f <= MOST_TIMES for f in factors):
        raise ConfigError(
            f"constraint {table.name!r} of {path}: [[{kind.kind}]] needs exactly the keys {sorted(needed)}, "
            f"has {sorted(given)}",
            code="C031",
            fix=f"add the missing keys, remove the others; factors are from 1 to {MOST_TIMES:,}",
        )


def _build_constraint(
    kind: type[InvariantKind], number: int, table: NamedTable, schema: Schema
) -> InvariantKind:
    values: dict[str, Any] = {key: getattr(table, key) for key in kind.table_keys()}
    for name in sorted(key for key in values if _KEY_TYPES[key] == Selection):
        with locating_errors(kind.kind, str(number), name):
            values[name] = parse_selection(schema, table.name, values[name] or {})
    basis = Basis(table.legal_basis, table.decided_by, table.date)
    return kind(name=table.name, basis=basis, **values)  # type: ignore[call-arg]


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


def name_asking_constraint(error: TopdownError, invariants: Invariants) -> None:
    """Add to the error of a missing public column (D004) which constraint asks for it."""
    asking = [(rule.name, column) for rule in invariants.leaf_rules for column in rule.read_columns]
    named = [
        name for name, column in asking if error.code == "D004" and f"no column {column!r}" in error.text
    ]
    if named:
        error.details = (*error.details, ("asked for by", f"constraint {named[0]!r}"))


def parse_selection(schema: Schema, rule: str, given: dict[str, tuple[str, ...]]) -> Selection:
    """Return cells by labels of attributes.

    Args:
        schema: of the records. rule: name of the constraint, for messages.
        given: labels by attribute, and groups by recode; none is every cell.

    Raises:
        ConfigError: C024 no such attribute or recode, C025 no such label, C134 nothing is left.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for name, labels in given.items():
        if not labels:
            raise _empty_selection_error(rule, name)
        attribute, meant = _attribute_and_labels(schema, name, labels)
        kept[attribute] = tuple(label for label in kept.get(attribute, meant) if label in meant)
        if not kept[attribute]:
            raise _empty_selection_error(rule, name)
    if not kept:  # everybody: all labels of the shortest attribute
        least = min(schema.attributes, key=lambda a: len(a.labels))
        kept[least.name] = least.labels
    return tuple(kept.items())


def _attribute_and_labels(schema: Schema, name: str, labels: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the attribute that a name is of, and the labels of it that are meant, as they are listed."""
    found = [(a, r) for a in schema.attributes for r in a.recodes if r.name == name]
    if not found:
        schema.kept({name: labels})
        return name, labels
    attribute, recode = found[0]
    wrong = [label for label in labels if label not in recode.group_labels]
    if wrong:
        raise ConfigError(
            f"{wrong[0]!r} is no group of recode {name!r}",
            code="C025",
            fix="use groups of the recode: " + ", ".join(recode.group_labels[:12]),
        )
    meant = {recode.group_labels.index(label) for label in labels}
    pairs = zip(attribute.labels, recode.group_of, strict=True)
    return attribute.name, tuple(label for label, group in pairs if group in meant)


def _empty_selection_error(rule: str, name: str) -> ConfigError:
    return ConfigError(
        f"constraint {rule!r} leaves no value of {name!r}",
        code="C134",
        fix="list the values, or leave the attribute out to mean all of them; {} means everybody",
    )
