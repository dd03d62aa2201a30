"""`topdown verify`: check a release from its files alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import topdown
from topdown.commands.base import command
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.publish.verify.result import VerifyResult
    from topdown.workers import Where


@command(
    "verify",
    examples=(
        ("topdown verify release/", "Check a release, as an auditor would."),
        ("topdown verify release/ --all --json", "All findings, for a program."),
        ("topdown verify release/ --solve", "Also solve it again and compare the records."),
    ),
    exits=(0, 1, 2),
)
@click.argument("release", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Show passed checks too when others fail.")
@click.option("--solve", is_flag=True, help="Solve again from the measurements and compare the records.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes; default: one a core.")
@click.option(
    "--on", type=click.Choice(["here", "ray"]), default="here", help="--solve here, or on a Ray cluster."
)
def verify(
    screen: Screen, release: Path, *, everything: bool, solve: bool, workers: int | None, on: str
) -> int:
    """Check a release from its files alone.

    Needs no confidential data and no solver: sums, invariants, budget and ledger are
    recomputed in whole numbers. With --solve the records are also solved again.
    """
    from topdown.api.release_folder import require_release
    from topdown.commands.solving import where
    from topdown.commands.verify_screen import show_checks, show_findings
    from topdown.publish.verify.choice import is_choice
    from topdown.screen import figures
    from topdown.screen.look import FAIL, OK

    if on == "ray" and not solve:
        raise ConfigError(
            "without --solve, verify stays on this machine",
            code="C005",
            fix="leave --on out, or add --solve",
        )
    place = where(workers, on)
    if not is_choice(release):
        require_release(release)
    how = "Solves again what was measured." if solve else "Needs no confidential data and no solver."
    screen.say(f"Reads only the files of {release}. {how}")
    screen.blank()
    result = _solved(screen, release, place) if solve else topdown.verify(release, workers=place)
    screen.document(result.to_json())
    show_checks(screen, result, everything=everything)
    screen.blank()
    if not result.ok:
        show_findings(screen, result, release)
        screen.blank()
        text = f"{result.n_failed} of {result.n_checks} checks failed, {figures.seconds(result.seconds)}."
        screen.last(text, " All findings: --json", symbol=FAIL)
        return EXIT_CHECK_FAILED
    warnings = (
        f", {result.n_warnings} warning{'s' if result.n_warnings > 1 else ''}" if result.n_warnings else ""
    )
    text = (
        f"{result.n_checks} of {result.n_checks} checks passed{warnings}, {figures.seconds(result.seconds)}"
    )
    screen.last(text, symbol=OK)
    return EXIT_OK


def _solved(screen: Screen, release: Path, workers: Where) -> VerifyResult:
    from topdown.screen.bars import follow

    progress = follow(screen)
    try:
        return topdown.verify(release, solve=True, workers=workers, report=progress)
    finally:
        progress.close()
