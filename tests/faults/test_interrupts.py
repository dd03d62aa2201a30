"""Real programs that are stopped, doubled or may write nothing: one clear word, the truth about the charge."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from pgsr.cli import main as pgsr
from tests.cli.conftest import write_toy
from tests.corpus.test_corpus import GROUPS, HIERARCHY, PGSR_RUN
from tests.helpers.depth import repeats
from tests.helpers.killed import trials
from tests.helpers.ledgers import with_ledger
from tests.helpers.processes import run_python
from tests.helpers.runs import write_census
from tests.helpers.stopped import wait_until_handled
from topdown.practice.synth import synth
from topdown.privacy.ledger import Begun, read_ledger
from topdown.process import STOP_SIGNALS

ROOT = Path(__file__).resolve().parents[2]
LONGEST = {"select": 2.0, "generate": 6.0}
OUT = ("--out", "out", "--yes")
COMMANDS = {
    "select": ("select", "frequent", "run.toml", "--query", "sex", "--epsilon", "1/2", *OUT),
    "generate": ("generate", "run.toml", *OUT, "--workers", "2"),
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
    wait_until_handled(process)
    time.sleep(random.uniform(0, LONGEST[command]))
    for _ in range(random.choice((1, 1, 2))):
        process.send_signal(number)
        time.sleep(random.uniform(0, 0.05))
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", ["select", pytest.param("generate", marks=pytest.mark.slow)])
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
        if code:
            begun = (folder / "out").is_dir() and any((folder / "out").iterdir())
            again = [*COMMANDS[command], *(["--resume"] if begun else [])]
            here = os.environ | {"PYTHONPATH": str(ROOT)}
            run_python("-m", "topdown.cli", *again, "-q", cwd=folder, env=here)
        assert len(read_ledger(ledger).charges) == 1


@pytest.mark.deep
@pytest.mark.parametrize("more", [("--json",), ()])
def test_a_stop_at_any_line_says_one_thing_and_the_truth(more: tuple[str, ...]) -> None:
    """As a command ended, a stop gave a second document, a traceback, or "nothing is spent" beside the result."""
    found = trials(Path(__file__).with_name("line_stopper.py"), repeats(4, 1), "explain", "X130", *more)
    whole = found.pop()["out"]
    assert len(found) > 60
    for trial in found:
        code, out, err = trial["code"], trial["out"], trial["err"]
        if code == 0:
            assert (whole, "") == (out, err), trial
        elif err == "Stopped before it began. Nothing is spent.\n":
            assert (code, out) == (130, ""), trial
        elif more:
            assert (code, json.loads(out)["code"], err.strip()) == (130, "X130", ""), trial
        else:
            assert (code, err.count("error[X130]"), "Traceback" in err) == (130, 1, False), trial
    assert {0, 130} == {trial["code"] for trial in found}


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
MEASURE = """
import sys
from pathlib import Path
from topdown.errors import TopdownError
from topdown.measure import draw
from topdown.measure.measurement import measure
from topdown.plan.preparation import prepare
draw.NUMBERS_PER_ROW_GROUP = draw.NUMBERS_PER_PART = 60
prepared = prepare(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
try:
    measure(prepared, Path(sys.argv[2]))
    print("done")
except TopdownError as error:
    print(error.code)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Write a small census with its ledger; return the run file."""
    codes = ["1101", "1102", "1103", "1201", "1202"]
    people = [(code, "home", "female", "18_64", 3) for code in codes]
    return with_ledger(write_census(tmp_path, [(code, 9, 0, 0) for code in codes], people))


def start_together(run: Path, outs: list[Path]) -> list[str]:
    """Start one measurement for each folder at the same moment; return how each ended."""
    command = [sys.executable, "-c", MEASURE, str(run)]
    processes = [subprocess.Popen([*command, str(out)], **PIPES) for out in outs]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].strip() for process in processes]


@pytest.mark.parametrize(
    "folders", [("one", "one", "one"), pytest.param(("one", "two", "three"), marks=pytest.mark.slow)]
)
def test_processes_at_once_charge_once(run, tmp_path, folders):
    """Two operators who start the same release must not get two noisy versions, nor cut each other's records."""
    ended = start_together(run, [tmp_path / name for name in folders])
    assert "done" in ended
    assert set(ended) <= {"done", "B005", "B013"}
    book = read_ledger(tmp_path / "ledger" / "records.jsonl")
    assert len(book.intents) == len(book.committed) == 1
    begun = [entry.event.part for entry in book.entries if isinstance(entry.event, Begun)]
    assert len(begun) == len(set(begun)) == len(book.drawn)
    whole = [path for path in tmp_path.glob("*/measurements/*/part-*") if path.suffix == ".parquet"]
    assert len(whole) == len(begun)


PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
WITHOUT_RIGHTS = {
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
        for n, c in WITHOUT_RIGHTS.items()
    ],
)
def test_a_folder_that_may_not_be_written(command, locked):
    """A read-only folder, no home and no cache ended in a traceback, after the charge in the worst case."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(locked)}
    program, *arguments = command
    before = _entries(locked)
    how = {"cwd": locked, "env": environment, "timeout": 120, "preexec_fn": _no_override}
    ended = run_python("-m", f"{program}.cli", *arguments, "--json", ok=False, **how)
    assert (ended.returncode, json.loads(ended.stdout)["type"]) == (2, "topdown.error"), ended
    assert "Traceback" not in ended.stderr
    assert before == _entries(locked)


def _entries(folder: Path) -> list[int]:
    return [len(read_ledger(path).entries) for path in sorted(folder.rglob("*.jsonl"))]
