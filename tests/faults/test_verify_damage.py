"""Files are damaged, missing, hostile or huge: verify says so, quickly and without a traceback."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.depth import repeats
from tests.helpers.folders import paths
from tests.helpers.small_release import (
    Small,
    build,
    edit_json,
    edit_table,
    reseal,
    write_canonical,
    write_stamped,
)
from topdown.verify import Findings, Session, UnreadableError, VerifyResult, check_manifest, verify
from topdown.verify import released_records as areas

SMALL_FILE = 3000
SAMPLES = 5


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release, built once; tests restore what they change."""
    return build(tmp_path_factory.mktemp("sound"), csv=True)


@pytest.fixture
def copy(sound: Small, tmp_path: Path) -> Path:
    """Return a copy of the sound release to be damaged."""
    shutil.copytree(sound.folder, tmp_path / "release")
    return tmp_path / "release"


def attack(folder: Path) -> VerifyResult:
    """Rewrite the manifest and verify; the result must be a JSON document and no fault of the verifier."""
    reseal(folder)
    result = verify(folder)
    json.dumps(result.to_json(), allow_nan=False)
    return result


def flips(data: bytes, positions: range | list[int]) -> Iterator[bytes]:
    """Change one byte at a time, in one bit or all of them."""
    for i in positions:
        mask = (1, 255, 32)[i % 3]
        yield data[:i] + bytes([data[i] ^ mask]) + data[i + 1 :]


@pytest.mark.deep
def test_every_byte_of_small_files_is_covered_by_the_manifest(sound: Small) -> None:
    """A byte that the manifest does not cover could be changed by anybody."""
    n = 0
    for path in paths(sound.folder):
        data = path.read_bytes()
        if len(data) > SMALL_FILE and path.name != "manifest.json":
            continue
        text, document, other = (repeats(*pair) for pair in ((17, 1), (131, 43), (307, 151)))
        step = text if path.suffix == ".txt" else document if path.suffix.startswith(".json") else other
        for damaged in flips(data, range(0, len(data), step)):
            path.write_bytes(damaged)
            out = Findings()
            try:
                check_manifest(Session(sound.folder), out)
            except UnreadableError:  # the runner makes it a finding
                pass
            else:
                assert not out.ok, f"{path} byte changed unseen"
            n += 1
        path.write_bytes(data)
    assert n > repeats(60, 200)
    assert verify(sound.folder).ok


@pytest.mark.slow
def test_any_flipped_byte_fails_the_whole_verification(sound: Small) -> None:
    """A damaged file must never crash the checks that read it, nor pass them all."""
    draw = random.Random(5)
    for path in paths(sound.folder):
        data = path.read_bytes()
        for damaged in flips(data, sorted(draw.sample(range(len(data)), min(SAMPLES, len(data))))):
            path.write_bytes(damaged)
            result = verify(sound.folder)
            assert not result.check("manifest").ok
        path.write_bytes(data)
    assert verify(sound.folder).ok


@pytest.mark.slow
def test_flipped_bytes_with_a_new_manifest_never_crash(sound: Small) -> None:
    """Damaged Parquet and JSON reach every reader when the manifest agrees: no traceback, no V199."""
    draw = random.Random(9)
    manifest = (sound.folder / "manifest.json").read_bytes()
    for path in paths(sound.folder):
        if path.name == "manifest.json":
            continue
        data = path.read_bytes()
        for damaged in flips(data, sorted(draw.sample(range(len(data)), min(4, len(data))))):
            path.write_bytes(damaged)
            result = attack(sound.folder)
            assert [f for c in result.checks for f in c.findings if f.code == "V199"] == []
            # Padding and statistics of Parquet, and most of the README, carry no statement to be judged.
            assert path.suffix not in (".json", ".jsonl") or not result.ok, path
        path.write_bytes(data)
        (sound.folder / "manifest.json").write_bytes(manifest)
    assert verify(sound.folder).ok


def test_each_missing_file_is_named(sound: Small) -> None:
    """A release without one of its files must not pass, whatever the manifest says."""
    for path in paths(sound.folder):
        name = path.relative_to(sound.folder).as_posix()
        data = path.read_bytes()
        path.unlink()
        result = verify(sound.folder)
        assert name in {f.file for f in result.check("manifest").findings}
        path.write_bytes(data)


def test_a_folder_that_is_no_release(tmp_path: Path) -> None:
    """An empty or missing folder must fail every check it cannot do, not crash."""
    for folder in (tmp_path, tmp_path / "missing"):
        result = verify(folder)
        assert not result.ok
        assert result.n_checks == 15
        assert "V199" not in {f.code for c in result.checks for f in c.findings}


