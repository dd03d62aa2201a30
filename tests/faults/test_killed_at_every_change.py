"""A release is made by one process that may die before anything it does to the disk, and by workers that may die."""

import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.changes_on_disk import watch_folder
from tests.helpers.extension import make_land
from tests.helpers.folders import files
from tests.helpers.killed import die, is_killed
from tests.helpers.sections import cut_small, solve_small, unsolve
from topdown.app import RunOptions, generate_release, pipeline
from topdown.plan import PreparedRun, prepare

EACH = 16  # `make test` looks at one change of so many


@dataclass(frozen=True)
class Made:
    """A release, and the same folder with nothing but its measurement."""

    prepared: PreparedRun
    measured: Path
    whole: dict[str, bytes]
    ledger: bytes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a release of several sections."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        folder = tmp_path_factory.mktemp("land")
        land = make_land(folder, 3, n_blocks=7)
        prepared = prepare(folder / "base.toml")
        whole = files(land.base)
        unsolve(land.base)
        return Made(prepared, land.base, whole, prepared.ledger_path.read_bytes())


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)
    solve_small(monkeypatch)
    monkeypatch.setattr(pipeline, "certified_privacy", _privacy)


@cache
def _privacy(policy: object) -> object:
    return _PRIVACY(policy)


_PRIVACY = pipeline.certified_privacy


def killed_at(made: Made, out: Path, change: int, workers: int) -> bool:
    """Go on in a process that dies before its n-th change of the folder; tell whether it came to that."""
    left = [change]

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            die()

    def act() -> None:
        watch_folder(out, count)
        generate_release(made.prepared, out, RunOptions(workers=workers))

    return is_killed(act)


@pytest.mark.parametrize(
    ("first", "step", "workers"),
    [(EACH // 2, EACH, 1), *(pytest.param(1 + k, 4, 1 + k % 2, marks=pytest.mark.slow) for k in range(4))],
)
def test_killed_before_any_change_of_the_folder(
    made: Made, tmp_path: Path, first: int, step: int, workers: int
) -> None:
    """Whatever a killed run leaves, the next one makes the same folder of it and charges nothing."""
    _privacy(made.prepared.context.policy)
    change, names = first, set[str]()
    while True:
        out = tmp_path / str(change)
        shutil.copytree(made.measured, out)
        if not killed_at(made, out, change, workers):
            break
        names |= set(files(out))
        assert not is_killed(
            lambda out=out: generate_release(made.prepared, out, RunOptions(workers=3 - workers))
        )
        again = files(out)
        assert [name for name in made.whole | again if made.whole.get(name) != again.get(name)] == [], change
        assert made.ledger == made.prepared.ledger_path.read_bytes()
        shutil.rmtree(out)
        change += step
    assert {"work/above.parquet", "solve.json", "README.txt" if step < EACH else "ledger.jsonl"} <= names
    assert change > 4 * EACH
