"""`topdown measure`, then `generate --resume`: one charge, the same folder; and what needs the library of clusters."""

import gc
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest

import topdown as package
from tests.helpers.ledgers import n_intents
from tests.helpers.processes import run_python
from topdown.app import pipeline
from topdown.measure import Confidential, LeafCounts, Truth
from topdown.workers import ray


def test_a_release_goes_on_without_records(topdown, toy, tmp_path, check):
    """What opens records and what needs a cluster have to be two commands, of one charge and one release."""
    run = toy(tmp_path / "toy")
    assert topdown("generate", run, "--out", "release", "--yes", "--resume").code == 2
    said = topdown("measure", run, "--out", "release", "--yes", "--json")
    assert (said.code, said.document["loss"], said.document["n_attempts"]) == (0, "2", 1)
    check(said.document)
    release, ledger = Path("release"), run.parent / "ledger" / "persons.jsonl"
    assert {"plan.json", "measurements", "public"} == {p.name for p in release.iterdir()}
    noise = {p: p.read_bytes() for p in release.rglob("*") if p.is_file()}
    (run.parent / "persons.csv").unlink()
    kept = topdown("measure", run, "--out", "release", "--yes", "--resume", "--json")
    assert (kept.code, kept.document["n_drawn"], n_intents(ledger)) == (0, 0, 1)
    screen = topdown("measure", run, "--out", "release", "--yes", "--resume")
    assert f"topdown generate {run} --out release --resume" in screen.out.replace("\n", "")
    made = topdown("generate", run, "--out", "release", "--yes", "--resume", "--workers", 1, "--json")
    assert (made.code, made.document["checks"]["ok"], n_intents(ledger)) == (0, True, 1)
    assert noise == {p: p.read_bytes() for p in noise}


def test_a_release_goes_on_where_nobody_has_the_records(topdown, toy, tmp_path):
    """What docs/how-to/cluster.md says has to be on the other machine is enough, and each part of it is needed."""
    here, there = toy(tmp_path / "here").parent, tmp_path / "there"
    assert topdown("measure", here / "run.toml", "--out", here / "release", "--yes", "-q").code == 0
    (here / "persons.csv").unlink()
    there.mkdir()
    for name in ("ledger", "release"):
        shutil.copytree(here / name, there / name)
    for path in (here / "leaves.csv", *here.glob("*.registry")):
        shutil.copy(path, there / "ledger" if path.name.endswith(".registry") else there)
    command = ("generate", there / "run.toml", "--out", there / "release", "--resume", "--yes", "--json")
    text = (here / "run.toml").read_text()
    (there / "run.toml").write_text(text)
    assert topdown(*command).refusal == "B016"
    (there / "run.toml").write_text(text.replace("[ledger]\n", '[ledger]\nregistry = "ledger"\n'))
    assert topdown(*command, "--workers", 1).code == 0
    assert n_intents(there / "ledger" / "persons.jsonl") == 1


def test_measure_refuses_what_generate_refuses(topdown, toy, tmp_path):
    """A second way to spend that is less strict would be taken by mistake."""
    run = toy(tmp_path / "toy")
    text = run.read_text()
    before = {}
    for name in ("generate", "measure"):
        answers = [
            topdown(name, run, "--out", "release", "--json"),
            topdown(name, run, "--out", "release", "--approve", "abc", "--json"),
            topdown(name, run, "--out", run.parent, "--yes", "--json"),
            topdown(name, run, "--out", "release", "--yes", "--final", "--json"),
        ]
        run.write_text(text.replace("persons.csv", "nobody.csv"))
        answers.append(topdown(name, run, "--out", "release", "--yes", "--json"))
        run.write_text(text)
        before[name] = [(said.code, json.loads(said.out)) for said in answers]
    assert [code for code, _ in before["measure"]] == [2, 2, 2, 2, 2]
    assert before["generate"] == before["measure"]
    assert n_intents(run.parent / "ledger" / "persons.jsonl") == 0


def test_where_to_solve_is_one_thing(topdown, toy, tmp_path, monkeypatch):
    """An option that is dropped in silence leaves people waiting for machines that do nothing."""
    run = toy(tmp_path / "toy")
    both = topdown("generate", run, "--out", "release", "--yes", "--on", "ray", "--workers", 2)
    assert both.refusal == "C005"
    assert topdown("verify", run.parent, "--on", "ray").refusal == "C005"
    assert n_intents(run.parent / "ledger" / "persons.jsonl") == 0


READ_ONLY = """
import os, sys
from pathlib import Path
from topdown.plan.preparation import load_context
from topdown.solve.solve_stage import solve_folder
def refuse(event, arguments):
    writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"):
        if str(arguments[0]).startswith(sys.argv[1]):
            os.abort()
sys.addaudithook(refuse)
release = Path(sys.argv[1])
print(solve_folder(release, load_context(release), workers=2).leaves.n_records)
if len(sys.argv) > 2:
    (release / "left").touch()
"""


@pytest.mark.slow
def test_workers_write_nothing_into_a_release(release):
    """A worker that writes needs locks, and tears files when it is killed; the last run shows the test can fail."""
    there = sorted(release.rglob("*"))
    run = ("-c", READ_ONLY, release)
    assert run_python(*run).stdout == "93\n"
    assert there == sorted(release.rglob("*"))
    assert run_python(*run, "write", ok=False).returncode < 0


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Ray away, wherever it is installed."""

    def missing(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(ray, "version", missing)
    monkeypatch.setitem(sys.modules, "ray", None)


def test_without_ray_a_cluster_is_refused_unspent(topdown, toy, release, without_ray) -> None:
    """A missing library found after the charge would be paid for."""
    run = toy(Path("in"))
    for command in (
        ("generate", run, "--out", "release", "--yes"),
        ("resolve", release, "--out", "release", "--targets", "tree"),
        ("verify", release, "--solve"),
    ):
        said = topdown(*command, "--on", "ray", "--json")
        assert (said.code, said.document["code"]) == (2, "C230"), (command, said.out)
        assert "census-topdown[cluster]" in said.document["fix"]
    assert n_intents(Path("in") / "ledger" / "persons.jsonl") == 0
    assert not Path("release").exists()


def test_without_ray_the_rest_works(topdown, toy, without_ray) -> None:
    """An office with one machine must not need the library of clusters for anything."""
    run = toy(Path("in"))
    assert topdown("generate", run, "--out", "release", "--yes", "-q", "--workers", 2).code == 0
    assert topdown("verify", "release", "--solve", "-q", "--workers", 2).code == 0


def test_records_are_gone_before_a_cluster_is_asked(topdown, toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no longer in memory cannot be sent; Ray spills what it is given to disks."""
    held: list[int] = []

    @contextmanager
    def opened(*_: object) -> Iterator[int]:
        held.append(sum(isinstance(one, Confidential | LeafCounts | Truth) for one in gc.get_objects()))
        yield 1

    monkeypatch.setattr(pipeline, "open_executor", opened)
    monkeypatch.setattr("topdown.workers.require_ray", lambda: None)
    package.generate(toy(Path("in")), "release", workers="ray")
    assert held == [0]
