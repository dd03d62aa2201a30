"""The verifier must not share code with what it verifies."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import topdown

FOLDER = Path(topdown.__file__).parent / "publish" / "verify"
FILES = sorted(FOLDER.glob("*.py"))
OWN = ("topdown.model", "topdown.errors", "topdown.publish.verify")
LIBRARIES = {
    "__future__", "collections", "dataclasses", "decimal", "fractions", "functools", "gzip", "hashlib", "itertools",
    "json", "math", "msgspec", "numpy", "os", "pathlib", "pyarrow", "re", "stat", "textwrap", "time", "typing", "zlib",
}  # fmt: skip


def imported(tree: ast.AST) -> set[str]:
    """Return the full name of every imported module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where code comes from"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_only_nouns_and_libraries(path: Path) -> None:
    """An import of plan, solve, measure, noise or accountant would make the verifier repeat their mistakes."""
    for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if name.split(".")[0] == "topdown":
            assert name == "topdown.__version__" or name.startswith(OWN), name
        else:
            assert name.split(".")[0] in LIBRARIES, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_floats_in_exact_arithmetic(path: Path) -> None:
    """A float division or literal could round a count or a loss; sizes of residuals are the one exception."""
    floats = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    ]
    allowed = {"check_solver": [1e-5, 0.1, 0.0], "check_estimates": [1e-6]}
    assert set(floats) <= set(allowed.get(path.stem, []))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_dynamic_imports(path: Path) -> None:
    """importlib, eval or pickle would go round the test above, or run what a file says."""
    names = {
        node.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    assert not names & {"eval", "exec", "__import__", "importlib", "pickle"}
