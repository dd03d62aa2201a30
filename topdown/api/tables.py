"""Tables for ordinary programs, made from a published release: every area, names, intervals, dictionary, codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from topdown.api.call import PathText, place, public
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from topdown.documents.tables import Tables
    from topdown.model.histogram import Histogram
    from topdown.model.query import Query
    from topdown.plan.prepare import Context
    from topdown.plan.unions import Union
    from topdown.publish.people_tables import Answered
    from topdown.solve.tree.numbers import TreeNumbers


@public
def tables(
    release: PathText,
    out: PathText,
    *,
    by: Sequence[str] = (),
    levels: Sequence[str] = (),
    areas: PathText | None = None,
    names: PathText | None = None,
    coverage: str | Fraction | None = None,
) -> Tables:
    """Write tables of a release as CSV, with a dictionary, codes and datapackage.json; costs no privacy.

    Reads the published files only, without checking them: `verify` is the check.

    Args:
        release: folder of a release.
        out: new folder.
        by: tables, such as "sex, age" (attributes and recodes); each attribute and recode by itself if empty. The
            total is always there.
        levels: those to write; all if empty, none but the list if there is a list of areas.
        areas: table with a column geocode, of any level, and area, the name of its union, if there are several.
        names: table with columns geocode and name.
        coverage: chance of intervals, exact; the plan's if None, and none where the plan asks for none.

    Raises:
        ConfigError: C088 no release, C085 `out` is not new, C132 `out` lies inside a release, C024 or C027 no such
            table, C181 no such level, C210 a coverage outside the range, C211 the plan has no intervals.
        DataError: D063, D064 a list of areas or names is wrong.
        CertificateError: V020, V090 measurements or microdata are damaged.

    Cost: with intervals one reading of all measurements, and another for each table of a list of areas.
    """
    from topdown.api.interval import coverage_of
    from topdown.api.release_folder import require_release
    from topdown.documents.tables import Tables
    from topdown.measure.released import read_open_microdata
    from topdown.outputs import refuse_release
    from topdown.plan.area_names import read_names
    from topdown.plan.document import exact_text
    from topdown.plan.prepare import load_context
    from topdown.plan.unions import read_unions
    from topdown.publish.data_package import write_package
    from topdown.publish.intervals import intervals_sentence
    from topdown.publish.microdata import PERSONS

    folder, target = place(release, "release"), place(out, "out")
    require_release(folder)
    refuse_release(target, "--out")
    _check_new(target)
    context = load_context(folder)
    plan = context.plan
    chosen = _levels(context, levels, areas is not None)
    queries = _queries(context, by)
    unions = () if areas is None else read_unions(place(areas, "areas"), context.geography)
    named = {} if names is None else read_names(place(names, "names"), context.geography)
    chance = None
    if coverage is not None or plan.coverage is not None:
        chance = coverage_of(coverage, plan.coverage or Fraction(19, 20))
    numbers = None if chance is None else numbers_of(folder, context, asked=coverage is not None)
    asked = _Asked(context, read_open_microdata(folder / PERSONS, context), numbers, chance)
    found = _of_levels(asked, queries, chosen, named) + _of_unions(asked, queries, unions)
    sheets, listed = _sheets(found)
    n_files = write_package(target, sheets, plan.schema, _about(context, chance))
    return Tables(
        release=plan.release.id,
        plan_hash=plan.plan_hash,
        out=str(target),
        coverage=None if chance is None else exact_text(chance),
        meaning="" if chance is None else intervals_sentence(chance),
        n_files=n_files,
        n_named=len(named),
        tables=listed,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    context: Context
    leaves: Histogram
    numbers: TreeNumbers | None
    chance: Fraction | None

    @property
    def sentence(self) -> str:
        from topdown.publish.intervals import intervals_sentence

        return "" if self.chance is None else intervals_sentence(self.chance)


def _of_levels(
    asked: _Asked, queries: Sequence[Query], chosen: Sequence[int], named: dict[str, str]
) -> list[Answered]:
    from topdown.names import joined
    from topdown.publish.intervals import TableRows, intervals_of, rows_of
    from topdown.publish.people_tables import Answered, SheetAreas

    if not chosen:
        return []
    context = asked.context
    levels, rows = context.geography.levels, dict[tuple[str, int], TableRows]()
    for query in queries:
        answers = asked.leaves.sparse_answers(query)
        for depth in reversed(range(len(levels))):
            rows[query.name, depth] = rows_of(context, query, depth, answers)
            if depth:
                answers = answers.aggregate(levels[depth].parent, len(levels[depth - 1]))
    intervals = {}
    if asked.numbers is not None:
        intervals = intervals_of(context, rows, asked.numbers, asked.chance)
    out = []
    for query in queries:
        for depth in chosen:
            level = levels[depth]
            names = tuple(named.get(code, "") for code in level.codes) if named else ()
            places = SheetAreas(level.name, "geocode", level.codes, names)
            at = intervals.get((query.name, depth))
            out.append(
                Answered(
                    query,
                    joined(f.name for f in query.factors) or "total",
                    context.plan.schema.unit,
                    places,
                    rows[query.name, depth],
                    at,
                    "" if at is None else asked.sentence,
                )
            )
    return out


def _of_unions(asked: _Asked, queries: Sequence[Query], unions: Sequence[Union]) -> list[Answered]:
    from topdown.names import joined
    from topdown.publish.people_tables import Answered, SheetAreas
    from topdown.publish.unions import intervals_of_unions, rows_of_unions

    out = []
    for query in queries if unions else ():
        rows, at = rows_of_unions(asked.context, query, unions, asked.leaves), None
        if asked.numbers is not None and asked.chance is not None:
            told = asked.numbers.of_unions([union.members for union in unions], query.name)
            at = intervals_of_unions(asked.context, query, unions, rows, told, asked.chance)
        out.append(
            Answered(
                query,
                joined(f.name for f in query.factors) or "total",
                asked.context.plan.schema.unit,
                SheetAreas("areas", "area", tuple(union.name for union in unions)),
                rows,
                at,
                "" if at is None else asked.sentence,
            )
        )
    return out


def _sheets(found: Sequence[Answered]) -> tuple[list[Any], list[Any]]:
    from topdown.documents.tables import TablesFile
    from topdown.publish.people_tables import long_sheet, wide_sheet

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


def _about(context: Context, chance: Fraction | None) -> dict[str, Any]:
    from topdown.publish.certificate import stamps
    from topdown.publish.intervals import intervals_sentence

    release = context.plan.release
    words = ", ".join(stamps(context.plan))
    said = [f"{words}: not for use as official statistics."] if words else []
    said += [f"Made from the published files of release {release.id}, plan {context.plan.plan_hash}."]
    said += ["They were not checked when these tables were made: topdown verify is the check."]
    said += [] if chance is None else [intervals_sentence(chance)]
    return {"name": release.id, "title": release.title, "description": " ".join(said)}


def _check_new(out: Path) -> None:
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise ConfigError(
            f"{out} exists and is not an empty folder", code="C085", fix="give --out a new folder"
        )


def _levels(context: Context, given: Sequence[str], has_areas: bool) -> list[int]:
    known = [level.name for level in context.geography.levels]
    wrong = [name for name in given if name not in known]
    if wrong:
        raise ConfigError(
            f"the release has no level {wrong[0]!r}", code="C181", fix=f"use one of: {', '.join(known)}"
        )
    if not given:
        return [] if has_areas else list(range(len(known)))
    return [i for i, name in enumerate(known) if name in given]


def _queries(context: Context, by: Sequence[str]) -> list[Query]:
    from topdown.names import refuse_same_file

    schema = context.plan.schema
    given = [" * ".join(part.strip() for part in name.replace("*", ",").split(",")) for name in by]
    alone = [n for a in schema.attributes for n in (a.name, *(r.name for r in a.recodes))]
    found: dict[tuple[str, ...], Query] = {}
    for name in ("total", *(given or alone)):
        query = context.plan.query(name)
        found.setdefault(tuple(f.name for f in query.factors), query)
    refuse_same_file([" * ".join(names) or "total" for names in found], "table")
    return list(found.values())


def numbers_of(folder: Path, context: Context, *, asked: bool) -> TreeNumbers:
    """Return what the measurements in a release say of any answer; ConfigError C211 if the plan has no such numbers."""
    from topdown.solve.exact import exact_tables, exact_totals
    from topdown.solve.measurements import MeasurementReader
    from topdown.solve.tree.covered import check_intervals
    from topdown.solve.tree.numbers import tree_numbers

    check_intervals(context, asked=asked)
    reader = MeasurementReader(folder, context)
    values = reader.exact()
    return tree_numbers(context, reader, exact_totals(context, values), exact_tables(context, values))
