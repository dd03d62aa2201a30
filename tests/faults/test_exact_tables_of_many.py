"""Exact statistics of many areas are tables beside exact.json: written, read and checked like the others."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topdown
from tests.faults.test_policy_releases import release
from tests.helpers import policies
from tests.helpers.exact_files import list_few, name_tables
from tests.helpers.failing import fails_with
from tests.helpers.sections import cut_small
from tests.helpers.small_release import Small, build, edit_json, edit_table
from tests.helpers.solved import TOP
from tests.helpers.tampered import attack, codes, failed
from topdown.errors import CertificateError
from topdown.formats import CertifiedPrivacy
from topdown.solve import MeasurementReader
from topdown.solve import noisy_answers as exact_file
from topdown.verify import verify

EXACT = "exact statistics"
BLOCKS, COUNTIES = "measurements/exact-001.parquet", "measurements/exact-002.parquet"
WITH_TABLES = [
    pytest.param(name, marks=[pytest.mark.slow] if i % 3 else [])
    for i, name in enumerate(name for name, more in policies.POLICIES.items() if "[[exact]]" in more)
]


@pytest.mark.parametrize("policy", WITH_TABLES)
def test_every_policy_is_released_from_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """What is exact of a nation's blocks must be measured, solved and certified as what is exact of a county."""
    list_few(monkeypatch)
    census, made = release(tmp_path, policy)
    assert made.checks.ok
    folder, plan = tmp_path / "release", census.context.plan
    stated = json.loads((folder / "measurements" / "exact.json").read_text())["values"]
    assert len(stated) == len(plan.invariants.exact) > 1
    for number, (value, exact) in enumerate(zip(stated, plan.invariants.exact, strict=True)):
        name = f"exact-{number:03d}.parquet"
        head = {"name": exact.name, "level": exact.level, "query": exact.query, "file": name}
        assert head == {key: text for key, text in value.items() if key != "sha256"}
        table, depth = (
            pq.read_table(folder / "measurements" / name),
            census.context.geography.index(exact.level),
        )
        assert list(census.context.geography.levels[depth].codes) == table.column("geocode").to_pylist()
        true = census.truth[depth].answers(plan.query(exact.query))
        assert true.tolist() == table.column("answers").to_pylist()
    assert verify(folder).ok


def test_solved_again_and_in_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who solves a measurement again needs the tables too; without them it must say so and solve nothing."""
    list_few(monkeypatch, 1)
    release(tmp_path, "county dwellings")
    source = tmp_path / "release"
    assert topdown.verify(source, solve=True).ok
    made = topdown.resolve(source, tmp_path / "tree", targets="tree", workers=1)
    assert made.checks.ok
    assert topdown.verify(tmp_path / "tree").ok
    name = "measurements/exact-001.parquet"
    assert (source / name).read_bytes() == (tmp_path / "tree" / name).read_bytes()
    edit_table(source / name, lambda rows: rows.reverse())
    with fails_with("V020", CertificateError, match=r"exact-001.parquet"):
        topdown.resolve(source, tmp_path / "no", targets="tree", workers=1)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release: the total of the land in exact.json, those of blocks and counties in tables."""
    rules = (TOP / "invariants" / "toy.toml").read_text() + policies.BLOCKS + policies.COUNTIES
    with pytest.MonkeyPatch.context() as patch:
        list_few(patch, 1)
        return build(tmp_path_factory.mktemp("tables"), invariants=rules, privacy=CertifiedPrivacy())


