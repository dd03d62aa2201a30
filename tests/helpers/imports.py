"""What a file imports, read from its text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return every module a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return frozenset(found)
