"""Standard streams that are full, closed or left by their reader: no run ends of them, and nothing is charged twice."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import write_toy
from topdown.app.screens import Painter, Progress, StreamLook
from topdown.privacy.ledger import read_ledger
from topdown.progress import Event

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
