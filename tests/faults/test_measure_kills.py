"""The real process, really killed: resume keeps whole parts, charges torn ones, and always ends."""

import os
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.killed import trials
from tests.helpers.ledgers import with_ledger
from tests.helpers.processes import run_python
from tests.helpers.runs import write_census
from topdown.measure import ledger_location
from topdown.plan import prepare
from topdown.privacy.ledger import open_ledger, read_ledger

KILLER = Path(__file__).with_name("measure_killer.py")
LOSS = {"land": Fraction(1, 2), "county": Fraction(1, 2), "block": Fraction(1)}


@pytest.fixture
def census(tmp_path) -> Path:
    """Write a run file, leaves and records of a land of seven blocks; return its folder."""
    codes = ["1101", "1102", "1103", "1104", "1201", "1202", "1203"]
    people = [(code, "home", "female", "18_64", 3) for code in codes]
    with_ledger(write_census(tmp_path, [(code, 9, 0, 0) for code in codes], people, rho_limit="100"))
    return tmp_path


def check(found: list[dict], at_once: int = 1) -> None:
    """Hold every trial against the rules of the protocol; parts of so many levels may be under way at once."""
    for trial in found:
        assert trial["kept"], trial
        assert trial["left"] == [], trial
        assert trial["parts"] == 6, trial
        covers = trial["covers"]
        assert covers[0] == list(LOSS), trial
        assert len(covers) <= 1 + trial["kills"], trial
        assert all(len(levels) <= at_once for levels in covers[1:]), trial
        assert sum((LOSS[level] for levels in covers for level in levels), Fraction(0)) == Fraction(
            trial["charged"]
        )
        assert trial["commits"] == len(covers), trial
    assert found[-1]["kills"] == 0
    assert found[-1]["charged"] == "2"


@pytest.mark.slow
def test_killed_at_many_steps_while_children_draw(census):
    """Parts under way in children are begun: a kill must charge all of them again, and adopt none of them."""
    found = trials(KILLER, census, "3", "13", "2")
    check(found, at_once=3)
    assert len(found) > 4
    assert max(len(levels) for trial in found for levels in trial["covers"][1:]) > 1


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(int(os.environ.get("KILL_ROUNDS", "4"))))
def test_killed_twice_at_every_step(census, round_):
    """Every step once in four rounds, KILL_ROUNDS=12 three times: the second kill hits the restart."""
    check(trials(KILLER, census, str(1 + round_ % 4), "4", "1", "twice"))


def test_a_run_is_refused_while_another_holds_the_ledger(census):
    """Two operators at once would each draw noise for one charge."""
    code = "import sys; from pathlib import Path; from topdown.measure.measurement import measure; "
    code += "from topdown.plan.preparation import prepare; p = Path(sys.argv[1]); "
    code += "measure(prepare(p / 'run.toml'), p / 'out')"
    with open_ledger(ledger_location(prepare(census / "run.toml"))):
        out = run_python("-c", code, census, ok=False, timeout=240)
    assert "in use by another run" in out.stderr
    assert not (census / "out").exists()
    assert read_ledger(census / "ledger" / "records.jsonl").charged == {}


FULL = """
import errno, os, resource, signal, sys
from pathlib import Path
from topdown.errors import TopdownError
from topdown.privacy.ledger import Disk
from topdown.measure import draw
from topdown.measure.measurement import measure
from topdown.plan.preparation import prepare
draw.NUMBERS_PER_ROW_GROUP = draw.NUMBERS_PER_PART = 60
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, what = Path(sys.argv[1]), sys.argv[2]
prepared = prepare(folder / "run.toml")
class Full(Disk):
    def write_new(self, path, data, **how):
        if what == "part" and path.suffix == ".drawn":
            super().write_new(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        super().write_new(path, data, **how)
def report(event):
    if event.stage == "measure" and what == "ledger":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1200, 1200))
try:
    print(measure(prepared, folder / "out", report, disk=Full()).n_attempts)
except TopdownError as error:
    print(error.code, error.exit_code, error.fix)
"""


@pytest.mark.parametrize(("what", "code", "attempts"), [("part", "D050", 2), ("ledger", "B006", 1)])
def test_a_file_that_cannot_grow_leaves_no_commit(census, what, code, attempts):
    """When the disk fills while a part or its record is written, nothing may look finished; the way on is said."""

    def run(full: str) -> str:
        out = run_python("-c", FULL, census, full, timeout=240)
        assert out.stderr == ""
        return out.stdout

    assert f"{code} 2 make room" in run(what)
    book = read_ledger(census / "ledger" / "records.jsonl")
    assert not book.committed
    assert not list((census / "out").rglob("part-*.parquet"))
    assert f"{attempts}\n" == run("nothing")
    assert attempts == len(read_ledger(census / "ledger" / "records.jsonl").committed)
