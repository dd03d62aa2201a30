"""The microdata and the tables of a release as files: the leaf histogram with labels, and the workload at every level.

Zeros are left out of tables unless intervals ask for them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topdown.errors import InternalError
from topdown.file_names import table_name
from topdown.formats.release_documents import LISTED_ENDS, LISTED_ROWS
from topdown.inputs import codes_to_arrow
from topdown.model import Histogram, LeafTable, Query, Sections
from topdown.plan import Plan, PublicContext
from topdown.publish.release_files import table_of_plan, write_bytes, written_durably
from topdown.publish.table_intervals import EstimateSource, Intervals, Place, TableRows, intervals_of, rows_of

PERSONS, PERSONS_CSV = "microdata/persons.parquet", "microdata/persons.csv.gz"
_BLOCK_BYTES, _BLOCK_ROWS = 2**22, 2**16


def label_column(index: NDArray[np.int64], labels: Sequence[str]) -> pa.DictionaryArray:
    """Return a text column from label numbers, stored as a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), codes_to_arrow(labels))


def check_leaves(context: PublicContext, leaves: LeafTable) -> None:
    """Refuse a table that does not fit the context or has a count below one (InternalError X030)."""
    if not _is_sound(context, leaves):
        raise InternalError(
            "the solved population is not a histogram of whole people",
            code="X030",
            fix="this is a fault of the engine; the measurements are kept, solve again after an update",
        )


def _is_sound(context: PublicContext, leaves: LeafTable) -> bool:
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


def write_microdata(release: Path, context: PublicContext, leaves: LeafTable) -> None:
    """Write `microdata/persons.parquet`: one row a leaf and cell that holds records, in that order.

    Args:
        release: folder of the release.
        context: plan and public facts.
        leaves: records of every leaf and cell.
    """
    check_leaves(context, leaves)
    write_bytes(release / PERSONS, microdata_bytes(context, leaves, slice(0, leaves.n_nodes)))


def microdata_bytes(context: PublicContext, leaves: LeafTable, nodes: slice) -> bytes:
    """Return the microdata of some leaves as a file."""
    return table_of_plan("topdown.microdata", _table(context, leaves, nodes), context.plan)


def microdata_table(context: PublicContext, leaves: LeafTable) -> pa.Table:
    """Return the leaf histogram as a table: geocode, one column an attribute, count; raises as `check_leaves`."""
    check_leaves(context, leaves)
    return _table(context, leaves, slice(0, leaves.n_nodes))


def _table(context: PublicContext, leaves: LeafTable, nodes: slice) -> pa.Table:
    schema, here = context.plan.schema, leaves.between(nodes.start, nodes.stop)
    columns = {"geocode": label_column(here.node - nodes.start, context.geography.leaves.codes[nodes])}
    for attribute, index in zip(schema.attributes, schema.coordinates(here.cell), strict=True):
        columns[attribute.name] = label_column(index.astype(np.int64), attribute.labels)
    columns["count"] = pa.array(here.count)
    return pa.table(columns)


def write_csv(release: Path, context: PublicContext, leaves: LeafTable) -> None:
    """Write `microdata/persons.csv.gz`: one line a record, in the order of the microdata."""
    check_leaves(context, leaves)
    schema = context.plan.schema
    labels = [[_quoted(label) for label in a.labels] for a in schema.attributes]
    held = np.zeros(schema.n_cells, dtype=bool)
    for piece in leaves.pieces():
        held[piece.cell] = True
    cells = np.flatnonzero(held).tolist()
    coordinates = context.plan.schema.coordinates(np.array(cells, dtype=np.int64))
    rows = zip(*(index.tolist() for index in coordinates), strict=True)
    text = {
        cell: ",".join(texts[i] for texts, i in zip(labels, row, strict=True))
        for cell, row in zip(cells, rows, strict=True)
    }
    header = ",".join(["geocode", *(_quoted(a.name) for a in schema.attributes)]) + "\n"
    with (
        written_durably(release / PERSONS_CSV) as out,
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


def _lines(context: PublicContext, leaves: LeafTable, text: dict[int, str]) -> Iterator[tuple[str, int]]:
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


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def workload(plan: Plan) -> tuple[Query, ...]:
    """Return `total` and every query measured at some level, each once."""
    names = ["total"] + [m.query for level in plan.levels for m in level.measurements]
    return tuple(plan.query(name) for name in dict.fromkeys(names))


def table_path(query: Query, level: str) -> str:
    """Return where the table of a query at a level lies inside the release."""
    return f"tables/{table_name(query.name)}/{level}.parquet"


def all_paths(context: PublicContext, sections: Sections) -> list[str]:
    """Return the path of every table file of a release (InternalError X031 if two are one)."""
    paths = [
        path
        for query in workload(context.plan)
        for depth, level in enumerate(context.geography.levels)
        for path in sections.paths(table_path(query, level.name), depth)
    ]
    if len(set(paths)) != len(paths):
        raise InternalError(
            "two queries share one table folder", code="X031", fix="rename a recode of the schema"
        )
    return paths


def tables_up(
    context: PublicContext, leaves: Histogram, nodes: Sequence[slice], bottom: int
) -> Iterator[tuple[str, bytes]]:
    """Yield path, as of one section, and bytes of every table without intervals of some nodes and those above them.

    Args:
        context: plan and public facts.
        leaves: records of nodes of level `bottom`, by the whole tree's numbers.
        nodes: those of each level from the highest one that is made down to `bottom`.
        bottom: index of the lowest level.

    Cost: one sort of the nonzero cells a query, and less for each level above.
    """
    top = bottom + 1 - len(nodes)
    levels = context.geography.levels
    for query in workload(context.plan):
        answers = leaves.sparse_answers(query)
        for depth in range(bottom, top - 1, -1):
            rows = _counted(query, answers, nodes[depth - top])
            yield (
                table_path(query, levels[depth].name),
                table_bytes(context, (query, depth), rows, nodes[depth - top]),
            )
            if depth > top:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))


