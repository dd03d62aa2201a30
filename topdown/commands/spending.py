"""What commands that spend a budget share: their options, and the words of a run that was stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from topdown.commands.base import with_options
from topdown.errors import EXIT_INTERRUPTED
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from fractions import Fraction

    from topdown.plan.plan import Plan
    from topdown.plan.prepare import Prepared

T = TypeVar("T")

spending_options = with_options(
    click.option(
        "--out", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where."
    ),
    click.option("--approve", metavar="HASH", help="Approve the plan by 4 or more characters of its hash."),
    click.option("--yes", is_flag=True, help="Approve whatever the plan is."),
    click.option("--resume", is_flag=True, help="Go on with an interrupted run in DIR."),
    click.option("--again", is_flag=True, help="Spend a second time on a release the ledger holds already."),
)
"""Where a run writes, how its plan is approved, and what may be spent again."""


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
