"""A worker killed at any of its tasks: the work is done again, and the result is the same."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import four_levels, policies, solved
from tests.helpers.cluster import cluster, needs_ray
from tests.helpers.folders import files
from tests.helpers.sections import cut_small, solve_small
from tests.helpers.small_release import build, certified
from tests.helpers.solved import solve_answers
from topdown.progress import Event, Report
from topdown.publish import PublishOptions, publish, section_files
from topdown.publish import publish_release as publishing
from topdown.solve import solve_stage as solve
from topdown.verify import check_section
from topdown.verify import session as look
from topdown.workers import Executor

WORK = {
    "_split_without_leaves": solve._split_without_leaves,
    "_solve_run": solve._solve_run,
    "section_files": section_files,
    "look_at_section": check_section,
}


def killed_once(name: str, folder: Path, victim: int, shared: Any, task: Any) -> Any:
    """Do a task; the process that begins the n-th of all is killed, as by a system that is short of memory."""
    for number in range(1_000):
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        if number == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        return WORK[name](shared, task)
    raise RuntimeError("too many tasks")


class Kills:
    """Kills a worker at the first task, then at the second, and so on.

    Args:
        folder: for the tasks that were begun.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._victim, self.said = folder, -1, list[str]()

    def __iter__(self) -> Iterator[None]:
        """Yield as often as there is a task to be killed at."""
        while True:
            self._victim += 1
            self.said.clear()
            self._begun().mkdir(parents=True)
            yield
            if not (self._begun() / str(self._victim)).exists():
                return
            assert self.said == ["lost a worker; its work is done again (1 of 3)"]

    def tell(self, event: Event) -> None:
        """Remember what is said of workers."""
        if event.stage == "workers":
            self.said.append(event.text)

    def work(self, name: str) -> partial[Any]:
        """Return a function of tasks that may be killed."""
        return partial(killed_once, name, self._begun(), self._victim)

    def _begun(self) -> Path:
        return self._folder / f"killed at {self._victim}"


@dataclass
class Census:
    """A land to be solved, and what comes of it in one process."""

    land: solved.Census
    answers: solved.NoisyAnswers
    alone: solve.Solved

    def same_in(self, workers: Executor, report: Report) -> None:
        """Solve it elsewhere; fail if anything differs."""
        exact = policies.exact_values(self.land)
        found = solve_answers(self.land.context, self.answers, exact, workers=workers, report=report)
        assert self.alone.document == found.document
        one, other = self.alone.leaves.whole(), found.leaves.whole()
        for column in ("node", "cell", "count"):
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


@pytest.fixture
def census(monkeypatch: pytest.MonkeyPatch) -> Census:
    """Return a land of three counties and eight tracts, solved in runs of one tract."""
    solve_small(monkeypatch)
    land = four_levels.make_land(policies.MIXED, lambda _: (3, 1, 1))
    answers = solved.noisy(land, 5, size=3.0)
    return Census(land, answers, solve_answers(land.context, answers, policies.exact_values(land)))


def test_killed_at_any_task_of_a_solve(
    census: Census, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People of a task that is lost, or done twice, would be missing from the release or be there twice."""
    kills, n = Kills(tmp_path), 0
    for _ in kills:
        with monkeypatch.context() as patch:
            for name in ("_split_without_leaves", "_solve_run"):
                patch.setattr(solve, name, kills.work(name))
            census.same_in(2, kills.tell)
        n += 1
    assert n > 8


def killed_first(name: str, folder: Path, shared: Any, task: Any) -> Any:
    """Do a task; who begins it first is killed."""
    with suppress(FileExistsError):
        (folder / f"{name} {task.name}").touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return WORK[name](shared, task)


@needs_ray
@pytest.mark.slow
def test_killed_at_every_task_on_a_cluster(
    census: Census, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task of a cluster has a worker of its own, so every task can lose one in a single run."""
    said: list[Event] = []
    for name in ("_split_without_leaves", "_solve_run"):
        monkeypatch.setattr(solve, name, partial(killed_first, name, tmp_path))
    census.same_in(cluster(), said.append)
    lost = [event.text for event in said if event.stage == "workers"]
    assert {"lost a worker; its work is done again (1 of 3)"} == set(lost)
    assert len(list(tmp_path.iterdir())) >= max(len(lost), 8)


def test_killed_at_any_task_of_publishing_and_verifying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A section whose worker is killed must be in the release, and be looked at."""
    cut_small(monkeypatch)
    small, kills = build(tmp_path / "small"), Kills(tmp_path)
    whole, n = files(small.folder), 0
    for _ in kills:
        with monkeypatch.context() as patch:
            patch.setattr(publishing, "section_files", kills.work("section_files"))
            patch.setattr(look, "check_section", kills.work("look_at_section"))
            running = PublishOptions(kills.tell, 2)
            publish(
                small.folder, small.context, small.leaves, small.ledger, privacy=certified(), running=running
            )
        assert whole == files(small.folder)
        n += 1
    assert n == 5  # two sections made, two looked at, and nobody killed
