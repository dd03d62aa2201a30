"""A release of group sizes for catalogues and people: what exports ask, and a report, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pgsr.formats import CERTIFICATE, COUNTS
from pgsr.group_checks import is_simulation
from pgsr.group_files import TITLE
from pgsr.released_groups import ReleasedFiles, load_files, read_certificate
from topdown.app.calls import PathText, path_of
from topdown.app.read_release import check_page, write_page
from topdown.app.release_exports import COMPOSED, EXPORTS, NOISE, Facts, first_epsilon
from topdown.errors import ConfigError, DataError
from topdown.file_names import file_sha256
from topdown.formats.command_documents import ReportChecked, ReportWritten
from topdown.formats.report_pages import everything_released
from topdown.formats.report_parts import (
    Content,
    Shell,
    Write,
    bar_picture,
    picture,
    pointer_key,
    share_of,
    table,
    whole_page,
    words_of,
)
from topdown.verify.strict_reader import UnreadableError

PARQUET = "application/vnd.apache.parquet"


def export_groups(folder: PathText, to: str) -> str:
    """Return the text of a release of group sizes for a catalogue; the same each time.

    Args:
        folder: a release. to: one of `EXPORTS`.

    Raises:
        ConfigError: C122 a simulation.
        DataError: D137 no release, D140 its certificate is damaged.
    """
    place = path_of(folder, "folder")
    return EXPORTS[to](facts_of_groups(place, certificate_of(place)))


def certificate_of(place: Path) -> dict[str, Any]:
    """Return the certificate of a release; see `export_groups` for what is refused."""
    if not (place / CERTIFICATE).is_file():
        raise DataError(f"{place} has no {CERTIFICATE}", code="D137", fix="give the folder of a pgsr release")
    if is_simulation(place):
        raise ConfigError(f"{place} holds a simulation", code="C122", fix="give a release")
    try:
        return read_certificate(place)
    except UnreadableError as error:
        raise DataError(
            f"{place}: {error}", code="D140", fix="see what pgsr verify finds; get the release again"
        ) from None


def facts_of_groups(place: Path, stated: dict[str, Any]) -> Facts:
    """Return what catalogues ask of a release, as far as its certificate says it."""
    privacy, sizes, names = stated["privacy"], stated["sizes"], stated.get("names", {})
    levels, largest = stated["levels"], sizes["smallest"] + sizes["n_sizes"] - 1
    more = " or more" if sizes["too_large"] == "top-code" else ""
    rows = privacy["secrets"]
    covered = stated["coverage"][-1]
    widths = ", ".join(f"{level['name']} {level['half_widths'][-1]}" for level in levels)
    consistent = stated["mechanism"]["consistent"]
    return Facts(
        kind="release of group sizes",
        id=f"group-sizes-{stated['plan_hash'][:8]}",
        title=names.get("title") or TITLE,
        agency=names.get("agency", ""),
        contact=names.get("contact", ""),
        licence=names.get("licence", ""),
        data_set=stated["everything_released"]["data_set"],
        date=stated["everything_released"]["up_to"]["date"],
        unit=privacy["unit"],
        neighbours="; ".join(row["neighbours"] for row in rows),
        loss_name=privacy["loss_name"],
        loss=privacy["loss"],
        epsilon=first_epsilon(rows),
        sentences=tuple(
            f"Not protected: {row['name']}, {row['sentence']}."
            if row["status"] == "disclosed"
            else row["sentence"]
            for row in rows
        ),
        exact=tuple(privacy["conditional_on"]),
        covers=f"{stated['total']:,} groups by size from {sizes['smallest']} to {largest}{more} in "
        f"{len(stated['regions']):,} regions",
        region=" ".join(reversed(stated["regions"][0][:2])),
        classes=(f"size ({sizes['n_sizes']} values)",),
        noise=NOISE["geometric" if privacy["noise"] == "geometric" else "discrete_gaussian"],
        made=f"Counts are made from the noisy answers alone by {stated['mechanism']['name']}.",
        coherence="Every region is the sum of its parts, no count is below 0, and the number of groups is kept."
        if consistent
        else "The mechanism does not promise that regions add up.",
        accuracy=(
            f"Half width of the interval of coverage {covered} of the noise alone, in groups, by level: {widths}.",
            f"An interval beside every count is {stated['intervals']['meaning']}.",
        ),
        files=(
            (COUNTS, PARQUET, "one row a region and size, with an interval"),
            ("measurements/", PARQUET, "the noisy answers"),
            (CERTIFICATE, "application/json", "privacy loss, and what was measured"),
        ),
        composition=COMPOSED[privacy["loss_name"]],
        certificate_sha256=file_sha256(place / CERTIFICATE),
        engine=stated["engine"],
        plan_hash=stated["plan_hash"],
    )


def write_group_report(
    folder: PathText, out: PathText, *, language: str = "en", force: bool = False
) -> ReportWritten:
    """Write a report of a release for people, as one HTML file; equal releases have equal reports.

    Args:
        folder: a release; verify it first. out: file to write. language: one of `LANGUAGES`.
        force: replace a file that is there.

    Raises:
        ConfigError: C005 no such language, `out` is there, or C122 a simulation.
        DataError: D137 no release, D140 a file of it is damaged.
    """
    documents = _documents(path_of(folder, "folder"), intervals_by_size)
    return write_page(partial(groups_html, documents), _name_of(documents), out, language, force=force)


def check_group_report(folder: PathText, path: PathText) -> ReportChecked:
    """Compare a report with a release: every figure is derived again count by count, and rounded by verify's code.

    Args:
        folder: a release. path: the report.

    Raises:
        ConfigError: C001 there is no such file, C122 a simulation. DataError: see `write_group_report`.
    """
    documents = _documents(path_of(folder, "folder"), intervals_count_by_count)
    return check_page(partial(groups_html, documents), _name_of(documents), path)


def _name_of(documents: Mapping[str, Any]) -> tuple[str, str]:
    plan_hash = documents["certificate.json"]["plan_hash"]
    return f"group-sizes-{plan_hash[:8]}", plan_hash


def _documents(place: Path, intervals: Callable[[ReleasedFiles], list[dict[str, Any]]]) -> dict[str, Any]:
    certificate = certificate_of(place)
    try:
        files = load_files(place, certificate)
    except (UnreadableError, OSError) as error:
        raise DataError(
            f"{place}: {error}", code="D140", fix="see what pgsr verify finds; get the release again"
        ) from None
    derived = {
        "n_regions": len(certificate["regions"]),
        "certificate_sha256": file_sha256(place / CERTIFICATE),
        "intervals": intervals(files),
    }
    return {"certificate.json": certificate, "derived": derived}


def ranges_of(sizes: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return ranges of sizes to report together, as [low, end): 0 to 5 alone, then up to each 1, 2, 5 times ten."""
    low, end = sizes["smallest"], sizes["smallest"] + sizes["n_sizes"]
    edges = [*range(6), *(base * 10**power for power in range(1, 9) for base in (1, 2, 5))]
    cuts = [low, *(edge for edge in edges if low < edge < end), end]
    return list(pairwise(cuts))


