"""`topdown generate`, `measure`, `extend` and `resolve`: ask, spend once, solve, publish."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import click

import topdown
from topdown.app.commands.command import command, executor_of, on_text, solving_options
from topdown.app.commands.spending import run_and_report, spending_options
from topdown.app.screens.console import Screen
from topdown.errors import EXIT_OK

if TYPE_CHECKING:
    from topdown import GenerateResult, Planned
    from topdown.app.pipeline import Measured
    from topdown.formats.command_documents import Generate
    from topdown.plan import Plan, PreparedRun


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
)
@click.argument("source", metavar="RUN.toml|plan.json", type=click.Path(path_type=Path, dir_okay=False))
@spending_options
@solving_options
@click.option("--csv", is_flag=True, help="Also write one row a record as CSV.")
@click.option("--final", is_flag=True, help="Refuse answers that are still open.")
@click.option(
    "--log-json", metavar="FILE", type=click.Path(path_type=Path), help="Write progress as JSON lines."
)
def generate(
    screen: Screen,
    source: Path,
    *,
    out: Path,
    approve: str | None,
    yes: bool,
    resume: bool,
    again: bool,
    workers: int | None,
    on: str,
    csv: bool,
    final: bool,
    log_json: Path | None,
) -> int:
    """Spend the budget once and write the release.

    Reads the confidential records, draws the noise, and never needs them again.
    """
    from topdown.app.commands.spending import ask_approval
    from topdown.app.make_release import check_start
    from topdown.app.planned import opened_again
    from topdown.output_paths import open_log

    place = executor_of(workers, on)
    planned = opened_again(source)
    line = f"topdown generate {source} --out {out} --resume{on_text(on)}"
    check_start(planned, out, resume=resume, final=final, go_on=line)
    needed = planned.prepared.needed
    if log_json is not None:
        open_log(log_json, needed).close()
    ask_approval(screen, planned.prepared, approve=approve, yes=yes, resume=resume)
    with ExitStack() as stack:
        log = stack.enter_context(open_log(log_json, needed)) if log_json else None
        call = partial(
            topdown.generate,
            planned,
            out,
            workers=place,
            csv=csv,
            again=again,
            resume=resume,
            final=final,
        )
        return spend(screen, planned, out, line, call, log)


def spend(
    screen: Screen,
    planned: Planned,
    out: Path,
    line: str,
    call: Callable[..., GenerateResult],
    log: TextIO | None = None,
) -> int:
    """Run to the end; show the release, or what an interrupted run has spent.

    Args:
        screen: gets both.
        planned, out: what is made, and where.
        line: command line that goes on with it.
        call: runs, and tells its `report` about progress.
        log: gets progress as JSON lines.
    """
    prepared = planned.prepared
    return run_and_report(
        screen, prepared, line, call, partial(show_result, screen, prepared.context.plan, out), log
    )


def result_document(plan: Plan, out: Path, result: GenerateResult) -> Generate:
    """Return the `topdown.generate` document."""
    from importlib.metadata import version

    from msgspec import UNSET, convert

    from topdown.formats.command_documents import Generate, Verify

    return Generate(
        engine=version("census-topdown"),
        release_id=plan.release.id,
        release=str(out),
        plan_hash=plan.plan_hash,
        loss_name=plan.loss_name,
        loss=str(plan.loss),
        delta=str(plan.delta_of(plan.loss)) if plan.delta else UNSET,
        seconds={stage: round(value, 2) for stage, value in result.seconds.items()},
        peak_memory_bytes=result.peak_memory_bytes,
        n_records=result.n_records,
        n_splits=result.n_splits,
        n_failsafe=result.n_failsafe,
        checks=convert(result.checks.to_json(), Verify),
    )


def show_result(screen: Screen, plan: Plan, out: Path, result: GenerateResult) -> int:
    """Show a finished release; return the exit code."""
    from topdown.app.screens import figures
    from topdown.app.screens.text_layout import bold

    n = result.checks.n_checks
    screen.document(result_document(plan, out, result))
    screen.blank()
    total = figures.seconds(sum(result.seconds.values()))
    memory = figures.size(result.peak_memory_bytes)
    screen.last("Release ", bold(plan.release.id), f" in {out}{os.sep}, {total}, at most {memory}")
    screen.say(
        f"{n} of {n} checks, {result.n_failsafe:,} failsafe, {result.n_splits:,} solves, "
        f"{result.n_records:,} records",
        indent=2,
    )
    screen.next(
        (f"topdown verify {out}{os.sep}", "what an auditor would run"),
        (f"topdown audit {out}{os.sep}", "what it costs, exactly"),
    )
    return EXIT_OK


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
)
@click.argument("source", metavar="RUN.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--base",
    metavar="RELEASE",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="The published release to extend.",
)
@spending_options
@solving_options
@click.option("--csv", is_flag=True, help="Also write one row a record as CSV.")
@click.option("--final", is_flag=True, help="Refuse answers that are still open.")
def extend(
    screen: Screen,
    source: Path,
    *,
    base: Path,
    out: Path,
    approve: str | None,
    yes: bool,
    resume: bool,
    again: bool,
    workers: int | None,
    on: str,
    csv: bool,
    final: bool,
) -> int:
    """Extend a release by new attributes and keep its table.

    Every count of the base release stays as it is, in every area; only what it leaves open is measured, from
    the same records, charged to the same ledger.
    """
    from topdown.app.commands.spending import ask_approval
    from topdown.app.make_release import check_start
    from topdown.app.planned import opened

    place = executor_of(workers, on)
    planned = opened(source, base)
    line = f"topdown extend {source} --base {base} --out {out} --resume{on_text(on)}"
    check_start(planned, out, resume=resume, final=final, go_on=line)
    ask_approval(screen, planned.prepared, approve=approve, yes=yes, resume=resume)
    call = partial(
        topdown.extend,
        planned,
        base,
        out,
        workers=place,
        csv=csv,
        again=again,
        resume=resume,
        final=final,
    )
    return spend(screen, planned, out, line, call)


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
)
@click.argument("source", metavar="RUN.toml|plan.json", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--base",
    metavar="RELEASE",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The published release that the run extends.",
)
@spending_options
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes that draw; default: one a core.")
@click.option("--final", is_flag=True, help="Refuse answers that are still open.")
def measure(
    screen: Screen,
    source: Path,
    *,
    base: Path | None,
    workers: int | None,
    out: Path,
    approve: str | None,
    yes: bool,
    resume: bool,
    again: bool,
    final: bool,
) -> int:
    """Spend the budget once and write noisy answers only.

    This is generate up to where the confidential records are closed. Then
    topdown generate --resume makes the release, on any machine that sees DIR
    and the files of the run; the records may be gone. With --base it is the
    same of extend, and topdown extend --resume goes on.
    """
    from topdown.app.commands.command import cores
    from topdown.app.commands.spending import ask_approval
    from topdown.app.make_release import check_start
    from topdown.app.make_release import measure as spend
    from topdown.app.planned import opened, opened_again

    planned = opened_again(source) if base is None else opened(source, base)
    below = "" if base is None else f" --base {base}"
    line = f"topdown measure {source}{below} --out {out} --resume"
    check_start(planned, out, resume=resume, final=final, go_on=line)
    ask_approval(screen, planned.prepared, approve=approve, yes=yes, resume=resume)
    call = partial(
        spend, planned, out, base=base, workers=workers or cores(), again=again, resume=resume, final=final
    )
    go_on = f"topdown {'extend' if below else 'generate'} {source}{below} --out {out}{os.sep} --resume"
    show = partial(_show_measured, screen, planned.prepared, go_on, out)
    return run_and_report(screen, planned.prepared, line, call, show)


def _show_measured(screen: Screen, prepared: PreparedRun, go_on: str, out: Path, made: Measured) -> int:
    from msgspec import UNSET

    from topdown.app.screens import figures
    from topdown.formats.command_documents import Measure

    result, seconds = made
    plan = prepared.context.plan
    spent = figures.loss(plan.loss_name, result.loss, plan.delta_of(result.loss))
    screen.document(
        Measure(
            release_id=plan.release.id,
            release=str(out),
            plan_hash=plan.plan_hash,
            loss_name=plan.loss_name,
            loss=str(result.loss),
            delta=str(plan.delta_of(result.loss)) if plan.delta else UNSET,
            seconds={stage: round(value, 2) for stage, value in seconds.items()},
            n_attempts=result.n_attempts,
            n_drawn=result.n_drawn,
            n_adopted=result.n_adopted,
        )
    )
    screen.blank()
    screen.last(f"Measured in {out}{os.sep}, {spent} charged, {figures.seconds(sum(seconds.values()))}")
    screen.next((go_on, "make the release; no records needed"))
    return EXIT_OK


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
    from topdown.app.screens.progress_bars import follow

    place = executor_of(workers, on)
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
