"""pgsr verify against damage and forgery: each is a failed check, never a pass and never an exception."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgsr import verify
from pgsr.group_checks import exchange_gain_plain
from tests.helpers.folders import paths
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, edit_document, released, seal
from tests.helpers.small_release import rewrite_table
from topdown.errors import TopdownError
from topdown.formats import json_bytes

ANSWERS = "measurements/state/part-000.parquet"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make one release."""
    folder = tmp_path_factory.mktemp("release") / "out"
    released(GROUPS, REGIONS, "M_H^dp", "1/2", sizes=5, out=folder, **book(folder.parent))
    return folder


@pytest.fixture
def copy(made, tmp_path):
    """Return a copy that a test may damage."""
    return shutil.copytree(made, tmp_path / "copy")


def found(folder: Path) -> set[str]:
    """Return the checks that fail."""
    return {check.name for check in verify(folder) if not check.ok}


def test_the_release_itself_passes(made):
    """A checker that fails everything would pass all tests below."""
    assert set() == found(made)


@pytest.mark.parametrize("seed", range(4))
def test_every_flipped_byte_is_found(made, tmp_path, seed):
    """62 of 917 flips were missed: engine, type, sizes and white space of the manifest were checked by nobody."""
    _flips(made, tmp_path, random.Random(seed), 12)


@pytest.mark.slow
def test_every_flipped_byte_of_the_manifest_is_found(made, tmp_path):
    """The manifest is sealed by nothing but its own form."""
    copy = shutil.copytree(made, tmp_path / "copy")
    path = copy / "manifest.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert _fails(copy), place


def _flips(made: Path, tmp_path: Path, rng: random.Random, n_flips: int) -> None:
    copy = shutil.copytree(made, tmp_path / "copy")
    for _ in range(n_flips):
        path = rng.choice([*paths(copy), copy / "manifest.json"])
        whole = path.read_bytes()
        place = rng.randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << rng.randrange(8))]) + whole[place + 1 :])
        assert _fails(copy), (path, place)
        path.write_bytes(whole)


def _fails(folder: Path) -> bool:
    """Tell whether verify fails, by a check or by refusing what is no release any more."""
    try:
        return bool(found(folder))
    except TopdownError as error:
        return error.exit_code == 2 and error.code in ("C122", "D137", "D138")


