"""Progress: bars on a terminal, log lines elsewhere. No thread, so that a fork at any moment is safe."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self, TextIO

from topdown.app.screens import figures
from topdown.app.screens.console import Painter, Screen, write_or_drop
from topdown.app.screens.text_layout import Chunk, Span, dim, line_width, wrap
from topdown.progress import Event

BAR = 26  # columns of a bar on a screen of 80
SENTENCES = ("ledger", "workers")  # every event is a line of its own
UNITS = {"measure": "areas", "solve": "areas", "simulate": "replicates", "audit": "pairs"}
REDRAW, LOG_EVERY = 0.1, 1.0  # seconds


class Progress:
    """Follow the stages of a run; call it with every event. What cannot be shown is dropped: no run ends of it.

    Args:
        painter: stream for bars or log lines; None shows nothing.
        log: open file for one JSON object an event, or None.
        clock: monotonic seconds.
        patience_seconds: nothing is shown before: of commands whose screen is their result.

    Attributes:
        where: "in solve" or "after measure" by the last event, "" before the first.
        seconds: time spent in each stage so far.
    """

    def __init__(
        self,
        painter: Painter | None,
        log: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = 0.0,
    ) -> None:
        self._painter, self._log, self._clock = painter, log, clock
        self._patience, self._created = patience_seconds, clock()
        self._began: dict[str, float] = {}
        self._drawn = -math.inf
        self._unfinished = False
        self._ended: Event | None = None
        self.where = ""
        self.seconds: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if event == self._ended:
            return
        now = self._clock()
        first = event.stage not in self._began
        began = self._began.setdefault(event.stage, now)
        stage = "measure" if event.stage == "ledger" else event.stage
        if stage != "workers":
            self.where = f"{'in' if event.done < event.total else 'after'} {stage}"
        self.seconds[event.stage] = now - began
        if self._log is not None:
            record = {"time": _utc(), "stage": event.stage, "done": event.done, "total": event.total}
            line = json.dumps(record | ({"text": event.text} if event.text else {})) + "\n"
            if not write_or_drop(self._log, line):
                self._log = None
        if self._painter is None or now - self._created < self._patience:
            return
        ended = event.done >= event.total or event.stage in SENTENCES
        if self._painter.look.live:
            if ended or not self._unfinished or now - self._drawn >= REDRAW:
                self._draw(self._painter, event, now - began, ended)
                self._drawn = now
        elif first or ended or now - self._drawn >= LOG_EVERY:
            kind = "end" if ended else "start" if first else "progress"
            fields = [
                _utc(),
                f"stage={event.stage}",
                f"event={kind}",
                f"done={event.done}",
                f"total={event.total}",
            ]
            fields += [f'text="{event.text}"'] if event.text else []
            fields += [f"seconds={now - began:.1f}"] if ended else []
            self._painter.raw((" ".join(fields),))
            self._drawn = now
        if ended:
            self._ended = event
            del self._began[event.stage]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave an unfinished bar on its own line; one that had patience goes."""
        if self._unfinished and self._painter is not None:
            self._painter.put("\r\x1b[2K" if self._patience else "\n")
            self._unfinished = False

    def _draw(self, painter: Painter, event: Event, elapsed: float, ended: bool) -> None:
        line: list[Chunk] = ["  ", f"{event.stage:<9}", "  ", *self._middle(painter, event, elapsed, ended)]
        lines = [line] if not ended else wrap(tuple(line), painter.look, hang=13)
        text = "\n".join("".join(painter.look.paint(chunk) for chunk in part) for part in lines)
        spare = painter.look.width - 1 - line_width(line, painter.look)
        if spare < 0 and not ended:
            text = "".join(painter.look.plain(chunk) for chunk in line)[: painter.look.width - 1]
        painter.put(("\r\x1b[2K" if self._unfinished else "") + text + ("\n" if ended else ""))
        self._unfinished = not ended

    def _middle(self, painter: Painter, event: Event, elapsed: float, ended: bool) -> list[Chunk]:
        wide = painter.look.width >= 72
        if event.total <= 1 or event.stage in SENTENCES:
            took = figures.seconds(elapsed) if elapsed >= 0.05 else ""
            text = f"{event.text:<44}{took:>8}".rstrip() if wide else f"{event.text} {took}".rstrip()
            return [text if ended else event.text + " ..."]
        width = BAR if wide else 10
        done = width if ended else min(width, width * event.done // event.total)
        bar: list[Chunk] = [
            Span("━" * done, "plus"),
            dim(("." if painter.look.ascii else "━") * (width - done)),
            "  ",
        ]
        if not painter.look.colour and not painter.look.ascii:
            bar[1] = " " * (width - done)
        if ended:
            counted = f"{event.total:,} {UNITS.get(event.stage, event.text)}"
            label = event.text if event.text[:1].isdigit() else counted
            took = figures.seconds(elapsed)
            return [*bar, f"{label:<16}{took:>8}" if wide else f"{label} {took}"]
        label = f"{event.text} {event.done:,}/{event.total:,}".strip()
        left = elapsed * (event.total - event.done) / event.done if event.done and elapsed > 1 else None
        return [*bar, label, "" if left is None else f"  ~{max(1, round(left))} s"]


PATIENCE_SECONDS = 0.5


def follow(screen: Screen, log: TextIO | None = None, *, patient: bool = False) -> Progress:
    """Return the progress display that fits a screen: none with -q, nor with --json on a terminal.

    Args:
        log: see `Progress`.
        patient: the screen is the command's result, and progress is shown of what takes long only.
    """
    hidden = screen.quiet or (screen.json and screen.err.look.live)
    return Progress(
        None if hidden else screen.err, log, patience_seconds=PATIENCE_SECONDS if patient else 0.0
    )


def _utc() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
