"""`topdown measure`: ask, spend once, write the noisy answers; what follows needs no records."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topdown.commands.base import command
from topdown.commands.spending import run_or_tell, spending_options
from topdown.errors import EXIT_OK
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.api.releases import Measured
    from topdown.plan.prepare import Prepared


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
    from topdown.api.planned import opened, opened_again
    from topdown.api.releases import check_start
    from topdown.api.releases import measure as spend
    from topdown.commands.approval import ask
    from topdown.commands.solving import cores

    planned = opened_again(source) if base is None else opened(source, base)
    below = "" if base is None else f" --base {base}"
    line = f"topdown measure {source}{below} --out {out} --resume"
    check_start(planned, out, resume=resume, final=final, go_on=line)
    ask(screen, planned.prepared, approve=approve, yes=yes, resume=resume)
    call = partial(
        spend, planned, out, base=base, workers=workers or cores(), again=again, resume=resume, final=final
    )
    go_on = f"topdown {'extend' if below else 'generate'} {source}{below} --out {out}{os.sep} --resume"
    show = partial(_show, screen, planned.prepared, go_on, out)
    return run_or_tell(screen, planned.prepared, line, call, show)


def _show(screen: Screen, prepared: Prepared, go_on: str, out: Path, made: Measured) -> int:
    from msgspec import UNSET

    from topdown.documents.measure import Measure
    from topdown.screen import figures

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
