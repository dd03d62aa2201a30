"""Run tasks in this process or in forked workers, which inherit what the solver has prepared."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import TypeVar

from threadpoolctl import threadpool_limits

from topdown.errors import InternalError

Task = TypeVar("Task")
Result = TypeVar("Result")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


class Pool:
    """Workers of one solve; results may come in any order, the caller sorts.

    Args:
        workers: processes; 1 works in this one.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._others = set(multiprocessing.active_children())
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Pool:
        if self.workers > 1:
            fork = multiprocessing.get_context("fork")
            self._executor = ProcessPoolExecutor(self.workers, fork, initializer=start_worker)
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            for worker in set(multiprocessing.active_children()) - self._others:
                worker.terminate()
            self._executor.shutdown(cancel_futures=True)

    def run(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the result of each task; tasks start in the order given.

        Raises:
            InternalError: X046 a worker was killed; what is still under way is given up.
        """
        if self._executor is None:
            yield from map(work, tasks)
            return
        try:
            for future in as_completed([self._executor.submit(work, task) for task in tasks]):
                yield future.result()
        except BrokenProcessPool:
            raise InternalError(
                "a worker process was killed",
                code="X046",
                fix="was memory short? Run it again with fewer --workers; a release goes on with --resume, "
                "its noise is kept",
            ) from None


def start_worker() -> None:
    """Prepare a forked worker: the parent decides when it stops, and it does not outlive the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with suppress(Exception):  # where the system has no such call
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    threadpool_limits(limits=1)
