"""A release in several sections: the same rows as in one, and no part can be left out, added, exchanged or moved."""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

import topdown
from tests.helpers.failing import fails_with
from tests.helpers.folders import files
from tests.helpers.sections import cut_small, packed
from tests.helpers.small_release import Small, build, certified, from_dense
from tests.helpers.tampered import Rows, attack, codes, edit_rows, failed
from topdown.errors import CertificateError, InternalError
from topdown.formats import CertifiedPrivacy
from topdown.inputs import parquet_bytes
from topdown.measure import read_microdata
from topdown.publish import (
    OptionalFiles,
    PublishOptions,
    SectionFiles,
    SectionSource,
    publish,
    section_files,
    verified_in,
)
from topdown.publish import publish_release as publishing
from topdown.verify import (
    CheckResult,
    EachSection,
    SectionFindings,
    Session,
    VerifyResult,
    check_section,
    verify,
)
from topdown.verify import session as look

FIRST, SECOND = "microdata/persons/part-000.parquet", "microdata/persons/part-001.parquet"
AGE = "tables/sex_by_age/block"


@pytest.fixture(autouse=True)
def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release of two sections, one a county."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return build(tmp_path_factory.mktemp("parted"), csv=True)


def published(small: Small, *running: Any, **more: Any) -> None:
    """Publish a release once more, with the options of `PublishOptions`."""
    how = {"optional": OptionalFiles(csv=True), "running": PublishOptions(*running, **more)}
    publish(small.folder, small.context, small.leaves, small.ledger, privacy=certified(), **how)


