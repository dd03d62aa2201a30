"""Workers in other processes: tasks are handed out in their order, and again if their worker is lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from topdown.workers.guard import refuse_confidential
from topdown.workers.lost import Lost, Name, Pending, run_again

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerLostError(Exception):
    """The worker of a task is gone."""


class Elsewhere(ABC, Generic[Shared]):
    """What kinds of workers have in common that are no part of this process.

    Args:
        shared: what each worker holds.
        lost: told about each worker that is lost.
        most: tasks that are handed out at once if nobody says how many; None: all.
    """

    def __init__(self, shared: Shared, lost: Lost, most: int | None = None) -> None:
        refuse_confidential(shared)
        self._lost, self._most = lost, most

    def map(
        self,
        work: Callable[[Shared, Task], Result],
        tasks: Iterable[Task],
        most: int | None = None,
        name: Name[Task] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`."""
        ahead = iter(tasks)
        waiting: deque[Pending[Task]] = deque()
        waiting.extend(self._pending(work, task) for task in islice(ahead, most or self._most))
        while waiting:
            try:
                done = self._result(waiting[0].answer)
            except WorkerLostError:
                self._again(work, waiting, name)
                continue
            waiting.popleft()
            waiting.extend(self._pending(work, task) for task in islice(ahead, 1))
            yield done

    def _pending(self, work: Callable[[Shared, Task], Result], task: Task) -> Pending[Task]:
        refuse_confidential(task)
        return Pending(task, self._submit(work, task))

    def _again(
        self, work: Callable[[Shared, Task], Result], waiting: deque[Pending[Task]], name: Name[Task] | None
    ) -> None:
        """Hand out again what was lost."""
        broken, suspects = self._broken(waiting)
        run_again(suspects, name, self._lost, self._machines(suspects))
        for pending in broken:
            pending.answer = self._submit(work, pending.task)

    @abstractmethod
    def _submit(self, work: Callable[[Shared, Task], Result], task: Task) -> Any:
        """Hand out a task; return the handle of its result."""

    @abstractmethod
    def _result(self, answer: Any) -> Any:
        """Wait for a task; return its result or raise what it raised, WorkerLostError if its worker is gone."""

    @abstractmethod
    def _broken(
        self, waiting: Sequence[Pending[Task]]
    ) -> tuple[list[Pending[Task]], Sequence[Pending[Task]]]:
        """Return the tasks to hand out again, and of them those that the lost worker may have worked on.

        Afterwards tasks are taken again.
        """

    def _machines(self, suspects: Sequence[Pending[Task]]) -> Sequence[str]:
        """Return the machine that each of these ran on, "" if it is not known; none where there is one machine."""
        del suspects
        return ()
