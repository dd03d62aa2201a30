"""A process of ours: where Arrow takes its memory from, and Ctrl-C, SIGTERM and SIGHUP, which mean the same.

A stop is an exception once, wherever the main thread is. It waits while a part is drawn. Where a library swallows it,
or makes another error of it, the next call of `check_stopped` raises it again. A forked process ends with its parent.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec

from topdown.errors import EXIT_INTERRUPTED

TYPE_CHECKING = False  # `typing` would double the time until a program handles signals
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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
        pa = sys.modules["pyarrow"]
        pa.set_memory_pool(pa.system_memory_pool())
    else:
        os.environ[_CHOSEN] = "system"


class _Unneeded:
    """Comes before the places where Python looks for modules; it has no pandas, and an empty numpy.f2py."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this program makes no data frames", name=name)
        return ModuleSpec(name, None, is_package=True) if name == "numpy.f2py" else None


def leave_out_unneeded() -> None:
    """Do without pandas in this process, which makes no data frames: Arrow imports it with its first array.

    That takes a quarter of a second and 38 MB. SciPy asks NumPy for all its names, among them for what reads Fortran
    (20 ms): that is empty. For programs only; who imports us may want data frames, and read Fortran.
    """
    sys.meta_path.insert(0, _Unneeded)


def use_one_blas_thread() -> None:
    """Let OpenBLAS have one thread in this process, unless the user chose: nothing here is solved with more.

    A thread that has nothing to do takes 20 ms of CPU at its start, in every library and after every fork. For programs
    only; called before NumPy is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_SOON_SECONDS = 1.0  # a second Ctrl-C within it is taken for the first: what ends the run is not torn


class StopError(KeyboardInterrupt):
    """A stop.

    It is no KeyboardInterrupt itself: where one passes code that was made from a text, as in a dataclass, Python ends
    the process by SIGINT later, whatever exit code it was given.
    """


class _Stops:
    """The stops that came to this process, since the outermost block that handles them began."""

    came, held, open_blocks = False, 0, 0
    raised_at = float("-inf")


def begin_program() -> None:
    """Set up the process of a command, before it imports the libraries of its screens.

    Python would look for cycles of garbage among 90,000 objects of the libraries: 200 times while they are loaded, and
    for 0.1 s as it ends. It looks after 200,000 new objects here, not after 700, and not at the end.
    """
    end_when_stopped()
    leave_out_unneeded()
    use_one_blas_thread()
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)


def end_when_stopped() -> None:
    """Let a stop end this process at once, with one sentence: a program calls it before it imports the rest.

    An exception would end in a traceback there, and libraries that are being loaded swallow it.
    """
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end_at_once)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"Stopped before it began. Nothing is spent.\n")
    os._exit(EXIT_INTERRUPTED)


def ignore_stops(numbers: Iterable[signal.Signals] = STOP_SIGNALS) -> None:
    """Ignore every further stop: this process is about to end, or whoever forked it decides when."""
    _Stops.came = False
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def let_command_end() -> None:
    """Ignore further stops until the outermost block that handles them ends: the one result is being written.

    A stop that comes after it would be a second answer to the same question. Outside such a block, or outside the main
    thread, nothing changes.
    """
    if _Stops.open_blocks and _in_main_thread():
        ignore_stops()


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Let every signal that stops a run raise KeyboardInterrupt, as Ctrl-C does: it can say what is spent.

    Outside the main thread, or where a signal is ignored, as under nohup, nothing changes. A program that said that a
    stop ends it before it began ignores stops after the block: it has begun.
    """
    if not _in_main_thread():
        yield
        return
    if not _Stops.open_blocks:
        _Stops.raised_at = float("-inf")
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    _Stops.open_blocks += 1
    try:
        for number in before:
            signal.signal(number, _note_stop)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_IGN if old is _end_at_once else old)
        _Stops.open_blocks -= 1
        if not _Stops.open_blocks:
            _Stops.came = False


def _note_stop(number: int, frame: FrameType | None) -> None:
    _Stops.came = True
    if not _Stops.held and time.monotonic() > _Stops.raised_at + _SOON_SECONDS:
        check_stopped()


def was_stopped() -> bool:
    """Tell whether a signal that stops a run came, in this thread."""
    return _Stops.came and _in_main_thread()


def check_stopped() -> None:
    """Raise StopError if a stop came: it was held back, or a library swallowed the exception."""
    if was_stopped():
        _Stops.raised_at = time.monotonic()
        raise StopError


@contextmanager
def hold_stops() -> Iterator[None]:
    """Hold back the signals that stop a run while something short must not be torn; `check_stopped` asks for them."""
    here = _in_main_thread()  # others get no signals
    _Stops.held += here
    try:
        yield
    finally:
        _Stops.held -= here


@contextmanager
def allow_stops() -> Iterator[None]:
    """Raise stops within a block that holds them back, one that came before too; outside the main thread do nothing.

    A program allows them in its command alone: what it says of how that ended is said whole.
    """
    if not _in_main_thread():
        yield
        return
    held = _Stops.held
    try:
        _Stops.held = 0
        check_stopped()
        yield
    finally:
        _Stops.held = held


@contextmanager
def interrupt_between_parts() -> Iterator[Callable[[], None]]:
    """Hold back the signals that stop a run; the function given raises StopError if one came, so does the end.

    Outside the main thread, or where a signal is ignored, nothing changes.
    """
    with signals_as_interrupt(), hold_stops():
        yield check_stopped
        check_stopped()


@contextmanager
def stops_blocked() -> Iterator[None]:
    """Keep stops waiting, here and in processes started meanwhile until these are ready for them.

    A process that is stopped before it has handlers of its own would run those of its parent: go on as its parent
    would, or not end at all.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def die_with_parent() -> None:
    """Let this forked process be killed when its parent ends; do nothing where no system call does that."""
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
