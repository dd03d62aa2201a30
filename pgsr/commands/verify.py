"""`pgsr verify`: check a release from its files alone."""

from __future__ import annotations

from pathlib import Path

import click

from topdown.commands.base import command
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK
from topdown.screen.console import Screen


@command(
    "verify",
    examples=(
        ("pgsr verify release/", "Check a release, as an auditor would."),
        ("pgsr verify release/ --json", "All findings, for a program."),
    ),
    exits=(0, 1, 2),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def verify(screen: Screen, folder: Path) -> int:
    """Check a release from its files alone, in whole numbers."""
    from pgsr.checks import verify as check_release
    from pgsr.documents.verify import Checked, Verify
    from topdown import __version__
    from topdown.screen.look import FAIL, OK

    screen.say(f"Reads only the files of {folder}. Needs no confidential data and no solver.")
    checks = check_release(folder)
    failed = [check for check in checks if not check.ok]
    screen.document(
        Verify(
            engine=__version__,
            ok=not failed,
            n_checks=len(checks),
            n_failed=len(failed),
            checks=[
                Checked(
                    name=check.name,
                    ok=check.ok,
                    summary=check.summary,
                    n_checked=check.n_checked,
                    n_failed=check.n_failed,
                    findings=check.findings,
                )
                for check in checks
            ],
        )
    )
    for check in checks:
        screen.item(
            OK if check.ok else FAIL,
            f"{check.name:<14}",
            check.summary if check.ok else f"{check.n_failed} failed",
        )
        for finding in check.findings[:5]:
            screen.say(finding, indent=6)
    if failed:
        screen.last(f"{len(failed)} of {len(checks)} checks failed. All findings: --json", symbol=FAIL)
        return EXIT_CHECK_FAILED
    screen.last(f"{len(checks)} of {len(checks)} checks passed", symbol=OK)
    return EXIT_OK
