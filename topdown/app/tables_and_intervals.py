"""Tables of a release for ordinary programs, and intervals for counts of any union of areas.

Both are made from a finished release alone: every area, names, intervals, dictionary and codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from topdown.app.calls import PathText, path_of, public_function, require_release
from topdown.errors import ConfigError
from topdown.file_names import refuse_same_file, table_name
from topdown.formats.accuracy_documents import (
    CutAreas,
    IntervalOfAnswer,
    Intervals,
    IntervalsOfUnion,
    SimulatedErrors,
    Tables,
    TablesFile,
)
from topdown.formats.strict_toml import exact_text
from topdown.inputs import MemoryTable
from topdown.measure.released import read_open_microdata
from topdown.output_paths import new_folder, refuse_filled
from topdown.plan.planning import LEAST_COVERAGE, MOST_COVERAGE
from topdown.plan.preparation import load_context
from topdown.plan.public_tables import read_area_names, read_unions
from topdown.practice.simulation import DEFAULT_SEED, check_replicates, open_simulation
from topdown.privacy.exact_values import threshold
from topdown.publish.release_certificate import stamps
from topdown.publish.release_tables import PERSONS
from topdown.publish.sheets import SheetAnswers, SheetAreas, long_sheet, wide_sheet, write_package
from topdown.publish.table_intervals import (
    MOST_POSSIBLE,
    TableRows,
    intervals_of,
    intervals_of_unions,
    intervals_sentence,
    possible_rows,
    rows_of,
    rows_of_unions,
)
from topdown.solve.noisy_answers import MeasurementReader
from topdown.solve.solve_stage import release_estimates
from topdown.solve.tree.coverage import check_intervals

if TYPE_CHECKING:
    from pathlib import Path

    from topdown.arrays import Floats, Ints
    from topdown.model import Histogram, Query
    from topdown.plan import PublicContext
    from topdown.plan.public_tables import AreaUnion
    from topdown.practice.simulation import Simulation
    from topdown.privacy.exact_values import Threshold
    from topdown.publish.table_intervals import Intervals as Columns
    from topdown.solve.tree import TreeEstimates


@public_function
def tables(
    release: PathText,
    out: PathText,
    *,
    by: Sequence[str] = (),
    levels: Sequence[str] = (),
    areas: PathText | None = None,
    names: PathText | None = None,
    coverage: Threshold | None = None,
    all_cells: bool = False,
) -> Tables:
    """Write tables of a release as CSV, with a dictionary, codes and datapackage.json; costs no privacy.

    Reads the published files only, without checking them: `verify` is the check.

    Args:
        release: folder of a release.
        out: new folder.
        by: tables, such as "sex, age" (attributes and recodes); each attribute and recode by itself if empty. The
            total is always there.
        levels: those to write; all if empty, none but the list if there is a list of areas.
        areas: table with a column geocode, of any level; area, the name of its union, if there are several; level, if
            one code is used at two levels.
        names: table geocode, name; or the table of leaves, with a column of codes and one of names for any level.
        coverage: chance of intervals, exact; the plan's if None, and none where the plan asks for none.
        all_cells: tables too large to list zeros list every answer whose interval does not reach from 0 to 0, instead
            of those above 0.

    Raises:
        ConfigError: C088 no release, C085 `out` is not new, C132 `out` lies inside a release, C024 or C027 no such
            table, C181 no such level, C210 a coverage outside the range, C211 the plan has no intervals, C310
            `all_cells` without intervals, C311 more answers than can be listed.
        DataError: D063, D064 a list of areas or names is wrong.
        CertificateError: V020, V090 measurements or microdata are damaged.

    Cost: with intervals one reading of all measurements, and another for each table of a list of areas.
    """
    folder, target = path_of(release, "release"), path_of(out, "out")
    require_release(folder)
    refuse_filled(target)
    context = load_context(folder)
    plan = context.plan
    chosen = _chosen_levels(context, levels, areas is not None)
    queries = _chosen_queries(context, by)
    unions = () if areas is None else read_unions(path_of(areas, "areas"), context.geography)
    named = {} if names is None else read_area_names(path_of(names, "names"), context.geography)
    chance = None
    if coverage is not None or plan.coverage is not None:
        chance = coverage_of(coverage, plan.coverage or Fraction(19, 20))
    if all_cells and chance is None:
        raise ConfigError(
            "all cells are told from their intervals, and this release has none",
            code="C310",
            fix="give a coverage, as --coverage 19/20, or leave --all-cells out",
        )
    numbers = None if chance is None else numbers_of(folder, context, asked=coverage is not None)
    asked = _TablesRequest(
        context, read_open_microdata(folder / PERSONS, context), numbers, chance, all_cells
    )
    found = _answers_of_levels(asked, queries, chosen, named) + _answers_of_unions(asked, queries, unions)
    sheets, listed = _write_sheets(found)
    with new_folder(target) as unfinished:
        n_files = write_package(unfinished, sheets, plan.schema, _about_release(context, chance))
    return Tables(
        release=plan.release.id,
        plan_hash=plan.plan_hash,
        out=str(target),
        coverage=None if chance is None else exact_text(chance),
        meaning="" if chance is None else intervals_sentence(chance),
        n_files=n_files,
        n_named=len(named),
        unnamed={
            level.name: n
            for level in context.geography.levels
            if named and (n := len(level) - sum(code in named for code in level.codes))
        },
        tables=listed,
    )


@dataclass(frozen=True, eq=False)
class _TablesRequest:
    context: PublicContext
    leaves: Histogram
    numbers: TreeEstimates | None
    chance: Fraction | None
    all_cells: bool = False

    def answers(
        self, query: Query, places: SheetAreas, rows: TableRows, intervals: Columns | None
    ) -> SheetAnswers:
        """Return what the sheets of a table are made from."""
        name = table_name(" * ".join(f.name for f in query.factors)) or "total"
        sentence = "" if intervals is None or self.chance is None else intervals_sentence(self.chance)
        return SheetAnswers(query, name, self.context.plan.schema.record, places, rows, intervals, sentence)


def _answers_of_levels(
    asked: _TablesRequest, queries: Sequence[Query], chosen: Sequence[int], named: dict[str, str]
) -> list[SheetAnswers]:
    if not chosen:
        return []
    context = asked.context
    levels, rows = context.geography.levels, dict[tuple[str, int], TableRows]()
    for query in queries:
        answers = asked.leaves.sparse_answers(query)
        for depth in reversed(range(len(levels))):
            possible = MOST_POSSIBLE if asked.all_cells else 0
            rows[query.name, depth] = rows_of(context, query, depth, answers, possible=possible)
            if asked.all_cells and rows[query.name, depth].listed == "nonzero":
                raise ConfigError(
                    f"{query.name} at level {levels[depth].name} has more than {possible:,} possible answers",
                    code="C311",
                    fix="choose levels and tables with --level and --by, or leave --all-cells out",
                )
            if depth:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))
    intervals = {}
    if asked.numbers is not None:
        intervals = intervals_of(context, rows, asked.numbers, asked.chance)
    for place in list(intervals):
        if rows[place].listed == "possible":
            rows[place], intervals[place] = possible_rows(rows[place], intervals[place])
    out = []
    for query in queries:
        for depth in chosen:
            level = levels[depth]
            names = tuple(named.get(code, "") for code in level.codes) if named else ()
            places = SheetAreas(level.name, "geocode", level.codes, names)
            at = query.name, depth
            out.append(asked.answers(query, places, rows[at], intervals.get(at)))
    return out


def _answers_of_unions(
    asked: _TablesRequest, queries: Sequence[Query], unions: Sequence[AreaUnion]
) -> list[SheetAnswers]:
    out = []
    for query in queries if unions else ():
        rows, at = rows_of_unions(asked.context, query, unions, asked.leaves), None
        if asked.numbers is not None and asked.chance is not None:
            told = asked.numbers.of_unions([union.members for union in unions], query.name)
            at = intervals_of_unions(asked.context, query, unions, rows, told, asked.chance)
        places = SheetAreas("areas", "area", tuple(union.name for union in unions))
        out.append(asked.answers(query, places, rows, at))
    return out


def _write_sheets(found: Sequence[SheetAnswers]) -> tuple[list[Any], list[Any]]:
    sheets, listed = [], []
    for of in found:
        for sheet, wide in ((long_sheet(of), False), (wide_sheet(of), True)):
            if sheet is None:
                continue
            sheets.append(sheet)
            listed.append(
                TablesFile(
                    query=of.query.name,
                    level=of.places.kind,
                    path=sheet.path,
                    wide=wide,
                    intervals=of.intervals is not None,
                    n_rows=len(sheet.values[0]),
                )
            )
    return sheets, listed


def _about_release(context: PublicContext, chance: Fraction | None) -> dict[str, Any]:
    release = context.plan.release
    words = ", ".join(stamps(context.plan))
    said = [f"{words}: not for use as official statistics."] if words else []
    said += [f"Made from the published files of release {release.id}, plan {context.plan.plan_hash}."]
    said += ["They were not checked when these tables were made: topdown verify is the check."]
    said += [] if chance is None else [intervals_sentence(chance)]
    return {"name": release.id, "title": release.title, "description": " ".join(said)}


def _chosen_levels(context: PublicContext, given: Sequence[str], has_areas: bool) -> list[int]:
    known = [level.name for level in context.geography.levels]
    wrong = [name for name in given if name not in known]
    if wrong:
        raise ConfigError(
            f"the release has no level {wrong[0]!r}", code="C181", fix=f"use one of: {', '.join(known)}"
        )
    if not given:
        return [] if has_areas else list(range(len(known)))
    return [i for i, name in enumerate(known) if name in given]


def _chosen_queries(context: PublicContext, by: Sequence[str]) -> list[Query]:
    schema = context.plan.schema
    given = [" * ".join(part.strip() for part in name.replace("*", ",").split(",")) for name in by]
    alone = [n for a in schema.attributes for n in (a.name, *(r.name for r in a.recodes))]
    found: dict[tuple[str, ...], Query] = {}
    for name in ("total", *(given or alone)):
        query = context.plan.query(name)
        found.setdefault(tuple(f.name for f in query.factors), query)
    refuse_same_file([" * ".join(names) or "total" for names in found], "table")
    return list(found.values())


def numbers_of(folder: Path, context: PublicContext, *, asked: bool) -> TreeEstimates:
    """Return what the measurements in a release say of any answer; ConfigError C211 if the plan has no such numbers."""
    check_intervals(context, asked=asked)
    return release_estimates(folder, context)


def noisy_answers_of(folder: Path, context: PublicContext, query: str, depth: int) -> tuple[Ints, Ints, Ints]:
    """Return area, answer and noisy value of every answer of a query that a level measures, int64 each.

    Raises: CertificateError V020 measurements are damaged.
    """
    measured, n_areas = context.plan.levels[depth].measurements, len(context.geography.levels[depth])
    place = [m.query for m in measured].index(query)
    first, n = sum(m.n_answers for m in measured[:place]), measured[place].n_answers
    nodes, values = MeasurementReader(folder, context).answers(depth, 0, n_areas)
    answer = np.tile(np.arange(n, dtype=np.int64), len(nodes))
    return np.repeat(nodes, n), answer, values[:, first : first + n].reshape(-1).astype(np.int64)


USUAL_COVERAGE = Fraction(19, 20)


@public_function
def interval(
    release: PathText,
    areas: PathText | MemoryTable,
    query: str,
    *,
    coverage: Threshold | None = None,
    replicates: int = 0,
    workers: int = 1,
) -> Intervals:
    """Return the released count of every answer over unions of areas, with its interval.

    Two intervals are not independent, so those of sums do not follow from the tables; these are made anew from all
    measurements. Reads measurements, public facts and microdata; costs no privacy.

    The interval holds for the count of the records whatever they are; a released count is often nearer than its width
    says. `replicates` simulates the plan with the released records taken for true, and gives the root mean square error
    that released counts had there: an expectation for records like the released ones, not a guarantee.

    Args:
        release: folder of a release.
        areas: table with a column geocode, of any level, and area, the name of its union, if there are several.
        query: such as "total" or "hispanic * cenrace".
        coverage: chance, exact, from 1/2 to 9999/10000; the plan's, or 19/20, if None.
        replicates: simulated releases for expected errors; 0 for none. workers: of the simulation, 1 or more.

    Raises:
        ConfigError: C088 the folder is no release, C210 a coverage outside the range, C211 the plan has no intervals,
            C024, C027 there is no such query, C005 fewer than 0 replicates or 1 worker, C121 the release to simulate
            does not pass its verification.
        DataError: D063 an unknown or repeated geocode, or an area inside another of the same union.
        CertificateError: V020, V090 measurements or microdata are damaged.

    Cost: one reading of all measurements, some seconds for 50 million; with replicates a verification, and a solve
    for each.
    """
    folder = path_of(release, "release")
    require_release(folder)
    if replicates:
        check_replicates(replicates, workers)
    context = load_context(folder)
    chance = coverage_of(coverage, context.plan.coverage or USUAL_COVERAGE)
    check_intervals(context, asked=True)
    asked = context.plan.query(query)
    listed = areas if isinstance(areas, MemoryTable) else path_of(areas, "areas")
    unions = read_unions(listed, context.geography)
    numbers = release_estimates(folder, context)
    whole = [union.along_whole_areas(context.geography) for union in unions]
    told = numbers.of_unions([union.members for union in (*unions, *(at for _, at in whole))], asked.name)
    leaves = read_open_microdata(folder / PERSONS, context)
    rows = rows_of_unions(context, asked, unions, leaves)
    columns = intervals_of_unions(context, asked, unions, rows, told[: len(unions)], chance)
    errors = None
    if replicates:
        simulation = open_simulation(context, folder)
        errors = _expected_errors(simulation, asked, unions, replicates, workers)
    answers, found = _intervals_of_rows(asked, rows, columns, errors), []
    for i, union in enumerate(unions):
        here = np.flatnonzero(rows.node == i)
        cut = _cut_areas(context, whole[i], told[i][1], told[len(unions) + i][1], rows.answer[here])
        found.append(
            IntervalsOfUnion(
                area=union.name,
                n_areas=union.n_areas,
                n_leaves=int(union.leaves(context.geography).sum()),
                cut=cut,
                answers=[answers[at] for at in here.tolist()],
            )
        )
    return Intervals(
        release=context.plan.release.id,
        plan_hash=context.plan.plan_hash,
        query=asked.name,
        coverage=exact_text(chance),
        meaning=intervals_sentence(chance),
        simulated=SimulatedErrors(replicates=replicates, seed=DEFAULT_SEED) if replicates else None,
        unions=found,
    )


def _expected_errors(
    simulation: Simulation, query: Query, unions: Sequence[AreaUnion], replicates: int, workers: int
) -> Floats:
    """Return the root mean square error of released counts over replicates, by row of `rows_of_unions`."""
    context = simulation.context
    true = rows_of_unions(context, query, unions, simulation.truth[-1]).count
    squares = np.zeros(len(true), dtype=np.int64)
    for replicate in simulation.run(replicates, workers=workers):
        squares += (rows_of_unions(context, query, unions, replicate.leaves).count - true) ** 2
    return np.sqrt(squares / replicates)


def _cut_areas(
    context: PublicContext, whole: tuple[int, AreaUnion], stddev: Ints, of_whole: Ints, answers: Ints
) -> CutAreas | None:
    n_cut, union = whole
    if not n_cut or not len(answers):
        return None
    return CutAreas(
        level=context.geography.level_names[-2],
        n_cut=n_cut,
        mean_stddev=round(float(stddev[answers].mean()) / 1000, 3),
        mean_stddev_whole=round(float(of_whole[answers].mean()) / 1000, 3) if union.n_areas else None,
    )


def coverage_of(given: Threshold | None, usual: Fraction) -> Fraction:
    """Return a chance that was asked for, or the usual one; ConfigError C210 outside the range."""
    try:
        chance = usual if given is None else threshold(given, "coverage")
    except ConfigError as error:
        text = f"no interval has the coverage {given}: {error.text}"
        raise ConfigError(text, code="C210", fix=error.fix) from None
    if not LEAST_COVERAGE <= chance <= MOST_COVERAGE:
        raise ConfigError(
            f"no interval has the coverage {given}: it is not between {LEAST_COVERAGE} and {MOST_COVERAGE}",
            code="C210",
            fix='write "19/20" or "95 %"',
        )
    return chance


def _intervals_of_rows(
    query: Query, rows: TableRows, columns: Columns, errors: Floats | None
) -> list[IntervalOfAnswer]:
    shape = tuple(len(f.group_labels) for f in query.factors)
    answers = []
    for i in range(len(rows.answer)):
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
                expected_error=None if errors is None else round(float(errors[i]), 3),
            )
        )
    return answers
