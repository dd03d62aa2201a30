"""What stands beside sheets: dictionary, codes, and the description other programs read (Data Package, version 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from topdown.canonical import json_bytes
from topdown.model.schema import Schema
from topdown.publish.atomic import write_bytes
from topdown.publish.sheets import Sheet, SheetColumn, Written, write_sheet

DICTIONARY, CODES, PACKAGE = "dictionary", "codes", "datapackage.json"
_PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
_DICTIONARY = ("file", "column", "kind", "unit", "text")
_CODES = ("attribute", "label", "recode", "group")


def dictionary(sheets: Sequence[Sheet]) -> Sheet:
    """Return the sheet that says what every column of every sheet is."""
    rows = [(f"{s.path}.csv", c.name, c.kind, c.unit, c.text) for s in sheets for c in s.columns]
    return _text_sheet(DICTIONARY, "What every column says", _DICTIONARY, rows, ("file", "column"))


def codes(schema: Schema) -> Sheet:
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
    for sheet in (*sheets, dictionary(sheets), codes(schema)):
        parts = write_sheet(folder, sheet)
        n += len(parts) * (1 + sheet.joined)
        resources += [_resource(sheet, part) for part in parts]
    document = {"$schema": _PROFILE, **about, "resources": resources}
    write_bytes(folder / PACKAGE, json_bytes(document))
    return n + 1


def _resource(sheet: Sheet, part: Written) -> dict[str, Any]:
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
