"""`topdown tune`: shares that suit the estimate of the whole tree."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.documents.tune import Tune


@command(
    "tune",
    examples=(
        ("topdown tune run.toml --out tuned.toml", "Make the worst table of all levels as good as can be."),
        ("topdown tune run.toml --out tuned.toml --goals goals.toml", "Let some tables matter more."),
    ),
    exits=(0, 2, 3),
)
@click.argument("run_file", metavar="RUN.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--out", metavar="FILE", type=click.Path(path_type=Path), required=True, help="The run file to write."
)
@click.option("--goals", metavar="FILE", type=click.Path(path_type=Path), help="Tables that matter more.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def tune(screen: Screen, run_file: Path, *, out: Path, goals: Path | None, force: bool) -> int:
    """Write a run file with shares that suit the tree estimate.

    Opens the run file and the public tables; neither records nor ledger. The budget stays what it is; only its parts
    change.
    """
    from topdown.api.tune import tune as find
    from topdown.screen.look import bold

    found = find(run_file, out, goals=goals, force=force).document
    screen.document(found)
    _shares(screen, found)
    _deviations(screen, found)
    screen.blank()
    screen.last("Wrote ", bold(str(out)), ": the budget of ", bold(str(run_file)), " in other parts.")
    screen.say(
        "Deviations are those of estimates. A release is whole and at least 0 besides, which changes small counts: "
        "simulate it first."
    )
    screen.next(
        (f"topdown simulate {out} --truth FILE --out try/", "its errors on made-up or public records")
    )
    return EXIT_OK


def _shares(screen: Screen, found: Tune) -> None:
    from topdown.screen.layout import Column

    names = list(dict.fromkeys(q.query for level in found.levels for q in level.queries))
    screen.heading("Shares", ", per cent, of the budget and of each level; before > after")
    of = {(q.query, level.level): _change(q.before, q.after) for level in found.levels for q in level.queries}
    rows = [["level", *(_change(level.before, level.after) for level in found.levels)]]
    rows += [[name, *(of.get((name, level.level), "-") for level in found.levels)] for name in names]
    columns = [
        Column("", wraps=True),
        *(Column(level.level, right=True) for level in found.levels),
    ]
    screen.table(columns, rows)


def _change(before: str, after: str) -> str:
    from topdown.screen import figures

    return " > ".join(figures.decimal(100 * Fraction(share), 1) for share in (before, after))


def _deviations(screen: Screen, found: Tune) -> None:
    from topdown.screen.layout import Column

    screen.heading("Estimates", ", mean standard deviation; before > after")
    levels = [level.level for level in found.levels]
    of = {(at.query, at.level): f"{at.before:,.1f} > {at.after:,.1f}" for at in found.deviations}
    rows = [
        [name, *(of[name, level] for level in levels)]
        for name in dict.fromkeys(at.query for at in found.deviations)
    ]
    screen.table([Column("table", wraps=True), *(Column(level, right=True) for level in levels)], rows)
