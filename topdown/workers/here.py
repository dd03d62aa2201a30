"""Work in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Here(Generic[Shared]):
    """One worker: this process."""

    shared: Shared

    def map(
        self, work: Callable[[Shared, Task], Result], tasks: Iterable[Task], most: int | None = None
    ) -> Iterator[Result]:
        """Yield the result of each task, see `Workers`; a task starts when its result is asked for."""
        return (work(self.shared, task) for task in tasks)
