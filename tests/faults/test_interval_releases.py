"""Whole releases with intervals: files, certificate, README, and what verify says when somebody changes them."""

import csv
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers.failing import fails_with
from tests.helpers.interval_census import release
from tests.helpers.schemas import check_release
from tests.helpers.small_release import edit_table, reseal
from topdown import evaluate
from topdown.app import SOLVED_CHECK, generate_release, verify_and_solve
from topdown.cli import main
from topdown.errors import CertificateError, ConfigError
from topdown.formats import IntervalsHeld
from topdown.plan import prepare
from topdown.verify import CheckResult, verify

Rows = list[dict[str, Any]]
LEAF = "tables/detailed/block.parquet"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release with intervals, once."""
    folder = tmp_path_factory.mktemp("intervals")
    return Path(release(folder).release)


def changed(made: Path, folder: Path, path: str, change: Callable[[Rows], None]) -> CheckResult:
    """Change the rows of a table, write the manifest anew, and return the check `intervals`."""
    copy = folder / "copy"
    shutil.copytree(made, copy)
    edit_table(copy / path, change)
    reseal(copy)
    return verify(copy).check("intervals")


def test_a_release_with_intervals_is_whole(made: Path) -> None:
    """Columns, stamp, README and certificate must say what the intervals are, and verify must find them right."""
    check_release(made)
    result = verify(made)
    assert result.ok
    assert "that lay outside" in result.check("intervals").text
    table = pq.read_table(made / LEAF)
    assert table.column_names[-6:] == ["count", "estimate", "stddev", "low", "high", "basis"]
    with pq.ParquetFile(made / LEAF) as file:
        assert file.metadata.metadata[b"rows"] == b"all"
    assert 0 in table["count"].to_pylist()
    text = " ".join((made / "README.txt").read_text(encoding="utf-8").split())
    assert "was at least 95 in 100, counting noise as normal" in text
    total = pq.read_table(made / "tables/total/land.parquet").to_pylist()[0]
    assert total["low"] == total["high"] == total["count"]
    assert (total["stddev"], total["basis"]) == (0.0, "exact")


def test_solving_again_gives_the_same_tables(made: Path, tmp_path: Path) -> None:
    """Estimates are made again from the measurements; other bytes would be other numbers."""
    run = made.parent / "run.toml"
    before = (made / LEAF).read_bytes()
    generate_release(prepare(run), made)
    assert before == (made / LEAF).read_bytes()
    assert verify(made).ok


def first(rows: Rows) -> dict[str, Any]:
    """Return a row with an estimate."""
    return next(row for row in rows if row["basis"] == "tree" and row["count"] > 0)


def by_one(name: str) -> Callable[[Rows], None]:
    """Move one stored number by its smallest step."""

    def change(rows: Rows) -> None:
        row = first(rows)
        row[name] = round(1000 * row[name] + 1) / 1000 if isinstance(row[name], float) else row[name] + 1

    return change


@pytest.mark.parametrize("path", [LEAF, "tables/total/county.parquet"])
@pytest.mark.parametrize("name", ["low", "high"])
def test_an_end_off_by_one_fails(made: Path, tmp_path: Path, path: str, name: str) -> None:
    """An interval one record longer or shorter is not the one that was promised."""
    found = changed(made, tmp_path, path, by_one(name))
    assert not found.ok
    assert {f.code for f in found.findings} == {"V113"}


@pytest.mark.slow
def test_a_number_off_by_one_thousandth_is_not_that_of_the_measurements(made: Path, tmp_path: Path) -> None:
    """Sums allow half a thousandth a row; only a second solve can tell that one number was moved within that."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    whole = verify_and_solve(copy)
    assert whole.ok, [f for c in whole.checks for f in c.findings]
    for path, name in ((LEAF, "estimate"), ("tables/total/county.parquet", "stddev")):
        edit_table(copy / path, by_one(name))
    reseal(copy)
    findings = verify_and_solve(copy).check(SOLVED_CHECK).findings
    told = {(found.code, found.text.partition(" have ")[0]) for found in findings}
    assert {("V176", "total at county: 1 rows"), ("V176", "detailed at block: 1 rows")} == told


def by_thousandths(name: str, n: int, row_of: Callable[[Rows], dict[str, Any]]) -> Callable[[Rows], None]:
    """Move a stored number of one row."""

    def change(rows: Rows) -> None:
        row_of(rows)[name] = round(1000 * row_of(rows)[name] + n) / 1000

    return change