def test_sections_hold_the_rows_of_one_file(
    sound: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is lost or doubled where files are cut would be a release of other people."""
    assert [check.text for check in verify(sound.folder).checks if not check.ok] == []
    monkeypatch.undo()
    whole = build(tmp_path / "whole", sound.leaves, csv=True)
    assert verify(whole.folder).ok
    cut, uncut = files(sound.folder), files(whole.folder)
    assert {FIRST, SECOND, f"{AGE}/part-001.parquet", "tables/sex_by_age/land.parquet"} <= set(cut)
    tables = [name for name in uncut if name.startswith(("microdata/persons.pa", "tables/"))]
    assert len(tables) == 10
    for name in tables:
        path = sound.folder / name
        parts = [path] if path.is_file() else sorted(path.with_suffix("").iterdir())
        assert len(parts) == (1 if name.endswith("land.parquet") else 2), name
        assert pq.read_table(whole.folder / name).equals(pa.concat_tables(map(pq.read_table, parts))), name
    one, other = topdown.Release(whole.folder), topdown.Release(sound.folder)
    assert one.microdata().equals(other.microdata())
    assert one.table("total", "block").equals(other.table("total", "block"))
    assert cut["microdata/persons.csv.gz"] == uncut["microdata/persons.csv.gz"]
    texts = [
        {check.name: check.text for check in verify_of.checks}
        for verify_of in (_verified(sound, monkeypatch), verify(whole.folder))
    ]
    for name in ("whole numbers", "hierarchy", "exact statistics", "zeros", "bounds", "digests"):
        assert texts[0][name] == texts[1][name]


def _verified(small: Small, monkeypatch: pytest.MonkeyPatch) -> VerifyResult:
    with monkeypatch.context() as patch:
        cut_small(patch)
        return verify(small.folder)


def test_bytes_do_not_depend_on_processes(copy: Small) -> None:
    """Two people who make the same release would publish different hashes."""
    before = files(copy.folder)
    published(copy, workers=2)
    assert before == files(copy.folder)


def test_parts_of_a_solve_give_the_files_of_a_table(copy: Small) -> None:
    """A solve hands its leaves over in parts that end elsewhere than the files do."""
    before = files(copy.folder)
    for ends in ([], [1], [3], [2, 4]):
        leaves = packed(copy.leaves, ends)
        published(replace(copy, leaves=leaves))
        assert before == files(copy.folder), ends


def test_parts_out_of_order_are_refused(copy: Small) -> None:
    """A part that is there twice would double its people, and each part by itself is sound."""
    leaves = packed(copy.leaves, [2])
    first, second = leaves.parts
    for parts in ((second, first), (first, first, second)):
        with fails_with("X030", InternalError):
            publish(copy.folder, copy.context, replace(leaves, parts=parts), copy.ledger, privacy=certified())


def test_a_missing_part_is_no_empty_one(copy: Small) -> None:
    """Half a nation read for a whole one would be published as one."""
    (copy.folder / SECOND).unlink()
    for read in (
        topdown.Release(copy.folder).microdata,
        lambda: read_microdata(copy.folder / "microdata" / "persons.parquet", copy.context),
    ):
        with fails_with("V090", CertificateError, match=r"part-001.parquet"):
            read()


def test_a_section_of_nobody_is_a_part_without_rows(tmp_path: Path) -> None:
    """A desert must neither be left out, so that numbers shift, nor be refused."""
    rules = 'type = "topdown.invariants"\nversion = 1\nname = "none"\ntitle = "none"\nschema = "toy"\n'
    rules += (
        '[[none_where_zero]]\nname = "none"\nlegal_basis = "a test"\ncells = { dwelling = ["barracks"] }\n'
    )
    rules += 'columns = ["homes", "dormitories", "barracks"]\n'
    dense = np.zeros((5, 18), dtype=np.int64)
    dense[:2, 3] = 4
    small = build(tmp_path, from_dense(dense), invariants=rules, csv=True, privacy=CertifiedPrivacy())
    assert pq.read_metadata(small.folder / SECOND).num_rows == 0
    found = failed(verify(small.folder))
    assert {"privacy"} == found  # nothing is stated of it, as that would take a while
    assert topdown.Release(small.folder).microdata()["count"].sum() == 8


def _killing(source: SectionSource, number: int) -> SectionFiles:
    """Make the files of a section, but die with the first try of the second."""
    flag = source.context.plan.release.id + ".killed"
    if number == 1 and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return section_files(source, number)


def test_the_section_of_a_killed_process_is_made_again(copy: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory killer takes a process; what it was making must not be missing from the release."""
    before = files(copy.folder)
    monkeypatch.chdir(copy.folder.parent)
    monkeypatch.setattr(publishing, "section_files", _killing)
    told: list[str] = []
    published(copy, lambda event: told.append(event.text) if event.stage == "workers" else None, 2)
    assert before == files(copy.folder)
    assert len(told) == 1


def _dying(session: Session, number: int) -> SectionFindings:
    """Look at the first section, and die with every other."""
    if number:
        os.kill(os.getpid(), signal.SIGKILL)
    return check_section(session, number)


def test_a_section_that_kills_its_process_is_no_finding(
    sound: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little memory says nothing of the files; who reads that they are damaged would throw them away."""
    monkeypatch.setattr(look, "check_section", _dying)
    with fails_with("X046", InternalError) as stopped:
        verify(sound.folder, verified_in(2))
    assert "section 1" in dict(stopped.value.details)["one of"]


def _removed(folder: Path, place: str) -> None:
    (folder / place / "part-001.parquet").unlink()


def _added(folder: Path, place: str) -> None:
    shutil.copy(folder / place / "part-001.parquet", folder / place / "part-002.parquet")


def _exchanged(folder: Path, place: str) -> None:
    first, second = folder / place / "part-000.parquet", folder / place / "part-001.parquet"
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


def _split(folder: Path, place: str) -> None:
    second = folder / place / "part-001.parquet"
    table, stamps = pq.read_table(second), pq.ParquetFile(second).metadata.metadata
    _write(folder / place / "part-002.parquet", table.slice(3), stamps)
    _write(second, table.slice(0, 3), stamps)


def _moved(folder: Path, place: str) -> None:
    """Move the last leaf of the first part to the second."""
    first, second = folder / place / "part-000.parquet", folder / place / "part-001.parquet"
    stamps = pq.ParquetFile(first).metadata.metadata
    one, other = pq.read_table(first), pq.read_table(second)
    kept = sum(code != "012" for code in one.column("geocode").to_pylist())
    assert kept < one.num_rows
    _write(first, one.slice(0, kept), stamps)
    _write(second, pa.concat_tables([one.slice(kept), other]), stamps)


def _joined(folder: Path, place: str) -> None:
    first = folder / place / "part-000.parquet"
    stamps = pq.ParquetFile(first).metadata.metadata
    table = pa.concat_tables(map(pq.read_table, sorted((folder / place).iterdir())))
    shutil.rmtree(folder / place)
    _write((folder / place).with_suffix(".parquet"), table, stamps)


def _write(path: Path, table: pa.Table, stamps: dict[bytes, bytes]) -> None:
    have = {key.decode(): value.decode() for key, value in stamps.items()}
    bare = table.cast(pa.schema([(field.name, field.type) for field in table.schema]))
    path.write_bytes(parquet_bytes(have["type"], bare, have))


CHANGES = (
    (_removed, "part-001"),
    (_added, "part-002"),
    (_exchanged, "part-000"),
    (_split, "part-002"),
    (_moved, "part-001"),
    (_joined, "part-000"),
)


@pytest.mark.parametrize(
    ("place", "change", "named"),
    [
        *(("microdata/persons", *change) for change in CHANGES),
        (AGE, *CHANGES[4]),
        *(pytest.param(AGE, *change, marks=pytest.mark.slow) for change in CHANGES[:4]),
        *(pytest.param("tables/total/block", *change, marks=pytest.mark.slow) for change in CHANGES),
    ],
)
def test_a_part_belongs_where_it_is(
    copy: Small, place: str, change: Callable[[Path, str], None], named: str
) -> None:
    """Whoever moves people between sections and writes a manifest to match is found, and the part is named."""
    change(copy.folder, place)
    result = attack(copy)
    findings = [f for check in result.checks for f in check.findings]
    assert any(f.file == f"{place}/{named}.parquet" for f in findings), [f.text for f in findings]
    assert failed(result) & {"manifest", "whole numbers", "tables"}


def _raise(rows: Rows) -> None:
    rows[0]["count"] += 1


@pytest.mark.parametrize(
    "path", [FIRST, SECOND, f"{AGE}/part-000.parquet", "tables/sex_by_age/county/part-001.parquet"]
)
def test_a_count_in_a_part_is_compared(copy: Small, path: str) -> None:
    """A count that is looked at in the first section only could be anything in the others."""
    result = edit_rows(copy, path, _raise)
    assert {"V108"} <= codes(result, "tables")
    assert {"tables"} <= failed(result)


def test_levels_above_are_compared_with_all_sections(copy: Small) -> None:
    """Nobody else adds the sections up."""
    result = edit_rows(copy, "tables/sex_by_age/land.parquet", _raise)
    assert ({"V108"}, {"V104"}) == (codes(result, "tables"), codes(result, "hierarchy"))
    assert any("is not the sum of its countys" in f.text for f in result.check("hierarchy").findings)


def test_a_damaged_part_is_named_and_the_others_are_looked_at(copy: Small) -> None:
    """One part that cannot be read must not hide what is wrong elsewhere, nor end the checks."""
    (copy.folder / SECOND).write_bytes(b"PAR1")
    result = attack(copy)
    assert [f.file for f in result.check("whole numbers").findings] == [SECOND]
    assert {"V150"} == codes(result, "zeros") == codes(result, "digests")
    (copy.folder / FIRST).write_bytes(b"PAR1")
    assert {FIRST, SECOND} == {f.file for f in attack(copy).check("whole numbers").findings}


def test_findings_do_not_depend_on_processes(copy: Small) -> None:
    """An auditor with more processes must not find less, whether parts are sound or not."""

    def found(each: EachSection) -> list[CheckResult]:
        return [structs.replace(check, seconds=0) for check in verify(copy.folder, each).checks]

    assert found(verified_in(1)) == found(verified_in(2))
    edit_rows(copy, SECOND, _raise)
    (copy.folder / FIRST).write_bytes(b"PAR1")
    assert found(verified_in(1)) == found(verified_in(2))
