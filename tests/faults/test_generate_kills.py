"""The real `topdown generate`, killed and resumed: nothing is spent twice, and the same noise gives the same bytes."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.depth import repeats
from tests.helpers.ledgers import with_ledger
from topdown.practice.synth import synth
from topdown.privacy.ledger import read_ledger
from topdown.verify import verify

TOPDOWN = [sys.executable, "-m", "topdown.cli"]


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a census large enough that every stage lasts long enough to be hit."""
    folder = tmp_path_factory.mktemp("census")
    synth(folder, people=repeats(15_000, 60_000), schema="toy", seed=3)
    return folder


def start(run: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start generate in its own process group."""
    command = [*TOPDOWN, "generate", str(run), "--out", str(out), "--yes", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finish(run: Path, out: Path, *more: str) -> None:
    """Run generate to its end and require success."""
    process = start(run, out, *more)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


def hashes(folder: Path, *parts: str) -> dict[str, str]:
    """Hash every file of some subfolders of a release."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in parts
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    }


def copy_of(census: Path, folder: Path) -> Path:
    """Copy the inputs so that each test has a ledger of its own."""
    shutil.copytree(census, folder / "in")
    return with_ledger(folder / "in" / "run.toml")


def reached(out: Path, stage: str) -> bool:
    """Tell, from the files alone, whether a run has come to a stage."""
    return {
        "measure": (out / "measurements" / "journal.json").exists(),
        "solve": any(out.glob("measurements/block/part-*.parquet")),
        "publish": (out / "solve.json").exists(),
        "certify": (out / "certificate.json").exists(),
    }[stage]


@pytest.mark.parametrize(
    "stage", ["measure", *(pytest.param(s, marks=pytest.mark.slow) for s in ("solve", "publish", "certify"))]
)
def test_a_killed_run_goes_on_to_a_verified_release(census: Path, tmp_path: Path, stage: str) -> None:
    """Kill -9 at any stage: resume ends in a verified release, and what was charged is what the ledger says."""
    run, out = copy_of(census, tmp_path), tmp_path / "release"
    process = start(run, out)
    deadline = time.monotonic() + 100
    while not reached(out, stage) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    was_running = process.poll() is None
    assert was_running or stage == "certify"  # the last stage may end before the kill
    if was_running:
        process.kill()  # not its workers: they must not outlive it, nor hold its folder
    process.communicate()
    before = hashes(out, "measurements/block") if stage in ("solve", "publish") else {}
    finish(run, out, "--resume")
    assert verify(out).ok
    book = read_ledger(next((tmp_path / "in" / "ledger").glob("*.jsonl")))
    plan = json.loads((out / "plan.json").read_text())
    attempts = len(book.intents)
    assert attempts == 1 if stage != "measure" else attempts <= 2
    assert sum(1 for i in book.intents.values() if i.plan_hash == plan["plan_hash"]) == attempts
    after = hashes(out, "measurements/block")
    assert all(after[name] == value for name, value in before.items() if name in after)


@pytest.mark.slow
def test_records_can_be_deleted_and_workers_changed(census: Path, tmp_path: Path) -> None:
    """After measure the records are not needed, and one or two workers give the same bytes, killed or not."""
    run, out = copy_of(census, tmp_path), tmp_path / "release"
    finish(run, out, "--workers", "1")
    first = hashes(out, "microdata", "tables", "measurements", "public") | hashes(out, ".")
    (run.parent / "persons.csv.gz").unlink()
    for folder in ("microdata", "tables"):
        shutil.rmtree(out / folder)
    for name in ("solve.json", "certificate.json", "manifest.json", "README.txt"):
        (out / name).unlink()
    finish(run, out, "--resume", "--workers", "2")
    again = hashes(out, "microdata", "tables", "measurements", "public") | hashes(out, ".")
    assert first == again


def workers_of(pid: int) -> list[int]:
    """Return the children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


@pytest.mark.slow
def test_the_work_of_a_killed_worker_runs_again_and_a_second_run_waits(census: Path, tmp_path: Path) -> None:
    """A worker that memory killed must not end the run or change a byte; two runs must not write to one folder."""
    run, out = copy_of(census, tmp_path), tmp_path / "release"
    process = start(run, out, "--workers", "2")
    workers = list[int]()  # before the measurement a process that reads tables is a child too
    while not workers:
        time.sleep(0.001)
        assert process.poll() is None
        if reached(out, "solve"):
            os.kill(process.pid, signal.SIGSTOP)  # so that it cannot end them first
            workers = workers_of(process.pid)
            if not workers:
                os.kill(process.pid, signal.SIGCONT)
    second = start(run, out, "--resume")
    _, errors = second.communicate(timeout=240)
    assert (second.returncode, b"C173" in errors) == (2, True), errors.decode()
    os.kill(workers[0], signal.SIGKILL)
    os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate(timeout=120)  # says "(1 of 3)", unless all its work was done
    assert process.returncode == 0, errors.decode()
    whole = hashes(out, ".")
    finish(run, out, "--resume", "--workers", "1")
    assert whole == hashes(out, ".")
    assert len(read_ledger(next((tmp_path / "in" / "ledger").glob("*.jsonl"))).intents) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "stop",
    [signal.SIGTERM, *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGINT, signal.SIGHUP))],
)
def test_an_interrupt_says_what_is_spent_and_how_to_go_on(
    census: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    """Ctrl-C, and its kin, must end with exit code 130, the loss that is spent, and the command that goes on."""
    run, out = copy_of(census, tmp_path), tmp_path / "release"
    process = start(run, out)
    deadline = time.monotonic() + 100
    while not reached(out, "solve") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    if process.poll() is None:
        process.send_signal(stop)
    _, errors = process.communicate(timeout=240)
    text = errors.decode()
    assert process.returncode in (130, 0)
    if process.returncode == 130:
        assert "spent" in text
        assert "--resume" in text
    finish(run, out, "--resume")
    assert len(read_ledger(next((tmp_path / "in" / "ledger").glob("*.jsonl"))).intents) == 1


@pytest.mark.slow
def test_a_second_release_costs_again_and_the_limit_holds(census: Path, tmp_path: Path) -> None:
    """Two releases of one data set add up on one ledger; the one over the limit is refused before any draw."""
    run = copy_of(census, tmp_path)
    finish(run, tmp_path / "one")
    for more, code in (([], b"B013"), (["--again"], b"B004")):
        process = start(run, tmp_path / "two", *more)
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 2
        assert code in errors
    assert not any((tmp_path / "two").rglob("*.parquet")) or not (tmp_path / "two" / "measurements").exists()
