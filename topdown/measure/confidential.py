"""The only reader of confidential records, and the box that keeps them from view."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NoReturn, final

import numpy as np

from topdown.frames import Source
from topdown.measure.checks import check_against_public
from topdown.measure.columns import MAX_COUNT, CountColumn, NameColumn
from topdown.measure.draw import law_of
from topdown.measure.leaf_counts import LeafCounts
from topdown.measure.records import PLAIN, Form, Refused, read_records
from topdown.measure.refusals import read_or_refuse
from topdown.measure.runs import Runs
from topdown.model.schema import Attribute, Schema
from topdown.plan.prepare import Context


@final
class Confidential:
    """Counts of confidential records that show nothing of themselves.

    `repr` and `format` give a fixed text; pickling, copying, comparing, iterating and turning it into an
    array are refused. `open_counts` is the one way in, easy to find in a review.
    """

    __slots__ = ("__leaves",)
    stays_in_its_process = True  # `workers.guard` asks for it

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
    source: Source,
    context: Context,
    form: Form = PLAIN,
    *,
    list_errors: bool = True,
    parts: Sequence[Source] = (),
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
        lambda: Confidential(_load(parts or (source,), context, form)),
        "the records could not be checked",
        "nothing was spent",
        list_errors=list_errors,
    )


def _load(sources: Sequence[Source], context: Context, form: Form) -> LeafCounts:
    schema, leaves = context.plan.schema, context.geography.leaves
    geocode, counts = NameColumn(leaves.codes, _unknown_leaf()), CountColumn()
    values = tuple(NameColumn(a.labels, _unknown_label(schema, a)) for a in schema.attributes)
    most = MAX_COUNT - widest_noise(context)
    runs, n_rows, total, whole = Runs(), 0, 0, True
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


def widest_noise(context: Context) -> int:
    """Return a bound that noise exceeds with probability below 2^-128 a draw, in records."""
    return max(
        (law_of(m).half_width(128) for level in context.plan.levels for m in level.measurements), default=0
    )


def _unknown_leaf() -> Refused:
    return Refused(
        "D030",
        "some geocodes of the records are not leaves of the geography",
        column="geocode",
        fix="correct the geocodes (text, with leading zeros), or add the leaves to the public table",
    )


def _unknown_label(schema: Schema, attribute: Attribute) -> Refused:
    shown = ", ".join(attribute.labels[:12]) + (", ..." if len(attribute.labels) > 12 else "")
    return Refused(
        "D031",
        f"some records have a value that schema {schema.name} does not know",
        column=attribute.name,
        details=(("allowed", shown),),
        fix="correct the records; values are the schema's labels",
    )
