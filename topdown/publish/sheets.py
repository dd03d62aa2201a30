"""Sheets for ordinary programs: CSV in parts, with the kind of every column beside it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv as pa_csv

from topdown.publish.atomic import write_bytes

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
class Written:
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


def write_sheet(folder: Path, sheet: Sheet, *, most_rows: int = MOST_SHEET_ROWS) -> tuple[Written, ...]:
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
        out.append(Written(path, sha256(data).hexdigest(), len(data), rows.num_rows))
        if sheet.joined:
            kinds = ",".join(f'"{KINDS[column.kind]}"' for column in sheet.columns)
            write_bytes(folder / f"{path}t", (kinds + "\n").encode())
    return tuple(out)
