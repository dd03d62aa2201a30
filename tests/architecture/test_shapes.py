"""Shapes of the code: short lists of parameters."""

import ast

from tests.helpers.imports import ROOT, modules
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
        f"{path.relative_to(ROOT)}: {name}"
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
