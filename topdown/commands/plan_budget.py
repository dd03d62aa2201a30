"""`topdown plan --budget-for`: what is asked, and its part of the screen."""

from __future__ import annotations

from topdown.accountant.exact import rational
from topdown.api.budget_for import DELTA, BudgetFor
from topdown.api.planned import Planned
from topdown.decimals import significant
from topdown.screen.console import Screen


def find_budget(planned: Planned, wish: str) -> BudgetFor:
    """Find the budget for "EPSILON" or "EPSILON:DELTA"."""
    epsilon, colon, delta = wish.partition(":")
    return planned.budget_for(rational(epsilon, "epsilon"), rational(delta, "delta") if colon else DELTA)


def show_budget(screen: Screen, found: BudgetFor) -> None:
    """Write the line for the run file, and what it costs."""
    screen.heading("Budget", f" for ε {found.epsilon} at δ {found.delta}, all shares as they are")
    screen.say(f'{found.loss_name} = "{found.budget}"  under [budget]', indent=2, hang=4)
    said = significant(found.certified, 9, up=True)
    screen.say(f"costs ε {said} at most, certified; this plan is as it was", indent=2, hang=4)
