"""Draft a schema, invariants and settings from a public list of codes. Records are never looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from topdown.columns import TooLargeError, UnreadableError, header_of, shown
from topdown.errors import DataError
from topdown.model.schema import Attribute, Recode, Schema
from topdown.plan.document import exact_text
from topdown.plan.init import quote
from topdown.plan.public_tables import read_table

MOST_WITH_INTERVALS = 6  # attributes: see topdown.solve.tree.covered
_WHOLE, _GROUPED = ("attribute", "label"), ("attribute", "label", "recode", "group")


@dataclass(frozen=True)
class Draft:
    """Texts of three files.

    Args:
        schema, invariants, settings: TOML.
    """

    schema: str
    invariants: str
    settings: str


def read_codes(path: Path, name: str, unit: str = "person") -> Schema:
    """Return the schema that a list of codes describes.

    Args:
        path: CSV(.gz) or Parquet with columns attribute and label, one row a label in its order; with columns recode
            and group too, one row a label and recode. `topdown tables` writes such a file.
        name: of the schema. unit: of a record.

    Raises:
        DataError: as `read_table`; D065 a row is there twice, or a label is in no group or in two of a recode.
        ConfigError: C020-C023, C130 as every schema.
    """
    try:
        grouped = path.is_file() and "recode" in header_of(path)
    except (UnreadableError, TooLargeError):
        grouped = False  # read_table says what is wrong
    columns = _GROUPED if grouped else _WHOLE
    table = read_table(path, columns, integers=True)
    rows = list(zip(*(table.column(column).to_pylist() for column in columns), strict=True))
    if not grouped:
        rows = [(*row, "", "") for row in rows]
    labels: dict[str, dict[str, None]] = {}
    groups: dict[tuple[str, str], dict[str, str]] = {}
    seen: set[tuple[str, str, str]] = set()
    for number, (attribute, label, recode, group) in enumerate(rows, start=1):
        if (attribute, label, recode) in seen:
            raise _wrong(path, f"row {number}: {_name(attribute, label, recode)} is there twice")
        if bool(recode) != bool(group):
            raise _wrong(path, f"row {number}: recode and group are given together, or neither")
        seen.add((attribute, label, recode))
        labels.setdefault(attribute, {})[label] = None
        if recode:
            groups.setdefault((attribute, recode), {})[label] = group
    return Schema(name, name, unit, tuple(_attribute(path, a, tuple(of), groups) for a, of in labels.items()))


def _attribute(
    path: Path, name: str, labels: tuple[str, ...], groups: dict[tuple[str, str], dict[str, str]]
) -> Attribute:
    recodes = []
    for (attribute, recode), group_of in groups.items():
        if attribute != name:
            continue
        left = [label for label in labels if label not in group_of]
        if left:
            raise _wrong(path, f"{_name(name, left[0], recode)} has no group")
        order = tuple(dict.fromkeys(group_of.values()))
        recodes.append(Recode(recode, order, tuple(order.index(group_of[label]) for label in labels)))
    return Attribute(name, labels, tuple(recodes))


def _name(attribute: str, label: str, recode: str) -> str:
    return f"{shown(attribute)} {shown(label)!r}" + (f" in recode {shown(recode)}" if recode else "")


def _wrong(path: Path, text: str) -> DataError:
    return DataError(
        f"{path}: {text}",
        code="D065",
        file=str(path),
        fix="give one row a label, or one row a label and recode with its group",
    )


def draft(schema: Schema, levels: Sequence[str], source: str) -> Draft:
    """Return schema, empty invariants and settings by rule for a schema of one's own.

    The rule: levels share the budget equally. Each measures the total, every attribute by itself and every
    combination, in the shares 1/4, 1/4 and 1/2 (1/2 and 1/2 for a single attribute). Rounding goes from coarse to fine,
    attribute by attribute, those of few labels first.

    Args:
        schema: of the codes. levels: root first. source: where the codes came from.
    """
    return Draft(
        _schema_text(schema, source),
        _invariants_text(schema),
        _settings_text(schema, levels),
    )


def _schema_text(schema: Schema, source: str) -> str:
    lines = [
        "# What a record can say: attributes and their labels. All of it is public.",
        'type = "topdown.schema"',
        "version = 1",
        f"name = {quote(schema.name)}",
        f"title = {quote(schema.title)}",
        f"unit = {quote(schema.unit)}",
        f"source = {quote(source)}",
    ]
    for attribute in schema.attributes:
        lines += ["", "[[attribute]]", f"name = {quote(attribute.name)}", "labels = ["]
        lines += [f"  {quote(label)}," for label in attribute.labels] + ["]"]
        for recode in attribute.recodes:
            lines += ["", f"[attribute.recodes.{quote(recode.name)}]"]
            for i, group in enumerate(recode.group_labels):
                inside = [
                    quote(at) for at, of in zip(attribute.labels, recode.group_of, strict=True) if of == i
                ]
                lines.append(f"{quote(group)} = [{', '.join(inside)}]")
    return "\n".join(lines) + "\n"


def _invariants_text(schema: Schema) -> str:
    return f"""\
