"""Every public function and class has an example, and all of them run, in a folder where one follows the other."""

import doctest
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import pgsr
import topdown
from tests.helpers.extension import make_land

FIRST = ["synth", "generate"]  # whose town and release the others read
ALL = [(topdown, name) for name in FIRST]
ALL += [(room, name) for room in (topdown, pgsr) for name in room.__all__ if name not in FIRST]
FINDER = doctest.DocTestFinder(recurse=True)


def examples(room: ModuleType, name: str) -> list[doctest.DocTest]:
    """Return the examples of a public name, those of its methods included."""
    found = inspect.unwrap(getattr(room, name))
    return [test for test in FINDER.find(found, f"{room.__name__}.{name}", globs={}) if test.examples]


def test_every_public_name_has_an_example() -> None:
    """A function without one is learnt by reading its source."""
    assert [f"{room.__name__}.{name}" for room, name in ALL if not examples(room, name)] == []


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example that no longer works teaches what is not there."""
    make_land(tmp_path / "land", 3, by_job=True)
    (tmp_path / "office").mkdir()
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in (test for at in ALL for test in examples(*at)):
        runner.run(test)
    assert runner.summarize().failed == 0
