"""What `main` promises: exit codes, one JSON document, no traceback, nothing confidential, the word that was meant."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pandas as pd
import pytest

import topdown as package
from tests.cli.conftest import write_toy
from tests.helpers.processes import run_python
from topdown.app import MEANT
from topdown.app.screens import Painter, Progress, StreamLook
from topdown.cli import group, main
from topdown.privacy.ledger import read_ledger
from topdown.progress import Event


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("plam",), 'did you mean "plan"?'),
        (("plan",), "RUN.toml"),
        (("plan", "x.toml", "--bogus"), "--bogus"),
        (("plan", "x.toml", "--color", "red"), "--color"),
        (("generate", "x.toml", "--out", "y", "--workers", "0"), "--workers"),
        (("completion", "tcsh"), "tcsh"),
    ],
)
def test_usage_errors(topdown, check, arguments, word):
    """A wrong command line is a user error in our own words, on the screen and as JSON."""
    said = topdown(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error[C005] ")
    assert word in " ".join(said.err.split())
    as_json = topdown(*arguments, "--json")
    assert as_json.code == 2
    check(as_json.document)


@pytest.fixture
def fail(monkeypatch):
    """Replace what `topdown schema` does by raising an error."""

    def arrange(error: BaseException) -> None:
        command = group.get_command(None, "schema")

        def broken(*_args: object, **_options: object) -> int:
            raise error

        monkeypatch.setattr(command, "callback", broken)

    return arrange


def test_unexpected_errors_show_no_values(topdown, check, fail, monkeypatch):
    """The text of an exception may quote a record: only its place and kind may be shown."""
    fail(KeyError("SECRET-44001"))
    said = topdown("schema")
    assert said.code == 4
    assert "error[X001]" in said.err
    assert "KeyError" in said.err
    assert "Traceback" not in said.err
    as_json = topdown("schema", "--json")
    check(as_json.document)
    monkeypatch.setenv("TOPDOWN_DEBUG", "1")
    debug = topdown("schema")
    assert "raise error" in debug.err
    for text in (said.err, as_json.out, as_json.err, debug.err):
        assert "SECRET" not in text


def test_memory_errors_have_a_fix(topdown, fail):
    """The most likely failure on a laptop must not look like a fault."""
    fail(MemoryError())
    said = topdown("schema")
    assert (said.code, "error[X004]" in said.err) == (4, True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interrupts(topdown, check, fail, error):
    """Ctrl-C outside a run has spent nothing, says so, and ends with 130."""
    fail(error)
    said = topdown("schema")
    assert (said.code, "nothing is spent" in said.err) == (130, True)
    as_json = topdown("schema", "--json")
    check(as_json.document)
    assert (as_json.code, as_json.document["exit_code"]) == (130, 130)


def test_closed_pipe_is_quiet():
    """`topdown explain | head -1` must not end in a traceback."""
    command = f"{sys.executable} -m topdown.cli explain | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_version(capsys):
    """--version prints the version of the installed distribution."""
    from topdown import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"topdown {__version__}\n"


def test_output_that_is_not_utf8():
    """A terminal in an old character set gets words, not an exception."""
    environment = {"PYTHONIOENCODING": "latin-1", "PATH": "/usr/bin:/bin"}
    done = run_python("-m", "topdown.cli", "explain", "B004", env=environment, encoding="latin-1")
    assert done.stdout.isascii()


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def shown(topdown, *arguments: str) -> set[str]:
    """Return the options that a help page names, outside its examples."""
    return set(OPTION.findall(topdown(*arguments, "--help").out.partition("Examples")[0]))


def test_a_choice_shows_its_own_options(topdown):
    """Twenty options, of which a question takes half, hide those that it needs."""
    pages = {name: shown(topdown, "select", name) for name in ("sites", "order", "frequent")}
    assert {"--candidates", "--k", "--per", "--epsilon", "--out"} <= pages["sites"]
    assert not {"--query", "--cap", "--most-records"} & pages["sites"]
    assert {"--query", "--more-than", "--epsilon"} <= pages["frequent"]
    assert not {"--k", "--candidates", "--radius"} & pages["frequent"]
    assert "--most-records" in pages["order"]
    assert set.union(*pages.values()) == shown(topdown, "select")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (("plan", "run.toml", "--epsilon", "2"), "--budget-for"),
        (("generate", "run.toml", "--output", "x"), "--out"),
        (("generate", "run.toml", "--threads", "2"), "--workers"),
        (("init", "--data", "x"), "--records"),
        (("simulate", "run.toml", "--repeats", "3"), "--replicates"),
    ],
)
def test_the_option_that_is_meant_is_named(topdown, line, meant):
    """Names that look alike are not what people look for: "--epsilon" is no misspelt option of plan."""
    said = topdown(*line)
    assert said.code == 2
    assert meant in said.err


def test_every_word_means_an_option():
    """A hint at an option that no command has sends its reader round in circles."""
    commands, known = group, set[str]()
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        known |= {option for parameter in command.params for option in parameter.opts}
    assert set(MEANT.values()) <= known
    assert set(MEANT) & set(MEANT.values()) <= {"--epsilon"}  # an option of some commands, a word in others


def test_a_second_ledger_is_refused_before_a_file_is_written(topdown, tmp_path, monkeypatch):
    """A draft that is left behind by a refusal looks like one that can be used."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"geocode": ["01", "02"], "sex": ["f", "m"]}).to_csv("people.csv", index=False)
    pd.DataFrame({"geocode": ["01", "02"]}).to_csv("towns.csv", index=False)
    pd.DataFrame({"attribute": ["sex", "sex"], "label": ["f", "m"]}).to_csv("codes.csv", index=False)
    draft = ("init", "--records", "people.csv", "--leaves", "towns.csv", "--codes", "codes.csv", "--no-count")
    draft = (*draft, "--levels", "land=0,town=2")
    assert topdown(*draft, "--out", "one/run.toml").code == 0
    before = sorted(tmp_path.rglob("*"))
    assert topdown(*draft, "--out", "two/run.toml").refusal == "B017"
    assert before == sorted(tmp_path.rglob("*"))


