"""Ctrl-C, SIGTERM and SIGHUP at random moments of the real programs: exit 130, and the truth on spending."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from tests.helpers.depth import repeats
from tests.helpers.ledgers import with_ledger
from topdown.practice.synth import synth
from topdown.privacy.ledger import read_ledger
from topdown.process import STOP_SIGNALS

ROOT = Path(__file__).resolve().parents[2]
EARLIEST, LONGEST = 0.15, {"select": 2.0, "generate": 6.0, "plan": 0.8}
COMMANDS = {
    "select": (
        "select",
        "frequent",
        "run.toml",
        "--query",
        "sex",
        "--epsilon",
        "1/2",
        "--out",
        "out",
        "--yes",
    ),
    "generate": ("generate", "run.toml", "--out", "out", "--yes", "--workers", "2"),
    "plan": ("plan", "run.toml", "--out", "p.json"),
}


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a census and its ledger once; copies are stopped."""
    folder = tmp_path_factory.mktemp("census")
    synth(folder / "in", people=2_000, schema="toy", seed=5)
    with_ledger(folder / "in" / "run.toml")
    return folder / "in"


def stopped(folder: Path, command: str, random: Random, *more: str) -> tuple[int, str, str]:
    """Run a command that gets a stop at a random moment, now and then two; return exit code and streams."""
    process = subprocess.Popen(
        [sys.executable, "-m", "topdown.cli", *COMMANDS[command], "--json", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in STOP_SIGNALS],
    )
    number = random.choice(STOP_SIGNALS)
    time.sleep(random.uniform(EARLIEST, LONGEST[command]))
    for _ in range(random.choice((1, 1, 2))):
        process.send_signal(number)
        time.sleep(random.uniform(0, 0.05))
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", ["select", "plan", pytest.param("generate", marks=pytest.mark.slow)])
def test_a_stop_says_what_is_spent_and_the_next_run_ends(census: Path, tmp_path: Path, command: str) -> None:
    """Of 60 choices that were stopped, 6 ended in an internal error, and nobody knew what was spent."""
    for number in range(repeats(2, 20)):
        folder = shutil.copytree(census, tmp_path / str(number))
        ledger = next((folder / "ledger").glob("*.jsonl"))
        code, out, err = stopped(folder, command, Random(number))
        assert "Traceback" not in err, (number, err)
        assert "Exception ignored" not in err, (number, err)
        assert code in (0, 130), (number, code, out, err)
        spent = sum((charge.loss for _, charge in read_ledger(ledger).charges), Fraction(0))
        if code == 130 and out:
            said = json.loads(out)
            assert said["code"] == "X130", (number, said)
            shown = dict(said["details"]).get("spent", "nothing")
            assert bool(spent) == (shown not in ("0", "nothing")), (number, said, spent)
            assert said["fix"]
        elif code == 130:
            assert (spent, "Nothing is spent" in err) == (0, True), (number, err)
        begun = (folder / "out").is_dir() and any((folder / "out").iterdir())
        if command != "plan":
            again = [*COMMANDS[command], *(["--resume"] if begun and code else [])]
            if code:
                done = subprocess.run(
                    [sys.executable, "-m", "topdown.cli", *again, "-q"],
                    cwd=folder, capture_output=True, text=True, check=False,
                    env=os.environ | {"PYTHONPATH": str(ROOT)},
                )  # fmt: skip
                assert done.returncode == 0, (number, done.stderr)
            assert len(read_ledger(ledger).charges) == 1
