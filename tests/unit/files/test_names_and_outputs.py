"""Names that become files, and files that may be written."""

import json
import os

import pytest

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.file_names import MOST_NAME_BYTES, checked_name, refuse_same_file, table_name
from topdown.output_paths import open_log, refuse_inside, refuse_needed, refuse_release, write_new

BAD = ["", ".", "..", ".x", "-x", "_", "a/b", "../a", "a\\b", "a\0", "a b", "a\n", "con", "NUL", "Com1", "x.json",
       "exact.json", "x.TMP", "x.", "a:b", "a*b", "e\u0301", "\u202ea", "\ud800",
       "a" * (MOST_NAME_BYTES + 1), "é" * 40]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_no_file_name_is_refused(name):
    """It would be a path, a link's bait, another file's name, or none on some machine."""
    with fails_with("C130", ConfigError) as caught:
        checked_name(name, "level")
    assert caught.value.text.isprintable()


@pytest.mark.parametrize(
    "name", ["block_group", "county", "age_10", "část-obce", "जिला", "区", "v1.2", "a" * MOST_NAME_BYTES]
)
def test_names_of_any_script_are_names(name):
    """An office need not name its levels in English."""
    assert name == checked_name(name, "level")


def test_two_names_of_one_file_are_refused():
    """The second table would overwrite the first; capitals do not tell files apart everywhere."""
    for names in (("sex * age", "sex_by_age"), ("Land", "land"), ("ﬁn", "fin")):
        with fails_with("C131", ConfigError):
            refuse_same_file(names, "table")
    refuse_same_file(("sex * age", "sex", "age"), "table")
    assert table_name("sex * age") == "sex_by_age"


def test_a_table_of_too_many_attributes_has_no_file_name():
    """A name past 255 bytes is refused by the file system after the noise was drawn."""
    with fails_with("C130", ConfigError):
        refuse_same_file([" * ".join(c * 50 for c in "abcde")], "table")


def test_one_file_by_any_name_is_found(tmp_path):
    """A link or another spelling must not lead around the rule."""
    records = tmp_path / "records.csv"
    records.write_text("x")
    (tmp_path / "soft").symlink_to(records)
    os.link(records, tmp_path / "hard")
    (tmp_path / "other").write_text("x")
    for name in ("records.csv", "./records.csv", "soft", "hard", f"../{tmp_path.name}/records.csv"):
        with fails_with("C132", ConfigError):
            refuse_needed(tmp_path / name, "--out", (records,))
    refuse_needed(tmp_path / "other", "--out", (records, tmp_path / "absent"))


def test_no_file_is_written_into_a_release(tmp_path):
    """An added or replaced file would make a published release fail its check, or be published with it."""
    (tmp_path / "release" / "tables").mkdir(parents=True)
    (tmp_path / "release" / "manifest.json").write_text(json.dumps({"type": "topdown.manifest"}))
    (tmp_path / "web" / "x").mkdir(parents=True)
    (tmp_path / "web" / "manifest.json").write_text(json.dumps({"name": "a web page"}))
    for name in ("new.json", "tables/new.json", "manifest.json"):
        with pytest.raises(ConfigError):
            refuse_release(tmp_path / "release" / name, "--out")
    refuse_release(tmp_path / "web" / "x" / "new.json", "--out")
    with pytest.raises(ConfigError):
        refuse_inside(tmp_path / "release", "--out", (tmp_path / "release" / "ledger.jsonl",))


def test_a_file_is_created_and_not_replaced(tmp_path):
    """Between looking and writing somebody else may have put a file or a link there."""
    path = tmp_path / "new" / "a.json"
    write_new(path, b"1", mode=0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"1", 0o600)
    for name in ("a.json", "link"):
        (tmp_path / "new" / "link").unlink(missing_ok=True)
        (tmp_path / "new" / "link").symlink_to("nowhere")
        with fails_with("C080", ConfigError):
            write_new(path.with_name(name), b"2")
    write_new(path, b"3", force=True)
    assert path.read_bytes() == b"3"
    with fails_with("C132", ConfigError):
        write_new(path.with_name("link"), b"4", force=True)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.json", "link"]


def test_a_ledger_is_not_replaced_even_by_force(toy_ledger):
    """It is the only book of what was spent."""
    before = toy_ledger.read_bytes()
    with fails_with("C132", ConfigError):
        write_new(toy_ledger, b"x", force=True)
    with pytest.raises(ConfigError):
        open_log(toy_ledger, (), toy_ledger.with_name("out"))
    assert before == toy_ledger.read_bytes()


@pytest.fixture
def toy_ledger(tmp_path):
    """Make a ledger and return its path."""
    from topdown.privacy.ledger import LedgerBinding, LedgerLocation, create_ledger

    create_ledger(
        LedgerLocation(tmp_path / "l.jsonl", tmp_path, "", LedgerBinding("toy", "bounded", "person"))
    )
    return tmp_path / "l.jsonl"


def test_a_log_goes_on_where_it_stopped(tmp_path):
    """A resumed run adds to its log; a log is not started in a file of another kind."""
    line = json.dumps({"time": "t", "stage": "s", "done": 0, "total": 1}) + "\n"
    for _ in range(2):
        with open_log(tmp_path / "log.jsonl", (), tmp_path / "out") as file:
            file.write(line)
    assert line * 2 == (tmp_path / "log.jsonl").read_text()
    for text in ("x", "{}\n", "[1]\n", "1\n", "geocode,sex\n"):
        (tmp_path / "other").write_text(text)
        with pytest.raises(ConfigError):
            open_log(tmp_path / "other", (), tmp_path / "out")
        assert text == (tmp_path / "other").read_text()