def test_symlinks_and_special_files(copy: Path, tmp_path: Path) -> None:
    """A link shows other data to each reader; opening a pipe would hang for ever."""
    for name in ("solve.json", "public"):
        (copy / name).rename(tmp_path / name)
        (copy / name).symlink_to(tmp_path / name)
    os.mkfifo(copy / "README.fifo")
    result = verify(copy)
    assert {"V002", "V004"} == {f.code for f in result.check("manifest").findings}
    assert {"V120"} == {f.code for f in result.check("solver").findings}
    assert {"V015"} == {f.code for f in result.check("plan").findings}


def test_folders_outside_are_not_listed(copy: Path, tmp_path: Path) -> None:
    """A folder that is a link would have its names read, and shown in findings, wherever it leads."""
    for name in ("tables", "measurements"):
        (copy / name).rename(tmp_path / name)
        (copy / name).symlink_to(tmp_path / name)
    (tmp_path / "tables" / "hidden.parquet").touch()
    result = verify(copy)
    assert "hidden" not in str(result.to_json())
    assert {"V030"} == {f.code for f in result.check("measurements").findings}


@pytest.mark.parametrize(
    "path",
    [
        "measurements/../part-000.parquet",
        "../outside",
        "/etc/passwd",
        "a/../../b",
        "",
        ".",
        "tables//x",
        "a\\b",
        "a\0b",
        "solve.json/x",
    ],
)
def test_paths_that_leave_the_folder(copy: Path, path: str) -> None:
    """A manifest that points outside would make the verifier read, and vouch for, other files."""

    def change(document: Any) -> None:
        document["files"].append({"path": path, "bytes": 1, "sha256": "0" * 64})
        document["files"].sort(key=lambda entry: entry["path"])

    edit_json(copy / "manifest.json", change)
    codes = {f.code for f in verify(copy).check("manifest").findings}
    assert codes
    assert codes <= {"V003", "V004", "V005"}
    assert "V004" in codes or ".." not in path


HOSTILE: dict[str, bytes] = {
    "nested": b"[" * 100_000,
    "not an object": b"[1]",
    "no number": b'{"type": NaN}',
    "twice": b'{"type": 1, "type": 1}',
    "not text": b"\xff\xfe{}",
    "huge number": b'{"type": 1' + b"0" * 5000 + b"}",
    "null": b"null",
}


@pytest.mark.parametrize("name", ["manifest.json", "plan.json"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_json(copy: Path, name: str, kind: str) -> None:
    """JSON that is not what it should be must end in a finding."""
    (copy / name).write_bytes(HOSTILE[kind])
    result = verify(copy)
    assert not result.ok
    assert [f for c in result.checks for f in c.findings if f.code == "V199"] == []


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Walk every place of a JSON document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


ODD = (None, True, -1, 2**70, 1.5, "", "x", [], {}, "1/0", [[]])


@pytest.mark.deep
@pytest.mark.parametrize("name", ["plan.json", "solve.json", "certificate.json", "measurements/exact.json"])
def test_wrong_values_anywhere(copy: Path, name: str) -> None:
    """A value of another type or size, anywhere in a JSON file, must end in a finding of a named check."""
    path = copy / name
    original = json.loads(path.read_text(encoding="utf-8"))
    draw = random.Random(name)
    where = list(places(original))
    for place in draw.sample(where, min(repeats(20, 120), len(where))):
        document = json.loads(json.dumps(original))
        inner = document
        for key in place[:-1]:
            inner = inner[key]
        odd = draw.choice([value for value in ODD if json.dumps(value) != json.dumps(inner[place[-1]])])
        inner[place[-1]] = odd
        write_canonical(path, document)
        result = attack(copy)
        assert [f.text for c in result.checks for f in c.findings if f.code == "V199"] == [], (place, odd)
        # The files cannot tell with which versions they were made.
        assert not result.ok or place[0] in ("software", "engine"), (place, odd)


def test_a_key_given_twice(copy: Path) -> None:
    """Two readers could take different values; the plan's hash covers only one of them."""
    text = (copy / "plan.json").read_text(encoding="utf-8")
    (copy / "plan.json").write_text(text.replace("{", '{"mechanism": "geometric",', 1), encoding="utf-8")
    assert {f.code for f in attack(copy).check("plan").findings} == {"V010"}


def test_table_that_claims_too_many_rows(copy: Path, sound: Small) -> None:
    """A small file can claim a thousand million equal rows; reading it would fill the memory."""
    n = 3_000_000
    same = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int8()), ["x"])
    table = pa.table({"level": same, "geocode": same, "count": pa.array([1] * n, pa.int64())})
    path = copy / "tables/total/block.parquet"
    write_stamped(path, table, "topdown.table", sound.context.plan.plan_hash)
    finding = attack(copy).check("tables").findings[0]
    assert finding.code == "V109"
    assert "more than it can truly have" in finding.text


