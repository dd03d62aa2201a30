"""What happens to the task of a worker that is lost: it runs again, a few times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from topdown.errors import InternalError

Task = TypeVar("Task")
Lost = Callable[[str], None]  # told one sentence about each lost worker
Name = Callable[[Task], str]
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


def nobody(text: str) -> None:
    """Tell nobody."""


def run_again(
    suspects: Sequence[Pending[Task]], name: Name[Task] | None, lost: Lost, machines: Sequence[str] = ()
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
        where = f" on {_listed(sorted(set(machines)))}" if machines and all(machines) else ""
        lost(f"lost a worker{where}; its work is done again ({most} of {MOST_AGAIN})")
        return
    named = [name(p.task) for p in suspects if p.losses == most] if name else []
    raise InternalError(
        f"a worker process was killed {most} times with the same work",
        code="X046",
        details=(("one of", _listed(named)),) if named else (),
        fix="was memory short? Run it again with fewer --workers; a release goes on with --resume, "
        "its noise is kept",
    )


def _listed(names: list[str]) -> str:
    more = [f"and {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
    return ", ".join(names[:MOST_NAMED] + more)
