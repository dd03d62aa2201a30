"""Read microdata and tables anew, of a release, a section of it, or the release that an extension keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.formats.release_documents import LISTED_ENDS, LISTED_ROWS
from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import sums_fit, tally
from topdown.verify.plan_reader import PlanFile, table_path
from topdown.verify.public_tree import Facts, FileSections, PossibleAnswers, Tree, part_file
from topdown.verify.query_labels import Query, identity_reading, read_below
from topdown.verify.strict_parquet import (
    REAL,
    TEXT,
    WHOLE,
    ParquetTable,
    TableForm,
    int64_array,
    label_positions,
)
from topdown.verify.strict_reader import LoadedOnce, UnreadableError, unreadable

PERSONS = "microdata/persons.parquet"
MOST_RECORDS = 4_000_000_000  # of an estimate: its thousandths times a quantile stay in 64 bits


@dataclass(frozen=True, eq=False)
class Population:
    """The microdata as read: one row a leaf and cell, in file order, -1 where a label is not known.

    Args:
        leaf, value, cell, count: per row; `value` is per attribute.

    """

    leaf: Ints
    value: dict[str, NDArray[np.int32]]
    cell: Ints
    count: Ints
    _sums: dict[tuple[str, int], tuple[Ints, Ints]] = field(default_factory=dict)

    def answers(self, tree: Tree, query: Query, level: int) -> tuple[Ints, Ints]:
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

    def totals(self, tree: Tree, level: int, cells: NDArray[np.bool_]) -> Ints:
        """Return, for every node of a level, the number of records in the marked cells."""
        out = np.zeros(len(tree.geocodes[level]), dtype=np.int64)
        chosen = cells[self.cell]
        np.add.at(out, tree.ancestors[level][self.leaf[chosen]], self.count[chosen])
        return out


def concat_populations(parts: list[tuple[int, Population]]) -> Population:
    """Put populations of consecutive leaves together, each with the number of its first leaf."""
    both = [population for _, population in parts]
    return Population(
        np.concatenate([first + population.leaf for first, population in parts]),
        {name: np.concatenate([p.value[name] for p in both]) for name in both[0].value},
        np.concatenate([p.cell for p in both]),
        np.concatenate([p.count for p in both]),
    )


def load_population(
    root: Path, plan: PlanFile, tree: Tree, path: str = PERSONS, code: str = "V100", *, is_own: bool = False
) -> Population:
    """Read microdata/persons.parquet; UnreadableError (V100) if it is damaged or has other columns.

    is_own: see `ParquetTable`.
    """
    schema = plan.schema
    columns = {"geocode": TEXT} | {a.name: TEXT for a in schema.attributes} | {"count": WHOLE}
    most = tree.n_leaves * schema.n_cells
    form = TableForm("topdown.microdata", columns, plan.stamps)
    file = ParquetTable(root, path, code, form, most, is_own=is_own)
    table = file.read()
    leaf = label_positions(table.column("geocode"), tree.geocodes[-1])
    value = {
        a.name: label_positions(table.column(a.name), pa.array(a.group_labels, TEXT)).astype(np.int32)
        for a in schema.attributes
    }
    cell = np.zeros(len(leaf), dtype=np.int64)
    known = leaf >= 0
    for a in schema.attributes:
        cell = cell * len(a.group_labels) + value[a.name]
        known &= value[a.name] >= 0
    cell[~known] = -1
    return Population(leaf, value, cell, int64_array(table.column("count")))


@dataclass(frozen=True, eq=False)
class TableEstimates:
    """What a table with intervals has beside its counts, per row.

    Args:
        listed: stamp `rows`, all or nonzero.
        estimate, stddev: thousandths of a record.
        low, high: records. exact: bool, whether the basis is `exact`.
        listed_low, listed_high: ends corrected for selection, of a table that lists counts above zero only; else none.
    """

    listed: str
    estimate: Ints
    stddev: Ints
    low: Ints
    high: Ints
    exact: NDArray[np.bool_]
    listed_low: Ints
    listed_high: Ints


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
    key: Ints
    count: Ints
    numbers: TableEstimates | None = None


def load_table(
    root: Path,
    plan: PlanFile,
    tree: Tree,
    query: Query,
    level: int,
    path: str,
    listed: str | None = None,
    *,
    is_own: bool = False,
) -> Table:
    """Read one table; UnreadableError (V109) if damaged, out of order, or naming unknown places or labels.

    Args:
        root: of the release. plan, tree: of it, or of a section. query, level: of the table. path: of its file.
        listed: the stamp `rows` that a table with intervals must have; None for one without.
        is_own: see `ParquetTable`.
    """
    columns = {"level": TEXT, "geocode": TEXT} | {f.name: TEXT for f in query.factors} | {"count": WHOLE}
    stamps = plan.stamps
    if listed is not None:
        columns |= {"estimate": REAL, "stddev": REAL, "low": WHOLE, "high": WHOLE}
        stamps = stamps | {"rows": listed}
        if listed == "nonzero":
            columns |= dict.fromkeys(LISTED_ENDS, WHOLE)
            stamps = stamps | {"meaning": LISTED_ROWS}
        columns |= {"basis": TEXT}
    most = len(tree.geocodes[level]) * query.n_answers
    form = TableForm("topdown.table", columns, stamps)
    table = ParquetTable(root, path, "V109", form, most, is_own=is_own).read()
    node = label_positions(table.column("geocode"), tree.geocodes[level])
    bad = (node < 0) | (label_positions(table.column("level"), pa.array(tree.names, TEXT)) != level)
    answer = np.zeros(len(node), dtype=np.int64)
    for factor in query.factors:
        group = label_positions(table.column(factor.name), pa.array(factor.group_labels, TEXT))
        bad |= group < 0
        answer = answer * len(factor.group_labels) + group
    if bad.any():
        row = int(np.flatnonzero(bad)[0]) + 1
        raise unreadable("V109", path, f"has an unknown level, geocode or label in row {row}")
    key, count = node * query.n_answers + answer, int64_array(table.column("count"))
    if (np.diff(key) <= 0).any():
        row = int(np.flatnonzero(np.diff(key) <= 0)[0]) + 2
        raise unreadable("V109", path, f"is out of order, or gives an answer twice, in row {row}")
    if not sums_fit(count):
        raise unreadable("V109", path, "has counts too large to add up")
    return Table(path, key, count, None if listed is None else _table_estimates(path, table, listed))


def _table_estimates(path: str, table: pa.Table, listed: str) -> TableEstimates:
    basis = label_positions(table.column("basis"), pa.array(["tree", "exact"], TEXT))
    if (basis < 0).any():
        raise unreadable("V109", path, "has a basis that is neither tree nor exact")
    estimate, stddev = (_thousandths(path, table.column(name)) for name in ("estimate", "stddev"))
    low, high = int64_array(table.column("low")), int64_array(table.column("high"))
    none = np.zeros(0, dtype=np.int64)
    corrected = [int64_array(table.column(name)) if listed == "nonzero" else none for name in LISTED_ENDS]
    return TableEstimates(listed, estimate, stddev, low, high, basis == 1, *corrected)


def _thousandths(path: str, column: Any) -> Ints:
    """Read numbers that are whole thousandths, each the nearest binary number to one; no other bits are taken."""
    written = np.ascontiguousarray(column.to_numpy(), dtype=np.float64)
    if not (np.abs(written) <= MOST_RECORDS).all():
        raise unreadable("V109", path, "has an estimate or deviation that is not finite, or too large")
    found = np.rint(1000 * written).astype(np.int64)
    if ((found / 1000).view(np.int64) != written.view(np.int64)).any():
        raise unreadable("V109", path, "has an estimate or deviation that is not in whole thousandths")
    return found


def concat_tables(tables: list[Table], first: list[int]) -> Table:
    """Put tables of consecutive nodes together; `first` is what is added to the keys of each."""
    key = np.concatenate([t.key + add for t, add in zip(tables, first, strict=True)])
    all_numbers = [t.numbers for t in tables if t.numbers is not None]
    numbers = None
    if all_numbers:
        columns = ("estimate", "stddev", "low", "high", "exact", *LISTED_ENDS)
        numbers = TableEstimates(
            all_numbers[0].listed, *(np.concatenate([getattr(n, c) for n in all_numbers]) for c in columns)
        )
    return Table(tables[0].path, key, np.concatenate([t.count for t in tables]), numbers)


def answer_label(query: Query, answer: int) -> str:
    """Name an answer by its labels."""
    if not query.factors:
        return "all records"
    where = np.unravel_index(answer, tuple(len(f.group_labels) for f in query.factors))
    return ", ".join(f.group_labels[int(i)] for f, i in zip(query.factors, where, strict=True))


KEPT_ROWS = 1 << 21  # of published tables, 16 bytes each
Sums = dict[str, tuple[Ints, Ints]]  # keys and counts by name of a query


@dataclass(eq=False)
class Areas:
    """Levels of the tree with the records below them and their tables, in numbers of their own.

    Args:
        plan: of it.
        tree: of these areas; its leaves are those of the release, or the lowest level above the cut.
        top: index in the release of the first level here.
        first: per level here, the release's number of node 0.
        number: of the section whose files these are; None where they are whole files.
        possible: which answers are open in the release, where the plan asks for intervals.
        given: records by node of the lowest level, where they are added up from sections.
        below: tables of the cut by node of the lowest level here, added up from sections.
        up: of a section, the node of the level above the cut, by node of level 0.
        passed: of a section, its tables of level 0 by that node; filled as they are looked at.
        is_own: tells which files hold what this very process wrote.
    """

    root: Path
    plan: PlanFile
    tree: Tree
    top: int
    first: tuple[int, ...]
    number: int | None = None
    possible: PossibleAnswers | None = None
    given: Population | None = None
    below: Sums | None = None
    up: Ints | None = None
    passed: Sums = field(default_factory=dict)
    is_own: Callable[[str], bool] = lambda path: False
    once: LoadedOnce = field(default_factory=LoadedOnce)
    _rows: dict[str, int] = field(default_factory=dict)

    @property
    def has_leaves(self) -> bool:
        """Whether the records are those of leaves."""
        return self.given is None

    @property
    def n_levels(self) -> int:
        """Number of levels here."""
        return len(self.tree.names)

    def path(self, whole: str) -> str:
        """Return where the part of a file is that these areas have."""
        return whole if self.number is None else part_file(whole, self.number)

    @property
    def persons(self) -> str:
        """The microdata of these areas."""
        return self.path(PERSONS) if self.has_leaves else PERSONS.removesuffix(".parquet")

    @property
    def raw_population(self) -> Population:
        """The microdata as written, right or wrong."""
        if self.given is not None:
            return self.given

        def load() -> Population:
            own = self.is_own(self.persons)
            return load_population(self.root, self.plan, self.tree, self.persons, is_own=own)

        return self.once("raw population", "whole numbers", load)

    @property
    def population(self) -> Population:
        """The microdata, if every row names a known leaf and cell and the counts can be added up."""
        raw = self.raw_population

        def load() -> Population:
            if (raw.leaf < 0).any() or (raw.cell < 0).any() or not sums_fit(raw.count):
                text = "the microdata have rows that cannot be counted"
                raise UnreadableError(Finding("V102", text, file=self.persons))
            return raw

        return self.once("population", "whole numbers", load)

    def table(self, query: Query, level: int) -> Table:
        """Return one published table; those that are too many to keep are read again when asked for again."""
        name = f"table {query.name} {level}"
        path = self.path(table_path(query, self.tree.names[level]))
        form = None if self.possible is None else self.possible.listed(query, self.top + level)

        def load() -> Table:
            own = self.is_own(path)
            return load_table(self.root, self.plan, self.tree, query, level, path, form, is_own=own)

        table = self.once(name, "tables", load)
        self._rows[name] = 0  # of all others that are kept
        if sum(self._rows.values()) + len(table.key) > KEPT_ROWS:
            self.once.forget(name)
            del self._rows[name]
        else:
            self._rows[name] = len(table.key)
        return table


def tree_of_section(tree: Tree, cuts: FileSections, number: int) -> tuple[Tree, tuple[int, ...]]:
    """Return the levels of a section from the cut down, and the release's number of the first node of each."""
    levels = range(cuts.level, len(tree.names))
    spans = [cuts.span(number, level) for level in levels]
    parents = [np.zeros(spans[0][1] - spans[0][0], dtype=np.int64)]
    for level, (p, q), (above, _) in zip(levels[1:], spans[1:], spans, strict=False):
        parents.append(tree.parent[level][p:q] - above)
    here = Tree(
        tree.names[cuts.level :],
        tuple(tree.geocodes[level].slice(p, q - p) for level, (p, q) in zip(levels, spans, strict=True)),
        tuple(parents),
        tree.facts.at(slice(*spans[-1])),
    )
    return here, tuple(p for p, _ in spans)


