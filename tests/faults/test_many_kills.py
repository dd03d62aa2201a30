"""Random kills of the real programs: generate, extend and pgsr release, workers included, until 300 of them.

KILL_CYCLES says how many; each is drawn from its number alone.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from pgsr.cli import main as pgsr
from tests.helpers import attacked_land
from tests.helpers.ledgers import with_ledger
from tests.helpers.stopped import wait_until_handled
from topdown.practice.synth import synth
from topdown.privacy.ledger import read_ledger

CYCLES = int(os.environ.get("KILL_CYCLES", "15"))
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
ENDS = (0, 4, 130, -signal.SIGKILL)
LOST_READER = re.compile(r"error\[D087\]|error\[C077\].*found +D087", re.DOTALL)
"""How a program ends, with code 2, whose process that reads tables, or those of its preflight, was killed: before any
charge, and it says so."""
SECONDS = 280
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@dataclass(frozen=True)
class Program:
    """A command to be killed, in a copy of a folder.

    Args:
        inputs: the folder, ledger included.
        command: program and arguments; it writes to `out`.
        longest: seconds of a whole run.
        charges: intents in the ledger before it.
    """

    inputs: Path
    command: tuple[str, ...]
    longest: float
    charges: int


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    """Make the inputs of each program once, and time one whole run of it."""
    folder = tmp_path_factory.mktemp("programs")
    synth(folder / "census", people=30_000, schema="toy", seed=5)
    with_ledger(folder / "census" / "run.toml")
    (folder / "land").mkdir()
    made = attacked_land.make_extended(folder / "land", "bounded")
    with_ledger(made.more)
    assert pgsr(["synth", "--shape", "tiny", "--out", str(folder / "groups")]) == 0
    assert pgsr(["ledger", "new", str(folder / "groups" / "run.toml")]) == 0
    generate = ("topdown", "generate", "run.toml", "--out", "out", "--yes", "--workers", "2")
    extend = ("topdown", "extend", made.more.name, "--base", made.base.name, *generate[3:])
    return [
        _timed(folder / "census", generate, 0),
        _timed(folder / "land", extend, 1),
        _timed(folder / "groups", ("pgsr", "release", "run.toml", "--out", "out", "--yes"), 0),
    ]


def _timed(inputs: Path, command: tuple[str, ...], charges: int) -> Program:
    copy = shutil.copytree(inputs, inputs.with_name(inputs.name + "-timed"))
    started = time.monotonic()
    code, errors = _finish(_start(copy, command))
    assert code == 0, errors
    return Program(inputs, command, time.monotonic() - started, charges)


def _start(folder: Path, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    name, *arguments = command
    full = [sys.executable, "-m", f"{name}.cli", *arguments]
    return subprocess.Popen(full, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)


def _finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=SECONDS)
    return process.returncode, errors.decode()


def _kill(process: subprocess.Popen[bytes], random: Random) -> bool:
    """Kill the program or, if it has some, one of its workers; return whether it was a worker."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        workers = [int(pid) for pid in children.read_text().split()]
        if workers and random.random() < 0.5:
            os.kill(random.choice(workers), signal.SIGKILL)
            return True
        process.send_signal(random.choice(SIGNALS))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    return False


def _parts(folder: Path) -> dict[str, bytes]:
    """Return every noisy part that readers can see."""
    found = (folder / "out" / "measurements").rglob("part-*.parquet")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, CYCLES, 5))
def test_killed_at_any_time(tmp_path: Path, programs: list[Program], first: int) -> None:
    """After any kills the next run ends: nothing drawn twice under one charge, nothing lost, no dead end, no hang."""
    for number in range(first, min(first + 5, CYCLES)):
        random = Random(number)
        program = programs[number % len(programs)]
        folder = shutil.copytree(program.inputs, tmp_path / str(number))
        kills, seen = random.choice((1, 1, 2)), {}
        for _ in range(kills):
            begun = (folder / "out").exists() and any((folder / "out").iterdir())
            process = _start(folder, (*program.command, *(["--resume"] if begun else [])))
            wait_until_handled(process)
            time.sleep(random.uniform(0.3, 1.0) * program.longest)
            killed_worker = _kill(process, random)
            code, errors = _finish(process)
            assert "Traceback" not in errors, (number, errors)
            lost_reader = killed_worker and code == 2 and bool(LOST_READER.search(errors))
            assert code in ENDS or lost_reader, (number, code, errors)
            seen |= _parts(folder)
        begun = (folder / "out").exists() and any((folder / "out").iterdir())
        code, errors = _finish(_start(folder, (*program.command, *(["--resume"] if begun else []))))
        assert code == 0, (number, errors)
        ends = _parts(folder)
        assert all(ends[name] == data for name, data in seen.items()), number
        code, errors = _finish(_start(folder, (program.command[0], "verify", "out")))
        assert code == 0, (number, errors)
        book = read_ledger(next(folder.rglob("*.jsonl")))
        charges = len(book.intents) - program.charges
        assert 1 <= charges <= 1 + kills, number
        assert set(book.intents) == set(book.committed), number
        shutil.rmtree(folder)
