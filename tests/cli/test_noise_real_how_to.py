"""The how-to page of noise for real answers and bounded counts: every command and snippet run, every line compared."""

from pathlib import Path

import pytest

from tests.helpers.pages import run_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "optimal-noise-real.md"


@pytest.mark.slow
def test_the_page_runs_and_says_what_it_says(topdown, tmp_path, monkeypatch):
    """A command or a figure on the page that no longer holds misleads whoever follows it."""
    monkeypatch.chdir(tmp_path)
    assert run_page(PAGE, topdown) == 5
