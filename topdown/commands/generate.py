"""`topdown generate`: ask, spend once, solve, publish; say at every end what is spent."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

import topdown
from topdown.commands.base import command
from topdown.commands.solving import on_text, solving_options, where
from topdown.commands.spending import run_or_tell, spending_options
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown import GenerateResult, Planned
    from topdown.documents.generate import Generate
    from topdown.plan.plan import Plan


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
    return run_or_tell(
        screen, prepared, line, call, partial(show_result, screen, prepared.context.plan, out), log
    )


def result_document(plan: Plan, out: Path, result: GenerateResult) -> Generate:
    """Return the `topdown.generate` document."""
    from importlib.metadata import version

    from msgspec import UNSET, convert

    from topdown.documents.generate import Generate
    from topdown.documents.verify import Verify

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
    from topdown.screen import figures
    from topdown.screen.look import bold

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
