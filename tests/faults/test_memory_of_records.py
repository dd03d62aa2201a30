"""What grows and what does not: memory with cells that have records, time with the children of one parent."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from bench.bench_wide_split import measure
from tests.helpers.ledgers import n_intents, with_ledger
from tests.helpers.processes import run_python
from topdown.practice.synth import synth

MB = 10**6
MOST, GROWTH = 600 * MB, 60 * MB

MEASURE = """
import sys
from pathlib import Path
from topdown.app.pipeline import measure_release
from topdown.plan.preparation import prepare
folder = Path(sys.argv[1])
n_attempts = measure_release(prepare(folder / "run.toml"), folder / "release").n_attempts
most = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")) * 1024
print(n_attempts, most)
"""
LOAD = """
import sys
from pathlib import Path
from topdown.measure.confidential import load_records
from topdown.measure.records import records_form
from topdown.plan.preparation import prepare
def most():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")) * 1024
prepared = prepare(Path(sys.argv[1]) / "run.toml")
before = most()
counts = load_records(prepared.records_path, prepared.context, records_form(prepared.run)).open_counts()
print(most() - before, len(counts.key), counts.n_records)
"""


pytestmark = pytest.mark.slow


def census(folder: Path, millions: int) -> Path:
    """Make up people of the production's schema and write them as one row each, in no order, as Parquet."""
    made = synth(folder, people=millions * 10**6, seed=5)
    with gzip.open(made.records, "rt") as file:
        text = {name: pa.string() for name in file.readline().strip().split(",") if name != "count"}
    table = pa_csv.read_csv(made.records, convert_options=pa_csv.ConvertOptions(column_types=text))
    rows = np.repeat(np.arange(table.num_rows, dtype=np.int32), table.column("count").to_numpy())
    np.random.default_rng(1).shuffle(rows)
    with pq.ParquetWriter(folder / "persons.parquet", table.drop_columns("count").schema) as writer:
        for first in range(0, len(rows), 2**20):
            writer.write_table(table.drop_columns("count").take(rows[first : first + 2**20]))
    made.records.unlink()
    run = made.run_file.read_text().replace("count = true", "count = false")
    made.run_file.write_text(run.replace(made.records.name, "persons.parquet"))
    return with_ledger(made.run_file)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three million people."""
    folder = tmp_path_factory.mktemp("three")
    census(folder, 3)
    return folder


def run(script: str, *arguments: object) -> str:
    """Run a script in a process of its own; return what it says."""
    return run_python("-c", script, *arguments).stdout


def test_three_million_records_are_measured_in_little_memory(three: Path) -> None:
    """An office with 300 million rows needs what it needs for counts, not a hundred times that.

    What counts is the memory that is used at most: libraries of the solver reserve a gigabyte of addresses more.
    """
    n_attempts, most = map(int, run(MEASURE, three).split())
    assert n_attempts == 1
    assert most <= MOST
    assert n_intents(next(three.rglob("*.jsonl"))) == 1


def test_memory_grows_with_cells_that_have_records(three: Path, tmp_path: Path) -> None:
    """A list that grows with people, and not with counts, would take 50 GB of a nation."""
    census(tmp_path, 10)
    beside = []
    for folder, millions in ((three, 3), (tmp_path, 10)):
        grown, n_cells, n_people = map(int, run(LOAD, folder).split())
        assert n_people == millions * 10**6
        beside.append(grown - 12 * n_cells)
    assert beside[1] - beside[0] <= GROWTH, beside


SECONDS = 100  # of CPU


@pytest.mark.slow
@pytest.mark.timeout(900)  # of wall time, on a busy machine
def test_two_thousand_tracts_below_one_parent() -> None:
    """Los Angeles has 2,205 tracts; a tolerance that floats cannot reach took half an hour there."""
    n_tracts, seconds, done = measure(2_205)
    assert n_tracts >= 2_205
    assert seconds <= SECONDS, done
    assert done.max_kkt_residual_persons <= 1e-5
    assert (done.n_splits, done.n_roundings_optimal) == (1, done.n_roundings)