def tree_above(tree: Tree, level: int) -> Tree:
    """Return the levels above one, with public facts added up to the lowest of them."""
    facts = {name: tree.sums(column)[level - 1] for name, column in tree.facts.items()}
    return Tree(tree.names[:level], tree.geocodes[:level], tree.parent[:level], Facts(facts))


PLAN, MANIFEST, TABLE = ("base/plan.json", "base/manifest.json", "base/persons.parquet")
LEAVES = "public/leaves.parquet"
OpenKinds = tuple[Ints, NDArray[np.bool_]]  # kind of every cell; (n_leaves, n_kinds)
KEPT_ANSWERS = 2_000_000  # of base cells, in 16 MB
RENUMBER = 30  # rules between two renumberings: up to 2^31 kinds times 2^30 fit a whole number


@dataclass(frozen=True, eq=False)
class BaseTable:
    """The base release as an extension carries it.

    Args:
        plan: the base's plan.
        population: the base's microdata on the extension's leaves.
        of_cell: base cell of every cell of the extension.
    """

    plan: PlanFile
    population: Population
    of_cell: Ints

    def inhabited(self, tree: Tree) -> tuple[NDArray[np.bool_], ...]:
        """Mark, per level, the nodes where the base has records."""
        out = []
        for up, geocodes in zip(tree.ancestors, tree.geocodes, strict=True):
            here = np.zeros(len(geocodes), dtype=bool)
            here[up[self.population.leaf]] = True
            out.append(here)
        return tuple(out)

    @cached_property
    def _cells_of(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.of_cell, kind="stable")
        return order, np.searchsorted(self.of_cell[order], np.arange(self.plan.schema.n_cells + 1))

    def lengths(self, rules: OpenKinds, tree: Tree, level: int, nodes: Ints, queries: list[Query]) -> Ints:
        """Return how many answers of each query have an open cell at each node: (len(nodes), len(queries)).

        A cell is open at a node if the base has records in its base cell there and no constraint closes it at
        all of the node's leaves.

        Args:
            rules: see `open_kinds`.
        """
        kind, open_leaf = rules
        up = tree.ancestors[level]
        opened = np.zeros((len(tree.geocodes[level]), open_leaf.shape[1]), dtype=bool)
        np.logical_or.at(opened, up, open_leaf)
        pairs = np.unique(up[self.population.leaf] * self.plan.schema.n_cells + self.population.cell)
        at, base_cell = np.divmod(pairs, self.plan.schema.n_cells)
        # all answers of all queries stand in one row
        starts = np.cumsum([0, *(query.n_answers for query in queries)])
        order, first = self._cells_of
        kinds_of: dict[int, Ints] = {}
        known: dict[tuple[int, bytes], Ints] = {}  # by base cell and which of its kinds are open
        n_known = 0
        out = np.zeros((len(nodes), len(queries)), dtype=np.int64)
        for i, node in enumerate(nodes):
            p, q = np.searchsorted(at, (node, node + 1))
            parts = []
            for b in base_cell[p:q].tolist():
                if b not in kinds_of:
                    kinds_of[b] = np.unique(kind[order[first[b] : first[b + 1]]])
                key = b, opened[node, kinds_of[b]].tobytes()
                if key not in known:
                    if n_known > KEPT_ANSWERS:
                        known.clear()
                        n_known = 0
                    cells = order[first[b] : first[b + 1]]
                    cells = cells[opened[node, kind[cells]]]
                    known[key] = _distinct(
                        [query.labels[cells] + start for query, start in zip(queries, starts, strict=False)]
                    )
                    n_known += len(known[key])
                parts.append(known[key])
            out[i] = np.diff(np.searchsorted(_distinct(parts), starts))
        return out


