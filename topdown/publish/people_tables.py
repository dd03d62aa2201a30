"""Answers of a release as sheets: long, one row an area and answer, and wide, one row an area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
import pyarrow as pa

from topdown.model.query import Query
from topdown.publish.intervals import Intervals, Ints, TableRows
from topdown.publish.sheets import Sheet, SheetColumn, free_names

MOST_WIDE = 200  # answers side by side
NOTES: dict[Literal["all", "nonzero"], str] = {
    "all": "Every answer that public facts leave open, zeros too; what is not listed is zero by public facts.",
    "nonzero": "Answers that are zero are left out: there would be more than a million rows.",
}
_BASIS = ("tree", "exact")


@dataclass(frozen=True)
class SheetAreas:
    """The areas of one sheet.

    Args:
        kind: name of the level, or "areas" for a list of somebody's.
        column: of their identity, geocode or area. codes: in it.
        names: of each, empty texts where there is none; () for no such column.
    """

    kind: str
    column: Literal["geocode", "area"]
    codes: Sequence[str]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answered:
    """Counts of one query at the areas of one sheet.

    Args:
        query: its name in the files is `file`. unit: of what is counted. rows: nodes and answers.
        intervals: of the rows, or None. sentence: what is said of them.
    """

    query: Query
    file: str
    unit: str
    places: SheetAreas
    rows: TableRows
    intervals: Intervals | None = None
    sentence: str = ""


def long_sheet(of: Answered) -> Sheet:
    """Return one row an area and answer."""
    factors, places, rows = of.query.factors, of.places, of.rows
    own = free_names([*_identity(places), "count", "estimate", "stddev", "low", "high", "basis"],
                     [f.name for f in factors])  # fmt: skip
    columns, values = _identity_columns(places, own, rows.node)
    key = [own[_identity(places).index(places.column)]]
    shape = tuple(len(f.group_labels) for f in factors)
    index = np.unravel_index(rows.answer, shape) if shape else ()
    for factor, group in zip(factors, index, strict=True):
        said = (
            f"{factor.name} of the record"
            if factor.name == factor.attribute
            else f"groups of {factor.attribute}"
        )
        columns.append(SheetColumn(factor.name, "string", said, labels=factor.group_labels))
        values.append(_text(factor.group_labels, group))
        key.append(factor.name)
    measures = _measures(of.unit, own[len(columns) - len(factors) :])
    for column, numbers in zip(measures, _numbers(of), strict=False):
        columns.append(column)
        values.append(numbers)
    note = f"{NOTES[rows.listed]} {of.sentence}".strip()
    path = f"areas/{of.file}" if places.column == "area" else f"tables/{of.file}/{places.kind}"
    return Sheet(path, _title(of), tuple(columns), tuple(values), tuple(key), note)


def wide_sheet(of: Answered) -> Sheet | None:
    """Return one row an area with every answer in a column of its own; None if it would not say all, or be too wide."""
    query, places, rows = of.query, of.places, of.rows
    if query.n_answers > MOST_WIDE or (of.intervals is not None and rows.listed != "all"):
        return None
    identity = _identity(places)
    columns, values = _identity_columns(places, identity, np.arange(len(places.codes)))
    labels = list(product(*(f.group_labels for f in query.factors)))
    parts = [rows.count] if of.intervals is None else [rows.count, of.intervals.low, of.intervals.high]
    ends = ("", "_low", "_high")[: len(parts)]
    heads = ["_".join(at) or "total" for at in labels]
    names = free_names([head + suffix for head in heads for suffix in ends], identity)
    tables = []
    for numbers in parts:
        table = np.zeros((len(places.codes), query.n_answers), dtype=np.int64)
        table[rows.node, rows.answer] = numbers
        tables.append(table)
    said = ("", "lower end of the interval: ", "upper end of the interval: ")
    for i, name in enumerate(names):
        answer, end = divmod(i, len(parts))
        text = said[end] + (", ".join(labels[answer]) or f"all {of.unit} records")
        columns.append(SheetColumn(name, "integer", text, of.unit))
        values.append(pa.array(tables[end][:, answer]))
    note = " ".join(["One row an area; an answer that public facts close is zero.", of.sentence]).strip()
    key = (places.column,)
    path = f"areas/wide/{of.file}" if places.column == "area" else f"wide/{of.file}/{places.kind}"
    return Sheet(path, _title(of), tuple(columns), tuple(values), key, note, joined=True)


def _title(of: Answered) -> str:
    what = of.query.name if of.query.factors else "all records"
    return f"{what}, {of.places.kind}"


def _identity(places: SheetAreas) -> tuple[str, ...]:
    level = ("level",) if places.column == "geocode" else ()
    return (*level, places.column, *(("name",) if places.names else ()))


def _identity_columns(
    places: SheetAreas, own: Sequence[str], node: Ints
) -> tuple[list[SheetColumn], list[pa.Array]]:
    about = {
        "level": SheetColumn("level", "string", "Level of the area", labels=(places.kind,)),
        "geocode": SheetColumn("geocode", "string", "Code of the area: text, with leading zeros"),
        "area": SheetColumn("area", "string", "Name of the union of areas"),
        "name": SheetColumn("name", "string", "Name of the area, as its table of names has it"),
    }
    texts = {"level": _text((places.kind,), np.zeros_like(node)), places.column: _text(places.codes, node)}
    texts |= {"name": _text(places.names, node)} if places.names else {}
    identity = _identity(places)
    columns = [replace(about[is_], name=name) for is_, name in zip(identity, own, strict=False)]
    return columns, [texts[name] for name in identity]


def _measures(unit: str, own: Sequence[str]) -> tuple[SheetColumn, ...]:
    return (
        SheetColumn(own[0], "integer", "Released count", unit),
        SheetColumn(own[1], "number", "Estimate from all noisy numbers; it can be negative", unit),
        SheetColumn(own[2], "number", "Standard deviation of the estimate", unit),
        SheetColumn(own[3], "integer", "Lower end of the interval", unit),
        SheetColumn(own[4], "integer", "Upper end of the interval", unit),
        SheetColumn(
            own[5], "string", "exact: public by policy or by public facts; tree: estimated", "", _BASIS
        ),
    )


def _numbers(of: Answered) -> list[pa.Array]:
    found = of.intervals
    if found is None:
        return [pa.array(of.rows.count)]
    return [
        pa.array(of.rows.count),
        pa.array(found.estimate / 1000),
        pa.array(found.stddev / 1000),
        pa.array(found.low),
        pa.array(found.high),
        _text(_BASIS, found.exact.astype(np.int64)),
    ]


def _text(labels: Sequence[str], index: Ints | np.ndarray) -> pa.Array:
    return pa.array(labels, pa.string()).take(pa.array(index.astype(np.int64)))
