"""A made-up land of two counties and eight blocks, with records that obey all its rules."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.ledgers import with_ledger
from tests.helpers.runs import init_run, write_rows
from topdown.measure import draw
from topdown.plan import PreparedRun, prepare

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
        return prepare(with_ledger(init_run(records or self.records, self.folder, limit=limit, path=path)))

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
