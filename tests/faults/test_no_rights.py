"""The real programs where they may write nothing: one error each, nothing charged, no traceback."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgsr.cli import main as pgsr
from tests.cli.conftest import write_toy
from tests.corpus.test_corpus import GROUPS, HIERARCHY, PGSR_RUN
from topdown.privacy.ledger import read_ledger

ROOT = Path(__file__).resolve().parents[2]
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
COMMANDS = {
    "generate": ("topdown", "generate", "run.toml", "--out", "out", "--yes"),
    "plan": ("topdown", "plan", "run.toml", "--out", "plan.json"),
    "synth": ("topdown", "synth", "--people", "100", "--schema", "toy", "--out", "made"),
    "ledger": ("topdown", "ledger", "refund", "run.toml", "--record", "1", "--reason", "x", "--by", "y"),
    "pgsr": ("pgsr", "release", "groups.toml", "--yes"),
    "pgsr synth": ("pgsr", "synth", "--shape", "tiny", "--out", "made"),
}


def _no_override() -> None:
    """Take from root what lets it write everywhere; others have it not."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.fixture(scope="module")
def locked() -> Iterator[Path]:
    """Yield a folder with inputs that may be read and not written, by nobody but root."""
    folder = Path(tempfile.mkdtemp())
    home = folder / "home"
    write_toy(home)
    (home / "groups.csv").write_text(GROUPS)
    (home / "hierarchy.csv").write_text(HIERARCHY)
    (home / "public.csv").write_text("region,groups\nT,9\n")
    (home / "groups.toml").write_text(PGSR_RUN)
    assert pgsr(["ledger", "new", str(home / "groups.toml"), "--quiet"]) == 0
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield home
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(c, id=n, marks=[] if n in ("generate", "pgsr") else pytest.mark.slow)
        for n, c in COMMANDS.items()
    ],
)
def test_a_folder_that_may_not_be_written(command, locked):
    """A read-only folder, no home and no cache ended in a traceback, after the charge in the worst case."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(locked)}
    program, *arguments = command
    before = _entries(locked)
    ended = subprocess.run(
        [sys.executable, "-m", f"{program}.cli", *arguments, "--json"],
        cwd=locked, env=environment, capture_output=True, text=True, timeout=120,
        preexec_fn=_no_override,
    )  # fmt: skip
    assert (ended.returncode, json.loads(ended.stdout)["type"]) == (2, "topdown.error"), ended
    assert "Traceback" not in ended.stderr
    assert before == _entries(locked)


def _entries(folder: Path) -> list[int]:
    return [len(read_ledger(path).entries) for path in sorted(folder.rglob("*.jsonl"))]
