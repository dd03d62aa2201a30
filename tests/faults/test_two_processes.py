"""Two real processes at once on one data set: one charge, one noisy version, and a clear word for the other."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.ledgers import with_ledger
from tests.helpers.runs import write_census
from topdown.privacy.ledger import Begun, read_ledger

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
MEASURE = """
import sys
from pathlib import Path
from topdown.errors import TopdownError
from topdown.measure import draw
from topdown.measure.measurement import measure
from topdown.plan.preparation import prepare
draw.NUMBERS_PER_ROW_GROUP = draw.NUMBERS_PER_PART = 60
prepared = prepare(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
try:
    measure(prepared, Path(sys.argv[2]))
    print("done")
except TopdownError as error:
    print(error.code)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Write a small census with its ledger; return the run file."""
    codes = ["1101", "1102", "1103", "1201", "1202"]
    people = [(code, "home", "female", "18_64", 3) for code in codes]
    return with_ledger(write_census(tmp_path, [(code, 9, 0, 0) for code in codes], people))


def start_together(run: Path, outs: list[Path]) -> list[str]:
    """Start one measurement for each folder at the same moment; return how each ended."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEASURE, str(run), str(out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for out in outs
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].strip() for process in processes]


@pytest.mark.parametrize(
    "folders", [("one", "one", "one"), pytest.param(("one", "two", "three"), marks=pytest.mark.slow)]
)
def test_processes_at_once_charge_once(run, tmp_path, folders):
    """Two operators who start the same release must not get two noisy versions, nor cut each other's records."""
    ended = start_together(run, [tmp_path / name for name in folders])
    assert "done" in ended
    assert set(ended) <= {"done", "B005", "B013"}
    book = read_ledger(tmp_path / "ledger" / "records.jsonl")
    assert len(book.intents) == len(book.committed) == 1
    begun = [entry.event.part for entry in book.entries if isinstance(entry.event, Begun)]
    assert len(begun) == len(set(begun)) == len(book.drawn)
    whole = [path for path in tmp_path.glob("*/measurements/*/part-*") if path.suffix == ".parquet"]
    assert len(whole) == len(begun)
