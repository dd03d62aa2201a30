"""Answers of a release as sheets for ordinary programs: CSV in parts, a dictionary, codes, and datapackage.json.

Long sheets have one row an area and answer, wide ones one row an area.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from topdown.arrays import Ints
from topdown.formats import json_bytes
from topdown.formats.release_documents import LISTED_ENDS, LISTED_ROWS
from topdown.model import Query, Schema
from topdown.publish.release_files import write_bytes
from topdown.publish.table_intervals import Intervals, TableRows

MOST_SHEET_ROWS = 1_000_000  # of one file: spreadsheets open 1,048,576
KINDS = {"string": "String", "integer": "Integer64", "number": "Real"}


@dataclass(frozen=True)
class SheetColumn:
    """One column of a sheet.

    Args:
        name: in the header.
        kind: string, integer or number.
        text: what it says.
        unit: of its numbers.
        labels: all that it can say, if that is a list.
    """

    name: str
    kind: Literal["string", "integer", "number"]
    text: str
    unit: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table as people read it.

    Args:
        path: inside the folder, without an ending.
        title: of the table.
        columns: what they say. values: one array a column, of equal length.
        key: columns that tell rows apart.
        note: which rows are listed.
        joined: whether map programs read it beside shapes: a .csvt with the kinds is written.
    """

    path: str
    title: str
    columns: tuple[SheetColumn, ...]
    values: tuple[pa.Array, ...]
    key: tuple[str, ...]
    note: str
    joined: bool = False


@dataclass(frozen=True)
class SheetFile:
    """One CSV file of a sheet: path inside the folder, SHA-256, bytes, rows."""

    path: str
    sha256: str
    n_bytes: int
    n_rows: int


