"""`topdown resolve`: the how-to page, typed, on a release that is there."""

import json
import shutil
from pathlib import Path

from tests.helpers.pages import run_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "resolve.md"


def test_the_page_runs_and_its_documents_are_in_form(topdown, release, check):
    """A command on the page that fails, or a document out of form, stops a reader who wanted one table more."""
    shutil.copytree(release, "release")
    assert run_page(PAGE, topdown) == 2
    for name in ("plan.json", "certificate.json"):
        check(json.loads((Path("tree") / name).read_text(encoding="utf-8")))
    made = topdown("resolve", "release", "--out", "more", "--targets", "tree", "--workers", 1, "--json")
    check(made.document)
    assert (made.code, made.document["release_id"][-9:]) == (0, "-resolved")
    again = topdown("resolve", "release", "--out", "no", "--targets", "own")
    assert (again.code, "C252" in again.err) == (2, True)