@pytest.fixture
def copy(copy: Small, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Return a copy to change."""
    list_few(monkeypatch, 1)
    return copy


def texts(result: Any) -> str:
    """Return what the check of exact statistics found."""
    return "; ".join(finding.text for finding in result.check(EXACT).findings)


def test_the_release_that_is_changed_below_is_sound(copy: Small) -> None:
    """Else every refusal below would prove nothing; privacy is left out, which takes a while."""
    result = verify(copy.folder)
    assert {"privacy"} == failed(result)
    assert (result.check(EXACT).n_checked, result.check(EXACT).text) == (8, "8 of 8 reproduced")
    found = MeasurementReader(copy.folder, copy.context).exact()
    assert found["blocks"].shape == (5, 1)
    assert found["blocks"].sum() == found["countys"].sum() == copy.leaves.n_records


Change = Callable[[list[dict[str, Any]]], object]


def _swap(rows: list[dict[str, Any]]) -> None:
    rows[0], rows[1] = rows[1], rows[0]


def _swap_answers(rows: list[dict[str, Any]]) -> None:
    rows[0]["answers"], rows[1]["answers"] = rows[1]["answers"], rows[0]["answers"]


def _lengths(rows: list[dict[str, Any]]) -> None:
    rows[0]["answers"], rows[1]["answers"] = rows[0]["answers"] + rows[1]["answers"], []


ROWS: dict[str, tuple[Change, str, bool]] = {  # what is said, and whether only the microdata can tell
    "one off": (lambda rows: rows[3].update(answers=[rows[3]["answers"][0] + 1]), "reproduced in 022 ", True),
    "answers of two areas swapped": (_swap_answers, "'blocks' is not reproduced in 011", True),
    "rows swapped": (_swap, "has the wrong area", False),
    "a row less": (lambda rows: rows.pop(), "does not hold every area of block once", False),
    "a row twice": (lambda rows: rows.append(rows[-1]), "claims 6 rows", False),
    "one row twice, another not there": (lambda rows: rows.__setitem__(0, rows[1]), "wrong area", False),
    "a number below 0": (lambda rows: rows[2].update(answers=[-1]), "has the wrong number", False),
    "two answers here, none there": (_lengths, "has the wrong number of answers", False),
    "no answer": (lambda rows: rows[1].update(answers=None), "has an empty value", False),
    "an empty answer": (lambda rows: rows[1].update(answers=[None]), "has an empty value", False),
    "no area": (lambda rows: rows[1].update(geocode=None), "has an empty value", False),
}


@pytest.mark.parametrize("fault", ROWS)
def test_a_changed_table_is_refused(copy: Small, fault: str) -> None:
    """A promised number that was changed on the way must not be read, nor pass for the one that was kept."""
    change, said, is_table = ROWS[fault]
    edit_table(copy.folder / BLOCKS, change)
    with fails_with("V020", CertificateError, match=r"exact-001.parquet"):
        MeasurementReader(copy.folder, copy.context).exact()
    result = attack(copy)
    assert {"V105"} == codes(result, EXACT)
    assert "is not the file that exact.json names" in texts(result)
    name_tables(copy.folder)  # somebody who changes exact.json too breaks the seal of the ledger
    result = attack(copy)
    assert {"V105"} == codes(result, EXACT)
    assert said in texts(result)
    assert {"V025"} == codes(result, "ledger")
    assert {"V170"} == codes(result, "digests")
    if is_table:
        assert MeasurementReader(copy.folder, copy.context).exact()["blocks"].shape == (5, 1)
    else:
        check_unread(copy, r"exact-001.parquet")


def check_unread(copy: Small, file: str) -> None:
    """Fail unless the reader of measurements refuses exact statistics, and names the file."""
    with pytest.raises(CertificateError, match=file):
        MeasurementReader(copy.folder, copy.context).exact()


def test_the_table_of_another_statistic_is_refused(copy: Small) -> None:
    """Totals of counties are no totals of blocks, whatever exact.json says of the file."""
    (copy.folder / BLOCKS).write_bytes((copy.folder / COUNTIES).read_bytes())
    name_tables(copy.folder)
    result = attack(copy)
    assert {"V105"} == codes(result, EXACT)
    assert "does not carry the right stamp 'name'" in texts(result)
    check_unread(copy, r"exact-001.parquet")


def test_a_statistic_that_names_the_table_of_another_is_refused(copy: Small) -> None:
    """Tables exchanged in exact.json are what tables exchanged in the folder are."""

    def change(document: Any) -> None:
        first, second = document["values"][1:]
        for key in ("file", "sha256"):
            first[key], second[key] = second[key], first[key]

    edit_json(copy.folder / "measurements/exact.json", change)
    assert "'blocks' is not in measurements/exact-001.parquet" in texts(attack(copy))
    check_unread(copy, r"exact.json")


def test_a_missing_table_is_refused(copy: Small) -> None:
    """A manifest that does not list a table must not make it unnecessary."""
    (copy.folder / BLOCKS).unlink()
    result = attack(copy)
    assert {"V105"} == codes(result, EXACT)
    assert "is missing" in texts(result)
    assert [finding.file for finding in result.check("manifest").findings] == [BLOCKS]
    check_unread(copy, r"exact-001.parquet")


def test_an_added_table_is_refused(copy: Small) -> None:
    """A table that no statistic of the plan names could hold what nobody promised to publish."""
    for number in (0, 3):
        shutil.copy(copy.folder / BLOCKS, copy.folder / f"measurements/exact-{number:03d}.parquet")
    findings = attack(copy).check("manifest").findings
    added = [f"measurements/exact-{number:03d}.parquet" for number in (0, 3)]
    assert [("V003", name) for name in added] == [(f.code, f.file) for f in findings]


@pytest.mark.parametrize("kept", [slice(1, None), [0, 0, 1, 2, 3, 4], slice(None, None, -1)])
def test_exact_json_lists_every_area_once(tmp_path: Path, kept: slice | list[int]) -> None:
    """An area left out is one whose promise nobody compares; listed twice or in another order, it hides others."""
    rules = (TOP / "invariants" / "toy.toml").read_text() + policies.BLOCKS
    small = build(tmp_path, invariants=rules, privacy=CertifiedPrivacy())

    def change(document: Any) -> None:
        for key in ("nodes", "answers"):
            document["values"][1][key] = np.array(document["values"][1][key])[kept].tolist()

    assert texts(verify(small.folder)) == ""
    edit_json(small.folder / "measurements/exact.json", change)
    assert "does not list every node of block once, in order" in texts(attack(small))


@pytest.mark.parametrize("number", [0, 1], ids=["of one area in a table", "of many areas in exact.json"])
def test_where_a_statistic_stands_is_no_choice(copy: Small, number: int) -> None:
    """Two ways to write one release would be two hashes of it, and two things to check."""

    def change(document: Any) -> None:
        value = document["values"][number]
        answers = {"nodes": ["0", "1"][:1], "answers": [[1]]}
        head = {key: value[key] for key in ("name", "level", "query")}
        table = {"file": f"exact-{number:03d}.parquet", "sha256": "0" * 64}
        document["values"][number] = head | (answers if number else table)

    edit_json(copy.folder / "measurements/exact.json", change)
    result = attack(copy)
    assert {"V105"} == codes(result, EXACT)
    assert "is not as documented" in texts(result)
    check_unread(copy, r"exact.json")


def test_numbers_of_another_kind_are_refused(copy: Small) -> None:
    """A fraction that is rounded where it is read would be another number for each reader."""
    file = pq.ParquetFile(copy.folder / BLOCKS)
    stamps, table = file.metadata.metadata, file.read()
    other = table.set_column(1, "answers", table.column("answers").cast(pa.list_(pa.float64())))
    with pq.ParquetWriter(copy.folder / BLOCKS, other.schema, store_schema=False) as writer:
        writer.write_table(other)
        writer.add_key_value_metadata({k.decode(): v.decode() for k, v in stamps.items()})
    name_tables(copy.folder)
    assert "has other columns than the format asks for" in texts(attack(copy))
    check_unread(copy, r"exact-001.parquet")


def test_a_table_larger_than_it_can_be_is_not_read(copy: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of any size that exact.json names would fill the memory before its hash could be compared."""
    size = (copy.folder / BLOCKS).stat().st_size
    for most, is_read in ((size, True), (size - 1, False)):
        monkeypatch.setattr(exact_file, "most_exact_bytes", lambda *_, most=most: most)
        reader = MeasurementReader(copy.folder, copy.context)
        if is_read:
            reader.exact()
            continue
        with pytest.raises(CertificateError, match=r"exact-00[12].parquet"):
            reader.exact()


def test_in_sections_each_area_is_compared_with_its_own_number(
    sound: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of a section's areas begin somewhere in the table; one place off would be another town."""
    cut_small(monkeypatch)
    list_few(monkeypatch, 1)
    rules = (TOP / "invariants" / "toy.toml").read_text() + policies.BLOCKS + policies.COUNTIES
    small = build(tmp_path, sound.leaves, invariants=rules, privacy=CertifiedPrivacy())
    assert (small.folder / "microdata/persons/part-001.parquet").exists()
    assert verify(small.folder).check(EXACT).text == "8 of 8 reproduced"
    monkeypatch.setattr(sys.modules["topdown.verify.check_constraints"], "ANSWERS_AT_ONCE", 2)
    true = MeasurementReader(small.folder, small.context).exact()["blocks"][4, 0]
    edit_table(small.folder / BLOCKS, lambda rows: rows[4].update(answers=[7 + int(true)]))
    name_tables(small.folder)
    check = attack(small).check(EXACT)
    assert check.n_checked == 8
    assert [(f.node, f.expected, f.found) for f in check.findings] == [("023", str(true + 7), str(true))]
