"""Write the microdata: the leaf histogram with labels instead of numbers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topdown.errors import InternalError
from topdown.model.leaf_table import LeafTable
from topdown.plan.code_columns import code_column
from topdown.plan.prepare import Context
from topdown.publish.atomic import parquet_bytes, write_bytes, written

PERSONS, PERSONS_CSV = "microdata/persons.parquet", "microdata/persons.csv.gz"
_BLOCK_BYTES, _BLOCK_ROWS = 2**22, 2**16


def labelled(index: NDArray[np.int64], labels: Sequence[str]) -> pa.DictionaryArray:
    """Return a text column from label numbers, stored as a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), code_column(labels))


def check_leaves(context: Context, leaves: LeafTable) -> None:
    """Refuse a table that does not fit the context or has a count below one (InternalError X030)."""
    if not _is_sound(context, leaves):
        raise InternalError(
            "the solved population is not a histogram of whole people",
            code="X030",
            fix="this is a fault of the engine; the measurements are kept, solve again after an update",
        )


def _is_sound(context: Context, leaves: LeafTable) -> bool:
    n_cells, before = context.plan.schema.n_cells, -1
    if (leaves.n_nodes, leaves.n_cells) != (len(context.geography.leaves), n_cells):
        return False
    for piece in leaves.pieces():
        key = piece.node * np.int64(n_cells) + piece.cell
        inside = bool(((piece.cell >= 0) & (piece.cell < n_cells) & (piece.count > 0)).all())
        if not inside or not (np.diff(key, prepend=before) > 0).all():
            return False
        before = int(key[-1])
    return before < leaves.n_nodes * n_cells


def write_microdata(release: Path, context: Context, leaves: LeafTable) -> None:
    """Write `microdata/persons.parquet`: one row a leaf and cell that holds records, in that order.

    Args:
        release: folder of the release.
        context: plan and public facts.
        leaves: records of every leaf and cell.
    """
    check_leaves(context, leaves)
    write_bytes(release / PERSONS, microdata_bytes(context, leaves, slice(0, leaves.n_nodes)))


def microdata_bytes(context: Context, leaves: LeafTable, nodes: slice) -> bytes:
    """Return the microdata of some leaves as a file."""
    return parquet_bytes(_table(context, leaves, nodes), "topdown.microdata", context.plan)


def microdata_table(context: Context, leaves: LeafTable) -> pa.Table:
    """Return the leaf histogram as a table: geocode, one column an attribute, count; raises as `check_leaves`."""
    check_leaves(context, leaves)
    return _table(context, leaves, slice(0, leaves.n_nodes))


def _table(context: Context, leaves: LeafTable, nodes: slice) -> pa.Table:
    schema, here = context.plan.schema, leaves.between(nodes.start, nodes.stop)
    columns = {"geocode": labelled(here.node - nodes.start, context.geography.leaves.codes[nodes])}
    for attribute, index in zip(schema.attributes, schema.coordinates(here.cell), strict=True):
        columns[attribute.name] = labelled(index.astype(np.int64), attribute.labels)
    columns["count"] = pa.array(here.count)
    return pa.table(columns)


def write_csv(release: Path, context: Context, leaves: LeafTable) -> None:
    """Write `microdata/persons.csv.gz`: one line a record, in the order of the microdata."""
    check_leaves(context, leaves)
    schema = context.plan.schema
    labels = [[_quoted(label) for label in a.labels] for a in schema.attributes]
    held = np.zeros(schema.n_cells, dtype=bool)
    for piece in leaves.pieces():
        held[piece.cell] = True
    cells = np.flatnonzero(held).tolist()
    text = dict(zip(cells, _cell_texts(context, labels, cells), strict=True))
    header = ",".join(["geocode", *(_quoted(a.name) for a in schema.attributes)]) + "\n"
    with (
        written(release / PERSONS_CSV) as out,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out, mtime=0) as file,
    ):
        lines, size = [header], 0
        for line, count in _lines(context, leaves, text):
            lines.append(line * count)
            size += len(line) * count
            if size > _BLOCK_BYTES:
                file.write("".join(lines).encode("utf-8"))
                lines, size = [], 0
        file.write("".join(lines).encode("utf-8"))


def _lines(context: Context, leaves: LeafTable, text: dict[int, str]) -> Iterator[tuple[str, int]]:
    """Yield each line of the microdata, and how many records it stands for."""
    blocks = (
        [column[first : first + _BLOCK_ROWS].tolist() for column in (piece.node, piece.cell, piece.count)]
        for piece in leaves.pieces()
        for first in range(0, piece.n_entries, _BLOCK_ROWS)
    )
    for node, cell, count in blocks:
        places = [_quoted(code) for code in context.geography.leaves.codes[node[0] : node[-1] + 1]]
        for at, of, n in zip(node, cell, count, strict=True):
            yield f"{places[at - node[0]]},{text[of]}\n", n


def _cell_texts(context: Context, labels: list[list[str]], cells: list[int]) -> list[str]:
    coordinates = context.plan.schema.coordinates(np.array(cells, dtype=np.int64))
    rows = zip(*(index.tolist() for index in coordinates), strict=True)
    return [",".join(texts[i] for texts, i in zip(labels, row, strict=True)) for row in rows]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text
