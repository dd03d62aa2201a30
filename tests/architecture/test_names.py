"""One class name, one meaning."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REPEATED_ON_PURPOSE = {"verify", "documents"}  # independent of what is checked; the form of what has the name


@pytest.mark.parametrize("package", ["topdown", "pgsr"])
def test_one_class_name_has_one_meaning(package: str) -> None:
    """A reader who meets a name in a signature would look it up in the wrong file."""
    places = defaultdict(set)
    for path in (ROOT / package).rglob("*.py"):
        if not REPEATED_ON_PURPOSE & set(path.relative_to(ROOT).parts):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].add(str(path.relative_to(ROOT)))
    assert not {name for name, files in places.items() if len(files) > 1}
