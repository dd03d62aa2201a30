"""Workers read and return: with no right to change the disk they make the same release."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.changes_on_disk import change_nothing
from tests.helpers.extension import Land, make_land
from tests.helpers.folders import files
from tests.helpers.sections import cut_small, solve_small, unsolve
from topdown.app import RunOptions, generate_release, verify_and_solve
from topdown.plan import prepare
from topdown.workers import Forked, forked

Told = Callable[[], list[str]]
SOLVE, PUBLISH = {"_split_without_leaves", "_solve_run"}, {"section_files", "check_section"}
PIPE = {"write": -1}  # where workers say what they do; they inherit it


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Land:
    """Return a base release, and a run file that extends it."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return make_land(tmp_path_factory.mktemp("land"), 3, n_blocks=7)


def _saying(work: Callable[[Any, Any], Any], task: Any) -> Any:
    """Do a task, and say which function does it."""
    os.write(PIPE["write"], f"{work.__name__}\n".encode())
    return _RUN(work, task)


_RUN = forked._run_task


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Take from all workers the right to change the disk; return what tells which functions they ran."""
    start, (read, write) = forked._start_worker, os.pipe()

    def without_rights(shared: object) -> None:
        start(shared)
        change_nothing()

    monkeypatch.setattr(forked, "_start_worker", without_rights)
    monkeypatch.setattr(forked, "_run_task", _saying)
    monkeypatch.setitem(PIPE, "write", write)
    cut_small(monkeypatch)
    solve_small(monkeypatch)
    os.set_blocking(read, False)

    def said() -> list[str]:
        try:
            return os.read(read, 2**16).decode().split()
        except BlockingIOError:
            return []

    yield said
    os.close(read)
    os.close(write)


def test_workers_that_may_not_write_make_the_same_release(land: Land, tmp_path: Path, told: Told) -> None:
    """A worker that writes does so twice when it is lost, and through the caches of another machine."""
    out = tmp_path / "release"
    shutil.copytree(land.base, out)
    whole = files(out)
    unsolve(out)
    generate_release(prepare(land.folder / "base.toml"), out, RunOptions(workers=2))
    assert set(told()) == SOLVE | PUBLISH
    assert whole == files(out)
    assert verify_and_solve(out, workers=2).ok
    assert SOLVE | {"check_section"} == set(told())
    assert whole == files(out)


def test_workers_that_may_not_write_make_the_same_extension(land: Land, tmp_path: Path, told: Told) -> None:
    """Workers of an extension hold the whole tree, and read the base release."""
    prepared, out = prepare(land.run, land.base), tmp_path / "release"
    generate_release(prepared, out, base=land.base)
    whole = files(out)
    unsolve(out)
    assert told() == []
    generate_release(prepared, out, RunOptions(workers=2), base=land.base)
    assert set(told()) == SOLVE | PUBLISH
    assert whole == files(out)


def _write(folder: Path, name: str) -> None:
    """Write a file as we do, or as Arrow does."""
    if name == "ours":
        (folder / name).write_text("words")
    else:
        pq.write_table(pa.table({"words": ["words"]}), folder / name)


@pytest.mark.parametrize("name", ["ours", "Arrow's"])
def test_a_worker_that_writes_is_found(name: str, tmp_path: Path, told: Told) -> None:
    """If a worker could write here, the tests above would say nothing."""
    with Forked(tmp_path, 1) as workers, pytest.raises(OSError, match=r"changes the disk|File too large"):
        list(workers.map(_write, [name]))
