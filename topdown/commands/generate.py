"""`topdown generate`: ask, spend once, solve, publish; say at every end what is spent."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

import topdown
from topdown.commands.base import command
from topdown.errors import EXIT_INTERRUPTED, EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from fractions import Fraction

    from topdown import GenerateResult, Planned
    from topdown.documents.generate import Generate
    from topdown.plan.plan import Plan
    from topdown.plan.prepare import Prepared
    from topdown.workers import Where

T = TypeVar("T")


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
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where."
)
@click.option("--approve", metavar="HASH", help="Approve the plan by 4 or more characters of its hash.")
@click.option("--yes", is_flag=True, help="Approve whatever the plan is.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run in DIR.")
@click.option("--again", is_flag=True, help="Spend a second time on a release the ledger holds already.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes for solving; default: one a core.")
@click.option(
    "--on", type=click.Choice(["here", "ray"]), default="here", help="Solve here, or on a Ray cluster."
)
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
    from topdown.api.planned import opened_again
    from topdown.api.releases import check_start
    from topdown.commands.approval import ask
    from topdown.outputs import open_log

    place = where(workers, on)
    planned = opened_again(source)
    line = f"topdown generate {source} --out {out} --resume{on_text(on)}"
    check_start(planned, out, resume=resume, final=final, go_on=line)
    needed = planned.prepared.needed
    if log_json is not None:
        open_log(log_json, needed).close()
    ask(screen, planned.prepared, approve=approve, yes=yes, resume=resume)
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
    return run_or_tell(screen, prepared, line, call, partial(show_result, screen, prepared, out), log)


def run_or_tell(
    screen: Screen,
    prepared: Prepared,
    line: str,
    call: Callable[..., T],
    show: Callable[[T], int],
    log: TextIO | None = None,
) -> int:
    """Run what may spend and show it, or say what an interrupted run has spent; return the exit code."""
    from topdown.api.spent import note_spent, spent_so_far
    from topdown.screen.bars import follow

    before = spent_so_far(prepared)
    progress = follow(screen, log)
    try:
        result = call(report=progress)
        progress.close()
        return show(result)
    except (KeyboardInterrupt, click.Abort):
        progress.close()
        return stopped(screen, prepared, progress.where, line, before)
    except Exception as error:
        note_spent(prepared, error, before)
        raise
    finally:
        progress.close()


def cores() -> int:
    """Return the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def where(workers: int | None, on: str) -> Where:
    """Return where to solve by two options; ConfigError C005 if they exclude each other."""
    if on == "here":
        return workers or cores()
    if workers is not None:
        raise ConfigError(
            "--workers counts processes of this machine; --on ray takes the whole cluster",
            code="C005",
            fix="leave one of the two out",
        )
    return "ray"


def on_text(on: str) -> str:
    """Return the option as it stands in a command line."""
    return " --on ray" if on == "ray" else ""


def result_document(prepared: Prepared, out: Path, result: GenerateResult) -> Generate:
    """Return the `topdown.generate` document."""
    from importlib.metadata import version

    from msgspec import UNSET, convert

    from topdown.documents.generate import Generate
    from topdown.documents.verify import Verify

    plan = prepared.context.plan
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


def show_result(screen: Screen, prepared: Prepared, out: Path, result: GenerateResult) -> int:
    """Show a finished release; return the exit code."""
    from topdown.screen import figures
    from topdown.screen.look import bold

    n = result.checks.n_checks
    screen.document(result_document(prepared, out, result))
    screen.blank()
    total = figures.seconds(sum(result.seconds.values()))
    memory = figures.size(result.peak_memory_bytes)
    screen.last("Release ", bold(prepared.context.plan.release.id), f" in {out}{os.sep}, {total}, {memory}")
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


def stopped(screen: Screen, prepared: Prepared, where: str, again: str, before: Fraction) -> int:
    """Say what an interrupted run has spent and how to go on; return the exit code."""
    from topdown.documents.error import Error

    text, spent = spent_text(prepared, where, before)
    screen.document(
        Error(
            code="X130",
            text=text,
            details=[["spent", spent]],
            file=None,
            line=None,
            column=None,
            node=None,
            key=None,
            fix=f"go on with: {again}" if spent != "0" else "run the command again",
            exit_code=EXIT_INTERRUPTED,
        )
    )
    if not screen.json:
        screen.err.line(text)
        if spent != "0":
            screen.err.line("Go on, with the same noise:")
            screen.err.raw(("  ", again))
    return EXIT_INTERRUPTED


def _loss(plan: Plan, spent: Fraction) -> str:
    from topdown.screen import figures

    return figures.loss(plan.loss_name, spent, plan.delta_of(spent))


def spent_text(prepared: Prepared, where: str, before: Fraction) -> tuple[str, str]:
    """Say what an interrupted run has spent beyond `before`, by the ledger: a sentence and the exact loss."""
    from topdown.api.spent import spent_so_far

    plan, now = prepared.context.plan, spent_so_far(prepared)
    stopped = f"Stopped {where}".rstrip() + "."
    if now == before:
        kept = f" {_loss(plan, before)} was spent before; its noise is kept." if before else ""
        return f"{stopped} Nothing {'more ' if before else ''}is spent.{kept}", "0"
    return f"{stopped} {_loss(plan, now - before)} is spent and its noise is kept.", str(now - before)