def _distinct(parts: list[Ints]) -> Ints:
    """Return the different numbers of some arrays, increasing."""
    found = np.sort(np.concatenate(parts))
    return np.asarray(found[np.diff(found, prepend=-1) > 0])


def base_table_paths(tree: Tree, cuts: FileSections) -> list[str]:
    """Return the files of the base's microdata: its tree is that of the extension, and is cut like it."""
    return cuts.paths(TABLE, len(tree.names) - 1)


def base_leaves_path(plan: str) -> str:
    """Return where the public facts are carried that the plan at a path was made from."""
    return f"{plan.removesuffix('plan.json')}{LEAVES}"


def open_kinds(plan: PlanFile, tree: Tree) -> OpenKinds:
    """Return the kind of every cell, and which kinds are open at each leaf.

    Cells that the same rules close are of one kind; kind 0 holds the structural zeros.
    """
    schema = plan.schema
    somewhere = plan.rules.closing_somewhere
    kind = np.ones(schema.n_cells, dtype=np.int64)
    for i, rule in enumerate(somewhere):
        kind = 2 * kind + schema.select(rule.cells)
        if (
            i % RENUMBER == RENUMBER - 1
        ):  # before the numbers are too long; sorting a million cells takes a while
            kind = np.unique(kind, return_inverse=True)[1].reshape(-1) + 1
    kind = np.unique(kind, return_inverse=True)[1].reshape(-1) + 1
    kind[~plan.rules.open_cells(schema)] = 0
    open_leaf = np.ones((tree.n_leaves, int(kind.max()) + 1), dtype=bool)
    open_leaf[:, 0] = False
    example = np.zeros(open_leaf.shape[1], dtype=np.int64)
    example[kind] = np.arange(schema.n_cells)
    for rule in somewhere:
        inside = schema.select(rule.cells)[example]
        open_leaf[np.ix_(rule.closed(tree.facts, tree.n_leaves), inside)] = False
    return kind, open_leaf


