"""`topdown extend`: a second product from the same records that keeps the first one's table exactly."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from topdown.commands.base import command
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
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where."
)
@click.option("--approve", metavar="HASH", help="Approve the plan by 4 or more characters of its hash.")
@click.option("--yes", is_flag=True, help="Approve whatever the plan is.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run in DIR.")
@click.option("--again", is_flag=True, help="Spend a second time on a release the ledger holds already.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes for solving; default: one a core.")
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
    csv: bool,
    final: bool,
) -> int:
    """Extend a release by new attributes and keep its table.

    Every count of the base release stays as it is, in every area; only what it leaves open is measured, from
    the same records, charged to the same ledger.
    """
    from topdown.api.out_folder import check_out
    from topdown.api.spent import note_spent, spent_so_far
    from topdown.commands.approval import ask
    from topdown.commands.generate import cores, run, show_result, stopped
    from topdown.commands.plan import require_answers
    from topdown.made_up import refuse_simulation
    from topdown.plan.prepare import prepare
    from topdown.publish.certificate import open_answers
    from topdown.screen.bars import follow

    command_line = f"topdown extend {source} --base {base} --out {out} --resume"
    refuse_simulation(base)
    prepared = prepare(source, base)
    require_answers(open_answers(prepared.context.plan), final=final)
    check_out(prepared, out, resume=resume, command=command_line)
    ask(screen, prepared, approve=approve, yes=yes, resume=resume)
    before = spent_so_far(prepared)
    with ExitStack() as stack:
        progress = follow(screen)
        stack.callback(progress.close)
        try:
            result = run(prepared, out, progress, workers=workers or cores(), csv=csv, again=again, base=base)
            progress.close()
            return show_result(screen, prepared, out, result)
        except (KeyboardInterrupt, click.Abort):
            progress.close()
            return stopped(screen, prepared, progress.where, command_line, before)
        except Exception as error:
            note_spent(prepared, error, before)
            raise