def tables_with_intervals(
    context: PublicContext, leaves: Histogram, numbers: EstimateSource, sections: Sections
) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of every table of a plan that asks for intervals; all of them are held at once."""
    levels = context.geography.levels
    tables: dict[Place, TableRows] = {}
    for query in workload(context.plan):
        answers = leaves.sparse_answers(query)
        for depth in reversed(range(len(levels))):
            tables[query.name, depth] = rows_of(context, query, depth, answers)
            if depth:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))
    for (name, depth), intervals in intervals_of(context, tables, numbers).items():
        query = context.plan.query(name)
        paths = sections.paths(table_path(query, levels[depth].name), depth)
        for number, path in enumerate(paths):
            here = slice(0, len(levels[depth])) if len(paths) == 1 else sections.nodes(number, depth)
            yield path, table_bytes(context, (query, depth), tables[name, depth], here, intervals)


def _counted(query: Query, answers: Histogram, nodes: slice) -> TableRows:
    """Return the rows of a table without intervals: zeros in `total` only."""
    if query.factors:
        return TableRows("nonzero", answers.node, answers.cell, answers.count)
    node = np.arange(nodes.start, nodes.stop, dtype=np.int64)
    count = np.zeros_like(node)
    count[answers.node - nodes.start] = answers.count
    return TableRows("nonzero", node, np.zeros_like(node), count)


def table_bytes(
    context: PublicContext,
    of: tuple[Query, int],
    rows: TableRows,
    nodes: slice,
    intervals: Intervals | None = None,
) -> bytes:
    """Return the rows of some nodes as a file.

    Args:
        context: plan and public facts. of: query and index of the level. rows: of the table, by node; `intervals` of
            them. nodes: to write.
    """
    query, depth = of
    level = context.geography.levels[depth]
    here = slice(*np.searchsorted(rows.node, (nodes.start, nodes.stop)).tolist())
    node, answer = rows.node[here] - nodes.start, rows.answer[here]
    columns = {
        "level": label_column(np.zeros_like(node), (level.name,)),
        "geocode": label_column(node, level.codes[nodes]),
    }
    shape = tuple(len(f.group_labels) for f in query.factors)
    index = np.unravel_index(answer, shape) if shape else ()
    for factor, group in zip(query.factors, index, strict=True):
        columns[factor.name] = label_column(group.astype(np.int64), factor.group_labels)
    columns["count"] = pa.array(rows.count[here])
    more = {}
    if intervals is not None:
        more = {"rows": rows.listed} | ({} if intervals.listed is None else {"meaning": LISTED_ROWS})
        columns["estimate"] = pa.array(intervals.estimate[here] / 1000)
        columns["stddev"] = pa.array(intervals.stddev[here] / 1000)
        columns["low"], columns["high"] = pa.array(intervals.low[here]), pa.array(intervals.high[here])
        if intervals.listed is not None:
            columns |= dict(
                zip(LISTED_ENDS, (pa.array(ends[here]) for ends in intervals.listed), strict=True)
            )
        columns["basis"] = label_column(intervals.exact[here].astype(np.int64), ("tree", "exact"))
    return table_of_plan("topdown.table", pa.table(columns), context.plan, more)
