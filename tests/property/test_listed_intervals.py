"""Intervals corrected for being listed: ends against a scalar twin, tables that have them, and what verify finds."""

import csv
import json
import shutil
from fractions import Fraction
from math import erfc, floor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from tests.helpers.interval_census import release
from tests.helpers.small_release import edit_table, reseal
from topdown.app import tables
from topdown.cli import main
from topdown.errors import ConfigError
from topdown.formats import LISTED_ROWS
from topdown.publish import TableRows, listed_ends, normal_quantile
from topdown.publish import table_intervals as intervals
from topdown.verify import public_tree, verify

ROOT = Path(__file__).resolve().parents[2]
LEAF = "tables/detailed/block.parquet"


def ends_by_definition(e: int, s: int, count: int, tails: float) -> tuple[int, int]:
    """Return both ends by the definition, trying one true count after another; ties of chances are left out."""
    root, distance = 2**0.5, 1000 * count - 850

    def chance(x: int) -> float:
        a = (e - 1000 * x) / s
        return erfc(a / root) / erfc((a - distance / s) / root)

    def told_apart(found: float, bound: float) -> float:
        assume(abs(found - bound) > 1e-9)
        return found

    low = 0
    while low < count:
        bound = tails if low <= 1 else tails / 2
        if told_apart(chance(low), bound) > bound:
            break
        low += 1
    high = count
    while told_apart(chance(high + 1), 1 - tails / 2) <= 1 - tails / 2:
        high += 1
    return low, high


@given(
    e=st.integers(-20_000, 60_000),
    s=st.integers(2_500, 12_000),
    moved=st.integers(-8, 8),
    tails=st.sampled_from([Fraction(1, 2), Fraction(1, 10), Fraction(1, 20), Fraction(1, 100)]),
)
def test_ends_are_those_of_trying_every_count(e: int, s: int, moved: int, tails: Fraction) -> None:
    """An end found by a search that skips a count misses more often than the model says."""
    count = max(1, floor(e / 1000) + moved)
    found = listed_ends(np.array([e]), np.array([s]), np.array([count]), tails)
    assert (int(found[0][0]), int(found[1][0])) == ends_by_definition(e, s, count, float(tails))


