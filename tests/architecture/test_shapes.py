"""Shapes of the code: short lists of parameters, and modules that import each other one way only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_PARAMETERS = 8
COMPILED = {"njit", "kernel"}  # numba takes arrays and numbers only, no values
SCREENS = {"command"}  # one parameter for each option of the command line
NAMED_ONLY = {  # parts of an error, options of a command: each optional, and given by name
    "topdown/errors.py: __init__",
    "topdown/app/make_release.py: extend",
    "topdown/app/make_release.py: generate",
    "topdown/app/make_release.py: measure",
    "topdown/app/resolve_release.py: resolve",
    "topdown/app/trials.py: simulate",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> dict[str, Path]:
    """Return the file of every module of both packages, by the name it is imported under."""
    files = [path for room in ("topdown", "pgsr") for path in (ROOT / room).rglob("*.py")]
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in files}


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
    """Return the name of every function with too many parameters that is neither compiled nor a command."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, Function))
    return [
        one.name
        for one in functions
        if n_parameters(one) > MOST_PARAMETERS and not decorators(one) & (COMPILED | SCREENS)
    ]


def imported(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield what a module imports while it is loaded: not in functions, not for the type checker alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            yield from imported(
                node.orelse if "TYPE_CHECKING" in ast.unparse(node.test) else node.body + node.orelse
            )
        elif isinstance(node, ast.Try):
            yield from imported(
                node.body + [s for h in node.handlers for s in h.body] + node.orelse + node.finalbody
            )
        elif isinstance(node, ast.With | ast.ClassDef):
            yield from imported(node.body)


def needs(texts: dict[str, str]) -> dict[str, set[str]]:
    """Return which of some modules each of them imports while it is loaded."""
    found: dict[str, set[str]] = {name: set() for name in texts}
    for name, text in texts.items():
        for node in imported(ast.parse(text).body):
            if isinstance(node, ast.Import):
                named = {alias.name for alias in node.names}
            else:
                named = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
            found[name] |= (named & set(texts)) - {name}
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return every module of a circle, or that needs one: what is left when all that need nothing are taken away."""
    left = dict(graph)
    while free := [name for name, needed in left.items() if not needed & set(left)]:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_function_takes_more_than_eight_parameters() -> None:
    """A call with thirty settings is read by nobody; what belongs together is one frozen value."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources().values()
        for name in long_lists(path.read_text(encoding="utf-8"))
    }
    assert found == NAMED_ONLY


def test_no_circle_of_imports() -> None:
    """Two modules that need each other are one idea in two files, and which loads first decides what works."""
    assert circle(needs({name: path.read_text(encoding="utf-8") for name, path in sources().items()})) == []


def test_both_rules_can_fail() -> None:
    """A rule that counts keywords or names wrongly would hold for everything."""
    names = ", ".join(f"a{i}" for i in range(6))
    assert long_lists(f"class A:\n    def many(self, {names}, *rest, b, c): ...") == ["many"]
    assert long_lists(f"def few({names}, *, b, c): ...") == []
    assert long_lists(f"@numba.njit(cache=True)\ndef compiled({names}, b, c, d): ...") == []
    assert circle(needs({"a": "from b import x", "b": "import c", "c": "import a.x\nimport a", "d": "import a"})) == [
        "a", "b", "c", "d",
    ]  # fmt: skip
    assert (
        circle(needs({"a": "if TYPE_CHECKING:\n    import b", "b": "def f():\n    import b\nimport a"})) == []
    )


CONSTRAINT_FIELDS = {
    "totals", "exact", "exact_place", "place", "answers", "root", "split", "margins", "bounds", "lower", "limits",
    "caps", "kinds", "same_bound", "bound_places", "places", "compared", "soft",
}  # fmt: skip
KINDS_OF_CONSTRAINTS = {"KindLimits", "LowerBounds", "NoFlow"}
MOST_BRANCHES = 25


def test_constraints_are_values_in_the_solver() -> None:
    """What may be absent is a value that asks for nothing: a branch for each absence is a path nobody tries."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "topdown" / "solve").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _asks_whether_it_is_there(node)
    ]
    assert 0 < len(found) <= MOST_BRANCHES, found


def _asks_whether_it_is_there(node: ast.AST) -> bool:
    """Tell whether code compares a constraint field with None, or asks which kind of constraint it has."""
    if isinstance(node, ast.Compare):
        right, left = node.comparators[0], node.left
        name = left.attr if isinstance(left, ast.Attribute) else left.id if isinstance(left, ast.Name) else ""
        return isinstance(right, ast.Constant) and right.value is None and name in CONSTRAINT_FIELDS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return bool({n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & KINDS_OF_CONSTRAINTS)
    return False
