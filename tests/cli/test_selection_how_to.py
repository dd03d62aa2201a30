"""The how-to page of private choices: its commands and snippet run, its functions there, its picture made."""

import importlib
import re
from pathlib import Path

from examples import field_offices
from tests.helpers.pages import run_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "selection.md"


def test_the_page_runs_and_prints_what_it_says(topdown, toy, capsys):
    """A line on the page that no longer works stops a reader at the first step."""
    toy(Path())
    Path("offices.csv").write_text("candidate,geocode\nNorth,1101\nNorth,1102\nSouth,12\nEast,1301\n")
    assert run_page(PAGE, topdown) == 7
    items, cost = capsys.readouterr().out.splitlines()[-2:]
    assert f"# {cost} = e^(1/2)" in PAGE.read_text(encoding="utf-8")
    assert {"0", "1", "2"} >= set(re.findall(r"\d", items))


def test_the_functions_of_the_table_are_there():
    """A name on the page that there is not sends a reader to the source."""
    named = re.findall(r"^\| `(\w+)\.(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == 9
    for module, function in named:
        assert callable(getattr(importlib.import_module(f"topdown.selection.{module}"), function))


def test_the_offices_of_the_picture_are_chosen_and_drawn(tmp_path):
    """A picture that the example cannot make again shows something else than the code does."""
    chosen, best = field_offices.choose(tmp_path)
    assert len(set(chosen)) == len(set(best)) == field_offices.K
    drawn = (tmp_path / "offices.svg").read_text(encoding="utf-8")
    shown = PAGE.with_name("field-offices.svg").read_text(encoding="utf-8")
    for text in (drawn, shown):
        assert "looks at everybody: 59 % within 2 km" in text
        assert "private, epsilon 1/10: " in text
        assert text.count("<text") == 2 * (field_offices.K + 1)
    covers, people = field_offices.reached(tmp_path, tmp_path / "offices"), field_offices.residents(tmp_path)
    assert field_offices.share(chosen, covers, people) > 0.7 * field_offices.share(best, covers, people)
