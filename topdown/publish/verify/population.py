"""Read the microdata and the tables anew, and recompute every table from the microdata."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topdown.model.query import Query
from topdown.publish.verify.arithmetic import Whole, fits, tally
from topdown.publish.verify.parquet_file import REAL, TEXT, WHOLE, ParquetTable, codes, whole
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.reader import unreadable
from topdown.publish.verify.tree import Tree

PERSONS = "microdata/persons.parquet"
MOST_RECORDS = 4_000_000_000  # of an estimate: its thousandths times a quantile stay in 64 bits


@dataclass(frozen=True, eq=False)
class Population:
    """The microdata as read: one row a leaf and cell, in file order, -1 where a label is not known.

    Args:
        leaf, value, cell, count: per row; `value` is per attribute.

    """

    leaf: Whole
    value: dict[str, NDArray[np.int32]]
    cell: Whole
    count: Whole
    _sums: dict[tuple[str, int], tuple[Whole, Whole]] = field(default_factory=dict)

    def answers(self, tree: Tree, query: Query, level: int) -> tuple[Whole, Whole]:
        """Return the sparse table of a query: keys node * n_answers + answer, and sums, zeros dropped."""
        name = (query.name, level)
        if name not in self._sums:
            if level == len(tree.names) - 1:
                keys, sums = tally(self.leaf * query.n_answers + query.labels[self.cell], self.count)
            else:
                below, sums = self.answers(tree, query, level + 1)
                node = tree.parent[level + 1][below // query.n_answers]
                keys, sums = tally(node * query.n_answers + below % query.n_answers, sums)
            self._sums[name] = keys[sums != 0], sums[sums != 0]
        return self._sums[name]

    def forget(self, query: Query) -> None:
        """Free the sums of a query that no other check needs."""
        for name in [name for name in self._sums if name[0] == query.name]:
            del self._sums[name]

    def totals(self, tree: Tree, level: int, cells: NDArray[np.bool_]) -> Whole:
        """Return, for every node of a level, the number of records in the marked cells."""
        out = np.zeros(len(tree.geocodes[level]), dtype=np.int64)
        chosen = cells[self.cell]
        np.add.at(out, tree.ancestors[level][self.leaf[chosen]], self.count[chosen])
        return out


def all_of(parts: list[tuple[int, Population]]) -> Population:
    """Put populations of consecutive leaves together, each with the number of its first leaf."""
    both = [population for _, population in parts]
    return Population(
        np.concatenate([first + population.leaf for first, population in parts]),
        {name: np.concatenate([p.value[name] for p in both]) for name in both[0].value},
        np.concatenate([p.cell for p in both]),
        np.concatenate([p.count for p in both]),
    )


def load_population(
    root: Path, plan: PlanFile, tree: Tree, path: str = PERSONS, code: str = "V100"
) -> Population:
    """Read microdata/persons.parquet; UnreadableError (V100) if it is damaged or has other columns."""
    schema = plan.schema
    columns = {"geocode": TEXT} | {a.name: TEXT for a in schema.attributes} | {"count": WHOLE}
    most = tree.n_leaves * schema.n_cells
    file = ParquetTable(root, path, code, "topdown.microdata", columns, most, plan.stamps)
    table = file.read()
    leaf = codes(table.column("geocode"), tree.geocodes[-1])
    value = {
        a.name: codes(table.column(a.name), pa.array(a.labels, TEXT)).astype(np.int32)
        for a in schema.attributes
    }
    cell = np.zeros(len(leaf), dtype=np.int64)
    known = leaf >= 0
    for a in schema.attributes:
        cell = cell * len(a.labels) + value[a.name]
        known &= value[a.name] >= 0
    cell[~known] = -1
    return Population(leaf, value, cell, whole(table.column("count")))


@dataclass(frozen=True, eq=False)
class TableNumbers:
    """What a table with intervals has beside its counts, per row.

    Args:
        listed: stamp `rows`, all or nonzero.
        estimate, stddev: thousandths of a record.
        low, high: records. exact: bool, whether the basis is `exact`.
    """

    listed: str
    estimate: Whole
    stddev: Whole
    low: Whole
    high: Whole
    exact: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Table:
    """One published table, as read.

    Args:
        path: inside the release.
        key: node * n_answers + answer, per row.
        count: per row.
        numbers: estimates and intervals, if the plan asks for them.

    """

    path: str
    key: Whole
    count: Whole
    numbers: TableNumbers | None = None


def load_table(
    root: Path, plan: PlanFile, tree: Tree, query: Query, level: int, path: str, listed: str | None = None
) -> Table:
    """Read one table; UnreadableError (V109) if damaged, out of order, or naming unknown places or labels.

    Args:
        root: of the release. plan, tree: of it, or of a section. query, level: of the table. path: of its file.
        listed: the stamp `rows` that a table with intervals must have; None for one without.
    """
    columns = {"level": TEXT, "geocode": TEXT} | {f.name: TEXT for f in query.factors} | {"count": WHOLE}
    stamps = plan.stamps
    if listed is not None:
        columns |= {"estimate": REAL, "stddev": REAL, "low": WHOLE, "high": WHOLE, "basis": TEXT}
        stamps = stamps | {"rows": listed}
    most = len(tree.geocodes[level]) * query.n_answers
    table = ParquetTable(root, path, "V109", "topdown.table", columns, most, stamps).read()
    node = codes(table.column("geocode"), tree.geocodes[level])
    bad = (node < 0) | (codes(table.column("level"), pa.array(tree.names, TEXT)) != level)
    answer = np.zeros(len(node), dtype=np.int64)
    for factor in query.factors:
        group = codes(table.column(factor.name), pa.array(factor.group_labels, TEXT))
        bad |= group < 0
        answer = answer * len(factor.group_labels) + group
    if bad.any():
        row = int(np.flatnonzero(bad)[0]) + 1
        raise unreadable("V109", path, f"has an unknown level, geocode or label in row {row}")
    key, count = node * query.n_answers + answer, whole(table.column("count"))
    if (np.diff(key) <= 0).any():
        row = int(np.flatnonzero(np.diff(key) <= 0)[0]) + 2
        raise unreadable("V109", path, f"is out of order, or gives an answer twice, in row {row}")
    if not fits(count):
        raise unreadable("V109", path, "has counts too large to add up")
    return Table(path, key, count, None if listed is None else _numbers(path, table, listed))


def _numbers(path: str, table: pa.Table, listed: str) -> TableNumbers:
    basis = codes(table.column("basis"), pa.array(["tree", "exact"], TEXT))
    if (basis < 0).any():
        raise unreadable("V109", path, "has a basis that is neither tree nor exact")
    estimate, stddev = (_thousandths(path, table.column(name)) for name in ("estimate", "stddev"))
    low, high = whole(table.column("low")), whole(table.column("high"))
    return TableNumbers(listed, estimate, stddev, low, high, basis == 1)


def _thousandths(path: str, column: Any) -> Whole:
    """Read numbers that are whole thousandths, each the nearest binary number to one; no other bits are taken."""
    written = np.ascontiguousarray(column.to_numpy(), dtype=np.float64)
    if not (np.abs(written) <= MOST_RECORDS).all():
        raise unreadable("V109", path, "has an estimate or deviation that is not finite, or too large")
    found = np.rint(1000 * written).astype(np.int64)
    if ((found / 1000).view(np.int64) != written.view(np.int64)).any():
        raise unreadable("V109", path, "has an estimate or deviation that is not in whole thousandths")
    return found


def end_to_end(tables: list[Table], first: list[int]) -> Table:
    """Put tables of consecutive nodes together; `first` is what is added to the keys of each."""
    key = np.concatenate([t.key + add for t, add in zip(tables, first, strict=True)])
    all_numbers = [t.numbers for t in tables if t.numbers is not None]
    numbers = None
    if all_numbers:
        columns = ("estimate", "stddev", "low", "high", "exact")
        numbers = TableNumbers(
            all_numbers[0].listed, *(np.concatenate([getattr(n, c) for n in all_numbers]) for c in columns)
        )
    return Table(tables[0].path, key, np.concatenate([t.count for t in tables]), numbers)


def answer_label(query: Query, answer: int) -> str:
    """Name an answer by its labels."""
    if not query.factors:
        return "all records"
    where = np.unravel_index(answer, tuple(len(f.group_labels) for f in query.factors))
    return ", ".join(f.group_labels[int(i)] for f, i in zip(query.factors, where, strict=True))
