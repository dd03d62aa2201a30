"""What may be simulated on: marks fit one file only, and a reason must say something."""

import json
from pathlib import Path

import pytest

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.made_up import Origin, mark_of, origin_of, refuse_simulation, write_mark

WHY = "2010 Census, Summary File 1"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table without a mark."""
    path = tmp_path / "persons.csv"
    path.write_text("geocode,sex\n1,f\n")
    return path


def refused(table: Path, reason: str = "") -> str:
    """Return the text of the refusal."""
    with pytest.raises(ConfigError) as caught:
        origin_of(table, reason)
    assert (caught.value.code, caught.value.exit_code) == ("C121", 2)
    return caught.value.text


def test_a_table_without_a_mark_is_refused(table: Path) -> None:
    """Noise on real records that nobody charges for gives the records away."""
    assert "is not marked as made up" in refused(table)


def test_a_marked_table_says_what_made_it(table: Path) -> None:
    """A result must tell which made-up table it is about."""
    write_mark(table, "topdown synth", 3)
    digest = json.loads(mark_of(table).read_text())["sha256"]
    assert Origin("made_up", "persons.csv", digest, generator="topdown synth", seed=3) == origin_of(table)


@pytest.mark.parametrize(
    "change", [lambda b: b + b"2,m\n", lambda b: b.replace(b"f", b"m"), lambda b: b[:-1]]
)
def test_a_marked_table_that_was_changed_is_refused(table: Path, change) -> None:
    """Real records saved over a made-up table would inherit its mark."""
    write_mark(table, "topdown synth", 3)
    table.write_bytes(change(table.read_bytes()))
    assert "was changed after it was marked" in refused(table)


def test_a_mark_of_another_table_is_refused(table: Path, tmp_path: Path) -> None:
    """A mark copied beside real records must not make them made up."""
    other = tmp_path / "other.csv"
    other.write_text("geocode,sex\n2,m\n")
    write_mark(other, "topdown synth", 3)
    mark_of(other).rename(mark_of(table))
    refused(table)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"type": "topdown.made_up", "version": 1}',
        '{"a": ' * 90_000,
        '"' + "x" * 70_000,
    ],
)
def test_a_damaged_mark_is_no_mark(table: Path, text: str) -> None:
    """Whatever lies beside the table, the answer is a refusal and no traceback."""
    mark_of(table).write_text(text)
    refused(table)


def test_a_mark_needs_its_exact_fields(table: Path) -> None:
    """A number or a list in place of the hash must not compare equal to anything."""
    mark = write_mark(table, "topdown synth", 3)
    good = json.loads(mark.read_text())
    for bad in (
        {"type": "other"},
        {"version": 2},
        {"version": True},
        {"seed": True},
        {"sha256": None},
        {"sha256": good["sha256"].upper()},
    ):
        mark.write_text(json.dumps(good | bad))
        refused(table)
    mark.write_text(json.dumps(good))
    assert origin_of(table).kind == "made_up"


@pytest.mark.parametrize(
    "reason", ["public", "is public", "1 2 3 4", ". . . .", "it is public\nFAKE", "word " * 300]
)
def test_a_reason_must_say_something(table: Path, reason: str) -> None:
    """One word of habit, or text that breaks the line of a result, is no reason."""
    assert "says too little" in refused(table, reason)


def test_a_reason_is_kept(table: Path) -> None:
    """Who simulates on a table nobody marked must say why, where every reader sees it."""
    found = origin_of(table, f"  {WHY} ")
    assert (found.kind, found.reason) == ("public", WHY)
    write_mark(table, "topdown synth", 3)
    assert (origin_of(table, WHY).kind, origin_of(table, WHY).reason) == ("made_up", WHY)


def test_a_missing_table_is_no_public_table(tmp_path: Path) -> None:
    """A typing error must not end in a traceback."""
    with fails_with("C001", ConfigError):
        origin_of(tmp_path / "none.csv", WHY)


@pytest.mark.parametrize("name", ["simulation.json", "NOT-A-RELEASE.txt"])
def test_a_folder_of_a_simulation_is_known_by_either_file(tmp_path: Path, name: str) -> None:
    """An interrupted simulation has no simulation.json yet; a folder inside one has neither."""
    refuse_simulation(tmp_path)
    (tmp_path / name).touch()
    for folder in (tmp_path, tmp_path / "replicate-000"):
        with fails_with("C122", ConfigError):
            refuse_simulation(folder)
