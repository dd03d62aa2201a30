"""What publish writes: documented, whole, the same every time, and nothing that does not belong."""

import gzip
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from tests.helpers.failing import fails_with
from tests.helpers.folders import files
from tests.helpers.small_release import Small, build, certified, from_dense, make_context, write_solve
from topdown import __version__
from topdown.errors import CertificateError, InternalError
from topdown.model import Histogram
from topdown.progress import Event
from topdown.publish import OptionalFiles, PublishOptions, publish, stamps, usual_epsilon
from topdown.verify import verify


def certificate(small: Small) -> dict[str, Any]:
    """Return the certificate."""
    return dict(json.loads((small.folder / "certificate.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release with one line a record, which no test changes."""
    return build(tmp_path_factory.mktemp("sound"), csv=True)


@pytest.fixture
def small(sound: Small, tmp_path: Path) -> Small:
    """Return a copy of it."""
    return replace(sound, folder=Path(shutil.copytree(sound.folder, tmp_path / "release")))


def test_a_sound_release_passes_all_sixteen_checks(sound: Small) -> None:
    """A check that rejects what publish writes would block every release; screens and programs read these keys."""
    result = verify(sound.folder)
    assert [f.text for check in result.checks for f in check.findings] == []
    assert (result.ok, result.n_checks, result.n_failed) == (True, 16, 0)
    assert certificate(sound)["privacy"]["epsilon"] == certified().epsilon
    document = result.to_json()
    assert (document["type"], document["version"], document["engine"]) == ("topdown.verify", 1, __version__)
    checks = document["checks"]
    assert isinstance(checks, list)
    keys = {"name", "ok", "text", "n_checked", "n_failed", "seconds", "findings", "n_findings", "warnings"}
    assert all(set(check) == keys for check in checks)
    assert [check["name"] for check in checks] == [
        "manifest", "plan", "ledger", "measurements", "whole numbers", "hierarchy", "exact statistics",
        "zeros", "bounds", "tables", "digests", "solver", "privacy", "certificate", "stamps", "report",
    ]  # fmt: skip


def again(small: Small, leaves: Histogram | None = None, **options: Any) -> None:
    """Publish a release once more."""
    leaves = small.leaves if leaves is None else leaves
    publish(small.folder, small.context, leaves, small.ledger, privacy=certified(), **options)


def test_publishing_again_gives_the_same_bytes(small: Small, tmp_path: Path) -> None:
    """Time stamps or chance in a file would make a release impossible to reproduce."""
    before = files(small.folder)
    events: list[Event] = []
    again(small, optional=OptionalFiles(csv=True), running=PublishOptions(events.append))
    assert files(small.folder) == before
    assert files(build(tmp_path / "b", csv=True).folder) == before
    assert {event.stage for event in events} == {"publish"}  # a bar that never fills looks like a hang
    assert events[-1].done == events[-1].total


def test_left_overs_are_removed(small: Small) -> None:
    """A table of an earlier run, or half a file, would be published with the new ones."""
    (small.folder / "tables" / "old").mkdir()
    (small.folder / "tables" / "old" / "land.parquet").write_bytes(b"old")
    (small.folder / "microdata" / "persons.parquet.tmp").write_bytes(b"half")
    (small.folder / "certificate.json.tmp").write_bytes(b"half")
    again(small)
    left = set(files(small.folder))
    assert not {p for p in left if p.endswith((".tmp", ".csv.gz")) or "old" in p}
    assert verify(small.folder).ok


def test_strangers_are_refused(small: Small) -> None:
    """A confidential file dropped into the folder must not be listed, hashed and published."""
    (small.folder / "measurements" / "records.csv").write_text("secret", encoding="utf-8")
    with fails_with("V003", CertificateError, match=r"measurements/records\.csv does not belong"):
        again(small)
    assert not (small.folder / "manifest.json").exists()


def test_a_wrong_population_is_not_published(small: Small) -> None:
    """A solver fault must stop before the manifest, and name the check that found it."""
    dense = small.leaves.dense(0, 5)
    dense[2, 0] = 1
    with pytest.raises(CertificateError, match="exact statistics") as caught:
        publish(small.folder, small.context, from_dense(dense), small.ledger)
    assert caught.value.exit_code == 1
    assert not (small.folder / "manifest.json").exists()


def test_unsolved_problems_are_published_and_said(small: Small) -> None:
    """The budget is spent: an unconverged problem must not lock the release up, nor be kept quiet."""
    write_solve(small.folder, small.context, n_unconverged=2, max_kkt_residual_persons=3.0)
    again(small)
    assert [check.name for check in verify(small.folder).checks if not check.ok] == ["solver"]


@pytest.mark.parametrize("count", [0, -1])
def test_counts_below_one_are_refused(small: Small, count: int) -> None:
    """The writer itself must not put negative people on disk."""
    odd = replace(
        small.leaves, count=np.where(np.arange(len(small.leaves.count)) == 3, count, small.leaves.count)
    )
    with pytest.raises(InternalError, match="whole people"):
        again(small, odd)


def test_microdata_as_documented(sound: Small) -> None:
    """Readers rely on columns, order, text geocodes and labels."""
    file = pq.ParquetFile(sound.folder / "microdata/persons.parquet")
    table = file.read()
    schema = sound.context.plan.schema
    assert table.column_names == ["geocode", "dwelling", "sex", "age", "count"]
    assert file.metadata.metadata[b"type"] == b"topdown.microdata"
    assert file.metadata.metadata[b"plan_hash"].decode() == sound.context.plan.plan_hash
    rows = table.to_pylist()
    leaf = {code: i for i, code in enumerate(sound.context.geography.leaves.codes)}
    dense = np.zeros((5, schema.n_cells), dtype=np.int64)
    for row in rows:
        cell = [a.labels.index(row[a.name]) for a in schema.attributes]
        dense[leaf[row["geocode"]], np.ravel_multi_index(cell, schema.shape)] += row["count"]
    assert np.array_equal(dense, sound.leaves.dense(0, 5))


def test_tables_as_documented(sound: Small) -> None:
    """Zeros are left out except in `total`, and every table is there at every level."""
    paths = {p.relative_to(sound.folder).as_posix() for p in sound.folder.glob("tables/*/*")}
    names = ("total", "sex_by_age", "detailed")
    assert paths == {f"tables/{q}/{level}.parquet" for q in names for level in ("land", "county", "block")}
    total = pq.read_table(sound.folder / "tables/total/block.parquet").to_pydict()
    assert total["geocode"] == ["011", "012", "021", "022", "023"]
    assert total["count"][2] == 0
    table = pq.read_table(sound.folder / "tables/sex_by_age/land.parquet").to_pylist()
    truth = sound.leaves.dense(0, 5).reshape(5, 3, 2, 3).sum(axis=(0, 1))
    assert {(r["sex"], r["age"]): r["count"] for r in table} == {
        (s, a): truth[i, j]
        for i, s in enumerate(("female", "male"))
        for j, a in enumerate(("0_17", "18_64", "65_plus"))
        if truth[i, j]
    }


def test_one_line_a_record(sound: Small) -> None:
    """The CSV must hold each record once, and no time stamp in its header."""
    data = (sound.folder / "microdata/persons.csv.gz").read_bytes()
    assert data[4:8] == bytes(4)
    lines = gzip.decompress(data).decode().splitlines()
    assert lines[0] == "geocode,dwelling,sex,age"
    assert len(lines) - 1 == sound.leaves.n_records


def test_usual_epsilon_is_rounded_up() -> None:
    """A privacy claim rounded down promises more than was drawn."""
    mpmath.mp.dps = 60
    for budget in (Fraction(1, 10**6), Fraction(2), Fraction(293764, 114921), Fraction(10**6, 7)):
        rho = mpmath.mpf(budget.numerator) / budget.denominator
        truth = rho + 2 * mpmath.sqrt(rho * 10 * mpmath.log(10))
        stated = mpmath.mpf(usual_epsilon(budget, "rho"))
        assert truth <= stated <= truth + mpmath.mpf("1e-9")


def test_open_answers_stamp_a_draft(tmp_path: Path) -> None:
    """A release nobody signed for must say so on its first line."""
    plan = make_context(tmp_path).plan
    assert stamps(plan) == []
    assert stamps(replace(plan, release=structs.replace(plan.release, agency="?"))) == ["DRAFT"]
    demo = replace(plan, release=structs.replace(plan.release, id="demo-1", contact="?"))
    assert stamps(demo) == ["DEMO", "DRAFT"]


def test_pure_privacy(tmp_path: Path) -> None:
    """The geometric mechanism is counted in epsilon; its numbers must pass too."""
    small = build(tmp_path, mechanism="geometric")
    assert certificate(small)["privacy"]["loss_name"] == "epsilon"
    assert verify(small.folder).ok


def test_certificate_tells_nothing_of_the_machine(sound: Small) -> None:
    """Paths and times would tell outsiders about the secure room."""
    text = "".join((sound.folder / n).read_text(encoding="utf-8") for n in ("certificate.json", "README.txt"))
    assert str(sound.folder.parent) not in text
    assert "seconds" not in text
    assert len((sound.folder / "README.txt").read_text(encoding="utf-8").splitlines()) == 33
