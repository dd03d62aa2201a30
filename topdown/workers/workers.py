"""The seam between those who have work and the places where it can run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from topdown.workers.forked import Forked
from topdown.workers.here import Here

Shared = TypeVar("Shared")
Shared_co = TypeVar("Shared_co", covariant=True)
Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol[Shared_co]):
    """A place where tasks run; each worker holds the shared value from its start, so tasks stay small."""

    def map(
        self, work: Callable[[Shared_co, Task], Result], tasks: Iterable[Task], most: int | None = None
    ) -> Iterator[Result]:
        """Yield `work(shared, task)` for each task, in the order of the tasks.

        A task may run anywhere and more than once: it changes nothing but what it returns.

        Args:
            work: a function of a module.
            tasks: taken one by one, as there is room.
            most: tasks, 1 or more, that may be under way or wait to be asked for; None: all.

        Raises:
            InternalError: X046 a worker was killed; what is still under way is given up.
            Exception: what `work` raises, as it is.
        """
        ...


@contextmanager
def workers_with(shared: Shared, n: int) -> Iterator[Workers[Shared]]:
    """Open `n` workers that hold a value: processes of this machine, or 1, which is this process."""
    if n == 1:
        yield Here(shared)
        return
    with Forked(shared, n) as workers:
        yield workers
