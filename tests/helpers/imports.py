"""What files import and define, read from their text."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("topdown", "pgsr")


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return every module a file imports, at any depth of its code; see `Import.module` for names of a face."""
    return frozenset(one.module for one in imported(path))


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of both packages, by the name it is imported under."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in files}


@dataclass(frozen=True)
class Import:
    """One import.

    Args:
        module: where the name is defined: a name that a package's `__init__` takes from a module of it is of that one.
        deferred: whether it stands in a function.
        line: of the statement.
    """

    module: str
    deferred: bool
    line: int


@cache
def imported(path: Path) -> tuple[Import, ...]:
    """Return the imports of a file, those for the type checker and those in functions with the others."""
    return tuple(_imports(tree_of(path), deferred=False))


def _imports(node: ast.AST, *, deferred: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, deferred, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                yield Import(home_of(child.module or "", alias.name), deferred, child.lineno)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, deferred=deferred or inside)


@cache
def home_of(module: str, name: str) -> str:
    """Return the module that defines a name which is imported from another."""
    if f"{module}.{name}" in modules():
        return f"{module}.{name}"
    path = modules().get(module)
    if path is not None and path.name == "__init__.py":
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{module}."):
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        return home_of(node.module, alias.name)
    return module
