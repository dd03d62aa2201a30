"""The only reader of confidential records, and the box that keeps them from view.

Records are held against public knowledge: structural zeros, places where nobody can be, bounds. The totals that stay
exact need no check of their own: records that meet every leaf's rules are themselves a population with those totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NoReturn, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.inputs import TableSource
from topdown.inputs.table_reader import is_text, parse_whole_numbers
from topdown.measure.record_counts import LeafCounts, SortedRuns
from topdown.measure.records import (
    MOST_LISTED_ROWS,
    PLAIN_FORM,
    RecordsForm,
    Refused,
    read_or_refuse,
    read_records,
    type_name,
)
from topdown.model import (
    ZERO_KINDS,
    AtLeast,
    AtMost,
    Attribute,
    ConstraintRow,
    Schema,
    leaf_rows,
    rows_of_kinds,
)
from topdown.plan import MeasurementPlan, PublicContext
from topdown.privacy.laws import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, WeightedInteger

MAX_COUNT = 2**31 - 1
_NAME_END = b"."  # after every name: numpy takes no notice of zero bytes at the end of one


class NameIndex:
    """Where each of many names stands, found by halving: no table of hashes is made for a batch.

    Args:
        names: distinct texts; ten bytes of memory a name beside its own.
    """

    def __init__(self, names: Sequence[str]) -> None:
        coded = np.array([name.encode() + _NAME_END for name in names])
        self._place = np.argsort(coded, kind="stable")
        self._sorted = coded[self._place]

    def find(self, texts: pa.Array) -> Ints:
        """Return the index of each text among the names, -1 where there is none; int64 (len(texts),)."""
        found = np.full(len(texts), -1, dtype=np.int64)
        held = texts.cast(pa.string()).cast(pa.binary())
        short = pc.fill_null(pc.less(pc.binary_length(held), self._sorted.dtype.itemsize), False)
        wanted = np.array(
            [text + _NAME_END for text in held.filter(short).to_pylist()], dtype=self._sorted.dtype
        )
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        found[short.to_numpy(zero_copy_only=False)] = np.where(
            self._sorted[at] == wanted, self._place[at], -1
        )
        return found


class NameColumn:
    """A column of names.

    Args:
        names: those that are known.
        unknown: what is said of others.
    """

    def __init__(self, names: Sequence[str], unknown: Refused) -> None:
        self._names, self._faults = NameIndex(names), ColumnFaults(unknown)
        self._plain = not any(name.isdigit() and name[0] == "0" and name != "0" for name in names)

    def read(self, column: pa.Array, first_row: int) -> Ints:
        """Return the index of every row's name, -1 where it is not known; int64 (n_rows,)."""
        if self._plain and pa.types.is_integer(
            column.type
        ):  # digits: no name that is known begins with a zero
            column = column.cast(pa.string())
        coded = pa.types.is_dictionary(column.type)
        if not is_text(column.type.value_type if coded else column.type):
            self._faults.wrong_kind(
                f"{type_name(column.dictionary if coded else column)}, not text",
                "write the column as text; numbers lose their leading zeros",
            )
            return np.full(len(column), -1, dtype=np.int64)
        column = column if coded else column.dictionary_encode()
        table = np.append(self._names.find(column.dictionary), -1)
        found: Ints = table[column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]
        self._faults.add(column, np.flatnonzero(found < 0), first_row)
        return found

    def check(self) -> None:
        """Raise Refused if any row read so far held what is not known."""
        self._faults.check()


class CountColumn:
    """The column `count`; 1 a row where there is none."""

    def __init__(self) -> None:
        self._faults = ColumnFaults(
            Refused(
                "D032",
                f"some counts are not whole numbers from 0 to {MAX_COUNT:,}",
                column="count",
                fix="correct the records; a count is the number of records in one cell",
            )
        )

    def read(self, column: pa.Array, first_row: int) -> Ints:
        """Return every row's count, -1 where there is none; int64 (n_rows,)."""
        counts = parse_whole_numbers(column)
        if counts is None:
            self._faults.wrong_kind(
                f"{type_name(column)}, not whole numbers",
                "write the counts as integers, or as text of digits",
            )
            return np.full(len(column), -1, dtype=np.int64)
        counts = np.where(counts > MAX_COUNT, -1, counts)
        self._faults.add(column, np.flatnonzero(counts < 0), first_row)
        return counts

    def check(self) -> None:
        """Raise Refused if any row read so far held no count."""
        self._faults.check()


