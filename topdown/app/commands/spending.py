"""What commands that spend a budget share: approval by a person or by the hash of the plan, and what was spent."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from topdown import app
from topdown.app.commands.command import StoppedRun, can_ask, packed, said_when_stopped, with_options
from topdown.app.commands.options import FOLDER
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.figures import accuracy_lines, certified_epsilon
from topdown.app.screens.progress_bars import Progress, follow
from topdown.app.screens.text_layout import bold
from topdown.errors import ConfigError
from topdown.output_paths import open_log

if TYPE_CHECKING:
    from fractions import Fraction

    from topdown import Planned
    from topdown.app.screens.text_layout import Chunk
    from topdown.plan import PreparedRun


SHORTEST_APPROVAL = 4


@dataclass(frozen=True)
class Spending:
    """Where a run writes, how its plan is approved, and what may be gone on with or spent again.

    Args:
        out: folder of the release.
        approve: first characters of the plan's hash, given on the command line; yes: whatever the plan is.
        resume: go on with an interrupted run in `out`.
        again: spend a second time on a release that the ledger has already.
        final: refuse answers that are still open.
    """

    out: Path
    approve: str | None
    yes: bool
    resume: bool
    again: bool
    final: bool


_OPTIONS = with_options(
    click.option("--out", metavar="DIR", type=FOLDER, required=True, help="Where."),
    click.option("--approve", metavar="HASH", help="Approve the plan by 4 or more characters of its hash."),
    click.option("--yes", is_flag=True, help="Approve whatever the plan is."),
    click.option("--resume", is_flag=True, help="Go on with an interrupted run in DIR."),
    click.option("--again", is_flag=True, help="Spend a second time on a release the ledger has already."),
    click.option("--final", is_flag=True, help="Refuse answers that are still open."),
)


SPENT_AND_WRITTEN = {
    "What is spent": ("approve", "yes", "resume", "again", "final"),
    "Where it runs": ("workers", "on"),
    "What is written beside the release": ("csv", "language", "log_json"),
}
"""Groups of the options of commands that make a release."""


def spending_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command these options, as one argument `spending`."""
    return _OPTIONS(packed("spending", Spending)(function))


class SpendingCall(TypedDict):
    """What every function that spends is told alike."""

    again: bool
    resume: bool
    final: bool
    report: Progress


@contextmanager
def spending_run(
    screen: Screen, planned: Planned, spending: Spending, go_on: str, log_file: Path | None = None
) -> Iterator[SpendingCall]:
    """Ask before a run that may spend, show its progress, and say what is spent if it is interrupted.

    In its `with` block the run is made and shown. Errors that end it carry a note.

    Args:
        screen: where people are asked and told.
        planned: what is run.
        spending: see `Spending`.
        go_on: the command line that goes on with it.
        log_file: gets progress as JSON lines.

    Raises:
        TopdownError: what can be refused before anybody is asked, and what `ask_approval` refuses.
    """
    app.check_start(planned, spending.out, resume=spending.resume, final=spending.final, go_on=go_on)
    gc.freeze()  # the libraries are loaded, and stay: the garbage collector need not look at their objects
    prepared = planned.prepared
    log = None if log_file is None else open_log(log_file, prepared.needed, spending.out)
    ask_approval(screen, prepared, spending)
    before = app.charged_for(prepared.ledger_path, planned.plan_hash)
    before_here = app.charged_for(prepared.ledger_path, planned.plan_hash, here=True)
    with log or nullcontext(), follow(screen, log) as progress, app.spending(planned):

        def said() -> StoppedRun:
            text, spent = spent_text(prepared, progress.where, before, before_here)
            if spent == "0":
                return StoppedRun(text, "run the command again", spent)
            return StoppedRun(text, f"go on with: {go_on}", spent, go_on)

        said_when_stopped.set(said)
        yield SpendingCall(
            again=spending.again, resume=spending.resume, final=spending.final, report=progress
        )


def ask_approval(screen: Screen, prepared: PreparedRun, spending: Spending) -> None:
    """Get the approval of a plan, on a terminal or from the command line.

    Raises:
        ConfigError: C083 the approval names another plan; C084 nobody can be asked.
        click.Abort: the person left.
    """
    plan = prepared.plan
    full = plan.plan_hash

    def lines() -> Iterator[tuple[Chunk, ...]]:
        loss = figures.loss(plan.loss_name, plan.loss, plan.delta_of(plan.loss))
        certified = app.certified_loss(prepared.context.policy)
        based = "" if plan.base is None else " with its base"
        shown = f" (ε\u00a0{certified_epsilon(certified, 2)}{based})"
        already = app.charged_for(prepared.ledger_path, full)
        yield "Plan ", bold(full[:8]), f' spends {loss}{shown} of data set "{plan.release.data_set}".'
        for line in accuracy_lines(certified):
            yield (line[0].upper() + line[1:] + ".",)
        if spending.resume and already:
            name = figures.loss(plan.loss_name, already, plan.delta_of(already))
            yield (f"{name} of it is spent already; finished noise is kept and not charged again.",)

    confirm(screen, full, lines(), spending.approve, yes=spending.yes, look="topdown plan")


def confirm(
    screen: Screen,
    plan_hash: str,
    lines: Iterable[tuple[Chunk, ...]],
    approve: str | None,
    *,
    yes: bool,
    look: str,
    what: str = "plan",
) -> None:
    """Get the approval of a plan by its hash: from the command line, or from a person who is shown some lines.

    Args:
        screen: where a person is asked.
        plan_hash: of the plan.
        lines: what it spends, looked at only if a person is asked.
        approve: what the command line approves.
        yes: approve whatever it is.
        look: command that shows the plan.
        what: "plan", or "choice", which is approved by a person or by `yes` alone.

    Raises:
        ConfigError: C083 the approval names another plan; C084 nobody can be asked.
        click.Abort: the person left.
    """
    if approve is not None:
        check_approval(approve, plan_hash, look)
        return
    if yes:
        return
    if not can_ask(screen):
        raise ConfigError(
            "spending a budget needs an approval, and there is no terminal to ask on",
            code="C084",
            fix=f"add --approve {plan_hash[:8]} (this plan), or --yes (any plan)"
            if what == "plan"
            else "add --yes",
        )
    out = screen.err
    for line in lines:
        out.line(*line)
    out.line(f"This cannot be undone. Type the first four characters of the {what} to go on.")
    out.put("> ")
    answer = sys.stdin.readline()
    if not answer:
        raise click.Abort
    check_approval(answer.strip(), plan_hash, look)


def check_approval(answer: str, plan_hash: str, look: str = "topdown plan") -> None:
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
            fix=f"look at the plan again ({look}) and approve it by its hash; nothing was spent",
        )


def spent_text(prepared: PreparedRun, where: str, before: Fraction, before_here: Fraction) -> tuple[str, str]:
    """Say what an interrupted run has spent, by the ledger: a sentence and the exact loss.

    Args:
        prepared: the run. where: it was stopped.
        before: what was charged for its plan before, by anybody. before_here: by this process.
    """
    plan = prepared.plan
    spent = app.charged_for(prepared.ledger_path, plan.plan_hash, here=True) - before_here

    def loss(spent: Fraction) -> str:
        return figures.loss(plan.loss_name, spent, plan.delta_of(spent))

    stopped = f"Stopped {where}".rstrip() + "."
    if not spent:
        kept = f" {loss(before)} was spent before; its noise is kept." if before else ""
        return f"{stopped} Nothing {'more ' if before else ''}is spent.{kept}", "0"
    return f"{stopped} {loss(spent)} is spent and its noise is kept.", str(spent)
