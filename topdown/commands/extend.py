"""`topdown extend`: a second product from the same records that keeps the first one's table exactly."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

import topdown
from topdown.commands.base import command
from topdown.commands.solving import on_text, solving_options, where
from topdown.commands.spending import spending_options
from topdown.screen.console import Screen


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
    from topdown.api.planned import opened
    from topdown.api.releases import check_start
    from topdown.commands.approval import ask
    from topdown.commands.generate import spend

    place = where(workers, on)
    planned = opened(source, base)
    line = f"topdown extend {source} --base {base} --out {out} --resume{on_text(on)}"
    check_start(planned, out, resume=resume, final=final, go_on=line)
    ask(screen, planned.prepared, approve=approve, yes=yes, resume=resume)
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
