"""Ask a person before a budget is spent; without a person, ask for the plan's hash."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from topdown.commands.right_choices import choices, rounded
from topdown.commands.terminal import can_ask
from topdown.errors import ConfigError
from topdown.screen import figures
from topdown.screen.console import Screen
from topdown.screen.look import bold

if TYPE_CHECKING:
    from topdown.plan.prepare import Prepared

SHORTEST = 4


def ask(screen: Screen, prepared: Prepared, *, approve: str | None, yes: bool, resume: bool) -> None:
    """Get the approval of a plan, on a terminal or from the command line.

    Raises:
        ConfigError: C083 the approval names another plan; C084 nobody can be asked.
        click.Abort: the person left.
    """
    from topdown.api.ledger_view import view_ledger
    from topdown.publish.certified import certified_loss

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
    shown = f" (ε\u00a0{rounded(certified, 2)}{based})"
    already = ledger.spent_on(full)
    out = screen.err
    out.line("Plan ", bold(full[:8]), f' spends {loss}{shown} of data set "{plan.release.data_set}".')
    for line in choices(certified):
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
    if len(given) < SHORTEST or not plan_hash.startswith(given):
        problem = "is not this plan" if len(given) >= SHORTEST else f"is shorter than {SHORTEST} characters"
        raise ConfigError(
            f'not approved: "{answer[:64]}" {problem}',
            code="C083",
            details=(("plan", plan_hash[:8]),),
            fix="look at the plan again (topdown plan) and approve it by its hash; nothing was spent",
        )
