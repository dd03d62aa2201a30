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

from topdown.workers.guard import refuse_confidential
from topdown.workers.lost import Lost, Name, Pending, nobody, run_again

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
        lost: told about each process that was killed; all processes are started anew then.
    """

    def __init__(self, shared: Shared, n: int, lost: Lost = nobody) -> None:
        refuse_confidential(shared)
        self._shared, self._n, self._lost = shared, n, lost
        self._others = set(multiprocessing.active_children())
        self._executor = self._start()

    def __enter__(self) -> Forked[Shared]:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in set(multiprocessing.active_children()) - self._others:
            worker.terminate()
        self._executor.shutdown(cancel_futures=True)

    def map(
        self,
        work: Callable[[Shared, Task], Result],
        tasks: Iterable[Task],
        most: int | None = None,
        name: Name[Task] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`."""
        ahead = iter(tasks)
        waiting = deque(self._submit(work, task) for task in islice(ahead, most))
        while waiting:
            answer = waiting[0].answer
            if answer is None or _is_lost(answer):
                self._again(work, waiting, name)
                continue
            waiting.popleft()
            waiting.extend(self._submit(work, task) for task in islice(ahead, 1))
            yield answer.result()

    def _again(
        self,
        work: Callable[[Shared, Task], Result],
        waiting: deque[Pending[Task]],
        name: Name[Task] | None,
    ) -> None:
        """Start new processes, and hand out again what has no result.

        Tasks are begun in their order, so the first without a result are those that were under way.
        """
        self._executor.shutdown()  # until then, some futures do not know yet that they are lost
        broken = [p for p in waiting if p.answer is None or _is_lost(p.answer)]
        run_again(broken[: self._n], name, self._lost)
        self._executor = self._start()
        for pending in broken:
            pending.answer = self._submit(work, pending.task).answer

    def _start(self) -> ProcessPoolExecutor:
        fork = multiprocessing.get_context("fork")
        return ProcessPoolExecutor(self._n, fork, initializer=_start, initargs=(self._shared,))

    def _submit(self, work: Callable[[Shared, Task], Result], task: Task) -> Pending[Task]:
        refuse_confidential(task)
        try:
            with _held_back():  # the first task starts the processes
                return Pending(task, self._executor.submit(_run, work, task))
        except BrokenProcessPool:
            return Pending(task, None)


def _is_lost(answer: Future[Any]) -> bool:
    return isinstance(answer.exception(), BrokenProcessPool)


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
    done = work(_held, task)
    refuse_confidential(done)
    return done


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
