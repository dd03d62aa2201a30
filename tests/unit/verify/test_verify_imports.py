"""The verifier must not share code with what it verifies."""

import ast
from pathlib import Path

import pytest

import topdown

FILES = sorted((Path(topdown.__file__).parent / "verify").glob("*.py"))
LIBRARIES = {
    "__future__", "abc", "collections", "contextlib", "csv", "dataclasses", "decimal", "fractions", "functools",
    "hashlib", "html", "io", "itertools", "json", "math", "msgspec", "numpy", "os", "pathlib", "pyarrow", "re", "stat",
    "textwrap", "time", "topdown", "typing", "zlib",
}  # fmt: skip
SUMS_OF_NOISE = {"gaussian_sums", "change_losses", "stated_losses"}
"""Where losses are computed in float64, with ends: they are held against a certificate's, and make none."""


def imported(tree: ast.AST) -> set[str]:
    """Return the name of every imported package."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where code comes from"
            names.add(str(node.module).split(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_only_common_libraries(path: Path) -> None:
    """A library for solving, drawing or composing would be trusted with what is to be found anew."""
    assert imported(ast.parse(path.read_text(encoding="utf-8"))) <= LIBRARIES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_floats_in_exact_arithmetic(path: Path) -> None:
    """A float division or literal could round a count or a loss; sizes of residuals are the one exception."""
    floats = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    ]
    allowed = {"check_solver": {1e-6, 1e-5, 0.1, 0.0}, "exact_arithmetic": {0.0, 1.0}}.get(path.stem, set())
    assert path.stem in SUMS_OF_NOISE or set(floats) <= allowed


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_dynamic_imports(path: Path) -> None:
    """importlib, eval or pickle would go round the test above, or run what a file says."""
    names = {
        node.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    assert not names & {"eval", "exec", "__import__", "importlib", "pickle"}
