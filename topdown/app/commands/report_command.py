"""`topdown report`: a release as one page that people read, and whether such a page is that of a release."""

from __future__ import annotations

from pathlib import Path

import click

from topdown import app
from topdown.app.commands.command import command
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import FAIL, bold
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK


@command(
    "report",
    examples=(
        ("topdown report release/ --out report.html", "Write the report of a release."),
        ("topdown report release/ --out bericht.html --language de", "The same in German."),
        ("topdown report release/ --out report.html --check", "Check a report that somebody gave you."),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="RELEASE", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="The report, outside the release.",
)
@click.option("--language", metavar="CODE", default="en", help="Language: en (default) or de.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--check", is_flag=True, help="Write nothing; compare FILE with the release, number by number.")
def report(screen: Screen, release: Path, *, out: Path, language: str, force: bool, check: bool) -> int:
    """Write a report of a release for people, as one HTML file.

    It says what the release is, how well people are protected, what is exact, how accurate it is and how it was made.
    It is made from the published files alone, without scripts, and is equal for equal releases. Verify the release
    first.
    """
    if check:
        return _check(screen, release, out)
    made = app.write_report(release, out, language=language, force=force)
    screen.document(made)
    screen.last(
        "Report of ",
        bold(made.release),
        f" in {made.out}: {made.n_numbers:,} numbers, {made.n_bytes:,} bytes",
    )
    screen.next((f"topdown report {release} --out {out} --check", "compare it with the release again"))
    return EXIT_OK


def _check(screen: Screen, release: Path, out: Path) -> int:
    found = app.check_report(release, out)
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
