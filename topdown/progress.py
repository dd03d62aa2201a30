"""How stages say where they are: one event type, one callback, or bars. Events carry public facts only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeGuard


@dataclass(frozen=True)
class Event:
    """A stage has done `done` of `total` units.

    >>> from topdown import Event
    >>> Event("solve", 3, 10).done
    3

    Args:
        stage: kernels, base, preflight, ledger, measure, workers, solve, publish, certify, verify, simulate, audit or
            another short name.
        done, total: units; done == total ends the stage.
        text: what the unit is, or a sentence worth a line ("commit 1 written").
    """

    stage: str
    done: int
    total: int
    text: str = ""


Report = Callable[[Event], None]
"""Called with every event; or a class of bars such as tqdm's, which gets a bar of its own for each stage."""


class Bar(Protocol):
    """A bar of tqdm's kind, made with `total` and `desc`."""

    def update(self, n: int) -> object:
        """Go on by n units."""

    def close(self) -> object:
        """End the bar."""


class _Silent:
    """Reports to nobody; its name stands in signatures."""

    def __call__(self, event: Event) -> None:
        """Pass an event over."""

    def __repr__(self) -> str:
        return "silent"


silent = _Silent()


@contextmanager
def open_report(report: Report) -> Iterator[Report]:
    """Return what is called with events: `report` itself, or bars of the class that it is, closed at the end."""
    if not _is_bars(report):
        yield report
        return
    bars = _Bars(report)
    try:
        yield bars
    finally:
        bars.close()


def _is_bars(report: object) -> TypeGuard[Callable[..., Bar]]:
    return isinstance(report, type) and callable(getattr(report, "update", None))


class _Bars:
    """A bar for each stage, one after the other."""

    def __init__(self, make: Callable[..., Bar]) -> None:
        self._make, self._bar = make, None
        self._stage, self._total, self._done = "", 0, 0

    _bar: Bar | None

    def __call__(self, event: Event) -> None:
        same = (event.stage, event.total) == (self._stage, self._total)
        if same and self._bar is None and event.done <= self._done:
            return  # the bar is full and gone
        if self._bar is None or not same:
            self.close()
            self._stage, self._total, self._done = event.stage, event.total, 0
            self._bar = self._make(total=event.total, desc=event.stage)
        self._bar.update(max(event.done - self._done, 0))
        self._done = max(event.done, self._done)
        if self._done >= event.total:
            self.close()

    def close(self) -> None:
        """End the bar that is open."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None
