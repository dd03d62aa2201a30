"""Every plan that `plan` accepts and `generate` charges for can be published: odd runs, start to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attacked import topdown
from tests.helpers.odd_plans import write_odd_run

SOME, MANY = range(2000, 2008), range(3000, 3320)
LEAST_RELEASED = 2  # of ten: a generator of nothing but refused plans would show nothing


def outcome(folder: Path, seed: int) -> str:
    """Run one odd plan from ledger to release; return "released" or "refused".

    Raises:
        AssertionError: it was charged and not released, failed inside the engine, or left something behind.
    """
    run = write_odd_run(folder, seed)
    assert topdown("ledger", "new", run).code == 0, seed
    if topdown("plan", run).code != 0:
        return "refused"
    out = folder / "release"
    made = topdown("generate", run, "--out", out, "--yes", "--json", "--workers", "1")
    if made.code == 0:
        assert not (out / ".rehearsal").exists()
        return "released"
    assert '"kind":"intent"' not in (folder / "ledger.jsonl").read_text(), (seed, made.err)
    assert made.code == 2, (seed, made.err)
    assert not made.document["code"].startswith("X"), (seed, made.err)
    assert not (out.is_dir() and any(out.iterdir())), seed
    return "refused"


def test_some_odd_plans_are_released_or_refused_unspent(tmp_path: Path) -> None:
    """A plan that cannot be published must be refused before its budget is lost: 24 of 123 were not."""
    found = [outcome(tmp_path / str(seed), seed) for seed in SOME]
    assert found.count("released") * 10 >= LEAST_RELEASED * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MANY.start, MANY.stop, 40))
def test_many_odd_plans_are_released_or_refused_unspent(tmp_path: Path, first: int) -> None:
    """The same for 320 of them."""
    found = [outcome(tmp_path / str(seed), seed) for seed in range(first, first + 40)]
    assert found.count("released") * 10 >= LEAST_RELEASED * len(found)
