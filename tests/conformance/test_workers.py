"""Every kind of worker runs the same tasks to the same results, and ends with the first that fails."""

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cluster import cluster, needs_ray
from topdown.errors import DataError, InternalError
from topdown.measure import Confidential
from topdown.workers import Forked, LocalWorker, Workers, forked, tell_nobody, workers_with

Table = dict[int, Callable[[int], int]]  # cannot be pickled: a worker has to inherit it
SHARED: Table = {0: lambda n: n * n, 1: lambda n: -n}
KINDS: dict[str, Callable[[], AbstractContextManager[Workers[Table]]]] = {
    "here": lambda: holding("here", SHARED),
    "forked": lambda: holding("forked", SHARED),
    "ray": lambda: holding("ray", SHARED),
}
NAMES = ["here", "forked", pytest.param("ray", marks=needs_ray)]
every_kind = pytest.mark.parametrize("kind", NAMES)
killable_kinds = pytest.mark.parametrize("kind", NAMES[1:])


@dataclass
class Box:
    """Holds something."""

    records: object


def holding(kind: str, shared: Any, said: list[str] | None = None) -> AbstractContextManager[Workers[Any]]:
    """Open workers of a kind that hold a value; they say in a list what is lost."""
    if kind == "here":
        return nullcontext(LocalWorker(shared))
    if kind == "ray":
        return nullcontext(cluster().workers(shared, tell_nobody if said is None else said.append))
    return Forked(shared, 3, tell_nobody if said is None else said.append)


def killable(kind: str, said: list[str]) -> AbstractContextManager[Workers[Table]]:
    """Open workers that say what is lost."""
    return holding(kind, SHARED, said)


def change(shared: Table, n: int) -> int:
    """Return one of two functions of a number."""
    return shared[n % 2](n)


def refuse(shared: Table, n: int) -> int:
    """Refuse the third task."""
    if n == 2:
        raise DataError("no such number", code="D001", fix="take another", node=str(n))
    return n


def die(shared: Table, n: int) -> int:
    """Be killed with the third task, as by a system that is short of memory."""
    if n == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def die_once(shared: Table, task: tuple[int, str]) -> int:
    """Be killed by the first task of its mark."""
    n, mark = task
    if mark.endswith("True"):
        with suppress(FileExistsError):
            Path(mark).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return n


def slow_or_refused(shared: Table, task: tuple[int, str]) -> int:
    """Refuse the third task; take a moment for the others, and leave a mark."""
    n, mark = task
    if n == 2:
        raise DataError("no such number", code="D001")
    time.sleep(0.1)
    Path(mark).touch()
    return n


def give_back(shared: Table, n: int) -> object:
    """Return confidential records."""
    return Confidential(None)