def nothing_known(rows: Rows) -> None:
    """Estimate nobody, anywhere: lower estimates of a county shorten the intervals of its blocks."""
    for row in rows:
        row |= {"estimate": 0.0, "stddev": 0.0, "low": 0, "high": row["count"]}


def call_exact(rows: Rows) -> None:
    """Call a noisy count exact: it would be taken for the records' own."""
    row = first(rows)
    row |= {"basis": "exact", "estimate": float(row["count"]), "stddev": 0.0}
    row |= {"low": row["count"], "high": row["count"]}


def surer_than_sure(rows: Rows) -> None:
    """Give an estimate a deviation below zero, and the interval of one record that would follow from it."""
    row = first(rows)
    estimate = float(row["count"])
    row |= {"estimate": estimate, "stddev": -5.0, "low": row["count"], "high": row["count"]}


LAND, COUNTY = "tables/total/land.parquet", "tables/total/county.parquet"


@pytest.mark.parametrize(
    ("path", "change", "text"),
    [
        # exact by policy: to the last thousandth
        (LAND, by_thousandths("estimate", 1, lambda rows: rows[0]), "an exact count has another estimate"),
        (LAND, by_thousandths("stddev", 1, lambda rows: rows[0]), "an exact count has another estimate"),
        # estimates add up within half a thousandth a row
        (LEAF, by_thousandths("estimate", 30, first), "is not the sum"),
        (COUNTY, lambda rows: first(rows).update(stddev=5000.0), "the deviation is above the sum"),
        (LEAF, lambda rows: rows.remove(next(row for row in rows if row["count"] == 0)), "has no row"),
        ("tables/detailed/county.parquet", nothing_known, "high does not follow"),
        (LEAF, call_exact, "the basis is not what"),
        (COUNTY, surer_than_sure, "a deviation is below zero"),
        # digits beyond the thousandth could carry anything
        (LEAF, lambda rows: first(rows).update(estimate=first(rows)["estimate"] + 1e-7), ""),
    ],
)
def test_a_number_that_does_not_follow_is_found(
    made: Path, tmp_path: Path, path: str, change: Callable[[Rows], None], text: str
) -> None:
    """A number that says more than the measurements do would be believed."""
    found = changed(made, tmp_path, path, change)
    assert not found.ok
    assert any(text in f.text for f in found.findings)
    assert text or {f.code for f in found.findings} <= {"V109", "V150"}


def test_evaluate_counts_the_intervals_that_hold_the_truth(made: Path, tmp_path: Path, capsys) -> None:
    """An office that judges intervals by a wrong share would trust, or distrust, them for nothing."""
    with (made.parent / "records.csv").open(encoding="utf-8") as file:
        people = list(csv.DictReader(file))
    document = evaluate(made, made.parent / "records.csv")
    for level, digits in (("land", 0), ("county", 1), ("block", 3)):
        tables = {
            table.query: table for table in next(at for at in document.levels if at.level == level).tables
        }
        for name, keys in (
            ("total", []),
            ("sex * age", ["sex", "age"]),
            ("detailed", ["dwelling", "sex", "age"]),
        ):
            true: Counter[tuple[str, ...]] = Counter()
            for row in people:
                true[row["geocode"][:digits] or "0", *(row[key] for key in keys)] += int(row["count"])
            rows = pq.read_table(
                made / f"tables/{'_by_'.join(name.split(' * '))}/{level}.parquet"
            ).to_pylist()
            noisy = [row for row in rows if row["basis"] == "tree"]
            held = [
                row
                for row in noisy
                if row["low"] <= true[row["geocode"], *(row[key] for key in keys)] <= row["high"]
            ]
            assert IntervalsHeld(n_intervals=len(noisy), n_held=len(held)) == tables[name].intervals
    assert main(["evaluate", str(made), "--truth", str(made.parent / "records.csv")]) == 0
    assert "95 % max coverage" in " ".join(capsys.readouterr().out.split())
    damaged = tmp_path / "copy"
    shutil.copytree(made, damaged)
    (damaged / LEAF).write_bytes(b"")
    with fails_with("V090", CertificateError):
        evaluate(damaged, made.parent / "records.csv")


def test_a_plan_without_estimates_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """Noise that was charged for a release that cannot be finished is lost."""
    text = '[estimates]\ncoverage = "19/20"\n\n[budget]'
    with fails_with("C211", ConfigError):
        release(tmp_path, text=text, mechanism="geometric")
    assert not (tmp_path / "release" / "measurements").exists()