def free_names(names: Sequence[str], taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Return names of which no two are one, whatever their capitals; those that were get a number."""
    used, out = {name.casefold() for name in taken}, []
    for name in names:
        chosen, i = name, 2
        while chosen.casefold() in used:
            chosen, i = f"{name}_{i}", i + 1
        used.add(chosen.casefold())
        out.append(chosen)
    return tuple(out)


def write_sheet(folder: Path, sheet: Sheet, *, most_rows: int = MOST_SHEET_ROWS) -> tuple[SheetFile, ...]:
    """Write a sheet as CSV: UTF-8, commas, text in quotation marks; parts of at most `most_rows` rows.

    Args:
        folder: of the tables.
        sheet: to write.
        most_rows: 1 or more.
    """
    table = pa.table(dict(zip((c.name for c in sheet.columns), sheet.values, strict=True)))
    starts = range(0, max(table.num_rows, 1), most_rows)
    out = []
    for number, start in enumerate(starts, start=1):
        part = "" if len(starts) == 1 else f".part{number}"
        rows = table.slice(start, most_rows)
        buffer = io.BytesIO()
        pa_csv.write_csv(rows, buffer)
        data = buffer.getvalue()
        path = f"{sheet.path}{part}.csv"
        write_bytes(folder / path, data)
        out.append(SheetFile(path, sha256(data).hexdigest(), len(data), rows.num_rows))
        if sheet.joined:
            kinds = ",".join(f'"{KINDS[column.kind]}"' for column in sheet.columns)
            write_bytes(folder / f"{path}t", (kinds + "\n").encode())
    return tuple(out)


MOST_WIDE = 200  # answers side by side
NOTES: dict[Literal["all", "nonzero", "possible"], str] = {
    "all": "Every answer that public facts leave open, zeros too; what is not listed is zero by public facts.",
    "nonzero": "Answers that are zero are left out: there would be more than a million rows.",
    "possible": "Every answer whose interval does not reach from 0 to 0, zeros too; the interval of what is not listed "
    "does, or it is zero by public facts.",
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
class SheetAnswers:
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


def long_sheet(table: SheetAnswers) -> Sheet:
    """Return one row an area and answer."""
    factors, places, rows = table.query.factors, table.places, table.rows
    ends = () if table.intervals is None or table.intervals.listed is None else LISTED_ENDS
    own = free_names(
        [*_identity(places), "count", "estimate", "stddev", "low", "high", *ends, "basis"],
        [f.name for f in factors],
    )
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
    measures = _measures(table.unit, own[len(columns) - len(factors) :])
    for column, numbers in zip(measures, _numbers(table), strict=False):
        columns.append(column)
        values.append(numbers)
    note = " ".join(filter(None, [NOTES[rows.listed], table.sentence, LISTED_ROWS if ends else ""]))
    path = f"areas/{table.file}" if places.column == "area" else f"tables/{table.file}/{places.kind}"
    return Sheet(path, _title(table), tuple(columns), tuple(values), tuple(key), note)


def wide_sheet(table: SheetAnswers) -> Sheet | None:
    """Return one row an area with every answer in a column of its own; None if it would not say all, or be too wide."""
    query, places, rows = table.query, table.places, table.rows
    if query.n_answers > MOST_WIDE or (table.intervals is not None and rows.listed != "all"):
        return None
    identity = _identity(places)
    columns, values = _identity_columns(places, identity, np.arange(len(places.codes)))
    labels = list(product(*(f.group_labels for f in query.factors)))
    parts = (
        [rows.count] if table.intervals is None else [rows.count, table.intervals.low, table.intervals.high]
    )
    ends = ("", "_low", "_high")[: len(parts)]
    heads = ["_".join(at) or "total" for at in labels]
    names = free_names([head + suffix for head in heads for suffix in ends], identity)
    tables = []
    for numbers in parts:
        filled = np.zeros((len(places.codes), query.n_answers), dtype=np.int64)
        filled[rows.node, rows.answer] = numbers
        tables.append(filled)
    said = ("", "lower end of the interval: ", "upper end of the interval: ")
    for i, name in enumerate(names):
        answer, end = divmod(i, len(parts))
        text = said[end] + (", ".join(labels[answer]) or f"all {table.unit} records")
        columns.append(SheetColumn(name, "integer", text, table.unit))
        values.append(pa.array(tables[end][:, answer]))
    note = " ".join(["One row an area; an answer that public facts close is zero.", table.sentence]).strip()
    key = (places.column,)
    path = f"areas/wide/{table.file}" if places.column == "area" else f"wide/{table.file}/{places.kind}"
    return Sheet(path, _title(table), tuple(columns), tuple(values), key, note, joined=True)


def _title(table: SheetAnswers) -> str:
    what = table.query.name if table.query.factors else "all records"
    return f"{what}, {table.places.kind}"


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
    """Return the columns of counts and intervals; `own` are their names, with ends corrected for listing or without."""
    corrected = [
        SheetColumn(name, "integer", f"{end} end of the interval, corrected for being listed", unit)
        for name, end in zip(own[5:-1], ("Lower", "Upper"), strict=False)
    ]
    return (
        SheetColumn(own[0], "integer", "Released count", unit),
        SheetColumn(own[1], "number", "Estimate from all noisy numbers; it can be negative", unit),
        SheetColumn(own[2], "number", "Standard deviation of the estimate", unit),
        SheetColumn(own[3], "integer", "Lower end of the interval", unit),
        SheetColumn(own[4], "integer", "Upper end of the interval", unit),
        *corrected,
        SheetColumn(
            own[-1], "string", "exact: public by policy or by public facts; tree: estimated", "", _BASIS
        ),
    )


def _numbers(table: SheetAnswers) -> list[pa.Array]:
    found = table.intervals
    if found is None:
        return [pa.array(table.rows.count)]
    return [
        pa.array(table.rows.count),
        pa.array(found.estimate / 1000),
        pa.array(found.stddev / 1000),
        pa.array(found.low),
        pa.array(found.high),
        *(pa.array(ends) for ends in found.listed or ()),
        _text(_BASIS, found.exact.astype(np.int64)),
    ]


def _text(labels: Sequence[str], index: Ints | np.ndarray) -> pa.Array:
    return pa.array(labels, pa.string()).take(pa.array(index.astype(np.int64)))


DICTIONARY, CODES, PACKAGE = "dictionary", "codes", "datapackage.json"
_PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
_DICTIONARY = ("file", "column", "kind", "unit", "text")
_CODES = ("attribute", "label", "recode", "group")


def codes_sheet(schema: Schema) -> Sheet:
    """Return the sheet of all labels and of the group of each in every recode of its attribute."""
    rows = []
    for attribute in schema.attributes:
        for i, label in enumerate(attribute.labels):
            rows += [(attribute.name, label, "", "")] if not attribute.recodes else []
            rows += [
                (attribute.name, label, r.name, r.group_labels[r.group_of[i]]) for r in attribute.recodes
            ]
    return _text_sheet(CODES, "Labels and their groups", _CODES, rows, ("attribute", "label", "recode"))


def _text_sheet(
    path: str, title: str, names: Sequence[str], rows: Sequence[tuple[str, ...]], key: tuple[str, ...]
) -> Sheet:
    columns = tuple(SheetColumn(name, "string", "") for name in names)
    values = tuple(pa.array([row[i] for row in rows], pa.string()) for i in range(len(names)))
    return Sheet(path, title, columns, values, key, "all")


def write_package(folder: Path, sheets: Sequence[Sheet], schema: Schema, about: Mapping[str, Any]) -> int:
    """Write sheets, dictionary, codes and at last datapackage.json; return the number of files.

    Args:
        folder: new. sheets: the tables. schema: of the release. about: name, title and description of the package.
    """
    resources, n = [], 0
    rows = [(f"{s.path}.csv", c.name, c.kind, c.unit, c.text) for s in sheets for c in s.columns]
    dictionary = _text_sheet(DICTIONARY, "What every column says", _DICTIONARY, rows, ("file", "column"))
    for sheet in (*sheets, dictionary, codes_sheet(schema)):
        parts = write_sheet(folder, sheet)
        n += len(parts) * (1 + sheet.joined)
        resources += [_resource(sheet, part) for part in parts]
    document = {"$schema": _PROFILE, **about, "resources": resources}
    write_bytes(folder / PACKAGE, json_bytes(document))
    return n + 1


def _resource(sheet: Sheet, part: SheetFile) -> dict[str, Any]:
    fields = []
    for column in sheet.columns:
        field: dict[str, Any] = {"name": column.name, "type": column.kind}
        field |= {"description": column.text} if column.text else {}
        field |= {"constraints": {"enum": list(column.labels)}} if column.labels else {}
        fields.append(field)
    return {
        "name": part.path.removesuffix(".csv").replace("/", "-"),
        "title": sheet.title,
        "description": sheet.note,
        "type": "table",
        "path": part.path,
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "bytes": part.n_bytes,
        "hash": f"sha256:{part.sha256}",
        "schema": {"fields": fields, "primaryKey": list(sheet.key), "missingValues": []},
    }
