"""Work in forked processes, which inherit what they need."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Generic, TypeVar

from threadpoolctl import threadpool_limits

from topdown.errors import InternalError

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_held: Any = None  # the shared value; set in forked workers only, which are given it as they start


class Forked(Generic[Shared]):
    """Processes of this machine, started with the first task and stopped when the context ends.

    Args:
        shared: inherited, never pickled; what the caller changes in it later is not seen.
        n: processes.
    """

    def __init__(self, shared: Shared, n: int) -> None:
        self._others = set(multiprocessing.active_children())
        fork = multiprocessing.get_context("fork")
        self._executor = ProcessPoolExecutor(n, fork, initializer=_start, initargs=(shared,))

    def __enter__(self) -> Forked[Shared]:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in set(multiprocessing.active_children()) - self._others:
            worker.terminate()
        self._executor.shutdown(cancel_futures=True)

    def map(
        self, work: Callable[[Shared, Task], Result], tasks: Iterable[Task], most: int | None = None
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`."""
        ahead = iter(tasks)
        try:
            waiting = deque(self._submit(work, task) for task in islice(ahead, most))
            while waiting:
                done = waiting.popleft().result()
                waiting.extend(self._submit(work, task) for task in islice(ahead, 1))
                yield done
        except BrokenProcessPool:
            raise InternalError(
                "a worker process was killed",
                code="X046",
                fix="was memory short? Run it again with fewer --workers; a release goes on with --resume, "
                "its noise is kept",
            ) from None

    def _submit(self, work: Callable[[Shared, Task], Result], task: Task) -> Future[Result]:
        with _held_back():  # the first task starts the processes
            return self._executor.submit(_run, work, task)


@contextmanager
def _held_back() -> Iterator[None]:
    """Keep signals waiting, here and in processes started meanwhile until these are ready for them.

    A worker that is stopped before it has handlers of its own would run this process's handlers, which do not
    stop it: whoever waits for its end would wait for ever.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(work: Callable[[Any, Task], Result], task: Task) -> Result:
    return work(_held, task)


def _start(shared: object) -> None:
    """Prepare a forked worker: the parent decides when it stops, and it does not outlive the parent."""
    global _held
    _held = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    with suppress(Exception):  # where the system has no such call
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    threadpool_limits(limits=1)