def intervals_by_size(files: ReleasedFiles) -> list[dict[str, Any]]:
    """Return, by level and range of sizes, quantiles of half widths of the intervals of largest coverage.

    Returns:
        level, low, high (sizes), n_counts, n_groups, half_width_50, half_width_95 (fractions, in groups).
    """
    lower, upper = files.bounds[-1]
    smallest, rows = files.certificate["sizes"]["smallest"], []
    for level, name in enumerate(files.level_names):
        here = files.level == level
        for low, end in ranges_of(files.certificate["sizes"]):
            at = slice(low - smallest, end - smallest)
            widths = np.sort((upper[at][:, here] - lower[at][:, here]).reshape(-1))
            half = [Fraction(int(widths[-(-len(widths) * n // 20) - 1]), 2) for n in (10, 19)]
            rows.append(_row(name, (low, end), len(widths), int(files.counts[at][:, here].sum()), half))
    return rows


def intervals_count_by_count(files: ReleasedFiles) -> list[dict[str, Any]]:
    """Return what `intervals_by_size` does, one count after the other."""
    lower, upper = (bound.tolist() for bound in files.bounds[-1])
    counts, smallest, rows = files.counts.tolist(), files.certificate["sizes"]["smallest"], []
    for level, name in enumerate(files.level_names):
        nodes = [node for node, of in enumerate(files.level.tolist()) if of == level]
        for low, end in ranges_of(files.certificate["sizes"]):
            cells = [(size - smallest, node) for size in range(low, end) for node in nodes]
            widths = sorted(upper[size][node] - lower[size][node] for size, node in cells)
            half = [
                Fraction(next(w for i, w in enumerate(widths, 1) if 20 * i >= n * len(widths)), 2)
                for n in (10, 19)
            ]
            rows.append(
                _row(name, (low, end), len(widths), sum(counts[size][node] for size, node in cells), half)
            )
    return rows


def _row(
    level: str, sizes: tuple[int, int], n_counts: int, n_groups: int, half: list[Fraction]
) -> dict[str, Any]:
    return {
        "level": level,
        "low": sizes[0],
        "high": sizes[1] - 1,
        "n_counts": n_counts,
        "n_groups": n_groups,
        "half_width_50": str(half[0]),
        "half_width_95": str(half[1]),
    }


def groups_html(documents: Mapping[str, Any], language: str, write: Write) -> str:
    """Return the report of a release as one HTML file of two pages: no script, no request.

    Args:
        documents: certificate.json, and `derived`. language: one of `LANGUAGES`. write: how numbers are written.
    """
    c = Content(documents, words_of(language), write)
    names = c.at("certificate.json#/names") if c.has("certificate.json#/names") else {}
    title = escape(names.get("title") or TITLE)
    lead = f"{c.say('group_measured.report')} · {c.answer('certificate.json#/names/agency', 'open_agency')}"
    header = f'<p class="lead">{lead}</p><h1>{title}</h1>'
    pages = {"group_measured": _measured(c), "group_intervals": _intervals(c)}
    return whole_page(
        c, Shell(title, header, f"{title} · topdown {c.text('certificate.json#/engine')}"), pages
    )


def _measured(c: Content) -> str:
    at, words = "certificate.json#", c.words["group_measured"]
    steps = []
    for i, row in enumerate(c.at(f"{at}/privacy/secrets")):
        cells = [
            f"{escape(row['name'])}<br>{c.quote(f'{at}/privacy/secrets/{i}/sentence')}",
            escape(row["status"]),
        ]
        for delta in row.get("epsilon", {}):
            end = f"{at}/privacy/secrets/{i}/epsilon/{pointer_key(delta)}/1"
            cells += [
                c.number(end, "up2"),
                escape(delta),
                c.number(f"{at}/privacy/secrets/{i}/right_in_100", "whole"),
            ]
        steps.append([*cells, *["–"] * (5 - len(cells))])
    last = len(c.at(f"{at}/coverage")) - 1
    noise = [
        [
            escape(level["name"]),
            c.number(f"{at}/levels/{i}/parameter", "text"),
            c.number(f"{at}/levels/{i}/half_widths/{last}", "whole"),
        ]
        for i, level in enumerate(c.at(f"{at}/levels"))
    ]
    slots = {
        "total": c.number(f"{at}/total", "whole"),
        "regions": c.number("derived#/n_regions", "whole"),
        "names": ", ".join(escape(one) for one in c.at(f"{at}/privacy/conditional_on")),
        "coverage": c.number(f"{at}/coverage/{last}", "percent"),
        "loss": c.number(f"{at}/privacy/loss", "text"),
        "loss_name": c.text(f"{at}/privacy/loss_name"),
    }
    said = {
        key: c.say(f"group_measured.{key}", **slots) for key in ("lead", "exact", "noise_note", "charged")
    }
    return (
        f'<div class="summary"><p>{said["lead"]}</p><p>{said["exact"]}</p></div>'
        f"<h3>{c.say('group_measured.steps')}</h3>{table(words['step_columns'], steps, numbers=(2, 3, 4))}"
        f'<p class="note">{c.say("group_measured.step_note")}</p>'
        f"<h3>{c.say('group_measured.noise')}</h3>{table(words['noise_columns'], noise, numbers=(1, 2))}"
        f'<p class="note">{said["noise_note"]}</p><p>{said["charged"]}</p>'
        f"{everything_released(c, f'{at}/everything_released')}"
        f'<p class="note">{c.say("group_measured.check")} <code>{c.text("derived#/certificate_sha256")}</code></p>'
    )


def _intervals(c: Content) -> str:
    words, found = c.words["group_intervals"], c.at("derived#/intervals")
    last = len(c.at("certificate.json#/coverage")) - 1
    leaf = found[-1]["level"]
    drawn = [
        (f"{row['low']}–{row['high']}" if row["high"] > row["low"] else str(row["low"]), row["half_width_50"])
        for row in found
        if row["level"] == leaf
    ]
    bars = bar_picture(
        [(name, share_of(half), c.write(half, "up1")) for name, half in drawn],
        {"picture": words["picture"].format(level=leaf), "described": words["described"]},
    )
    rows = []
    for i, row in enumerate(found):
        at, several = f"derived#/intervals/{i}", row["high"] > row["low"]
        sizes = c.number(f"{at}/low", "whole") + (f"–{c.number(f'{at}/high', 'whole')}" if several else "")
        counted = c.numbers(at, n_counts="whole", n_groups="whole", half_width_50="up1", half_width_95="up1")
        rows.append([escape(row["level"]), sizes, *counted])
    coverage = c.number(f"certificate.json#/coverage/{last}", "percent")
    meaning = f"{c.say('group_intervals.meaning')} {c.quote('certificate.json#/intervals/meaning')}."
    return (
        f'<p class="lead">{c.say("group_intervals.lead", coverage=coverage)}</p>{picture(bars)}'
        f'{table(words["columns"], rows, numbers=range(1, 6))}<p class="note">{meaning}</p>'
    )
