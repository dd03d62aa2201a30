"""Public names of a package that are imported on first use, so that a command line starts without data libraries."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing`, `ast` and `pathlib` would triple the time until a program handles signals
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazy_face(package: str, file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names stand once, as imports for the type checker.

    Args:
        package: its name.
        file: its `__init__.py`; `from MODULE import NAME, ...` under `if TYPE_CHECKING:` says where each name is.
    """
    places: dict[str, tuple[str, str]] = {}

    def imported(name: str) -> Any:
        if not places:
            import ast

            with open(file, encoding="utf-8") as source:  # noqa: PTH123
                tree = ast.parse(source.read())
            blocks = [node for node in tree.body if isinstance(node, ast.If)]
            for node in (node for block in blocks for node in block.body):
                if isinstance(node, ast.ImportFrom) and node.module:
                    places.update({one.asname or one.name: (node.module, one.name) for one in node.names})
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, named = places[name]
        found = getattr(import_module(module), named)
        vars(sys.modules[package])[name] = found
        return found

    return imported
