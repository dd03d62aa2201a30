"""The site of the documentation: built without a warning, every link leads somewhere, answers are two clicks away."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.helpers.processes import run_python
from topdown.app import COMMANDS, pages

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
FOR_WHOM = re.compile(r"For [a-z]")
GENERATED = ("genindex.html", "search.html")

QUESTIONS = {
    "how do I make my first release": ("tutorials/first-release.html", "topdown generate"),
    "what may I tell the board about privacy": ("explanation/what-the-number-means.html", "times in 100"),
    "how far off is the count of my town": ("explanation/intervals.html", "topdown interval"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once; a warning of sphinx is an error."""
    pytest.importorskip("sphinx", reason="sphinx is not installed: make docs")
    out = tmp_path_factory.mktemp("site")
    assert run_python(ROOT / "docs" / "site" / "build.py", "--out", out).stderr == ""
    return out


def places(page: Path) -> set[tuple[Path, str]]:
    """Return the files of the site that a page links to, itself too, each with the anchor in it or ""."""
    found = re.findall(r'\s(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8"))
    own = [unescape(target).partition("#") for target in found if not re.match(r"[a-z]+:", target)]
    return {
        ((page.parent / name.partition("?")[0]).resolve() if name else page, unquote(at))
        for name, _, at in own
    }


def links(page: Path) -> set[Path]:
    """Return the files that a page links to, itself apart."""
    return {target for target, _ in places(page)} - {page}


def test_every_link_leads_to_its_place(site: Path) -> None:
    """A dead link ends somebody's search; one to a heading that was renamed opens a long page at its top."""
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    anchors = {page: {"", *re.findall(r'\sid="([^"]+)"', text)} for page, text in pages.items()}
    dead = {
        (page.name, target.name, anchor)
        for page in anchors
        for target, anchor in places(page)
        if not target.exists() or anchor not in anchors.get(target, {""})
    }
    assert dead == set()
    assert sum(bool(anchor) for page in anchors for _, anchor in places(page)) > len(anchors)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """A page that loads a font or a script from elsewhere does not work in a room without a network."""
    loaded = [
        (page.name, found)
        for page in site.rglob("*.html")
        for found in re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
    ]
    assert loaded == []


def test_three_questions_are_answered_within_two_clicks(site: Path) -> None:
    """Whoever opens the site for the first time has one of these questions."""
    first = links(site / "index.html")
    second = {target for page in first if page.suffix == ".html" for target in links(page)}
    for answer, words in QUESTIONS.values():
        assert (site / answer).resolve() in first | second
        assert words in re.sub(r"<[^>]+>", "", (site / answer).read_text(encoding="utf-8"))


def test_the_landing_page_shows_the_first_screen_and_the_gallery_its_pictures(site: Path) -> None:
    """Whoever comes first wants to see what it is; a picture that could not be made is an empty frame."""
    landing = (site / "index.html").read_text(encoding="utf-8")
    assert "checks passed" in landing
    gallery = (site / "gallery.html").read_text(encoding="utf-8")
    for name in ("trade-off", "error-by-size", "map", "noise", "sites", "group-sizes", "cost"):
        (found,) = set(re.findall(rf'src="(_images/{name}[^"]*\.svg)"', gallery))
        assert (site / found).read_text(encoding="utf-8").rstrip().endswith("</svg>")
    (report,) = set(re.findall(r'href="(_downloads/[^"]+/report.html)"', gallery))
    assert "<data " in (site / report).read_text(encoding="utf-8")


def test_every_command_and_every_error_has_its_place(site: Path) -> None:
    """A reference that is made from the code leaves nothing out."""
    commands = (site / "reference" / "topdown-commands.html").read_text(encoding="utf-8")
    errors = (site / "reference" / "errors.html").read_text(encoding="utf-8")
    for name in (name for listed in COMMANDS.values() for name in listed):
        assert f'id="topdown-{name}"' in commands
    for code in pages():
        assert f'id="{code.lower()}"' in errors


def test_every_page_says_first_for_whom_it_is(site: Path) -> None:
    """A reader who is not meant should know it after one line."""
    silent = [
        str(page.relative_to(site))
        for page in site.rglob("*.html")
        if page.name not in GENERATED
        and "_downloads" not in page.parts
        and not FOR_WHOM.match(
            re.sub(r"<[^>]+>", "", re.search(r"<article.*?<p>(.*?)</p>", page.read_text(), re.S)[1])
        )
    ]
    assert silent == []
