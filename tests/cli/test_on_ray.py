"""Without the library of clusters everything works but `--on ray`, which is refused before anything is spent."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest

import topdown as package
from tests.helpers.ledgers import n_intents
from topdown.app import pipeline
from topdown.measure import Confidential, LeafCounts, Truth
from topdown.workers import ray


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
