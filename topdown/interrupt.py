"""Ctrl-C and its kin: SIGTERM and SIGHUP mean the same, and wait until the part under way is whole.

And how a forked process ends with the one that forked it.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def interrupt_between_parts() -> Iterator[Callable[[], None]]:
    """Hold back the signals that stop a run; the function given raises KeyboardInterrupt if one came, so does the end.

    Outside the main thread, or where a signal is ignored, nothing changes.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    def check() -> None:
        if came:
            came.clear()
            raise KeyboardInterrupt

    with _handled_by(note):
        yield check
    check()


@contextmanager
def stops_interrupt() -> Iterator[None]:
    """Let every signal that stops a run raise KeyboardInterrupt, as Ctrl-C does: it can say what is spent."""
    with _handled_by(signal.default_int_handler):
        yield


def die_with_parent() -> None:
    """Let this forked process be killed when its parent ends; do nothing where no system call does that."""
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


@contextmanager
def _handled_by(handler: _Handler) -> Iterator[None]:
    """Handle the signals that stop a run; leave those alone that are ignored, as under nohup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPS}
    before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