def test_corrected_ends_lie_at_or_below_those_of_a_count_chosen_beforehand() -> None:
    """What is listed because it came out large is too large on average; a count far above the border is not."""
    rng = np.random.default_rng(1)
    e, s = rng.integers(-5_000, 40_000, 5_000), rng.integers(500, 9_000, 5_000)
    count = np.maximum(1, e // 1000 + rng.integers(-4, 4, 5_000))
    low, high = intervals.interval_ends(e, s, Fraction(1, 20), [])
    found = listed_ends(e, s, count, Fraction(1, 20))
    assert (
        found[0] <= np.minimum(np.maximum(low, 2), count)
    ).all()  # to 0 and 1 the whole chance is given below
    assert (found[1] <= np.maximum(high, count)).all()
    assert (found[1] < np.maximum(high, count)).mean() > 0.2
    far = np.array([1_000_000_000]), np.array([3_000])
    z = normal_quantile(Fraction(1, 40)) * 3_000
    plain = (-((z - 10**15) // 10**9), (10**15 + z) // 10**9)
    assert [int(end[0]) for end in listed_ends(*far, np.array([1_000_000]), Fraction(1, 20))] == list(plain)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release whose larger tables list counts above zero only, once."""
    with pytest.MonkeyPatch.context() as few:
        for module in (intervals, public_tree):
            few.setattr(module, "MOST_ROWS", 30)
        return Path(release(tmp_path_factory.mktemp("listed")).release)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read releases by the same limit."""
    monkeypatch.setattr(intervals, "MOST_ROWS", 30)
    monkeypatch.setattr(public_tree, "MOST_ROWS", 30)


@pytest.mark.usefixtures("few_rows")
def test_a_table_of_listed_rows_says_so_and_verifies(made: Path) -> None:
    """An interval of a selected row without a word about the selection is a false promise."""
    assert [f for check in verify(made).checks for f in check.findings] == []
    with pq.ParquetFile(made / LEAF) as file:
        assert file.metadata.metadata[b"rows"] == b"nonzero"
        assert file.metadata.metadata[b"meaning"].decode() == LISTED_ROWS
    rows = pq.read_table(made / LEAF).to_pylist()
    assert all(0 <= row["listed_low"] <= row["count"] <= row["listed_high"] for row in rows)
    assert any(row["listed_low"] < row["low"] for row in rows)
    small = pq.read_table(made / "tables/total/county.parquet")
    assert not {"listed_low", "listed_high"} & set(small.column_names)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("name", ["listed_low", "listed_high"])
@pytest.mark.parametrize("step", [-1, 1])
def test_an_end_off_by_one_fails(made: Path, tmp_path: Path, name: str, step: int) -> None:
    """An end one record away from where its chance puts it is not the one that was promised."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)

    def change(rows: list[dict[str, int]]) -> None:
        row = next(r for r in rows if r["basis"] == "tree" and r["listed_low"] > 0)
        row[name] += step

    edit_table(copy / LEAF, change)
    reseal(copy)
    found = verify(copy).check("intervals")
    assert {f.code for f in found.findings} == {"V220"}
    assert len(found.findings) == 1


@pytest.mark.usefixtures("few_rows")
def test_another_meaning_fails(made: Path, tmp_path: Path) -> None:
    """A stamp that promises more than was measured would be read by whoever opens the file."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    with pq.ParquetFile(copy / LEAF) as file:
        table, stamps = file.read(), file.metadata.metadata
    with pq.ParquetWriter(copy / LEAF, table.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(pa.Table.from_batches(table.to_batches(), table.schema.remove_metadata()))
        said = {k.decode(): v.decode() for k, v in stamps.items()}
        writer.add_key_value_metadata(said | {"meaning": "95 in 100 listed rows hold"})
    reseal(copy)
    assert "V109" in {f.code for f in verify(copy).check("tables").findings}


def rows_written(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the blocks' most detailed table."""
    (path,) = (folder / "tables").glob("*_by_*/block.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("few_rows")
def test_all_cells_are_those_whose_interval_is_not_zero(made: Path, tmp_path: Path) -> None:
    """A cell that may hold people and has no row is taken for empty."""
    told = {}
    for name, all_cells in (("plain", False), ("all", True)):
        tables(made, tmp_path / name, by=["detailed"], all_cells=all_cells)
        told[name] = rows_written(tmp_path / name)
    with pytest.MonkeyPatch.context() as every:
        every.setattr(intervals, "MOST_ROWS", 10**6)
        tables(made, tmp_path / "every", by=["detailed"])
    every_row = rows_written(tmp_path / "every")
    assert [row for row in every_row if int(row["high"]) > 0] == told["all"]
    assert {row["geocode"] for row in told["plain"]} <= {row["geocode"] for row in told["all"]}
    assert 0 < len(told["plain"]) < len(every_row)
    assert {"listed_low", "listed_high"} <= set(told["plain"][0])
    assert not {"listed_low", "listed_high"} & set(told["all"][0])
    assert "does not reach from 0 to 0" in (tmp_path / "all" / "datapackage.json").read_text()
    assert LISTED_ROWS in (tmp_path / "plain" / "datapackage.json").read_text()
    assert LISTED_ROWS not in (tmp_path / "all" / "datapackage.json").read_text()


def test_possible_rows_are_those_whose_upper_end_is_above_zero() -> None:
    """Every row of a list must keep its own numbers, and only those that say zero for sure may go."""
    column = np.arange(5, dtype=np.int64)
    at = intervals.Intervals(10 * column, column, column - column, np.array([3, 0, 1, 0, 2]), column > 3)
    rows, kept = intervals.possible_rows(TableRows("possible", column, column + 5, column + 9), at)
    assert rows.listed == "possible"
    assert [rows.node.tolist(), rows.answer.tolist(), rows.count.tolist()] == [
        [0, 2, 4],
        [5, 7, 9],
        [9, 11, 13],
    ]
    assert [kept.estimate.tolist(), kept.high.tolist(), kept.exact.tolist()] == [
        [0, 20, 40],
        [3, 1, 2],
        [False, False, True],
    ]


@pytest.mark.usefixtures("few_rows")
def test_all_cells_need_intervals_and_a_limit(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without intervals no cell is told from another; without a limit a country fills the memory."""
    plain = Path(release(tmp_path / "plain", text="[budget]").release)
    with fails_with("C310", ConfigError):
        tables(plain, tmp_path / "t", all_cells=True)
    monkeypatch.setattr("topdown.app.tables_and_intervals.MOST_POSSIBLE", 30)
    out = str(tmp_path / "u")
    assert main(["tables", str(made), "--by", "detailed", "--all-cells", "--out", out, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["code"] == "C311"
    assert not (tmp_path / "u").exists()