def _base_population(root: Path, base: PlanFile, tree: Tree, cuts: FileSections) -> Population:
    if cuts.n_sections == 1:
        return load_population(root, base, tree, TABLE, "V160")
    parts = []
    for number, path in enumerate(base_table_paths(tree, cuts)):
        here, first = tree_of_section(tree, cuts, number)
        found = load_population(root, base, here, path, "V160")
        if (found.leaf < 0).any():
            raise unreadable("V160", path, "has records outside of its section")
        parts.append((first[-1], found))
    return concat_populations(parts)


def load_base(root: Path, plan: PlanFile, base: PlanFile, tree: Tree, cuts: FileSections) -> BaseTable:
    """Read base/; UnreadableError (V160) if it is damaged or does not fit the plan."""
    stated = plan.base
    population = _base_population(root, base, tree, cuts)
    if stated is None or (population.leaf < 0).any() or (population.cell < 0).any():
        raise unreadable("V160", TABLE, "has records in places or cells that the plans do not know")
    if not sums_fit(population.count) or (population.count <= 0).any():
        raise unreadable("V160", TABLE, "has counts that are not above zero, or too large to add up")
    if [name for name, _ in stated.map] != [a.name for a in base.schema.attributes]:
        raise unreadable("V160", "plan.json", "does not map every attribute of the base schema, in order")
    try:
        reading = read_below(plan.schema, identity_reading(plan.schema), base.schema, stated.map)
    except ValueError as error:
        raise unreadable("V160", "plan.json", f"maps a base attribute wrongly: {str(error)[:120]}") from None
    of_cell = np.zeros(plan.schema.shape, dtype=np.int64)
    names = [a.name for a in plan.schema.attributes]
    for attribute in base.schema.attributes:
        here, value = reading[attribute.name]
        axis = [1] * len(names)
        axis[names.index(here)] = len(value)
        of_cell = of_cell * len(attribute.group_labels) + np.array(value).reshape(axis)
    return BaseTable(base, population, of_cell.reshape(-1))