def test_records_are_evaluated_as_they_were_read(topdown, tmp_path, monkeypatch):
    """Records that a run file explains cannot be compared with the release by a command that does not read it."""
    monkeypatch.chdir(tmp_path)
    schema = package.Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    tree = package.Geography.from_table({"town": ["1", "2"]}, ["land", "town"])
    people = pd.DataFrame(
        {"geocode": list("12") * 40, "sex": ["F", "M"] * 40, "age": [3, 20] * 40, "note": ["x"] * 80}
    )
    people.to_csv("records.csv", index=False)
    planned = package.plan(schema=schema, geography=tree, records=people, rho="1/2")
    run = Path(planned.write(".").prepared.path)
    values = (
        '\n[input.values.sex]\nlabels = { F = "f", M = "m" }\n\n[input.values.age]\nbands = ["0-17", "18+"]\n'
    )
    text = run.read_text(encoding="utf-8")
    at = text.index("\n[geography]")
    run.write_text(text[:at] + values + text[at:], encoding="utf-8")
    assert topdown("generate", "run.toml", "--yes", "--out", "release").code == 0
    assert topdown("evaluate", "release", "--truth", "records.csv").code == 2
    found = topdown("evaluate", "release", "--truth", "records.csv", "--run", "run.toml", "--json").ok()
    assert found.document["n_records"]["true"] == 80


TOPDOWN = f"{sys.executable} -m topdown.cli"
GENERATE = f"{TOPDOWN} generate run.toml --out out --yes"


def shell(folder, line: str) -> tuple[int, str]:
    """Run a line of shell; return its exit code and what it said on a stream that is still open."""
    done = subprocess.run(
        ["/bin/bash", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        pytest.param(f"{GENERATE} 2>&1 | head -1; exit ${{PIPESTATUS[0]}}", 141, marks=pytest.mark.slow),
        pytest.param(f"{GENERATE} 2>/dev/full", 0, marks=pytest.mark.slow),
        (f"{GENERATE} >&- 2>&- <&-", 0),
        pytest.param(f"{GENERATE} --json >/dev/full", 4, marks=pytest.mark.slow),
        pytest.param(f"{GENERATE} 2>&-", 0, marks=pytest.mark.slow),
    ],
)
def test_a_release_is_finished_whoever_listens(line, exit_code, tmp_path):
    """A reader that leaves after the charge would cost the budget; a ledger as file 1 or 2 would take messages."""
    run = write_toy(tmp_path / "census")
    code, said = shell(run.parent, line)
    assert (exit_code, False) == (code, "Traceback" in said), said
    assert (run.parent / "out" / "manifest.json").exists()
    book = read_ledger(run.parent / "ledger" / "persons.jsonl")
    assert (len(book.intents), len(book.committed)) == (1, 1)


@pytest.mark.parametrize(
    ("line", "exit_code", "words"),
    [
        ("plan run.toml >/dev/full", 4, "X005"),
        ("plan run.toml --json >&-", 0, ""),
        ("plan nowhere.toml 2>/dev/full", 2, ""),
        ("", 2, "Make a release"),
        ("generate run.toml --out out --json", 2, '"C084"'),
    ],
)
def test_what_cannot_be_said_is_no_crash(line, exit_code, words, tmp_path):
    """A traceback quotes code, and an exit code of the interpreter's own means nothing to a script."""
    run = write_toy(tmp_path / "census")
    code, said = shell(run.parent, f"{TOPDOWN} {line}")
    assert (exit_code, False) == (code, "Traceback" in said), said
    assert words in said
    assert list(read_ledger(run.parent / "ledger" / "persons.jsonl").intents) == []


class FullStream(io.StringIO):
    """A stream without room."""

    def write(self, text: str) -> int:
        """Refuse."""
        raise OSError(28, "No space left on device")


def test_progress_without_room_is_dropped():
    """A full log disk after the intent would end the run that it was to describe."""
    progress = Progress(Painter(FullStream(), StreamLook(), optional=True), FullStream())
    for done in (0, 1):
        progress(Event("measure", done, 1, "land"))
    progress.close()
    assert progress.where == "after measure"


@pytest.mark.parametrize("depth", ["", "deep/er/still/"])
def test_no_folder_is_made_inside_a_release(topdown, toy, release, tmp_path, depth):
    """A release in the folder of another was charged, and broke that one: verify finds files that it does not list."""
    made = Path(shutil.copytree(release, tmp_path / "made"))
    run, inside = toy(tmp_path / "toy"), made / depth / "more"
    before = sorted(made.rglob("*"))
    for command in (
        ("generate", run, "--yes"),
        ("resolve", made, "--name", "a", "--targets", "tree"),
        ("simulate", run, "--truth", made),
        ("tables", made),
        ("synth", run),
        ("demo",),
    ):
        said = topdown(*command, "--out", inside, "--json").document
        assert (said["code"], str(made) in said["text"]) == ("C132", True), command
    assert sorted(made.rglob("*")) == before
    assert topdown("plan", run, "--json").document["ledger"]["charged"] == {}
