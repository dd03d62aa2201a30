"""`topdown generate`, `measure`, `extend` and `resolve`: ask, spend once, solve, publish."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

import topdown
from topdown import app
from topdown.app.commands.command import command, with_options
from topdown.app.commands.options import (
    ANY_PATH,
    FILE,
    FOLDER,
    FOLDER_THERE,
    Solving,
    base_option,
    cores,
    solving_options,
)
from topdown.app.commands.spending import SPENT_AND_WRITTEN, Spending, spending_options, spending_run
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import bold
from topdown.errors import EXIT_OK, quoted

if TYPE_CHECKING:
    from topdown import GenerateResult
    from topdown.formats.common import Targets

published_options = with_options(
    click.option("--csv", is_flag=True, help="Also write one row a record as CSV."),
    click.option(
        "--report-language",
        "language",
        metavar="CODE",
        default="en",
        callback=lambda _, __, code: None if code == "none" else code,
        help="Language of report.html: en (default) or de; none leaves it out.",
    ),
)


class PublishedFiles(TypedDict):
    """What is written beside the release."""

    csv: bool
    language: str | None


def _command_to_go_on(
    name: str, source: Path, spending: Spending, base: Path | None, beside: PublishedFiles | None
) -> str:
    """Return the command that goes on with a run in its folder, with the same noise and the same files beside it."""
    below = "" if base is None else f" --base {quoted(base)}"
    more = " --csv" if beside and beside["csv"] else ""
    if beside and beside["language"] != "en":
        more += f" --report-language {quoted(beside['language'] or 'none')}"
    return f"topdown {name} {quoted(source)}{below} --out {quoted(spending.out)} --resume{more}"


SOLVING = ("Processes for solving; default: one a core.", "Solve here, or on a Ray cluster.")


@command(
    "generate",
    examples=(
        ("topdown generate run/plan.json --out release/", "Run exactly the plan that was looked at."),
        (
            "topdown generate run.toml --out release/ --approve 9b0e51c7",
            "In a script: approve one plan by its hash.",
        ),
        (
            "topdown generate run/plan.json --out release/ --resume",
            "Go on after an interrupt, with the same noise.",
        ),
    ),
    exits=(0, 1, 2, 3, 4, 130),
    groups=SPENT_AND_WRITTEN,
)
@click.argument("source", metavar="RUN.toml|plan.json", type=FILE)
@spending_options
@solving_options(*SOLVING)
@published_options
@click.option("--log-json", metavar="FILE", type=ANY_PATH, help="Write progress as JSON lines.")
def generate_command(
    screen: Screen,
    source: Path,
    *,
    spending: Spending,
    solving: Solving,
    log_json: Path | None,
    **published: Unpack[PublishedFiles],
) -> int:
    """Spend the budget once and write the release.

    Reads the confidential records, draws the noise, and never needs them again.
    """
    executor, planned = solving.executor, app.opened_again(source)
    go_on = _command_to_go_on("generate", source, spending, None, published) + solving.text
    with spending_run(screen, planned, spending, go_on, log_json) as asked:
        out = spending.out
        made = topdown.generate(planned, out, workers=executor, **published, **asked)
        asked["report"].close()
        show_release(screen, made)
    return EXIT_OK


def show_release(screen: Screen, made: GenerateResult) -> None:
    """Show a finished release."""
    screen.document(made)
    screen.blank()
    n, folder = made.checks.n_checks, quoted(f"{made.release}{os.sep}")
    seconds, memory = sum(made.seconds.values()), figures.size(made.peak_memory_bytes)
    screen.last(
        "Release ", bold(made.release_id), f" in {folder}, {figures.seconds(seconds)}, at most {memory}"
    )
    screen.say(
        f"{n} of {n} checks, {made.n_failsafe:,} failsafe, {made.n_splits:,} solves, {made.n_records:,} records",
        indent=2,
    )
    screen.next(
        (f"topdown verify {folder}", "what an auditor would run"),
        (f"topdown audit {folder}", "what it costs, in proved bounds"),
    )


@command(
    "extend",
    examples=(
        ("topdown extend dhc.toml --base pl94/ --out dhc/", "Look at the plan, then approve it."),
        (
            "topdown extend dhc.toml --base pl94/ --out dhc/ --resume --yes",
            "Go on after an interrupt, with the same noise.",
        ),
    ),
    exits=(0, 1, 2, 3, 4, 130),
    groups=SPENT_AND_WRITTEN,
)
@click.argument("source", metavar="RUN.toml", type=FILE)
@click.option(
    "--base", metavar="RELEASE", type=FOLDER_THERE, required=True, help="The published release to extend."
)
@spending_options
@solving_options(*SOLVING)
@published_options
def extend_command(
    screen: Screen,
    source: Path,
    *,
    base: Path,
    spending: Spending,
    solving: Solving,
    **published: Unpack[PublishedFiles],
) -> int:
    """Extend a release by new attributes and keep its table.

    Every count of the base release stays as it is, in every area; only what it leaves open is measured, from
    the same records, charged to the same ledger.
    """
    executor, planned = solving.executor, app.opened(source, base)
    go_on = _command_to_go_on("extend", source, spending, base, published) + solving.text
    with spending_run(screen, planned, spending, go_on) as asked:
        out = spending.out
        made = topdown.extend(planned, base, out, workers=executor, **published, **asked)
        asked["report"].close()
        show_release(screen, made)
    return EXIT_OK


@command(
    "measure",
    examples=(
        ("topdown measure run/plan.json --out release/", "Look at the plan, then approve it."),
        (
            "topdown measure run/plan.json --out release/ --resume",
            "Go on after an interrupt, with the same noise.",
        ),
    ),
    exits=(0, 2, 3, 4, 130),
    groups=SPENT_AND_WRITTEN,
)
@click.argument("source", metavar="RUN.toml|plan.json", type=FILE)
@base_option
@spending_options
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes that draw; default: one a core.")
def measure_command(
    screen: Screen, source: Path, *, base: Path | None, workers: int | None, spending: Spending
) -> int:
    """Spend the budget once and write noisy answers only.

    This is generate up to where the confidential records are closed. Then
    topdown generate --resume makes the release, on any machine that sees DIR
    and the files of the run; the records may be gone. With --base it is the
    same of extend, and topdown extend --resume goes on.
    """
    planned = app.opened_again(source) if base is None else app.opened(source, base)
    out, go_on = spending.out, _command_to_go_on("measure", source, spending, base, None)
    with spending_run(screen, planned, spending, go_on) as asked:
        made = app.measure(planned, out, base=base, workers=workers or cores(), **asked)
        asked["report"].close()
        screen.document(made)
        screen.blank()
        spent = figures.loss(made.loss_name, Fraction(made.loss), Fraction(made.delta or 0))
        screen.last(
            f"Measured in {out}{os.sep}, {spent} charged, {figures.seconds(sum(made.seconds.values()))}"
        )
        make = _command_to_go_on("generate" if base is None else "extend", source, spending, base, None)
        screen.next((make, "make the release; no records needed"))
    return EXIT_OK


class Resolved(PublishedFiles):
    """How a measurement is solved again."""

    settings: str | None
    targets: Targets | None
    coverage: str | None
    name: str
    ledger: Path | None
    registry: Path | None


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
    groups=SPENT_AND_WRITTEN,
)
@click.argument("release", type=FOLDER)
@click.option("--out", metavar="DIR", required=True, type=ANY_PATH, help="New folder for the release.")
@click.option(
    "--settings", metavar="NAME|FILE", help="Passes, rounding chains, estimates; same queries, shares."
)
@click.option("--targets", type=click.Choice(["own", "tree"]), help="What areas are fitted to.")
@click.option("--coverage", metavar="A/B", help="Intervals in the tables, as 19/20.")
@click.option("--name", default="resolved", show_default=True, help="What follows the id of the release.")
@click.option(
    "--ledger", metavar="FILE", type=FILE, help="Ledger of the data set; default: the copy in RELEASE."
)
@click.option(
    "--registry",
    metavar="DIR",
    type=FOLDER_THERE,
    help="Folder of the ledger's registry; default: looked for beside the ledger and one folder above.",
)
@solving_options(*SOLVING)
@published_options
def resolve_command(
    screen: Screen, release: Path, *, out: Path, solving: Solving, **how: Unpack[Resolved]
) -> int:
    """Solve the measurement of a release in another way.

    Draws no noise, charges nothing and opens no confidential file: the same noisy
    numbers become another release, which says whose measurement it is.
    """
    executor = solving.executor
    screen.say(f"Solves the measurement of {release} in another way. Nothing is drawn or charged.")
    screen.blank()
    with follow(screen) as progress:
        made = topdown.resolve(release, out, workers=executor, report=progress, **how)
    show_release(screen, made)
    return EXIT_OK
