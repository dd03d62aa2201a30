"""`import topdown`: few names, all documented with examples that run, nothing heavy loaded."""

import doctest
import inspect
import pydoc
import typing
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import pgsr
import topdown
from tests.helpers.extension import make_land
from tests.helpers.processes import run_python

MOST_NAMES = 35
HEAVY = {"numpy", "pyarrow", "pandas", "scipy", "click", "msgspec"}
LOADED = "import sys, topdown; print(*{name.partition('.')[0] for name in sys.modules})"
ROOMS = """
import topdown.plan.preparation
from topdown.plan.preparation import prepare
print(type(topdown.plan).__name__)
"""


def _python(code: str) -> list[str]:
    return run_python("-c", code, timeout=240).stdout.split()


def test_the_front_is_small():
    """A name too many is a promise too many."""
    assert len(topdown.__all__) <= MOST_NAMES
    assert sorted(topdown.__all__) == topdown.__all__
    assert all(getattr(topdown, name).__name__ == name for name in topdown.__all__)
    with pytest.raises(AttributeError, match="prepare"):
        topdown.prepare  # noqa: B018


def test_public_names_are_listed():
    """Names that are loaded on first use are invisible to whoever completes them."""
    assert set(topdown.__all__) <= set(dir(topdown))
    assert set(pgsr.__all__) == set(dir(pgsr))


def test_importing_loads_nothing_heavy():
    """A program that only looks for a name would wait for data libraries."""
    assert HEAVY & set(_python(LOADED)) == set()


def test_rooms_do_not_take_the_place_of_functions():
    """`topdown.plan` was the folder topdown/plan as soon as anything had imported it."""
    assert _python(ROOMS) == ["function"]


@pytest.mark.parametrize("name", topdown.__all__)
def test_every_public_name_is_documented_and_typed(name: str):
    """Whoever asks for help on a function must learn what goes in and what it raises."""
    found = getattr(topdown, name)
    text = inspect.getdoc(found) or ""
    assert len(text) > 20
    if isinstance(found, FunctionType):
        assert "Args:" in text
        assert "Raises:" in text
        parameters = list(inspect.signature(found).parameters)
        described = text[text.index("Args:") : text.index("Raises:")]
        assert [p for p in parameters if p not in described] == []
        assert {*parameters, "return"} == set(found.__annotations__)


def test_help_is_a_page():
    """`help(topdown)` without the functions would send a statistician to the source."""
    page = pydoc.render_doc(topdown, renderer=pydoc.plaintext)
    for name in topdown.__all__:
        assert name in page
    assert "topdown.generate(planned" in page
    first = page[: page.index("PACKAGE CONTENTS")]  # before pages of methods
    assert [
        name for name in topdown.__all__ if name.islower() and f" {name} " not in first.replace(":", " ")
    ] == []
    assert " at 0x" not in page


def test_the_place_of_each_name_is_its_own():
    """A name that is imported from a place that does not define it would break when that place is tidied."""
    for name in topdown.__all__:
        assert typing.cast("str", getattr(topdown, name).__module__).startswith("topdown.")


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
