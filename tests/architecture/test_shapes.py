"""Shapes of the code: short lists of parameters, exact numbers printed exactly, reading in pieces, counts that fall."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.__main__ import read_limits
from tests.architecture.counts import COUNTS, components, only_passes_on, shown
from tests.helpers.imports import modules
from topdown.resources import KERNELS

MOST_PARAMETERS = 8
SCREENS = {"command"}  # one parameter for each option of the command line
NAMED_ONLY = {  # parts of an error, options of a command: each optional, and given by name
    "pgsr/comparison.py: compare",
    "topdown/app/noise_law.py: noise",
    "topdown/app/private_choice.py: select",
    "topdown/errors.py: __init__",
    "topdown/app/make_release.py: extend",
    "topdown/app/make_release.py: generate",
    "topdown/app/make_release.py: measure",
    "topdown/app/planned.py: plan",
    "topdown/app/resolve_release.py: resolve",
    "topdown/app/trials.py: simulate",
    "topdown/app/trials.py: synth",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def n_parameters(function: Function) -> int:
    """Return the number of parameters that a caller may give."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return len([one for one in named if one is not None and one.arg not in ("self", "cls")])


def decorators(function: Function) -> set[str]:
    """Return the names of a function's decorators, called or not."""
    bare = (one.func if isinstance(one, ast.Call) else one for one in function.decorator_list)
    return {one.attr if isinstance(one, ast.Attribute) else ast.unparse(one) for one in bare}


def long_lists(text: str) -> list[str]:
    """Return the name of every function with too many parameters that is no command."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, Function))
    return [
        one.name for one in functions if n_parameters(one) > MOST_PARAMETERS and not decorators(one) & SCREENS
    ]


def test_no_function_takes_more_than_eight_parameters() -> None:
    """A call with thirty settings is read by nobody; what belongs together is one frozen value."""
    found = {
        f"{path.relative_to(TOP)}: {name}"
        for module, path in modules().items()
        if module not in KERNELS  # which take arrays
        for name in long_lists(path.read_text(encoding="utf-8"))
    }
    assert found == NAMED_ONLY


def test_the_rule_can_fail() -> None:
    """A rule that counts keywords or names wrongly would hold for everything."""
    names = ", ".join(f"a{i}" for i in range(6))
    assert long_lists(f"class A:\n    def many(self, {names}, *rest, b, c): ...") == ["many"]
    assert long_lists(f"def few({names}, *, b, c): ...") == []
    assert long_lists(f"@click.command()\ndef shown({names}, b, c, d): ...") == []


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


TOP = Path(__file__).resolve().parents[2]
DIGITS = re.compile(r"\.[0-9]*[efg]")


def test_no_exact_number_is_printed_through_a_float() -> None:
    """`f"{float(bound):.9f}"` rounds to nearest: half of the printed ends would exclude the truth."""
    found = []
    for path in [*(TOP / "topdown").rglob("*.py"), *(TOP / "pgsr").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                through_float = "float(" in ast.unparse(node.value)
                if through_float and DIGITS.search(ast.unparse(node.format_spec)):
                    found.append(f"{path.relative_to(TOP)}:{node.lineno}")
    sizes_only = {"topdown/privacy/accountant/calibrate.py", "topdown/privacy/accountant/composition.py"}
    assert sizes_only >= {place.split(":")[0] for place in found}, found


PIECES = {"iter_batches", "read_row_group"}


def read_ahead(source: str) -> list[int]:
    """Return the lines of a module that reads in pieces where a file is opened to be read ahead."""
    nodes = list(ast.walk(ast.parse(source)))
    if not any(isinstance(node, ast.Attribute) and node.attr in PIECES for node in nodes):
        return []
    opened = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("ParquetFile")]
    return [n.lineno for n in opened if "pre_buffer=False" not in map(ast.unparse, n.keywords)]


def test_what_is_read_in_pieces_is_not_read_ahead() -> None:
    """Since version 26 Arrow holds all row groups of a file together: the memory of records grew with the people."""
    files = [path for room in ("topdown", "pgsr") for path in (TOP / room).rglob("*.py")]
    found = {str(path.relative_to(TOP)): read_ahead(path.read_text()) for path in files}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_file_that_is_read_ahead_is_found() -> None:
    """A look that finds nothing proves nothing."""
    opened = "with pq.ParquetFile(path{}) as file:\n    yield from file.iter_batches(9)\n"
    assert read_ahead(opened.format("")) == [1]
    assert read_ahead(opened.format(", pre_buffer=False")) == []
