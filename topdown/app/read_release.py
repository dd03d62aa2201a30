"""Read a finished release: tables and records as data frames or Arrow tables, estimates, a report for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topdown.app.calls import PathText, checked_language, path_of, public_function, require_finished
from topdown.app.tables_and_intervals import interval, noisy_answers_of, numbers_of
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.formats.caps import read_json, read_plain
from topdown.formats.choice_page import choice_documents, choice_html
from topdown.formats.command_documents import ReportChecked, ReportWritten
from topdown.formats.report_parts import LANGUAGES, BarWithInterval, Outlines, Write, interval_picture
from topdown.inputs import MemoryTable
from topdown.inputs.boundaries import read_outlines
from topdown.measure.released import read_open_microdata
from topdown.model.sections import part_path
from topdown.notebook import Chart, card
from topdown.output_paths import write_new
from topdown.plan.plan_values import read_plan
from topdown.plan.preparation import load_context
from topdown.publish import report_bytes
from topdown.publish.release_tables import PERSONS, table_path, workload
from topdown.publish.report_figures import map_depth, written
from topdown.publish.table_intervals import is_exact
from topdown.verify import check_report_file, is_choice
from topdown.verify.check_report import first_difference, rounded

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from topdown.model import Query
    from topdown.plan import Plan, PublicContext
    from topdown.privacy.exact_values import Threshold


MOST_BARS = 40
_NUMBERS = {
    "level",
    "count",
    "estimate",
    "stddev",
    "low",
    "high",
    "basis",
}  # columns of a table that name no answer


@dataclass(unsafe_hash=True)
class Release:
    """A finished release, open for reading. Nothing is checked but that it is finished: `topdown.verify` is the check.

    >>> import topdown
    >>> release = topdown.Release("release")
    >>> release.levels
    ('land', 'county', 'block')
    >>> int(release.table("sex", "land")["count"].sum()) == int(release.microdata()["count"].sum())
    True

    Args:
        path: its folder.

    Raises:
        ConfigError: C088 the folder is no finished release, C122 it holds a simulation.
    """

    path: Final[Path]

    def __init__(self, path: PathText) -> None:
        folder = path_of(path, "path")
        require_finished(folder)
        self.path = folder

    @cached_property
    def plan(self) -> Plan:
        """What was measured: levels, queries, laws of noise, budget.

        Raises: ConfigError C016 plan.json is damaged.
        """
        return read_plan(self.path / "plan.json")

    @cached_property
    def certificate(self) -> dict[str, Any]:
        """What is stated of the release, certificate.json; docs/format.md describes it.

        Raises: CertificateError V090 it is damaged.
        """
        return self.document("certificate.json")

    def document(self, name: str) -> dict[str, Any]:
        """Return a JSON document of the release by its file name, such as solve.json; docs/format.md describes them.

        Raises:
            CertificateError: V090 it is missing or damaged.
        """
        path = self.path / name
        try:
            return dict(read_json(path))
        except (OSError, ValueError, TypeError) as error:
            raise _damaged_release(path, type(error).__name__) from None

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, root first."""
        return tuple(level.name for level in self.plan.levels)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the queries that have a table at every level."""
        return tuple(query.name for query in workload(self.plan))

    def table(self, query: str, level: str) -> pd.DataFrame:
        """Return the table of a query at a level: one of `tables`, or any other, counted from the microdata.

        Args:
            query: "total", or attributes and recodes joined by " * ".
            level: one of `levels`.

        Returns:
            level, geocode, one column of labels an attribute, count (int64, 1 or more; the total of every area, 0 too);
            in `tables` with intervals also estimate, stddev, low, high and basis.

        Raises:
            ConfigError: C181 there is no such level, C024, C027 no such query.
            CertificateError: V090 a file is missing or damaged.
        """
        return self.arrow(query, level).to_pandas()

    def arrow(self, query: str, level: str) -> pa.Table:
        """Return the table of a query at a level as an Arrow table; arguments and errors as `table`."""
        _named_one_of("level", level, self.levels)
        if query in self.tables:
            return self._read(table_path(self.plan.query(query), level))
        context = load_context(self.path)
        asked, depth = context.plan.query(query), context.geography.index(level)
        counts = read_open_microdata(self.path / PERSONS, context).at_every_level(context.geography)[depth]
        answers = counts.answers(asked)
        node, answer = (
            np.nonzero(answers) if asked.factors else (np.arange(len(answers)), np.zeros(len(answers), int))
        )
        return _labelled(context, asked, depth, (node, answer), {"count": answers[node, answer]}).add_column(
            0, "level", pa.array([level] * len(node), pa.string())
        )

    def measurements(self, query: str, level: str) -> pd.DataFrame:
        """Return the noisy answers of a query at a level, as they were measured: whole numbers, negative ones too.

        Args:
            query: measured at the level. level: one of `levels`.

        Returns: geocode, one column of labels an attribute, noisy (int64). The noise is that of `plan`: its law,
            parameter and variance.

        Raises:
            ConfigError: C181 there is no such level, or it does not measure the query, C091 an extension.
            CertificateError: V020 measurements are damaged.

        Cost: one reading of the level's measurements.
        """
        _named_one_of("level", level, self.levels)
        measured = tuple(m.query for m in self.plan.level(level).measurements)
        _named_one_of(f"measurement at level {level}", query, measured)
        context = load_context(self.path)
        if context.support is not None:
            raise ConfigError(
                "answers of an extension are listed by what its base leaves open",
                code="C091",
                fix="read its measurement files: docs/format.md",
            )
        depth = context.geography.index(level)
        node, answer, noisy = noisy_answers_of(self.path, context, query, depth)
        return _labelled(
            context, context.plan.query(query), depth, (node, answer), {"noisy": noisy}
        ).to_pandas()

    def interval(
        self, areas: Mapping[str, Sequence[str]] | PathText, query: str, *, coverage: Threshold | None = None
    ) -> pd.DataFrame:
        """Return the count of every answer over unions of areas, with its interval; see `topdown interval`.

        Args:
            areas: geocodes of any level by the name of their union; or a table geocode, area as a file.
            query: such as "sex * age". coverage: chance, 1/2 to 9999/10000; the plan's, or 0.95.

        Returns: area, one column of labels an attribute, count, estimate, stddev, low, high, in records.

        Raises:
            ConfigError: C210 the coverage, C211 the plan has no intervals, C024 no such query.
            DataError: D063 an unknown or repeated geocode. CertificateError: V020, V090 a file is damaged.
        """
        if isinstance(areas, Mapping):
            rows = [(code, name) for name, codes in areas.items() for code in codes]
            table = pa.table({"geocode": [r[0] for r in rows], "area": [r[1] for r in rows]})
            found = interval(self.path, MemoryTable(table, "areas"), query, coverage=coverage)
        else:
            found = interval(self.path, areas, query, coverage=coverage)
        listed = [
            {"area": union.area} | answer.labels | {name: getattr(answer, name) for name in _INTERVAL}
            for union in found.unions
            for answer in union.answers
        ]
        return pa.Table.from_pylist(listed).to_pandas()

    def estimates(self, query: str, level: str) -> EstimatedTable:
        """Return the fractional estimates of a table and their standard deviations, made from all measurements.

        Args:
            query: one of `tables`, or attributes and recodes joined by " * ".
            level: one of `levels`.

        Returns:
            arrays of shape (areas, answers), with geocodes and labels.

        Raises:
            ConfigError: C181 there is no such level, C024 no such query, C211 the plan has no estimate of the
                whole tree.
            CertificateError: V020 measurements are damaged.

        Cost: one reading of all measurements, some seconds for 50 million; 48 bytes an area and answer.
        """
        _named_one_of("level", level, self.levels)
        context = load_context(self.path)
        asked, depth = context.plan.query(query), context.geography.index(level)
        areas = context.geography.levels[depth]
        shape, exact = (len(areas), asked.n_answers), is_exact(context.plan, asked, depth)
        numbers = numbers_of(self.path, context, asked=True)
        if exact:
            counts = read_open_microdata(self.path / PERSONS, context)
            for up in range(len(context.geography.levels) - 1, depth, -1):
                here = context.geography.levels
                counts = counts.aggregate(here[up].parent, len(here[up - 1]))
            found = 1000 * counts.answers(asked).reshape(-1), np.zeros(shape[0] * shape[1], dtype=np.int64)
        else:
            node, answer = (at.reshape(-1) for at in np.indices(shape, dtype=np.int64))
            found = numbers.at({(asked.name, depth): (node, answer)})[asked.name, depth]
        return EstimatedTable(
            asked.name,
            level,
            tuple(areas.codes),
            tuple(factor.name for factor in asked.factors),
            tuple(product(*(factor.group_labels for factor in asked.factors))),
            found[0].reshape(shape) / 1000,
            found[1].reshape(shape) / 1000,
            exact,
        )

    def plot(
        self, query: str, level: str, *, areas: Sequence[str] | None = None, most: int = MOST_BARS
    ) -> Chart:
        """Draw the table of a query at a level: a bar for each count, a line over it for its interval if it has one.

        >>> import topdown
        >>> topdown.Release("release").plot("sex", "county", most=6)
        Chart('sex at county, 2 of 2 counts')

        Args:
            query, level: as `table`.
            areas: geocodes; all of the level if None.
            most: counts that are drawn at most, the first ones, 1 or more.

        Returns: a picture that a notebook shows; its `save(path)` writes it as SVG. It is drawn without a library.

        Raises:
            ConfigError: as `table`, C005 nothing is left to be drawn. CertificateError: V090.
        """
        table = self.arrow(query, level)
        if areas is not None:
            table = table.filter(
                pa.array([code in areas for code in table["geocode"].to_pylist()], pa.bool_())
            )
        rows = table.slice(0, max(most, 0)).to_pylist()
        if not rows:
            raise ConfigError(
                "there is no count to draw", code="C005", fix="give areas of the level, and most of 1 or more"
            )
        labels = [name for name in table.column_names if name not in _NUMBERS]
        bars = [
            BarWithInterval(
                ", ".join(str(row[name]) for name in labels if row[name] is not None),
                float(row["count"]),
                None if row.get("low") is None else (float(row["low"]), float(row["high"])),
                f"{row['count']:,}"
                + ("" if row.get("low") is None else f" ({row['low']:,} to {row['high']:,})"),
            )
            for row in rows
        ]
        title = f"{query} at {level}, {len(rows):,} of {table.num_rows:,} counts"
        return Chart(interval_picture(bars, title, f"Counts of release {self.plan.release.id}."), title)

    def microdata(self) -> pd.DataFrame:
        """Return the records: geocode, one column of labels an attribute, count (int64, 1 or more).

        Raises:
            CertificateError: V090 the file is missing or damaged.

        Cost: memory for one row a leaf and cell that holds records.
        """
        return self._read("microdata/persons.parquet").to_pandas()

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        path = self.path / "manifest.json"
        try:
            return {str(file["path"]): file for file in read_json(path)["files"]}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise _damaged_release(path, type(error).__name__) from None

    def __repr__(self) -> str:
        return f"Release({str(self.path)!r})"

    def _repr_html_(self) -> str:
        try:
            plan, note = self.plan, "Opened without a check: topdown.verify is the check."
            rows = [
                ("title", plan.release.title),
                ("levels", ", ".join(self.levels)),
                ("tables", ", ".join(self.tables)),
                (plan.loss_name, plan.loss),
            ]
            return card(f"Release {plan.release.id} in {self.path}", rows, note=note)
        except TopdownError as error:
            return card(f"Release in {self.path}", [(error.code, error)])

    def _read(self, name: str) -> pa.Table:
        tables = []
        parts: list[str] = []
        while name not in self._manifest and (part := part_path(name, len(parts))) in self._manifest:
            parts.append(part)
        for path in [self.path / path for path in parts or [name]]:
            try:
                if not path.is_file():
                    raise FileNotFoundError(path.name)
                with pq.ParquetFile(path, pre_buffer=False) as file:
                    tables.append(file.read(use_threads=False))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise _damaged_release(path, type(error).__name__) from None
        return pa.concat_tables(tables)


def _named_one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(
            f"the release has no {what} {name!r}", code="C181", fix=f"use one of: {', '.join(known)}"
        )


def _damaged_release(path: Path, why: str) -> CertificateError:
    return CertificateError(
        f"{path} cannot be read ({why})",
        code="V090",
        file=str(path),
        fix="run topdown verify on the release; get it again if a check fails",
    )


@dataclass(frozen=True, eq=False)
class EstimatedTable:
    """Estimates of the answers of a query at the areas of a level, before anything is made whole or nonnegative.

    An estimate is unbiased; `stddev` is that of its noise. Estimates of one release are not independent: the deviation
    of a sum does not follow from those of its parts (`topdown interval` makes it).

    Args:
        query, level: whose table it is.
        geocodes: of the areas, one a row.
        attributes: of the query, and recodes. labels: of each answer, in their order, one a column.
        estimate, stddev: float64 (n_areas, n_answers), in records, to thousandths; deviations are rounded up.
        exact: whether the whole table is exact by policy; then `estimate` holds the counts, and deviations are 0. They
            are 0 too where public facts leave nobody.
    """

    query: str
    level: str
    geocodes: tuple[str, ...]
    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    estimate: NDArray[np.float64]
    stddev: NDArray[np.float64]
    exact: bool

    def __repr__(self) -> str:
        n, k = self.estimate.shape
        return f"EstimatedTable({self.query!r} at {self.level!r}, areas x answers {n:,} x {k:,})"

    def _repr_html_(self) -> str:
        rows = [
            (code, ", ".join(labels), f"{x:.1f}", f"{s:.1f}")
            for code, xs, sds in zip(self.geocodes[:2], self.estimate[:2], self.stddev[:2], strict=True)
            for labels, x, s in zip(self.labels[:10], xs[:10], sds[:10], strict=True)
        ]
        head = ("area", "answer", "estimate", "standard deviation")
        return card(repr(self), rows, head=head, note="The first areas and answers.")


_INTERVAL = ("count", "estimate", "stddev", "low", "high")


def _labelled(
    context: PublicContext, query: Query, depth: int, rows: tuple[Any, Any], numbers: dict[str, Any]
) -> pa.Table:
    """Return geocodes and labels of (area, answer) beside numbers."""
    node, answer = rows
    codes = context.geography.levels[depth].codes
    shape = tuple(len(factor.group_labels) for factor in query.factors)
    groups = np.unravel_index(answer, shape) if shape else ()
    columns: dict[str, Any] = {"geocode": [codes[int(i)] for i in node]}
    columns |= {
        factor.name: [factor.group_labels[int(g)] for g in group]
        for factor, group in zip(query.factors, groups, strict=True)
    }
    return pa.table(columns | numbers)


@public_function
def write_report(
    release: PathText,
    out: PathText,
    *,
    language: str = "en",
    force: bool = False,
    boundaries: PathText | None = None,
    boundary_key: str = "id",
) -> ReportWritten:
    """Write a report of a release for people: one HTML file without scripts, made from published files alone.

    Args:
        release: folder of a finished release, or of a choice; verify it first. Equal ones have equal reports.
        out: file to write, outside the release.
        language: one of `LANGUAGES`.
        force: replace a file that is there.
        boundaries: public outlines of the areas of the map, GeoJSON or TopoJSON; without them it is drawn in tiles.
        boundary_key: the property of an outline that holds the geocode of its area.

    Raises:
        ConfigError: C088 the folder is no finished release, C005 no such language, or `out` is there; D150 no outlines
            can be read, D151 areas have none, D152 there is no map to draw them on.
        CertificateError: V090 a file of the release is missing or damaged.
    """
    place = path_of(release, "release")
    if is_choice(place):
        _without_map(place, boundaries)
        return write_page(
            partial(choice_html, _choice_of(place)), _page_of_choice(place), out, language, force=force
        )
    target, source = path_of(out, "out"), Release(release)
    checked_language(language)
    outlines = _outlines(source.path, boundaries, boundary_key)
    try:
        data = report_bytes(source.path, load_context(source.path), language, outlines)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _damaged_release(source.path, type(error).__name__) from None
    return _saved(data, (source.plan.release.id, source.plan.plan_hash), target, language, force=force)


def _outlines(release: Path, boundaries: PathText | None, key: str) -> Outlines | None:
    if boundaries is None:
        return None
    context = load_context(release)
    depth = map_depth(context.geography)
    if context.plan.coverage is None or not depth:
        _without_map(release, boundaries)
    return read_outlines(path_of(boundaries, "boundaries"), key, context.geography.levels[depth].codes)


def _without_map(release: Path, boundaries: PathText | None) -> None:
    if boundaries is not None:
        raise ConfigError(
            f"the report of {release} has no map",
            code="D152",
            file=str(release),
            fix="leave out the boundaries; a release has a map if it has intervals and a level of 2 to 400 areas",
        )


@public_function
def check_report(
    release: PathText, path: PathText, *, boundaries: PathText | None = None, boundary_key: str = "id"
) -> ReportChecked:
    """Compare a report with a release: verify makes it anew, with figures and roundings of its own.

    Args:
        release: folder of a finished release.
        path: the report.
        boundaries, boundary_key: those it was made with, see `write_report`.

    Raises:
        ConfigError: C088 the folder is no finished release, C001 there is no such file; D150 to D152 as `write_report`.
        CertificateError: V090 a file of the release is missing or damaged.
    """
    place = path_of(release, "release")
    if is_choice(place):
        _without_map(place, boundaries)
        return check_page(partial(choice_html, _choice_of(place)), _page_of_choice(place), path)
    file, source = path_of(path, "path"), Release(release)
    data = _report_in(file)
    outlines = _outlines(source.path, boundaries, boundary_key)
    found = check_report_file(source.path, data, str(file), outlines)
    language = next((one for one in LANGUAGES if f'<html lang="{one}">'.encode() in data), None)
    return ReportChecked(
        ok=found.ok,
        release=source.plan.release.id,
        language=language if found.ok else None,
        n_numbers=found.n_checked,
        findings=[f"{one.text}; due: {one.expected}; found: {one.found}" for one in found.findings],
    )


Page = Callable[[str, Write], str]
"""Makes a report in a language with what writes its numbers."""


def write_page(
    page: Page, of: tuple[str, str], out: PathText, language: str, *, force: bool
) -> ReportWritten:
    """Write the report of a choice, or of group sizes, of this name and plan hash.

    Raises:
        ConfigError: C005 no such language, or `out` is there.
    """
    checked_language(language)
    return _saved(page(language, written).encode(), of, path_of(out, "out"), language, force=force)


def _saved(data: bytes, of: tuple[str, str], target: Path, language: str, *, force: bool) -> ReportWritten:
    write_new(target, data, force=force)
    return ReportWritten(
        release=of[0],
        plan_hash=of[1],
        out=str(target),
        language=language,
        n_bytes=len(data),
        n_numbers=data.count(b"<data "),
    )


def check_page(page: Page, of: tuple[str, str], path: PathText) -> ReportChecked:
    """Compare the report of a choice, or of group sizes, with one made anew, rounded by code of verify's own.

    Raises:
        ConfigError: C001 there is no such file.
    """
    file = path_of(path, "path")
    data, findings = _report_in(file), []
    same = next((one for one in LANGUAGES if page(one, rounded).encode() == data), None)
    if same is None:
        places = {one: first_difference(page(one, rounded).encode(), data) for one in LANGUAGES}
        line = data[: max(places.values())].count(b"\n") + 1
        findings = [f"{file}, line {line}: the report is not what the files of the release say"]
    return ReportChecked(
        ok=same is not None, release=of[0], language=same, n_numbers=data.count(b"<data "), findings=findings
    )


def _report_in(file: Path) -> bytes:
    try:
        return read_plain(file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} cannot be read",
            code="C001",
            file=str(file),
            fix="give the report that topdown report wrote",
        ) from error


def _choice_of(place: Path) -> dict[str, Any]:
    """Return what the page of a choice is made from; CertificateError V090 if a file is missing or damaged."""
    try:
        data = (place / "certificate.json").read_bytes()
        question, result = read_json(place / "selection.json"), read_json(place / "result.json")
        return choice_documents(
            read_json(place / "certificate.json"), question, result, sha256(data).hexdigest()
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _damaged_release(place, type(error).__name__) from None


def _page_of_choice(place: Path) -> tuple[str, str]:
    """Return name and plan hash of a choice."""
    stated = _choice_of(place)["certificate.json"]
    return f"{stated['data_set']}-choice-{stated['plan_hash'][:8]}", stated["plan_hash"]
