"""The gallery notebook: every cell runs, shows something short, and nothing that was shown is stored."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

GALLERY = Path(__file__).resolve().parents[3] / "examples" / "gallery.ipynb"


def cells() -> list[dict[str, Any]]:
    """Return the cells of the notebook."""
    found: list[dict[str, Any]] = json.loads(GALLERY.read_text(encoding="utf-8"))["cells"]
    return found


def run(source: str, names: dict[str, object]) -> str:
    """Run a cell as a notebook does; return what its last expression shows."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(GALLERY), "exec"), names)  # noqa: S102 - a notebook is a program
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), str(GALLERY), "eval"), names)  # noqa: S307
    return str(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


@pytest.mark.slow
def test_the_gallery_runs(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys):
    """A cell that fails, or prints colours that a notebook cannot show, stops whoever tries the library."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    shown = [run("".join(cell["source"]), names) for cell in cells() if cell["cell_type"] == "code"]
    assert len(shown) >= 10
    assert names["checks"].ok  # type: ignore[attr-defined]
    assert max(map(len, shown)) < 8_000
    assert "\x1b" not in "".join(shown)
    assert "Fraction(" not in "".join(shown)
    assert capsys.readouterr().out == ""
    assert "in another way" in (tmp_path / "tree" / "README.txt").read_text(encoding="utf-8")


def test_nothing_shown_is_stored():
    """Outputs in the file would be numbers of another run; cells without text, a page nobody can follow."""
    kinds = [cell["cell_type"] for cell in cells()]
    assert kinds.count("markdown") >= 6
    for cell in cells():
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
        assert max(len(line.rstrip("\n")) for line in cell["source"]) <= 130
