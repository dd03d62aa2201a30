"""`topdown init` and `topdown synth`: files that are complete, and never written over others."""

from pathlib import Path

import pytest

from tests.helpers.commands import pgsr
from tests.helpers.killed import die, is_killed

TABLES = ("--records", "people.csv.gz", "--leaves", "blocks.csv")


def test_init_marks_open_answers(topdown, check):
    """The run file must load, name the answers people owe, and not touch the tables."""
    said = topdown("init", *TABLES, "--out", "ri/run.toml").ok()
    assert "release.agency  release.contact" in said.out
    assert "people.csv.gz does not exist yet" in said.err
    assert 'agency = "?"' in Path("ri/run.toml").read_text()
    assert 'targets = "tree"' in Path("ri/run.toml").read_text()
    assert topdown("init", *TABLES, "--out", "ri/run.toml").code == 0  # the same draft changes nothing
    edited = Path("ri/run.toml").read_text().replace('agency = "?"', 'agency = "our office"')
    Path("ri/run.toml").write_text(edited)
    again = topdown("init", *TABLES, "--out", "ri/run.toml")
    assert again.refusal == "C080"
    assert '-agency = "our office"' in again.out
    assert edited == Path("ri/run.toml").read_text()
    forced = topdown("init", *TABLES, "--out", "ri/run.toml", "--force", "--json")
    check(forced.document)
    assert forced.document["missing_files"] == ["people.csv.gz", "blocks.csv"]
    assert edited == Path("ri/run.toml.1").read_text()


def test_levels_that_cannot_be_looked_up_are_never_guessed(topdown, tmp_path):
    """A prefix that nobody named puts people into areas that do not exist."""
    options = ("--schema", "toy", "--settings", "toy", "--levels", "land,county,block")
    assert topdown("init", *TABLES, *options, "--out", "run.toml", "--json").refusal == "C338"
    assert not Path("run.toml").exists()
    named = (*options[:-1], "land=0,county=2,block=5")
    assert topdown("init", *TABLES, *named, "--out", "run.toml").code == 0
    assert "prefix_lengths = [0, 2, 5]" in Path("run.toml").read_text()
    assert topdown("init", *TABLES, "--schema", "toy", "--out", "other.toml").refusal == "C060"
    assert not Path("other.toml").exists()


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("l.parquet", b"PAR1, and no more", "D002"),
        ("l.csv", b"", "D002"),
        ("l.csv.gz", b"not packed", "D002"),
    ],
)
def test_leaves_that_cannot_be_read_are_named(topdown, tmp_path, name, content, code):
    """It would end as a fault of the engine (X001)."""
    (tmp_path / name).write_bytes(content)
    given = ("--levels", "region,town", "--records", "p.csv")
    said = topdown("init", *given, "--leaves", tmp_path / name, "--out", tmp_path / "run.toml")
    assert (said.code, code in said.err, name in said.err) == (2, True, True), said.err


def test_synth_then_plan(topdown, check):
    """The made-up census must be ready for a plan, the same twice, and not replace files unasked."""
    first = topdown("synth", "--out", "made-up", "--people", 400, "--json").ok()
    check(first.document)
    data = Path("made-up/persons.csv.gz").read_bytes()
    assert topdown("plan", "made-up/run.toml").code == 0
    assert topdown("synth", "--out", "made-up", "--people", 400).refusal == "C080"
    forced = topdown("synth", "--out", "made-up", "--people", 400, "--force")
    assert (forced.code, data) == (0, Path("made-up/persons.csv.gz").read_bytes())
    assert "400 made-up people" in forced.out


def _dying_synth(act) -> None:
    """Make up a census or groups in a process that dies when it writes the run file."""
    write = Path.write_text

    def dying_write(path: Path, *arguments: str, **named: str) -> int:
        if path.name == "run.toml":
            die()
        return write(path, *arguments, **named)

    Path.write_text = dying_write
    act()


def test_a_killed_synth_leaves_nothing_that_looks_whole(topdown):
    """Tables without their run file were left, and the next run refused to write over them."""
    words = ("synth", "--schema", "toy", "--people", 50, "--out")
    assert is_killed(lambda: _dying_synth(lambda: topdown(*words, "made")))
    assert not Path("made").exists()
    assert topdown(*words, "made").code == 0
    assert [path.name for path in Path.cwd().iterdir()] == ["made"]
    before = {path: path.read_bytes() for path in Path("made").rglob("*") if path.is_file()}
    again = (*words, "made", "--seed", 2, "--force")
    assert is_killed(lambda: _dying_synth(lambda: topdown(*again)))
    assert all(path.read_bytes() == data for path, data in before.items())
    assert topdown(*again).code == 0
    assert Path("made/persons.csv.gz").read_bytes() != before[Path("made/persons.csv.gz")]
    assert {path for path in Path("made").rglob("*") if path.is_file()} == set(before)


def test_a_census_is_made_where_other_files_are(topdown):
    """The current folder, and one with files of others, must take a census as a new folder does."""
    Path("notes.txt").write_text("mine")
    assert topdown("synth", "--schema", "toy", "--people", 50, "--out", ".").code == 0
    assert topdown("plan", "run.toml").code == 0
    assert Path("notes.txt").read_text() == "mine"
    assert not list(Path.cwd().glob(".*"))


def test_killed_made_up_groups_leave_nothing_that_looks_whole(tmp_path):
    """Half a folder of groups was refused by the next run."""
    words = ("synth", "--shape", "tiny", "--out", tmp_path / "groups")
    assert is_killed(lambda: _dying_synth(lambda: pgsr(*words)))
    assert not (tmp_path / "groups").exists()
    pgsr(*words).ok()
    assert [path.name for path in tmp_path.iterdir()] == ["groups"]


def test_a_registry_goes_where_it_is_asked_for(topdown, tmp_path):
    """Records in a folder that must not be written to need their ledger's registry elsewhere."""
    (tmp_path / "data").mkdir()
    (tmp_path / "w").mkdir()
    files = ("--records", tmp_path / "data/p.csv", "--leaves", tmp_path / "data/l.csv")
    topdown("init", *files, "--out", tmp_path / "run.toml", "--registry", tmp_path / "w").ok()
    assert not list((tmp_path / "data").iterdir())
    (registry,) = (tmp_path / "w").iterdir()
    assert registry.name.endswith(".registry")
    assert topdown("ledger", "attest", tmp_path / "run.toml", "--by", "A", "--reason", "a test").code == 0


def test_settings_whose_budget_is_in_one_line_are_refused(topdown, tmp_path):
    """The text of the settings is copied from [budget] on; without that line init ended in an internal error."""
    text = (Path(__file__).resolve().parents[2] / "settings" / "toy.toml").read_text()
    (tmp_path / "own.toml").write_text(text.replace('[budget]\nrho = "2"', 'budget = { rho = "2" }'))
    said = topdown(
        "init", "--records", "p.csv", "--leaves", "l.csv", "--schema", "toy", "--settings", "own.toml",
        "--levels", "land=0,county=1,block=3", "--out", "run.toml", "--json",
    )  # fmt: skip
    assert (said.code, said.document["code"]) == (2, "C286"), said.out
    assert not (tmp_path / "run.toml").exists()
