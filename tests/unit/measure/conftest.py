"""A toy census to measure, and releases of few records to hold against the truth."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.ledgers import with_ledger
from tests.helpers.runs import init_run, write_rows
from topdown.measure import draw
from topdown.plan import PreparedRun, RunFileAnswers, prepare, run_file_text, write_public

HEADER = ["geocode", "dwelling", "sex", "age", "count"]


@dataclass
class Toy:
    """Paths of the toy census, and its rows; `write` puts changed rows on the disk."""

    folder: Path
    rows: list[list[str]]
    leaves: list[list[str]]

    @property
    def records(self) -> Path:
        """The confidential file."""
        return self.folder / "records.csv"

    @property
    def ledger(self) -> Path:
        """The ledger of the data set."""
        return self.folder / "ledger" / "records.jsonl"

    def write(self, header: list[str] | None = None) -> None:
        """Write the records as CSV."""
        with self.records.open("w", newline="") as file:
            csv.writer(file).writerows([header or HEADER, *self.rows])

    def prepare(self, *, limit: str = "4", records: Path | None = None) -> PreparedRun:
        """Write leaves and run file, and prepare the plan."""
        write_rows(
            self.folder / "leaves.csv", [("geocode", "homes", "dormitories", "barracks"), *self.leaves]
        )
        path = f"ledger/{self.ledger.name}"
        return prepare(
            with_ledger(init_run(records or self.records, self.folder, rho_limit=limit, path=path))
        )

    def prepare_almost_without_noise(self) -> PreparedRun:
        """Prepare a plan so costly that its noise is zero but for a chance below 10^-100."""
        run = self.prepare(limit="1000000").path
        run.write_text(run.read_text().replace('rho = "2"', 'rho = "100000"'))
        return prepare(run)


@pytest.fixture
def small_parts(monkeypatch) -> None:
    """Cut the toy's levels into several parts of several row groups."""
    monkeypatch.setattr(draw, "NUMBERS_PER_ROW_GROUP", 60)
    monkeypatch.setattr(draw, "NUMBERS_PER_PART", 60)


@pytest.fixture
def toy(tmp_path) -> Toy:
    """Return a toy census on the disk; block 2204 is empty by public facts."""
    leaves, rows = [], []
    for i, code in enumerate(["1101", "1102", "1103", "1104", "1201", "1202", "1203", "1204"]):
        empty = code == "1204"
        homes, dormitories, barracks = (0, 0, 0) if empty else (10 + i, i % 2, int(i == 2))
        leaves.append([code, str(homes), str(dormitories), str(barracks)])
        if not empty:
            rows += [
                [code, "home", "female", "0_17", str(3 + i)],
                [code, "home", "male", "65_plus", str(2 + i)],
            ]
            rows += [[code, "dormitory", "female", "18_64", "5"]] * dormitories
            rows += [[code, "barracks", "male", "18_64", "4"]] * barracks
    census = Toy(tmp_path, rows, leaves)
    census.write()
    return census


Rows = list[tuple[str, ...]]


@pytest.fixture
def release_of(tmp_path: Path) -> Callable[..., Path]:
    """Write a release folder for a run file; its microdata are the given rows (geocode, labels, count)."""

    def build(run: Path, rows: Rows) -> Path:
        context = prepare(run).context
        folder = tmp_path / "release"
        write_public(folder / "public", context.geography, context.facts)
        document = context.plan.to_document() | {"plan_hash": context.plan.plan_hash}
        (folder / "plan.json").write_text(json.dumps(document), encoding="utf-8")
        (folder / "microdata").mkdir()
        names = ["geocode", *(a.name for a in context.plan.schema.attributes)]
        columns = {
            name: pa.array([row[i] for row in rows]).dictionary_encode() for i, name in enumerate(names)
        }
        columns["count"] = pa.array([int(row[-1]) for row in rows], pa.int64())
        pq.write_table(pa.table(columns), folder / "microdata" / "persons.parquet")
        return folder

    return build


TRUTH = [
    ("11", "home", "female", "18_64", "4"),
    ("11", "home", "male", "0_17", "2"),
    ("12", "home", "male", "18_64", "3"),
    ("21", "dormitory", "female", "18_64", "5"),
]


@pytest.fixture
def truth() -> Rows:
    """Return the records of three blocks in two counties."""
    return list(TRUTH)


@pytest.fixture
def run(tmp_path: Path, truth: Rows) -> Path:
    """Write records, public facts and run file of schema toy."""
    lines = ["geocode,dwelling,sex,age,count", *(",".join(row) for row in truth)]
    (tmp_path / "records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    facts = "geocode,homes,dormitories,barracks\n11,3,0,0\n12,2,0,0\n21,0,1,0\n"
    (tmp_path / "leaves.csv").write_text(facts, encoding="utf-8")
    out = tmp_path / "run.toml"
    files = tmp_path / "records.csv", tmp_path / "leaves.csv"
    text = run_file_text("toy", "toy", *files, out, answers=RunFileAnswers(prefix_lengths=(0, 1, 2)))
    out.write_text(text, encoding="utf-8")
    return out