class ColumnFaults:
    """What is wrong with one column: its type, or values of some rows; no more rows than a private list takes."""

    def __init__(self, refused: Refused) -> None:
        self._refused, self._rows = refused, list[tuple[str, str]]()
        self._kind: Refused | None = None

    def wrong_kind(self, text: str, fix: str) -> None:
        """Note that the column holds values of another kind."""
        name = self._refused.column
        self._kind = Refused("D024", f"column {name!r} of the records holds {text}", column=name, fix=fix)

    def add(self, column: pa.Array, bad: NDArray[np.intp], first_row: int) -> None:
        """Note rows of a batch that begins with row `first_row` of the table."""
        for i in bad[: MOST_LISTED_ROWS - len(self._rows)].tolist():
            self._rows.append((f"row {first_row + i + 1}", str(column[i].as_py())))

    def check(self) -> None:
        """Raise what was noted."""
        if self._kind is not None:
            raise self._kind
        if self._rows:
            self._refused.rows = lambda: iter(self._rows)
            raise self._refused


def check_against_public(leaves: LeafCounts, context: PublicContext) -> None:
    """Raise Refused if counts of the leaves contradict an invariant; its name is public, the leaf is not."""
    plan = context.plan
    rows = leaf_rows(plan.schema, plan.invariants, context.facts.columns, context.geography)
    for row in rows_of_kinds(rows, "never", "none_where_zero", "at_most", "at_least"):
        held = leaves.held(row.cells)
        wrong = (held < row.low) | (held > row.high)
        if row.kind in ZERO_KINDS:
            _refuse_cells(row, wrong, leaves, context)
        else:
            _refuse_numbers(row, held, np.flatnonzero(wrong), context)


def _refuse_cells(row: ConstraintRow, wrong: Bools, leaves: LeafCounts, context: PublicContext) -> None:
    if not wrong.any():
        return
    schema, codes = context.plan.schema, context.geography.leaves.codes

    def entries() -> Iterator[tuple[str, str]]:
        for piece in leaves.pieces():
            for i in np.flatnonzero(row.cells[piece.cell] & wrong[piece.node]):
                where = schema.coordinates(piece.cell[i : i + 1])
                labels = [a.labels[int(v[0])] for a, v in zip(schema.attributes, where, strict=True)]
                yield f"leaf {codes[piece.node[i]]}", f"{piece.count[i]} x {', '.join(labels)}"

    raise Refused(
        "D035",
        f'some records contradict the invariant "{row.name}"',
        column=", ".join(attribute for attribute, _ in row.selection),
        fix="correct the records or the public leaf table; both cannot be right",
        rows=entries,
    )


def _refuse_numbers(row: ConstraintRow, held: Ints, wrong: NDArray[np.intp], context: PublicContext) -> None:
    if not len(wrong) or not isinstance(row.rule, AtLeast | AtMost):
        return
    codes, least = context.geography.leaves.codes, row.kind == "at_least"
    ends, text = (row.low, "at least {} needed") if least else (row.high, "at most {} allowed")
    raise Refused(
        "D036" if least else "D038",
        f'the records are fewer than the invariant "{row.name}" demands in some leaf'
        if least
        else f'the records are more than the invariant "{row.name}" allows in some leaf',
        column=row.rule.column,
        fix="correct the records or the public leaf table; both cannot be right",
        rows=lambda: ((f"leaf {codes[i]}", f"{held[i]} records, {text.format(ends[i])}") for i in wrong),
    )


@final
class Confidential:
    """Counts of confidential records that show nothing of themselves.

    `repr` and `format` give a fixed text; pickling, copying, comparing, iterating and turning it into an
    array are refused. `open_counts` is the one way in, easy to find in a review.
    """

    __slots__ = ("__leaves",)
    stays_in_its_process = True  # `workers.tasks` asks for it

    def __init__(self, leaves: LeafCounts) -> None:
        self.__leaves = leaves

    def open_counts(self) -> LeafCounts:
        """Return the counts of the leaves; only code in `topdown.measure` may call this."""
        return self.__leaves

    def __repr__(self) -> str:
        return "<confidential records, not shown>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("confidential records are not copied, compared, counted or stored")

    __reduce_ex__ = __reduce__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __array__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = _refuse


