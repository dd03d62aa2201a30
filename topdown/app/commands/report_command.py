"""`topdown report` and `export`: a release as one page that people read, and as texts that catalogues read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict, Unpack

import click

from topdown import app
from topdown.app.commands.command import command, with_options
from topdown.app.commands.options import ANY_PATH
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import FAIL, bold
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, quoted
from topdown.formats.command_documents import Exported, ReportChecked, ReportWritten
from topdown.output_paths import write_new

report_options = with_options(
    click.option(
        "--out", metavar="FILE", type=ANY_PATH, required=True, help="The report, outside the release."
    ),
    click.option("--language", metavar="CODE", default="en", help="Language: en (default) or de."),
    click.option("--force", is_flag=True, help="Replace an existing file."),
    click.option(
        "--check", is_flag=True, help="Write nothing; compare FILE with the release, number by number."
    ),
)
"""Options of a report, which both programs share."""


def show_report(screen: Screen, made: ReportWritten, command: str) -> int:
    """Say what was written, and how to check it."""
    screen.document(made)
    screen.last(
        "Report of ",
        bold(made.release),
        f" in {made.out}: {made.n_numbers:,} numbers, {made.n_bytes:,} bytes",
    )
    screen.next((f"{command} --out {quoted(made.out)} --check", "compare it with the release again"))
    return EXIT_OK


class Outlines(TypedDict):
    """Outlines of the areas on the map."""

    boundaries: Path | None
    boundary_key: str


@command(
    "report",
    examples=(
        ("topdown report release/ --out report.html", "Write the report of a release."),
        ("topdown report release/ --out bericht.html --language de", "The same in German."),
        (
            "topdown report release/ --out m.html --boundaries d.json --boundary-key CODE",
            "With your own map.",
        ),
        ("topdown report release/ --out report.html --check", "Check a report that somebody gave you."),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="RELEASE", type=ANY_PATH)
@report_options
@click.option(
    "--boundaries",
    metavar="FILE",
    type=ANY_PATH,
    help="Public outlines of the areas on the map, GeoJSON or TopoJSON; default: tiles.",
)
@click.option(
    "--boundary-key",
    metavar="NAME",
    default="id",
    help="Property of an outline that holds its geocode; default: id.",
)
def report_command(
    screen: Screen,
    release: Path,
    *,
    out: Path,
    check: bool,
    language: str,
    force: bool,
    **outlines: Unpack[Outlines],
) -> int:
    """Write a report of a release or choice for people, as one HTML file.

    It says what the release is, how well people are protected, what is exact, how accurate it is and how it was made.
    It is made from the published files alone, without scripts, and is equal for equal releases. Verify the release
    first.
    """
    if check:
        found = app.check_report(release, out, **outlines)
        return show_report_check(screen, found, out)
    made = app.write_report(release, out, language=language, force=force, **outlines)
    own = outlines["boundaries"]
    key = outlines["boundary_key"]
    same = "" if own is None else f" --boundaries {quoted(own)} --boundary-key {quoted(key)}"
    return show_report(screen, made, f"topdown report {quoted(release)}{same}")


def show_report_check(screen: Screen, found: ReportChecked, out: Path) -> int:
    """Say whether a report is that of its release."""
    screen.document(found)
    for text in found.findings:
        screen.item(FAIL, text)
    if found.ok:
        screen.last(
            f"{out} is the report of {found.release}: all {found.n_numbers:,} numbers are those of its files"
        )
        return EXIT_OK
    screen.last(f"{out} is not the report of {found.release}", symbol=FAIL)
    return EXIT_CHECK_FAILED


CATALOGUES = ("registry", "sims", "dcat", "citation")
export_options = with_options(
    click.option(
        "--to",
        type=click.Choice(CATALOGUES),
        required=True,
        help="registry: of deployments, YAML; sims: SIMS/ESMS 2.0; dcat: DCAT-US, JSON; citation: CITATION.cff.",
    ),
    click.option("--out", metavar="FILE", type=ANY_PATH, help="Write a file, not the screen."),
    click.option("--force", is_flag=True, help="Replace an existing file."),
)
"""Options of an export, which both programs share."""


def show_export(screen: Screen, text: str, to: Any, out: Path | None, *, force: bool) -> int:
    """Write the text of an export to a file, or print it."""
    if out is not None:
        write_new(out, text.encode("utf-8"), force=force)
    screen.document(Exported(to=to, out=None if out is None else str(out), text=text))
    if out is None and screen.talks:
        screen.out.put(text)
    elif out is not None:
        screen.last(
            f"{to} in {out}: {len(text.splitlines())} lines; the office fills in what is still to be stated"
        )
    return EXIT_OK


@command(
    "export",
    examples=(
        ("topdown export release/ --to citation --out CITATION.cff", "How to cite a release."),
        ("topdown export release/ --to registry", "An entry of the registry of deployments, as a draft."),
    ),
)
@click.argument("release", metavar="RELEASE", type=ANY_PATH)
@export_options
def export_command(screen: Screen, release: Path, *, to: str, out: Path | None, force: bool) -> int:
    """Write what catalogues ask of a release or choice.

    It is made from the certificate and plan of the folder. Numbers are rounded up, exact fractions stand beside them;
    what only the office knows is left open by name. Verify the release first.
    """
    return show_export(screen, app.export_text(release, to), to, out, force=force)
