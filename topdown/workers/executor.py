"""The seam between those who have work and the places where it can run: this process, forked ones, or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from topdown.process import check_stopped
from topdown.workers.forked import Forked
from topdown.workers.tasks import NameTask, ReportLoss, refuse_confidential, tell_nobody

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class LocalWorker(Generic[Shared]):
    """One worker: this process."""

    shared: Shared

    def __post_init__(self) -> None:
        refuse_confidential(self.shared)

    def map(
        self,
        work: Callable[[Shared, Task], Result],
        tasks: Iterable[Task],
        most: int | None = None,
        name: NameTask[Task] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`; a task starts when its result is asked for."""
        del most, name
        for task in tasks:
            refuse_confidential(task)
            check_stopped()
            done = work(self.shared, task)
            refuse_confidential(done)
            yield done


Shared_co = TypeVar("Shared_co", covariant=True)
ExecutorChoice = int | Literal["ray"]  # so many processes of this machine, or a cluster


class Workers(Protocol[Shared_co]):
    """A place where tasks run; each worker holds the shared value from its start, so tasks stay small."""

    def map(
        self,
        work: Callable[[Shared_co, Task], Result],
        tasks: Iterable[Task],
        most: int | None = None,
        name: NameTask[Task] | None = None,
    ) -> Iterator[Result]:
        """Yield `work(shared, task)` for each task, in the order of the tasks.

        A task may run anywhere and more than once: it changes nothing but what it returns. The tasks of a worker that
        is lost run again, at most three times. Confidential values are refused.

        Args:
            work: a function of a module.
            tasks: taken one by one, as there is room.
            most: tasks, 1 or more, that may be under way or wait to be asked for; None: as many as the place takes.
            name: what an error calls a task.

        Raises:
            InternalError: X046 a worker was lost too often; nobody asks for what is still under way.
            TypeError: something is confidential.
            Exception: what `work` raises, as it is.
        """
        ...


class Cluster(Protocol):
    """Workers of other machines, connected."""

    @property
    def n(self) -> int:
        """Return how many tasks run at a time."""
        ...

    def workers(self, shared: Shared, lost: ReportLoss) -> Workers[Shared]:
        """Return workers that hold a value."""
        ...


Executor = int | Cluster


def executor_size(place: Executor) -> int:
    """Return how many tasks run at a time."""
    return place if isinstance(place, int) else place.n


@contextmanager
def workers_with(
    shared: Shared,
    place: Executor,
    lost: ReportLoss = tell_nobody,
    still_waiting: Callable[[], None] | None = None,
) -> Iterator[Workers[Shared]]:
    """Open workers that hold a value: a cluster's, processes of this machine, or 1, which is this process.

    Args:
        shared: what each worker holds.
        place: where.
        lost: told one sentence about each worker that is lost.
        still_waiting: called about once a second while a result of a process of this machine is waited for.
    """
    if not isinstance(place, int):
        yield place.workers(shared, lost)
    elif place == 1:
        yield LocalWorker(shared)
    else:
        with Forked(shared, place, lost, still_waiting) as workers:
            yield workers


@contextmanager
def open_executor(where: ExecutorChoice, folder: Path, told: ReportLoss = tell_nobody) -> Iterator[Executor]:
    """Connect to a cluster, whose machines must see a folder with a plan; a number of processes is itself.

    Args, Raises: see `ray.connect_cluster`; `told` gets the sentence that it returns.
    """
    if isinstance(where, int):
        yield where
        return
    from topdown.workers.ray import connect_cluster

    cluster: AbstractContextManager[Cluster] = connect_cluster(folder, told)
    with cluster as place:
        yield place