# What stays exactly true. Nothing yet: every number is protected. docs/how-to/your-own-invariants.md shows the kinds.
type = "topdown.invariants"
version = 1
name = "none"
title = "No invariants"
schema = {quote(schema.name)}

# [[exact]]
# name = "population of the country"
# level = "the first level"
# query = "total"
# legal_basis = "the law that asks for it"
"""


def _settings_text(schema: Schema, levels: Sequence[str]) -> str:
    telling = [a.name for a in schema.attributes if len(a.labels) > 1]
    alone = telling if len(telling) > 1 else []
    quarter = Fraction(1, 4)
    shares = {"total": quarter if alone else 2 * quarter}
    shares |= {name: quarter / len(alone) for name in alone}
    shares["detailed"] = Fraction(1, 2)
    many = len(schema.attributes) > MOST_WITH_INTERVALS or len(levels) < 2
    intervals = (
        "" if many else '[estimates]\ncoverage = "19/20"  # every count in the tables with an interval\n\n'
    )
    chain = ["total", *_chain(schema), "detailed"]
    rounding = "".join(
        f"  {{ table = {quote(table)}, weight = {100 if table == 'total' else 1} }},\n" for table in chain
    )
    measured = "".join(f'{quote(name)} = "{exact_text(share)}"\n' for name, share in shares.items())
    total = '{ queries = ["total"], table = "total" }, '
    parts = [
        f"""
[[level]]
name = {quote(level)}
share = "1/{len(levels)}"
passes = [{total if depth else ""}{{ table = "detailed" }}]
rounding = [
{rounding}]

[level.queries]
{measured}"""
        for depth, level in enumerate(levels)
    ]
    return f"""\
# A draft by rule: equal shares by level; total 1/4, every attribute by itself 1/4 together, every combination 1/2.
type = "topdown.settings"
version = 1
name = {quote(schema.name)}
title = {quote("Draft settings of " + schema.name)}
schema = {quote(schema.name)}
invariants = "invariants.toml"
neighbours = "bounded"
mechanism = "discrete_gaussian"
source = "drafted by topdown init"

[budget]
rho = "1"  # people decide this: topdown plan run.toml --budget-for 5 says what epsilon 5 would be

{intervals}# passes: each entry solves `table` for the best fit and fixes it for the entries that follow.
# rounding: tables from coarse to fine, each with the weight of one person of rounding error in it.
{"".join(parts)}"""


def _chain(schema: Schema) -> list[str]:
    """Return tables from coarse to fine between total and detailed: one attribute after the other."""
    out, before = list[str](), list[str]()
    attributes = sorted(schema.attributes, key=lambda a: len(a.labels))
    for attribute in attributes:
        if len(attribute.labels) == 1:
            continue
        for recode in _nested(attribute):
            out.append(" * ".join([*before, recode]))
        before.append(attribute.name)
        if len(before) < sum(len(a.labels) > 1 for a in attributes):
            out.append(" * ".join(before))
    return out


def _nested(attribute: Attribute) -> list[str]:
    """Return recodes of which each divides the groups of the one before, coarsest first."""
    out, last = list[str](), (0,) * len(attribute.labels)
    for recode in sorted(attribute.recodes, key=lambda r: len(r.group_labels)):
        pairs = set(zip(recode.group_of, last, strict=True))
        n = len(recode.group_labels)
        if len(pairs) == n and max((*last, 0)) + 1 < n < len(attribute.labels):
            out.append(recode.name)
            last = recode.group_of
    return out