def test_list_that_claims_too_many_values(copy: Path, sound: Small) -> None:
    """A single list of measurements can unpack to gigabytes."""
    path = copy / "measurements/land/part-000.parquet"
    table = pq.read_table(path)
    field = table.schema.field("answers")
    table = table.set_column(3, field, pa.array([[0] * 3_000_000, [0] * 18], field.type))
    stamps = {k.decode(): v.decode() for k, v in pq.ParquetFile(path).metadata.metadata.items()}
    more = {key: stamps[key] for key in ("level", "queries")}
    write_stamped(path, table, "topdown.measurements", sound.context.plan.plan_hash, **more)
    finding = attack(copy).check("measurements").findings[0]
    assert (finding.code, "more data than it can truly have" in finding.text) == ("V030", True)


def test_plan_that_claims_a_huge_domain(copy: Path) -> None:
    """A plan of a few kilobytes can name a domain that fits into no memory."""
    labels = [str(i) for i in range(1000)]
    attributes = [{"name": n, "labels": labels, "recodes": []} for n in ("a", "b", "c")]
    edit_json(copy / "plan.json", lambda plan: plan["schema"].update(attributes=attributes))
    result = attack(copy)
    assert {"V010"} == {f.code for f in result.check("plan").findings}
    assert {"V150"} == {f.code for f in result.check("tables").findings}
    assert result.check("manifest").ok


def group_without_values(plan: Any) -> None:
    """Give a recode one group more than its values are in."""
    recode = next(r for a in plan["schema"]["attributes"] for r in a["recodes"])
    recode["group_labels"].append("nobody")


def age_by_age(plan: Any) -> None:
    """Measure a table whose name has an attribute twice."""
    plan["levels"][0]["measurements"][0]["query"] = "age * age"


@pytest.mark.parametrize(
    ("change", "text"),
    [(group_without_values, "does not put every value into one"), (age_by_age, "uses an attribute twice")],
)
def test_plan_whose_tables_have_answers_that_count_nothing(
    copy: Path, change: Callable[[Any], None], text: str
) -> None:
    """A table would publish noise for groups that no record can be in, under a name that says otherwise."""
    edit_json(copy / "plan.json", change)
    (finding,) = attack(copy).check("plan").findings
    assert (finding.code, text in finding.text) == ("V010", True)


def test_a_release_of_an_older_format(copy: Path) -> None:
    """A release of version 1 may be a simulation; its reader is told which program still reads it."""
    edit_json(copy / "plan.json", lambda plan: plan.update(version=1, simulate=False))
    result = attack(copy)
    (finding,) = result.check("plan").findings
    assert (finding.code, "older version" in finding.text) == ("V010", True)
    assert finding.fix == "verify it with the version of topdown that made it"


def test_other_columns(copy: Path, sound: Small) -> None:
    """A table with a column more, or of another type, breaks those who read by name."""
    path = copy / "microdata/persons.parquet"
    table = pq.read_table(path)
    extra = table.append_column("name", pa.array(["Ann"] * len(table)))
    floats = table.set_column(table.num_columns - 1, "count", table.column("count").cast(pa.float64()))
    for odd in (extra, floats, table.drop_columns(["sex"])):
        write_stamped(path, odd, "topdown.microdata", sound.context.plan.plan_hash)
        assert {"V100"} == {f.code for f in attack(copy).check("whole numbers").findings}


@pytest.mark.parametrize("kept", [0, 10])
def test_tables_too_many_to_keep_are_read_again(
    copy: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """What verify finds in a nation must not depend on the memory it takes; an unreadable table stays unreadable."""
    path = next(iter(sorted((copy / "tables/total").glob("*.parquet"))))
    edit_table(path, lambda rows: rows[0].update(count=rows[0]["count"] + 1))
    other = sorted((copy / "tables").glob("*/*.parquet"))[0]
    other.write_bytes(other.read_bytes()[:-9])
    found = said(attack(copy))
    assert {"hierarchy", "tables"} <= {name for name, ok, *_ in found if not ok}
    monkeypatch.setattr(areas, "KEPT_ROWS", kept)
    assert found == said(verify(copy))


def said(result: VerifyResult) -> list[tuple[Any, ...]]:
    """Return what each check says, without its time."""
    return [(check.name, check.ok, check.text, check.findings) for check in result.checks]
