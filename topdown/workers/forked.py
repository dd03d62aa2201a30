"""Work in forked processes, which inherit what they need."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from topdown.process import (
    STOP_SIGNALS,
    die_with_parent,
    ignore_stops,
    stops_blocked,
    use_system_allocator,
)
from topdown.workers.tasks import (
    Pending,
    RemoteWorkers,
    ReportLoss,
    WorkerLostError,
    refuse_confidential,
    tell_nobody,
)

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
WAIT_SECONDS = 1.0
_held: Any = None  # the shared value; set in forked workers only, which are given it as they start


class Forked(RemoteWorkers[Shared]):
    """Processes of this machine, started with the first task and stopped when the context ends.

    Args:
        shared: inherited, never pickled; what the caller changes in it later is not seen.
        n: processes.
        lost: told about each process that was killed; all processes are started anew then.
        still_waiting: called about once a second while a result is waited for.
    """

    def __init__(
        self,
        shared: Shared,
        n: int,
        lost: ReportLoss = tell_nobody,
        still_waiting: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(shared, lost)
        self._shared, self._n, self._still_waiting = shared, n, still_waiting
        self._others = set(multiprocessing.active_children())
        self._executor = self._start()

    def __enter__(self) -> Forked[Shared]:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in set(multiprocessing.active_children()) - self._others:
            worker.terminate()
        self._executor.shutdown(cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        fork = multiprocessing.get_context("fork")
        return ProcessPoolExecutor(self._n, fork, initializer=_start_worker, initargs=(self._shared,))

    def _submit(self, work: Callable[[Shared, Task], Result], task: Task) -> Future[Result] | None:
        """Hand out a task; None if the processes are lost."""
        try:
            with stops_blocked():  # the first task starts the processes
                return self._executor.submit(_run_task, work, task)
        except BrokenProcessPool:
            return None

    def _result(self, answer: Future[Result] | None) -> Result:
        if answer is None:
            raise WorkerLostError
        try:
            while self._still_waiting is not None and not wait([answer], WAIT_SECONDS).done:
                self._still_waiting()
            return answer.result()
        except BrokenProcessPool:
            raise WorkerLostError from None

    def _broken(self, waiting: Sequence[Pending[Task]]) -> tuple[list[Pending[Task]], list[Pending[Task]]]:
        """Start new processes; without a result is what has to be handed out again.

        Tasks are begun in their order, so the first without a result are those that were under way.
        """
        self._executor.shutdown()  # until then, some futures do not know yet that they are lost
        self._executor = self._start()
        broken = [
            p for p in waiting if p.answer is None or isinstance(p.answer.exception(), BrokenProcessPool)
        ]
        return broken, broken[: self._n]


def _run_task(work: Callable[[Any, Task], Result], task: Task) -> Result:
    done = work(_held, task)
    refuse_confidential(done)
    return done


def _start_worker(shared: object) -> None:
    """Prepare a forked worker: the parent decides when it stops, and it does not outlive the parent."""
    global _held
    _held = shared
    gc.freeze()  # a collection would write to, and so copy, every page of objects that the parent shares
    ignore_stops([signal.SIGINT])  # the others may be waiting: to ignore them would lose them
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    die_with_parent()
    threadpool_limits(limits=1)
    use_system_allocator()
