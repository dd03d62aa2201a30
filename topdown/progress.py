"""How stages say where they are: one event type, one callback. Events carry public facts only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """A stage has done `done` of `total` units.

    Args:
        stage: ledger, measure, workers, solve, certify or publish.
        done, total: units; done == total ends the stage.
        text: what the unit is, or a sentence worth a line ("commit 1 written").
    """

    stage: str
    done: int
    total: int
    text: str = ""


Report = Callable[[Event], None]


def silent(event: Event) -> None:
    """Report to nobody."""
