"""What commands that spend a budget share: approval by a person or by the hash of the plan, and what was spent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from topdown.app.commands.command import can_ask, with_options
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.loss_words import accuracy_lines, certified_epsilon
from topdown.app.screens.text_layout import bold
from topdown.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from fractions import Fraction

    from topdown.plan import Plan, PreparedRun


SHORTEST_APPROVAL = 4


def ask_approval(
    screen: Screen, prepared: PreparedRun, *, approve: str | None, yes: bool, resume: bool
) -> None:
    """Get the approval of a plan, on a terminal or from the command line.

    Raises:
        ConfigError: C083 the approval names another plan; C084 nobody can be asked.
        click.Abort: the person left.
    """
    from topdown.app.plan_summary import view_ledger
    from topdown.publish.release_certificate import certified_loss

    plan = prepared.context.plan
    full = plan.plan_hash
    if approve is not None:
        check_approval(approve, full)
        return
    if yes:
        return
    ledger = view_ledger(prepared.ledger_path, prepared.run.ledger.limit)
    if not can_ask(screen):
        raise ConfigError(
            "spending a budget needs an approval, and there is no terminal to ask on",
            code="C084",
            fix=f"add --approve {full[:8]} (this plan), or --yes (any plan)",
        )
    loss = figures.loss(plan.loss_name, plan.loss, plan.delta_of(plan.loss))
    certified = certified_loss(prepared.context.policy)
    based = "" if plan.base is None else " with its base"
    shown = f" (ε\u00a0{certified_epsilon(certified, 2)}{based})"
    already = ledger.spent_on(full)
    out = screen.err
    out.line("Plan ", bold(full[:8]), f' spends {loss}{shown} of data set "{plan.release.data_set}".')
    for line in accuracy_lines(certified):
        out.line(line[0].upper() + line[1:] + ".")
    if resume and already:
        name = figures.loss(plan.loss_name, already, plan.delta_of(already))
        out.line(f"{name} of it is spent already; finished noise is kept and not charged again.")
    out.line("This cannot be undone. Type the first four characters of the plan to go on.")
    out.put("> ")
    answer = sys.stdin.readline()
    if not answer:
        raise click.Abort
    check_approval(answer.strip(), full)


def check_approval(answer: str, plan_hash: str) -> None:
    """Refuse what is not at least four characters of the hash (C083)."""
    given = answer.strip().lower()
    if len(given) < SHORTEST_APPROVAL or not plan_hash.startswith(given):
        problem = (
            "is not this plan"
            if len(given) >= SHORTEST_APPROVAL
            else f"is shorter than {SHORTEST_APPROVAL} characters"
        )
        raise ConfigError(
            f'not approved: "{answer[:64]}" {problem}',
            code="C083",
            details=(("plan", plan_hash[:8]),),
            fix="look at the plan again (topdown plan) and approve it by its hash; nothing was spent",
        )


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


def run_and_report(
    screen: Screen,
    prepared: PreparedRun,
    line: str,
    call: Callable[..., T],
    show: Callable[[T], int],
    log: TextIO | None = None,
) -> int:
    """Run what may spend and show it, or say what an interrupted run has spent; return the exit code."""
    from topdown.app.calls import add_spend_note, spent_so_far
    from topdown.app.screens.progress_bars import follow

    before = spent_so_far(prepared)
    progress = follow(screen, log)
    try:
        result = call(report=progress)
        progress.close()
        return show(result)
    except (KeyboardInterrupt, click.Abort):
        progress.close()
        return say_stopped(screen, prepared, progress.where, line, before)
    except Exception as error:
        add_spend_note(prepared, error, before)
        raise
    finally:
        progress.close()


def say_stopped(screen: Screen, prepared: PreparedRun, where: str, again: str, before: Fraction) -> int:
    """Say what an interrupted run has spent and how to go on; return the exit code."""
    from topdown.formats.command_documents import Error

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


def _loss_words(plan: Plan, spent: Fraction) -> str:
    from topdown.app.screens import figures

    return figures.loss(plan.loss_name, spent, plan.delta_of(spent))


def spent_text(prepared: PreparedRun, where: str, before: Fraction) -> tuple[str, str]:
    """Say what an interrupted run has spent beyond `before`, by the ledger: a sentence and the exact loss."""
    from topdown.app.calls import spent_so_far

    plan, now = prepared.context.plan, spent_so_far(prepared)
    stopped = f"Stopped {where}".rstrip() + "."
    if now == before:
        kept = f" {_loss_words(plan, before)} was spent before; its noise is kept." if before else ""
        return f"{stopped} Nothing {'more ' if before else ''}is spent.{kept}", "0"
    return f"{stopped} {_loss_words(plan, now - before)} is spent and its noise is kept.", str(now - before)