@pytest.mark.parametrize("how", ["empty", "half", "doubled", "json", "gone", "folder", "link", "fifo", "nul"])
def test_damaged_files_fail_checks(made, tmp_path, how):
    """434 damaged folders ended in a traceback; each file in turn is damaged in a way a disk or a person would."""
    import os

    for i, original in enumerate(paths(made)):
        copy = shutil.copytree(made, tmp_path / str(i))
        path = copy / original.relative_to(made)
        whole = path.read_bytes()
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "link":
            path.symlink_to(original)
        elif how == "fifo":
            os.mkfifo(path)
        elif how != "gone":
            path.write_bytes(
                {"empty": b"", "half": whole[: len(whole) // 2], "doubled": whole * 2, "json": b'{"a": [[[1]]]}\n',
                 "nul": bytes(len(whole))}[how]
            )  # fmt: skip
        assert _fails(copy), path


@pytest.mark.parametrize(
    "add",
    [
        lambda f: (f / "notes.txt").write_text("x"),
        lambda f: (f / "empty").mkdir(),
        lambda f: (f / "measurements" / "state" / "more").mkdir(),
        lambda f: (f / "measurements" / "state" / "part-001.parquet").write_bytes(b"x"),
        lambda f: (f / "link").symlink_to("/"),
        lambda f: (f / "measurements" / "other").symlink_to(f / "measurements" / "state"),
        lambda f: (f / "counts.parquet.tmp").write_bytes(b""),
    ],
)
def test_nothing_else_lies_in_a_release(copy, add):
    """What no check reads can say anything, and a link shows other bytes to each reader."""
    add(copy)
    assert found(copy) == {"manifest"}


def test_a_file_that_the_manifest_lists_but_no_release_has_is_found(copy):
    """With only the manifest redone, arbitrary bytes passed as part of a release."""
    (copy / "notes.txt").write_text("x")
    edit_document(
        copy, "manifest.json", lambda d: d["files"].update({"notes.txt": {"sha256": "0" * 64, "bytes": 1}})
    )
    seal(copy)
    assert found(copy) == {"manifest"}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("manifest.json", lambda d: d.update(engine="9.9.9")),
        ("manifest.json", lambda d: d.update(type="topdown.manifest")),
        ("manifest.json", lambda d: d.update(version=1)),
        ("manifest.json", lambda d: d.update(more=1)),
        ("manifest.json", lambda d: d["files"].pop("counts.parquet")),
        ("manifest.json", lambda d: d["files"]["counts.parquet"].update(bytes=1)),
        ("manifest.json", lambda d: d["files"].update({"../x": d["files"]["counts.parquet"]})),
        ("certificate.json", lambda d: d.update(engine="free words")),
        ("certificate.json", lambda d: d.update(engine="9.9.9")),
        ("certificate.json", lambda d: d.update(more="free words")),
        ("certificate.json", lambda d: d["mechanism"].update(claim="the best there is")),
        ("certificate.json", lambda d: d["mechanism"].update(consistent=False)),
        ("certificate.json", lambda d: d["levels"][0].update(half_widths=[1])),
        ("certificate.json", lambda d: d["privacy"].update(unit_means="nobody is in it")),
        ("certificate.json", lambda d: d["optimality"].update(largest_gain=-99)),
        ("certificate.json", lambda d: d.update(optimality=None)),
        ("certificate.json", lambda d: d.update(truth=None, journal="")),
        ("certificate.json", lambda d: d["regions"].append(["X", "state", "US"])),
        ("certificate.json", lambda d: d["sizes"].update(n_sizes=2**26)),
        ("certificate.json", lambda d: d["levels"][0].update(parameter="1e99999999")),
        ("certificate.json", lambda d: d["levels"][0].update(parameter="0")),
        ("certificate.json", lambda d: d["privacy"].update(claimed="1/0")),
        ("certificate.json", lambda d: d.update(journal="0" * 32)),
        ("certificate.json", lambda d: d.update(total=7)),
        ("certificate.json", lambda d: d.pop("sizes")),
        ("measurements/exact.json", lambda d: d.update(total=7)),
        ("measurements/journal.json", lambda d: d.update(journal="0" * 32)),
    ],
)  # fmt: skip
def test_a_forged_document_is_found(copy, name, edit):
    """Whoever owns the folder can redo every hash in it; what is stated must still follow from the release."""
    edit_document(copy, name, edit)
    assert _fails(copy)


@pytest.mark.parametrize("name", ["manifest.json", "certificate.json", "measurements/exact.json"])
def test_documents_have_one_spelling(copy, name):
    """White space, the order of keys and repeated keys could carry words past every check."""
    document = json.loads((copy / name).read_text())
    (copy / name).write_text(json.dumps(document))
    seal(copy) if name != "manifest.json" else None
    assert found(copy)
    (copy / name).write_bytes(json_bytes(document).replace(b"{", b'{\n  "version": 1,', 1))
    (seal(copy) if name != "manifest.json" else None)
    assert found(copy)


