"""The how-to page of private choices: its snippet run, its functions there, its links whole."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "selection.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_snippet_runs_and_prints_what_it_says(capsys):
    """A line on the page that no longer works stops a reader at the first step."""
    (body,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    exec(compile(body, str(PAGE), "exec"), {})  # noqa: S102
    items, cost = capsys.readouterr().out.splitlines()
    assert cost == "1.6487212707001282"
    assert f"# {cost} = e^(1/2)" in body
    assert {"0", "1", "2"} >= set(re.findall(r"\d", items))


def test_the_functions_of_the_table_are_there():
    """A name on the page that there is not sends a reader to the source."""
    named = re.findall(r"^\| `(\w+)\.(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == 9
    for module, function in named:
        assert callable(getattr(importlib.import_module(f"topdown.selection.{module}"), function))
