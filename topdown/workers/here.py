"""Work in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from topdown.workers.guard import refuse_confidential
from topdown.workers.lost import Name

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Here(Generic[Shared]):
    """One worker: this process."""

    shared: Shared

    def __post_init__(self) -> None:
        refuse_confidential(self.shared)

    def map(
        self,
        work: Callable[[Shared, Task], Result],
        tasks: Iterable[Task],
        most: int | None = None,
        name: Name[Task] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`; a task starts when its result is asked for."""
        del most, name
        for task in tasks:
            refuse_confidential(task)
            done = work(self.shared, task)
            refuse_confidential(done)
            yield done
