"""What `topdown plan --diff` shows."""

from __future__ import annotations

from topdown.api.plan_file import PlanChange
from topdown.screen.console import Screen
from topdown.screen.look import Span, bold, dim

_SHOWN = 20


def show_changes(screen: Screen, found: list[PlanChange], *, everything: bool) -> None:
    """Write the changes with their symbols: + new, - gone, ~ other value."""
    for change in found if everything else found[:_SHOWN]:
        if change.old is None:
            screen.say(Span("+", "ok"), " ", bold(change.key), f" {change.new}", indent=2, hang=6)
        elif change.new is None:
            screen.say(Span("-", "fail"), " ", bold(change.key), f" {change.old}", indent=2, hang=6)
        else:
            screen.say(
                Span("~", "warn"), " ", bold(change.key), f" {change.old} -> {change.new}", indent=2, hang=6
            )
    if not everything and len(found) > _SHOWN:
        screen.say(dim(f"({len(found) - _SHOWN} more; --details shows them)"), indent=4)
