"""The only reader of confidential records, and the box that keeps them from view.

Records are held against public knowledge: structural zeros, places where nobody can be, bounds. The totals that stay
exact need no check of their own: records that meet every leaf's rules are themselves a population with those totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NoReturn, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.formats.common import PrivacyUnit
from topdown.inputs import NO_TOTALS, ControlTotals, TableColumn, TableSource
from topdown.inputs.table_reader import MAX_COUNT
from topdown.measure.record_counts import ROWS_AT_ONCE, LeafCounts, SortedRuns
from topdown.measure.records import (
    PLAIN_FORM,
    RecordsForm,
    Refused,
    read_or_refuse,
    read_records,
)
from topdown.model import (
    Attribute,
    ConstraintRow,
    Schema,
)
from topdown.plan import MeasurementPlan, PublicContext
from topdown.privacy.laws import LAWS, NoiseDistribution


def check_against_public(leaves: LeafCounts, context: PublicContext) -> None:
    """Raise Refused if counts of the leaves contradict an invariant; its name is public, the leaf is not."""
    for row in sorted(
        context.leaf_rows,
        key=lambda row: (bool(row.rule.read_columns), not row.rule.closes, row.rule.is_lower),
    ):
        held, low, high = leaves.held(row.cells), row.low, row.high
        if row.rule.closes:
            _refuse_cells(row, held > high, leaves, context)
            continue
        for ends, wrong, least in ((high, held > high, False), (low, held < low, True)):
            if wrong.any():
                _refuse_numbers(row, held, ends, np.flatnonzero(wrong), context, least=least)


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


def _refuse_numbers(
    row: ConstraintRow,
    held: Ints,
    ends: Ints,
    wrong: NDArray[np.intp],
    context: PublicContext,
    *,
    least: bool,
) -> NoReturn:
    codes = context.geography.leaves.codes
    text = "at least {} needed" if least else "at most {} allowed"
    raise Refused(
        "D036" if least else "D038",
        f'the records are fewer than the invariant "{row.name}" demands in some leaf'
        if least
        else f'the records are more than the invariant "{row.name}" allows in some leaf',
        column=", ".join(row.rule.read_columns),
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
    totals: ControlTotals = NO_TOTALS,
    units: bool = False,
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
        totals: what the owner of the records says of them.
        units: whether a unit of several records has its column, and is held against the most that it may have: what is
            charged needs it. The column may be there in any case.

    Raises:
        DataError: with file, column and rule, never a value, a count or a row (D020-D082, A083).
        InternalError: X023 what nobody foresaw, and nothing of it but its kind.

    Cost: 0.1 to 1 s for a million rows, 12 bytes a cell with records, half as much again at the end, and a few batches.

    """
    return read_or_refuse(
        source,
        lambda: Confidential(_count_records(parts or (source,), context, form, totals, units=units)),
        "the records could not be checked",
        "nothing was spent",
        list_errors=list_errors,
    )


def _count_records(
    sources: Sequence[TableSource],
    context: PublicContext,
    form: RecordsForm,
    totals: ControlTotals = NO_TOTALS,
    *,
    units: bool = False,
) -> LeafCounts:
    for source in sources:
        totals.check_file(source)
    schema, leaves = context.plan.schema, context.geography.leaves
    columns = [TableColumn("geocode", "label", leaves.codes)]
    columns += [
        TableColumn(a.name, "label", a.labels, values=form.values.get(a.name)) for a in schema.attributes
    ]
    sizes = UnitSizes(schema.privacy_unit)
    if own := sizes.unit.column:
        columns += [TableColumn(own, integers=True)] if units else []
        form = form if units else replace(form, ignored=(*form.ignored, form.called.get(own, own)))
    unknown = {"geocode": _unknown_leaf_refusal()}
    unknown |= {a.name: _unknown_label_refusal(schema, a) for a in schema.attributes}
    most = MAX_COUNT - widest_noise(context)
    runs, total, n_rows, whole = SortedRuns(), 0, 0, True
    for batch in chain.from_iterable(read_records(source, columns, form, unknown) for source in sources):
        leaf, *values = (batch[column.name] for column in columns[: len(schema.attributes) + 1])
        count = batch["count"] if form.has_count else np.ones_like(leaf)
        whole = whole and all(bool((column >= 0).all()) for column in (leaf, *values, count))
        total += int(count.sum())
        n_rows += len(count)
        if totals.rows is not None and n_rows > totals.rows:
            break
        if own in batch:
            sizes.add(batch[own], count)
        if whole and total <= most:  # keys fit 64 bits: a schema has at most 2^21 cells
            runs.add(leaf * schema.n_cells + schema.cells(tuple(values)), count)
    totals.check_read(n_rows, total)
    if own and units:
        sizes.check()
    if total > most:
        raise Refused(
            "D034",
            "the counts add up to more than a 32-bit answer can hold",
            column="count",
            fix=f"split the data set: all its records together may number {most:,}",
        )
    counted = runs.total()
    packed = LeafCounts(len(leaves), schema.n_cells, counted.key, counted.count)
    check_against_public(packed, context)
    return packed


class UnitSizes:
    """How many records each unit has, of a table that is read in batches.

    Args:
        unit: of several records.
    """

    def __init__(self, unit: PrivacyUnit) -> None:
        self.unit = unit
        self._known = pa.table({"unit": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
        self._waiting: list[pa.Table] = []

    def add(self, ids: pa.Array, count: Ints) -> None:
        """Take rows: the unit of each, text (n,), and how many records it stands for, int64 (n,)."""
        self._waiting.append(pa.table({"unit": ids.cast(pa.string()), "count": pa.array(count, pa.int64())}))
        if sum(map(len, self._waiting)) > max(ROWS_AT_ONCE, len(self._known)):
            self._add_up()

    def check(self) -> None:
        """Raise Refused (A083) if a unit has more records than it may have."""
        self._add_up()
        most = self.unit.most_records
        wrong = self._known.filter(pc.greater(self._known["count"], most))
        if len(wrong):
            raise Refused(
                "A083",
                f"some {self.unit.name} has more than {most} records",
                column=self.unit.column,
                fix="correct the records, or raise the number in the schema's unit, which costs accuracy",
                rows=lambda: (
                    (f"{self.unit.name} {row['unit']}", f"{row['count']} records, at most {most} allowed")
                    for row in wrong.to_pylist()
                ),
            )

    def _add_up(self) -> None:
        every = pa.concat_tables([self._known, *self._waiting])
        added = every.group_by("unit", use_threads=False).aggregate([("count", "sum")])
        self._known, self._waiting = added.rename_columns(["unit", "count"]), []


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
    return LAWS[measurement.law].distribution(measurement.parameter, measurement.whole_weights)
