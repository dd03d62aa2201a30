"""Numbers of the code that may only fall: files, lines, circles, names with two meanings, paths that tests lean on."""

import ast

import pytest

from tests.architecture.__main__ import read_limits
from tests.architecture.counts import COUNTS, components, only_passes_on, shown


@pytest.mark.parametrize("name", COUNTS)
def test_a_number_does_not_grow(name: str) -> None:
    """What `python -m tests.architecture NAME` lists is to be fewer, not more; --write lowers the limits."""
    found, limit = COUNTS[name](), read_limits()[name]
    assert len(found) <= limit, (
        f"{len(found)} instead of {limit}: {COUNTS[name].__doc__}\n{shown(found[:400])}"
    )


def test_circles_are_found() -> None:
    """A count that misses a circle would hold for everything."""
    graph = {"a": {"b"}, "b": {"c", "x"}, "c": {"a"}, "d": {"a"}, "x": set(), "y": {"z"}, "z": {"y"}}
    assert sorted(sorted(group) for group in components(graph)) == [["a", "b", "c"], ["d"], ["x"], ["y", "z"]]


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("def f(a, b):\n    'Doc.'\n    return g(a, b)", True),
        ("def f(self, a):\n    return self.inner.g(a)", True),
        ("def f(a, *, b):\n    return g(a, b=b)", True),
        ("def f(a, b):\n    return g(b, a)", False),
        ("def f(a):\n    return g(a, 1)", False),
        ("def f(a):\n    return g(h(a))", False),
        ("@command\ndef f(a):\n    return g(a)", False),
        ("def f():\n    return g()", False),
    ],
)
def test_functions_that_only_pass_on_are_found(text: str, passes: bool) -> None:
    """What another name for the same call looks like."""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert only_passes_on(function) == passes
