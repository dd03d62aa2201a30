"""What all kinds of workers have in common: values that none is given, and tasks that run again if a worker is lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from topdown.errors import InternalError
from topdown.process import check_stopped

MARK = "stays_in_its_process"  # an attribute of classes of confidential values


def refuse_confidential(value: object) -> None:
    """Refuse a confidential value, or one that holds one directly: as attribute, or in a tuple, list or dict.

    It looks no deeper, so that it costs nothing to speak of; what is pickled on its way refuses at any depth.

    Raises:
        TypeError: the value is confidential.
    """
    if hasattr(type(value), MARK) or any(hasattr(type(one), MARK) for one in _inside(value)):
        raise TypeError("confidential records are given to no worker")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (tuple, list)):
        return value
    return getattr(value, "__dict__", {}).values()


Task = TypeVar("Task")
ReportLoss = Callable[[str], None]  # told one sentence about each lost worker
NameTask = Callable[[Task], str]
MOST_AGAIN = 3  # times that one task runs again
MOST_NAMED = 12


@dataclass(eq=False)
class Pending(Generic[Task]):
    """A task that waits to be asked for.

    Args:
        task: what it works on.
        answer: the handle of its result, by the kind of worker; None if it has to be handed out again.
        losses: workers lost while they may have worked on it.
    """

    task: Task
    answer: Any
    losses: int = 0


def tell_nobody(text: str) -> None:
    """Tell nobody."""


def run_again(
    suspects: Sequence[Pending[Task]],
    name: NameTask[Task] | None,
    lost: ReportLoss,
    machines: Sequence[str] = (),
) -> None:
    """Count a lost worker against the tasks that it may have worked on, and say so.

    Args:
        suspects: these tasks, one or more.
        name: what an error calls a task.
        lost: told.
        machines: where each of them ran, "" if that is not known; named if all are.

    Raises:
        InternalError: X046 one of them was lost too often; it is named.
    """
    for pending in suspects:
        pending.losses += 1
    most = max(pending.losses for pending in suspects)
    if most <= MOST_AGAIN:
        where = f" on {_shortened_list(sorted(set(machines)))}" if machines and all(machines) else ""
        lost(f"lost a worker{where}; its work is done again ({most} of {MOST_AGAIN})")
        return
    named = [name(p.task) for p in suspects if p.losses == most] if name else []
    raise InternalError(
        f"a worker process was killed {most} times with the same work",
        code="X046",
        details=(("one of", _shortened_list(named)),) if named else (),
        fix="was memory short? Run it again with fewer --workers; a release goes on with --resume, "
        "its noise is kept",
    )


def _shortened_list(names: list[str]) -> str:
    more = [f"and {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
    return ", ".join(names[:MOST_NAMED] + more)


Shared = TypeVar("Shared")
Result = TypeVar("Result")


class WorkerLostError(Exception):
    """The worker of a task is gone."""


class RemoteWorkers(ABC, Generic[Shared]):
    """What kinds of workers have in common that are no part of this process.

    Args:
        shared: what each worker holds.
        lost: told about each worker that is lost.
        most: tasks that are handed out at once if nobody says how many; None: all.
    """

    def __init__(self, shared: Shared, lost: ReportLoss, most: int | None = None) -> None:
        refuse_confidential(shared)
        self._lost, self._most = lost, most

    def map(
        self,
        work: Callable[[Shared, Task], Result],
        tasks: Iterable[Task],
        most: int | None = None,
        name: NameTask[Task] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`."""
        ahead = iter(tasks)
        waiting: deque[Pending[Task]] = deque()
        waiting.extend(self._pending(work, task) for task in islice(ahead, most or self._most))
        while waiting:
            check_stopped()
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
        self,
        work: Callable[[Shared, Task], Result],
        waiting: deque[Pending[Task]],
        name: NameTask[Task] | None,
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