@pytest.mark.parametrize("name", ["counts.parquet", ANSWERS])
@pytest.mark.parametrize("how", ["note", "schema note", "gap", "type", "order", "stamp"])
def test_tables_carry_nothing_else(copy, name, how):
    """Free text in a table's metadata and bytes between its pages are read by nobody, and published all the same."""
    path = copy / name
    table = parquet.read_table(path)
    column = table.column_names[-1]
    notes = {"type": f"pgsr.{'counts' if column == 'count' else 'measurements'}", "version": "1"}
    if how == "gap":
        whole = path.read_bytes()
        size = int.from_bytes(whole[-8:-4], "little")
        path.write_bytes(whole[: -8 - size] + b"free words" + whole[-8 - size :])
    else:
        if how == "type":
            table = table.set_column(3, column, table.column(column).cast(pa.int32()))
        if how == "order":
            table = table.take(list(range(table.num_rows))[::-1])
        notes |= {"note": {"more": "free words"}, "stamp": {"stamp": "NOT-A-RELEASE"}}.get(how, {})
        if how == "schema note":
            table = table.replace_schema_metadata({"more": "free words"})
        with parquet.ParquetWriter(path, table.schema, store_schema=how == "schema note") as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(notes)
    seal(copy)
    assert {"files"} <= found(copy)


def test_other_answers_are_not_the_recorded_ones(copy):
    """Noisy answers moved after the fact are not the ones whose hash the ledger holds."""
    table = parquet.read_table(copy / ANSWERS)
    moved = pa.array([value + 1 for value in table.column("answer").to_pylist()])
    rewrite_table(copy / ANSWERS, table.set_column(3, "answer", moved))
    seal(copy)
    assert {"ledger"} <= found(copy)


@pytest.mark.parametrize(
    "cut",
    [lambda d: d[:-10], lambda d: d + b"\n", lambda d: d + b"x", lambda d: d[: d[:-1].rindex(b"\n") + 1]],
)
def test_a_ledger_that_does_not_end_with_the_commit_is_found(copy, cut):
    """What comes after the commit is another release's, or nobody's."""
    path = copy / "ledger.jsonl"
    path.write_bytes(cut(path.read_bytes()))
    seal(copy)
    assert found(copy) == {"ledger"}


def test_a_simulation_is_no_release(made, tmp_path):
    """A simulation passed all checks with exit code 0; whatever still says what it is, it is refused."""
    folder = tmp_path / "out"
    released(GROUPS, REGIONS, "tracking", 1, sizes=4, simulate=1, truth_is_public=WHY, out=folder)
    for step in range(3):
        if step == 1:
            (folder / "NOT-A-RELEASE.txt").unlink()
        if step == 2:
            edit_document(folder, "manifest.json", lambda d: d.update(release=True, stamp=""))
        with pytest.raises(TopdownError) as caught:
            verify(folder)
        assert (caught.value.code, caught.value.exit_code) == ("C122", 2)
    with pytest.raises(TopdownError):
        verify(Path("a\0b"))


def _moved_count(folder, region, by):
    """Move groups of a region between its first two sizes, and seal the release anew."""
    table = parquet.read_table(folder / "counts.parquet")
    counts = table.column("count").to_numpy().copy()
    counts[region * 5 : region * 5 + 2] += by
    position = table.schema.get_field_index("count")
    rewrite_table(folder / "counts.parquet", table.set_column(position, "count", pa.array(counts)))
    seal(folder)
    return folder


def test_counts_that_do_not_add_up_are_found(copy):
    """A resealed but inconsistent table; validity and faithfulness are separate checks."""
    assert "hierarchy" in found(_moved_count(copy, 1, [1, -1]))
    assert {"whole numbers", "hierarchy", "total"} <= found(_moved_count(copy, 0, [-100, 7]))


def test_exchange_check_rejects_a_worse_table():
    """The optimality check must be able to fail."""
    parent = np.array([-1, 0, 0])
    answers = np.array([[2, 3, 0], [1, 0, 1]])
    assert exchange_gain_plain(parent, answers, np.array([[3, 3, 0], [1, 0, 1]]))[0] <= 0
    assert exchange_gain_plain(parent, answers, np.array([[3, 0, 3], [1, 0, 1]]))[0] > 0


def test_a_folder_that_is_no_release_is_refused(tmp_path):
    """An empty list of checks would look like a pass."""
    with pytest.raises(TopdownError):
        verify(tmp_path)