def ignores_interrupts(shared: Table, n: int) -> bool:
    """Tell whether Ctrl-C would stop this process in the middle of a task."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@every_kind
@pytest.mark.parametrize("most", [None, 1, 4, 100])
def test_results_come_in_the_order_of_the_tasks(kind: str, most: int | None) -> None:
    """Results in another order would give a release that depends on the machine."""
    with KINDS[kind]() as workers:
        for n in (0, 1, 25):
            assert [change(SHARED, i) for i in range(n)] == list(workers.map(change, range(n), most))


@every_kind
def test_tasks_are_taken_as_there_is_room(kind: str) -> None:
    """All tasks of a nation at once, or all of their results, would not fit into memory."""
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for n in range(40):
            taken.append(n)
            yield n

    with KINDS[kind]() as workers:
        for n, _ in enumerate(workers.map(change, tasks(), 5)):
            assert n < len(taken) <= n + 6


@every_kind
def test_an_error_is_raised_as_it_is(kind: str) -> None:
    """An error that loses its code, node or fix on the way tells nobody what to do."""
    with KINDS[kind]() as workers, pytest.raises(DataError, match="no such number") as error:
        list(workers.map(refuse, range(9)))
    assert (error.value.code, error.value.node, error.value.fix) == ("D001", "2", "take another")


@every_kind
def test_nobody_is_left_behind(kind: str) -> None:
    """A worker that outlives its caller would hold memory and the folder of the run."""
    with KINDS[kind]() as workers:
        assert next(workers.map(change, range(100))) == 0
    assert multiprocessing.active_children() == []


@every_kind
def test_what_is_under_way_is_given_up_after_an_error(kind: str, tmp_path: Path) -> None:
    """A run that has failed must not keep machines busy with work that nobody will ask for."""
    tasks = [(n, str(tmp_path / str(n))) for n in range(200)]
    with KINDS[kind]() as workers, pytest.raises(DataError):
        list(workers.map(slow_or_refused, tasks))
    assert len(list(tmp_path.iterdir())) < 100


@killable_kinds
@pytest.mark.parametrize("most", [None, 2])
def test_work_of_a_killed_worker_runs_again(kind: str, most: int | None, tmp_path: Path) -> None:
    """A run of hours must not end, nor change its result, because memory ran short for a moment."""
    said: list[str] = []
    tasks = [(n, str(tmp_path / f"{n % 7 == 2}")) for n in range(30)]
    with killable(kind, said) as workers:
        assert list(range(30)) == list(workers.map(die_once, tasks, most))
    assert said == ["lost a worker; its work is done again (1 of 3)"]
    assert multiprocessing.active_children() == []


@killable_kinds
@pytest.mark.parametrize("most", [None, 2])
def test_work_that_kills_every_worker_ends_the_run(kind: str, most: int | None) -> None:
    """A run that waits for the result of a killed worker waits for ever; the error has to say which work it is."""
    said: list[str] = []
    with killable(kind, said) as workers, pytest.raises(InternalError, match="4 times") as error:
        list(workers.map(die, range(30), most, "area {}".format))
    assert error.value.code == "X046"
    assert "area 2" in dict(error.value.details)["one of"].split(", ")
    assert [said[0][-8:], said[-1][-8:]] == ["(1 of 3)", "(3 of 3)"]
    assert multiprocessing.active_children() == []


@every_kind
@pytest.mark.parametrize(
    "held", [lambda c: c, lambda c: (1, c), lambda c: [c], lambda c: {"records": c}, Box]
)
def test_confidential_records_are_given_to_no_worker(kind: str, held: Callable[[object], object]) -> None:
    """Records that reach a worker of another machine lie unencrypted in its memory and its spill files."""
    secret = held(Confidential(None))
    with KINDS[kind]() as workers:
        with pytest.raises(TypeError, match="confidential"):
            list(workers.map(change, [secret]))
        with pytest.raises(TypeError, match="confidential"):
            list(workers.map(give_back, [0]))
    with pytest.raises(TypeError, match="confidential"), holding(kind, secret) as workers:
        list(workers.map(change, [0]))


def test_the_parent_decides_when_a_worker_stops() -> None:
    """Ctrl-C reaches every process of a terminal; a worker that stops first would look like one that was killed."""
    with Forked(SHARED, 2) as workers:
        assert all(workers.map(ignores_interrupts, range(4)))


def test_one_worker_is_this_process() -> None:
    """A run with one worker must need neither a fork nor the memory for it."""
    with workers_with(SHARED, 1) as workers:
        assert isinstance(workers, LocalWorker)
    with workers_with(SHARED, 2) as workers:
        assert isinstance(workers, Forked)


def sleep_a_little(_: Table, seconds: float) -> float:
    """Work for longer than a moment."""
    time.sleep(seconds)
    return seconds


def test_who_waits_for_a_process_hears_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute without a line looks like a run that hangs."""
    monkeypatch.setattr(forked, "WAIT_SECONDS", 0.05)
    heard = []
    with Forked(SHARED, 2, still_waiting=lambda: heard.append(1)) as workers:
        assert list(workers.map(sleep_a_little, [0.5, 0.0])) == [0.5, 0.0]
    assert heard


_births = {"seconds": 0.0}
os.register_at_fork(after_in_child=lambda: time.sleep(_births["seconds"]))


def sleep_long(shared: Table, n: int) -> int:
    """Work for longer than anybody waits."""
    time.sleep(200)
    return n


def test_a_worker_that_is_stopped_as_it_starts_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker still has the handlers of its parent then; running them instead of stopping, it hung the release."""
    monkeypatch.setitem(_births, "seconds", 0.3)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    start = time.monotonic()
    try:
        with Forked(SHARED, 1) as workers, pytest.raises(ZeroDivisionError):
            for _ in workers.map(sleep_long, _failing_after_one(), 2):
                pass
    finally:
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - start < 100


def _failing_after_one() -> Iterator[int]:
    yield 0
    raise ZeroDivisionError


def _frozen(_: Table, __: int) -> int:
    return gc.get_freeze_count()


def test_collections_leave_what_is_inherited_alone() -> None:
    """Each would write to all objects of the parent, and so give every worker a copy of its own of their pages."""
    before = gc.get_freeze_count()  # of what was loaded before the first test
    with Forked(SHARED, 1) as workers:
        assert next(workers.map(_frozen, [0])) > before + len(gc.get_objects()) // 2
    assert gc.get_freeze_count() <= before  # what was frozen may be freed
