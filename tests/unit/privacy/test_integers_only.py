"""No floating point where noise is made in topdown/privacy, and a lint that is shown to find it."""

import ast
from pathlib import Path

import pytest

PRIVACY = Path(__file__).resolve().parents[3] / "topdown" / "privacy"
DRAWING = ("bits.py", "fixed_point.py", "sampler.py")
FILES = [*(PRIVACY / name for name in DRAWING), *sorted((PRIVACY / "laws").glob("*.py"))]
NUMPY_ALLOWED = {
    *("ndarray", "int32", "int64", "uint16", "uint64"),
    *("arange", "array", "empty", "flatnonzero", "frombuffer", "repeat", "searchsorted", "take"),
}
MODULES_BANNED = {"cmath", "decimal", "math", "random", "scipy", "statistics", "numba"}
NAMES_BANNED = {"complex", "eval", "exec", "float", "pow", "round"}
METHODS_BANNED = {"__float__", "__truediv__", "mean", "std", "truediv", "true_divide", "var"}


def violation(node: ast.AST) -> str | None:
    """Say what is wrong with one node, or None."""
    match node:
        case ast.Constant(value=float() | complex()):
            return f"float literal {node.value}"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "division /"
        case ast.BinOp(op=ast.Pow()) | ast.AugAssign(op=ast.Pow()):
            return "power ** (a float when the exponent is negative)"
        case ast.Assert():
            return "assert (python -O removes it)"
        case ast.Name(id=name) if name in NAMES_BANNED:
            return f"name {name}"
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name not in NUMPY_ALLOWED:
            return f"np.{name}"
        case ast.Attribute(attr=name) if name in METHODS_BANNED:
            return f".{name}"
        case ast.Constant(value=str(text)) if text[:2] in {"<f", ">f", "=f", "<c", ">c"} or text in {
            "f4",
            "f8",
        }:
            return f"float type {text!r}"
        case ast.Import(names=names) if {a.name.split(".")[0] for a in names} & MODULES_BANNED:
            return f"import {names[0].name}"
        case ast.Import(names=names) if any(a.name == "numpy" and a.asname != "np" for a in names):
            return "numpy under another name than np"
        case ast.ImportFrom(module="math", names=names) if [a.name for a in names] == ["isqrt"]:
            return None
        case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES_BANNED | {"numpy"}:
            return f"from {module} import"
        case _:
            return None


def violations(source: str) -> list[str]:
    return [found for node in ast.walk(ast.parse(source)) if (found := violation(node)) is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_has_no_floats(path: Path) -> None:
    """A float in the noise path makes the law inexact (Mironov 2012)."""
    assert violations(path.read_text()) == []


def test_lint_sees_the_files() -> None:
    """A lint over an empty list of files would always pass."""
    drawing = {"bits.py", "fixed_point.py", "sampler.py"}
    laws = {"distribution.py", "gaussian.py", "geometric.py", "optimal.py"}
    assert drawing | laws <= {path.name for path in FILES}


@pytest.mark.parametrize(
    "planted",
    [
        *("x = 0.5", "x = 1e3", "x = 2j", "x = a / b", "x /= 2", "x = 2 ** -1", "x **= 2", "x = float(3)"),
        *("import math", "import math as m", "from math import exp", "from math import isqrt, log"),
        *("import random", "from random import gauss", "x = np.float64(1)", "x = np.random.normal()"),
        *("x = np.exp(1)", "import numpy", "from numpy import exp", "x = a.mean()", "x = a.__truediv__(b)"),
        *(
            "x = a.astype('<f8')",
            "x = np.empty(3, dtype='f8')",
            "assert x",
            "x = round(y, 2)",
            "x = pow(2, -1)",
        ),
        *(
            "import scipy.stats",
            "from decimal import Decimal",
            "from operator import truediv\nx = o.truediv(1, 2)",
        ),
    ],
)
def test_lint_finds_a_planted_float(planted: str) -> None:
    """A lint that cannot fail protects nothing: the same code planted in a real file must be found."""
    source = (PRIVACY / "sampler.py").read_text()
    assert (
        violations(f"{source}\n\ndef planted() -> None:\n    " + planted.replace("\n", "\n    ") + "\n") != []
    )


def test_noise_imports_nothing_of_ours_but_errors() -> None:
    """The noise room must stay a leaf: what it imports could bring floats or the confidential data in."""
    ours = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not (isinstance(node, ast.ImportFrom) and node.level), path.name
            ours |= {name for name in names if name.split(".")[0] in {"topdown", "pgsr"}}
    assert {"topdown.errors"} == {name for name in ours if not name.startswith("topdown.privacy")}
