"""A process of ours: where Arrow takes its memory from, and Ctrl-C, SIGTERM and SIGHUP, which mean the same.

Signals wait until the part under way is whole; a forked process ends with the one that forked it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_CHOSEN = "ARROW_DEFAULT_MEMORY_POOL"  # read by Arrow as it is imported


def use_system_allocator() -> None:
    """Let Arrow use the system's allocator in this process, unless the user chose one.

    Arrow's own keeps much of what it is given back: a sixth of the memory of a release of ten million people. For
    programs and workers only; who imports us decides about their own process.
    """
    if _CHOSEN in os.environ:
        return
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
    else:
        os.environ[_CHOSEN] = "system"


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_SignalHandler = Callable[[int, FrameType | None], object]


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

    with _with_handler(note):
        yield check
    check()


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Let every signal that stops a run raise KeyboardInterrupt, as Ctrl-C does: it can say what is spent."""
    with _with_handler(signal.default_int_handler):
        yield


def die_with_parent() -> None:
    """Let this forked process be killed when its parent ends; do nothing where no system call does that."""
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


@contextmanager
def _with_handler(handler: _SignalHandler) -> Iterator[None]:
    """Handle the signals that stop a run; leave those alone that are ignored, as under nohup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
