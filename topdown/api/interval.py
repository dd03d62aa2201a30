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
    from topdown.publish.intervals import Ints

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
            C212 the query has none, or it does not exist.
        DataError: D063 an unknown or repeated geocode, or an area inside another of the same union.
        CertificateError: V020, V090 measurements or microdata are damaged.

    Cost: one reading of all measurements, some seconds for 50 million.
    """
    from topdown.api.release_folder import require_release
    from topdown.documents.interval import Intervals
    from topdown.measure.released import read_microdata
    from topdown.plan.document import exact_text
    from topdown.plan.prepare import load_context
    from topdown.plan.unions import read_unions
    from topdown.publish.intervals import intervals_sentence
    from topdown.publish.microdata import PERSONS
    from topdown.solve.exact import exact_tables, exact_totals
    from topdown.solve.measurements import MeasurementReader
    from topdown.solve.tree.covered import check_intervals
    from topdown.solve.tree.numbers import tree_numbers

    folder = place(release, "release")
    require_release(folder)
    context = load_context(folder)
    chance = _coverage(coverage, context.plan.coverage or USUAL)
    check_intervals(context, asked=True)
    asked = context.plan.query(query)
    unions = read_unions(place(areas, "areas"), context.geography)
    reader = MeasurementReader(folder, context)
    values = reader.exact()
    numbers = tree_numbers(context, reader, exact_totals(context, values), exact_tables(context, values))
    try:
        told = numbers.of_unions([union.members for union in unions], asked.name)
    except ValueError as error:
        raise ConfigError(
            f"there are no intervals for the query {query!r}: {error}",
            code="C212",
            fix="use a query of the plan, or its attributes by name",
        ) from None
    answers = read_microdata(folder / PERSONS, context).sparse_answers(asked)
    leaves = [union.leaves(context.geography) for union in unions]
    found = []
    for union, inside, numbers_of in zip(unions, leaves, told, strict=True):
        count = [0] * asked.n_answers
        chosen = inside[answers.node]
        for cell, n in zip(answers.cell[chosen].tolist(), answers.count[chosen].tolist(), strict=True):
            count[cell] += n
        found.append(_union(context, asked, union, count, (numbers_of, 1 - chance), int(inside.sum())))
    return Intervals(
        release=context.plan.release.id,
        plan_hash=context.plan.plan_hash,
        query=asked.name,
        coverage=exact_text(chance),
        meaning=intervals_sentence(chance),
        unions=found,
    )


def _coverage(given: str | Fraction | None, usual: Fraction) -> Fraction:
    from topdown.plan.document import exact
    from topdown.plan.make import LEAST_COVERAGE, MOST_COVERAGE

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
    context: Context,
    query: Query,
    union: Union,
    count: list[int],
    told: tuple[tuple[Ints, Ints], Fraction],
    n_leaves: int,
) -> IntervalsOfUnion:
    import numpy as np

    from topdown.documents.interval import IntervalOfAnswer, IntervalsOfUnion
    from topdown.publish.intervals import bounds, cells_of_answers, is_exact

    (estimate, stddev), tails = told
    counts = np.array(count, dtype=np.int64)
    is_open = np.zeros(context.rules.open[0].shape[1], dtype=bool)
    for at, members in zip(context.rules.open, union.members, strict=True):
        is_open |= at[members].any(axis=0)
    listed = is_open.astype(np.int64) @ cells_of_answers(context, query) > 0
    if not query.factors:
        listed[:] = True
    sure = not is_open.any() or all(
        is_exact(context.plan, query, depth) for depth, members in enumerate(union.members) if len(members)
    )
    low, high = bounds(estimate, stddev, tails, [])
    low, high = np.minimum(low, counts), np.maximum(high, counts)
    if sure:
        estimate, stddev, low, high = 1000 * counts, 0 * counts, counts, counts
    shape = tuple(len(f.group_labels) for f in query.factors)
    answers = []
    for i in np.flatnonzero(listed).tolist():
        groups = np.unravel_index(i, shape) if shape else ()
        answers.append(
            IntervalOfAnswer(
                labels={f.name: f.group_labels[int(g)] for f, g in zip(query.factors, groups, strict=True)},
                count=count[i],
                estimate=int(estimate[i]) / 1000,
                stddev=int(stddev[i]) / 1000,
                low=int(low[i]),
                high=int(high[i]),
                basis="exact" if sure else "tree",
            )
        )
    return IntervalsOfUnion(area=union.name, n_areas=union.n_areas, n_leaves=n_leaves, answers=answers)
