"""Intervals for counts of any union of areas, from the measurements of a release."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from topdown.api.call import PathText, place, public
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.documents.interval import Intervals, IntervalsOfUnion
    from topdown.model.query import Query
    from topdown.plan.prepare import Context
    from topdown.plan.unions import Union
    from topdown.publish.intervals import Intervals as Columns
    from topdown.publish.intervals import TableRows

USUAL = Fraction(19, 20)


@public
def interval(
    release: PathText, areas: PathText, query: str, *, coverage: str | Fraction | None = None
) -> Intervals:
    """Return the released count of every answer over unions of areas, with its interval.

    Two intervals are not independent, so those of sums do not follow from the tables; these are made anew from all
    measurements. Reads measurements, public facts and microdata; costs no privacy.

    Args:
        release: folder of a release.
        areas: table with a column geocode, of any level, and area, the name of its union, if there are several.
        query: such as "total" or "hispanic * cenrace".
        coverage: chance, exact, from 1/2 to 9999/10000; the plan's, or 19/20, if None.

    Raises:
        ConfigError: C088 the folder is no release, C210 a coverage outside the range, C211 the plan has no intervals,
            C024, C027 there is no such query.
        DataError: D063 an unknown or repeated geocode, or an area inside another of the same union.
        CertificateError: V020, V090 measurements or microdata are damaged.

    Cost: one reading of all measurements, some seconds for 50 million.
    """
    from topdown.api.release_folder import require_release
    from topdown.documents.interval import Intervals
    from topdown.measure.released import read_open_microdata
    from topdown.plan.document import exact_text
    from topdown.plan.prepare import load_context
    from topdown.plan.unions import read_unions
    from topdown.publish.intervals import intervals_sentence
    from topdown.publish.microdata import PERSONS
    from topdown.publish.unions import intervals_of_unions, rows_of_unions
    from topdown.solve.exact import exact_tables, exact_totals
    from topdown.solve.measurements import MeasurementReader
    from topdown.solve.tree.covered import check_intervals
    from topdown.solve.tree.numbers import tree_numbers

    folder = place(release, "release")
    require_release(folder)
    context = load_context(folder)
    chance = coverage_of(coverage, context.plan.coverage or USUAL)
    check_intervals(context, asked=True)
    asked = context.plan.query(query)
    unions = read_unions(place(areas, "areas"), context.geography)
    reader = MeasurementReader(folder, context)
    values = reader.exact()
    numbers = tree_numbers(context, reader, exact_totals(context, values), exact_tables(context, values))
    told = numbers.of_unions([union.members for union in unions], asked.name)
    leaves = read_open_microdata(folder / PERSONS, context)
    rows = rows_of_unions(context, asked, unions, leaves)
    columns = intervals_of_unions(context, asked, unions, rows, told, chance)
    found = [_union(context, asked, union, (rows, columns, i)) for i, union in enumerate(unions)]
    return Intervals(
        release=context.plan.release.id,
        plan_hash=context.plan.plan_hash,
        query=asked.name,
        coverage=exact_text(chance),
        meaning=intervals_sentence(chance),
        unions=found,
    )


def coverage_of(given: str | Fraction | None, usual: Fraction) -> Fraction:
    """Return a chance that was asked for, or the usual one; ConfigError C210 outside the range."""
    from topdown.plan.document import exact
    from topdown.plan.how_solved import LEAST_COVERAGE, MOST_COVERAGE

    try:
        chance = usual if given is None else given if isinstance(given, Fraction) else exact(given)
        if not LEAST_COVERAGE <= chance <= MOST_COVERAGE:
            raise ValueError(f"it is not between {LEAST_COVERAGE} and {MOST_COVERAGE}")  # noqa: TRY301
    except ValueError as error:
        raise ConfigError(
            f"no interval has the coverage {given}: {error}",
            code="C210",
            fix='give an exact number, as "19/20"',
        ) from None
    return chance


def _union(
    context: Context, query: Query, union: Union, of: tuple[TableRows, Columns, int]
) -> IntervalsOfUnion:
    import numpy as np

    from topdown.documents.interval import IntervalOfAnswer, IntervalsOfUnion

    rows, columns, number = of
    shape = tuple(len(f.group_labels) for f in query.factors)
    answers = []
    for i in np.flatnonzero(rows.node == number).tolist():
        groups = np.unravel_index(rows.answer[i], shape) if shape else ()
        answers.append(
            IntervalOfAnswer(
                labels={f.name: f.group_labels[int(g)] for f, g in zip(query.factors, groups, strict=True)},
                count=int(rows.count[i]),
                estimate=int(columns.estimate[i]) / 1000,
                stddev=int(columns.stddev[i]) / 1000,
                low=int(columns.low[i]),
                high=int(columns.high[i]),
                basis="exact" if columns.exact[i] else "tree",
            )
        )
    n_leaves = int(union.leaves(context.geography).sum())
    return IntervalsOfUnion(area=union.name, n_areas=union.n_areas, n_leaves=n_leaves, answers=answers)
