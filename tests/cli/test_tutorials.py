"""The tutorials, typed from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.pages import run_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "how-to" / "read-a-release.md"]


@pytest.mark.slow
def test_first_release(topdown, tmp_path):
    """The first page that anybody types must not end in a message that it does not show."""
    assert run_page(DOCS / "tutorials" / "first-release.md", topdown) == 8


@pytest.mark.slow
def test_districts_with_intervals(topdown, tmp_path):
    """Intervals of districts are asked for by people who add up what does not add up."""
    assert run_page(DOCS / "tutorials" / "districts.md", topdown) == 8
    assert (tmp_path / "districts" / "areas" / "adult.csv").is_file()


def test_your_own_country(topdown, tmp_path):
    """A newcomer whose second command is refused does not type a third."""
    assert run_page(DOCS / "tutorials" / "your-own-country.md", topdown) == 10
    assert (tmp_path / "districts" / "areas" / "sex_by_marital.csv").is_file()
    assert b"people.csv" not in b"".join(path.read_bytes() for path in tmp_path.glob("release/*.json"))
    assert run_page(DOCS / "how-to" / "read-a-release.md", topdown) == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_tutorials_lead_somewhere(page):
    """A page that was renamed leaves a dead link."""
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).is_file(), target
