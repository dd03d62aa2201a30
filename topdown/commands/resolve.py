"""`topdown resolve`: another release from a measurement that is there, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

import topdown
from topdown.commands.base import command
from topdown.commands.solving import solving_options, where
from topdown.screen.console import Screen

Targets = Literal["own", "tree"]


@command(
    "resolve",
    examples=(
        ("topdown resolve release/ --out tree/ --targets tree --name tree", "Fit areas to the whole tree."),
        (
            "topdown resolve release/ --out other/ --settings own.toml --name other",
            "Take passes, rounding chains and estimates from a file.",
        ),
    ),
    exits=(0, 1, 2, 3, 4, 130),
)
@click.argument("release", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="New folder for the release."
)
@click.option(
    "--settings", metavar="NAME|FILE", help="Passes, rounding chains, estimates; same queries, shares."
)
@click.option("--targets", type=click.Choice(["own", "tree"]), help="What areas are fitted to.")
@click.option("--coverage", metavar="A/B", help="Intervals in the tables, as 19/20.")
@click.option("--name", default="resolved", show_default=True, help="What follows the id of the release.")
@click.option(
    "--ledger",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Ledger of the data set; default: the copy in RELEASE.",
)
@solving_options
@click.option("--csv", is_flag=True, help="Also write one row a record as CSV.")
def resolve(
    screen: Screen,
    release: Path,
    *,
    out: Path,
    settings: str | None,
    targets: Targets | None,
    coverage: str | None,
    name: str,
    ledger: Path | None,
    workers: int | None,
    on: str,
    csv: bool,
) -> int:
    """Solve the measurement of a release in another way.

    Draws no noise, charges nothing and opens no confidential file: the same noisy
    numbers become another release, which says whose measurement it is.
    """
    from topdown.commands.generate import show_result
    from topdown.screen.bars import follow

    place = where(workers, on)
    screen.say(f"Solves the measurement of {release} in another way. Nothing is drawn or charged.")
    screen.blank()
    progress = follow(screen)
    try:
        made = topdown.resolve(
            release,
            out,
            settings=settings,
            targets=targets,
            coverage=coverage,
            name=name,
            ledger=ledger,
            workers=place,
            csv=csv,
            report=progress,
        )
    finally:
        progress.close()
    return show_result(screen, topdown.Release(out).plan, out, made)
