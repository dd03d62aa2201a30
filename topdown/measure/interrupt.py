"""Let an interrupt wait until the part under way is whole, so that stopping costs nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_between_parts() -> Iterator[Callable[[], None]]:
    """Hold back SIGINT; the function given raises KeyboardInterrupt if one came, and so does the end.

    Outside the main thread, or where SIGINT is ignored, nothing changes.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    def check() -> None:
        if came:
            came.clear()
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not main or before in (signal.SIG_IGN, None):
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
    check()
