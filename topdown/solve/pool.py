"""Run tasks in this process or in forked workers, which inherit what the solver has prepared."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")


class Pool:
    """Workers of one solve; results may come in any order, the caller sorts.

    Args:
        workers: processes; 1 works in this one.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.pool: Any = None

    def __enter__(self) -> Pool:
        if self.workers > 1:
            self.pool = multiprocessing.get_context("fork").Pool(self.workers, initializer=_start_worker)
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.terminate()
            self.pool.join()

    def run(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the result of each task; tasks start in the order given."""
        return map(work, tasks) if self.pool is None else self.pool.imap_unordered(work, tasks)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threadpool_limits(limits=1)