def load_records(
    source: TableSource,
    context: PublicContext,
    form: RecordsForm = PLAIN_FORM,
    *,
    list_errors: bool = True,
    parts: Sequence[TableSource] = (),
) -> Confidential:
    """Read and check the confidential records of one data set.

    Guarantees that the counts satisfy every structural zero, lower bound and range, so that nothing can
    fail for a reason in the data after the ledger is charged.

    Args:
        source: a file or a table in memory; columns `geocode` and one per attribute with the schema's labels.
        context: plan and public facts.
        form: whether it has a column `count`, and which other columns it has.
        parts: files that hold the records one after the other instead, if there are any.
        list_errors: whether rows that break a rule are listed in a private file beside the records; those of a
            table in memory are not, because nothing of it is written.

    Raises:
        DataError: with file, column and rule, never a value, a count or a row (D020-D073).
        InternalError: X023 what nobody foresaw, and nothing of it but its kind.

    Cost: 0.1 to 1 s for a million rows, 12 bytes a cell with records, half as much again at the end, and a few batches.

    """
    return read_or_refuse(
        source,
        lambda: Confidential(_count_records(parts or (source,), context, form)),
        "the records could not be checked",
        "nothing was spent",
        list_errors=list_errors,
    )


def _count_records(sources: Sequence[TableSource], context: PublicContext, form: RecordsForm) -> LeafCounts:
    schema, leaves = context.plan.schema, context.geography.leaves
    geocode, counts = NameColumn(leaves.codes, _unknown_leaf_refusal()), CountColumn()
    values = tuple(NameColumn(a.labels, _unknown_label_refusal(schema, a)) for a in schema.attributes)
    most = MAX_COUNT - widest_noise(context)
    runs, n_rows, total, whole = SortedRuns(), 0, 0, True
    names = ("geocode", *(a.name for a in schema.attributes))
    for batch in chain.from_iterable(read_records(source, names, form) for source in sources):
        leaf = geocode.read(batch.column("geocode"), n_rows)
        found = [v.read(batch.column(a.name), n_rows) for v, a in zip(values, schema.attributes, strict=True)]
        count = np.ones_like(leaf)
        if form.has_count:
            count = counts.read(batch.column("count"), n_rows)
        n_rows += batch.num_rows
        whole = whole and all(bool((column >= 0).all()) for column in (leaf, *found, count))
        total += int(count.sum())
        if whole and total <= most:  # keys fit 64 bits: a schema has at most 2^21 cells
            runs.add(leaf * schema.n_cells + schema.cells(tuple(found)), count)
    columns: tuple[NameColumn | CountColumn, ...] = (geocode, *values, counts)
    for column in columns:
        column.check()
    if total > most:
        raise Refused(
            "D034",
            "the counts add up to more than a 32-bit answer can hold",
            column="count",
            fix=f"split the data set: all its records together may number {most:,}",
        )
    found_run = runs.total()
    packed = LeafCounts(len(leaves), schema.n_cells, found_run.key, found_run.count)
    check_against_public(packed, context)
    return packed


def widest_noise(context: PublicContext) -> int:
    """Return a bound that noise exceeds with probability below 2^-128 a draw, in records."""
    return max(
        (noise_law(m).half_width(128) for level in context.plan.levels for m in level.measurements), default=0
    )


def _unknown_leaf_refusal() -> Refused:
    return Refused(
        "D030",
        "some geocodes of the records are not leaves of the geography",
        column="geocode",
        fix="correct the geocodes (text, with leading zeros), or add the leaves to the public table",
    )


def _unknown_label_refusal(schema: Schema, attribute: Attribute) -> Refused:
    shown = ", ".join(attribute.labels[:12]) + (", ..." if len(attribute.labels) > 12 else "")
    return Refused(
        "D031",
        f"some records have a value that schema {schema.name} does not know",
        column=attribute.name,
        details=(("allowed", shown),),
        fix="correct the records; values are the schema's labels",
    )


def noise_law(measurement: MeasurementPlan) -> NoiseDistribution:
    """Return the noise law of a measurement."""
    match measurement.law:
        case "discrete_gaussian":
            return DiscreteGaussian(measurement.parameter)
        case "two_sided_geometric":
            return TwoSidedGeometric(measurement.parameter)
        case "optimal_integer":
            return WeightedInteger(measurement.whole_weights)
