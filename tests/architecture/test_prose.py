"""The documentation can be read: plain sentences, summaries, a whole glossary, and SECURITY.md as its records say."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.claims.claim_records import PAGE, known_tests, page_with, problems, read_claims

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PLAIN = (
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted((DOCS / "coming-from").glob("*.md")),
    DOCS / "site" / "index.md",
    DOCS / "site" / "gallery.md",
    DOCS / "explanation" / "what-the-number-means.md",
)
REPORTS = [path for path in sorted((ROOT / "topdown").rglob("en.toml")) if "report" in str(path)]
PAGES = [
    page
    for page in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"))
    if page.name not in ("CHANGELOG.md", "glossary.md")
]
LEAST_EASE = 50
MOST_WORDS = 1500


def prose(text: str) -> str:
    """Return the sentences of a page: no code, tables, headings or addresses; items of lists are sentences."""
    for block in (r"^```.*?^```", r"^~~~.*?^~~~", r"<!--.*?-->"):
        text = re.sub(block, "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^[ ]*[|#:!].*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^[ ]*([*-]|[0-9]+\.) +", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "x", text)


def syllables(word: str) -> int:
    """Count groups of vowels; a silent e at the end and in -ed is none."""
    found = len(re.findall(r"[aeiouy]+", word))
    found -= bool(re.search(r"[^aeiouyl]e$", word))
    found -= bool(re.search(r"[^aeiouydt]ed$", word))
    return max(found, 1)


def reading_ease(text: str) -> float:
    """Return the reading ease of Flesch (1948): 100 is very easy, 50 fairly hard, 0 for specialists."""
    sentences = [part for part in re.split(r"[.!?](?=\s|$)|\n\s*\n", text) if re.search(r"[A-Za-z]{2}", part)]
    words = re.findall(r"[a-z][a-z'-]*", text.lower())
    return 206.835 - 1.015 * len(words) / len(sentences) - 84.6 * sum(map(syllables, words)) / len(words)


def sentences_of(words: object) -> Iterator[str]:
    """Yield what a report says in sentences, not the heads of its tables."""
    if isinstance(words, dict):
        for inner in words.values():
            yield from sentences_of(inner)
    elif isinstance(words, str) and len(words.split()) > 5:
        yield re.sub(r"{\w+}", "x", words)


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.stem)
def test_pages_for_newcomers_are_plain(page: Path) -> None:
    """A page that only specialists can read loses the people it is written for."""
    assert reading_ease(prose(page.read_text(encoding="utf-8"))) >= LEAST_EASE


def test_reports_are_plain() -> None:
    """A report is read by directors and journalists, whose language it must speak."""
    assert REPORTS
    for path in REPORTS:
        said = "\n\n".join(sentences_of(tomllib.loads(path.read_text(encoding="utf-8"))))
        assert reading_ease(said) >= LEAST_EASE


def test_hard_language_is_found() -> None:
    """A measure that calls everything plain would find nothing."""
    hard = "Heterogeneous organisational considerations necessitate comprehensive methodological differentiation."
    assert reading_ease(hard) < 0
    assert reading_ease("The cat sat on the mat. It was fat.") > 90


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_long_pages_begin_with_a_summary(page: Path) -> None:
    """Nobody reads 1,500 words to learn whether they are the right ones."""
    text = page.read_text(encoding="utf-8")
    if len(prose(text).split()) > MOST_WORDS:
        assert re.search(r"^In short: ", "\n".join(text.splitlines()[:20]), re.MULTILINE)


GLOSSARY_DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_word_of_the_house_is_explained_once() -> None:
    """A word that is used everywhere and explained nowhere, or twice, is read in two ways."""
    words = (GLOSSARY_DOCS / "architecture.md").read_text(encoding="utf-8").split("## Words\n")[1]
    named = {
        re.sub(r"\(.*?\)", "", word).strip().rstrip(".")
        for word in re.split(r"[,·\n]", re.sub(r"\([^)]*\)", "", words))
    }
    rows = re.findall(
        r"^\| ([^|]+?) \| ([^|]+?) \|$",
        (GLOSSARY_DOCS / "glossary.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    explained = [word for word, _ in rows]
    assert len(explained) == len(set(explained))
    assert named - {""} <= set(explained)
    assert all(text.endswith(".") and len(text) <= 120 for word, text in rows if word != "word")


SHOWN = (
    "approve", "attacker", "bias", "candidate", "choice", "complete", "composition", "data set", "engine", "failsafe",
    "group", "hierarchy", "integral", "journal", "lattice", "manifest", "mechanism", "microdata", "MAE",
    "optimal noise", "pass", "public facts", "run file", "secret", "settings", "split", "standard deviation", "truth",
    "two-sided geometric", "discrete Gaussian", "worker", "zCDP",
)  # fmt: skip


def test_terms_of_the_screens_are_explained() -> None:
    """Whoever meets a word on a screen looks it up; one that no screen shows any more is not to be held here."""
    explained = (GLOSSARY_DOCS / "glossary.md").read_text(encoding="utf-8")
    shown = "".join(
        node.value.casefold()
        for program in ("topdown/app", "topdown/publish", "pgsr")
        for path in (ROOT / program).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert [word for word in SHOWN if f"\n| {word} |" not in explained] == []
    assert [word for word in SHOWN if not re.search(rf"\b{word.casefold()}", shown)] == []


def test_the_page_says_what_the_records_say() -> None:
    """A row changed on the page alone would claim what nothing attacks (`python -m tests.claims --page`)."""
    assert page_with(read_claims()) == PAGE.read_text()


def test_every_claim_has_an_attack_that_is_there() -> None:
    """A renamed test would leave a claim that nobody can check."""
    claims = read_claims()
    assert len(claims) > 30
    assert problems(claims, known_tests()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tests": (), "searched": ()}, "nothing attacks"),
        ({"tests": ("test_that_was_renamed",)}, "no such test: test_that_was_renamed"),
        ({"searched": ("a property nobody asks",)}, "not searched: a property nobody asks"),
        ({"holds": " "}, "no property"),
    ],
)
def test_a_claim_without_an_attack_is_found(change: dict[str, object], said: str) -> None:
    """A check that takes any record would let a claim stand alone."""
    first, *others = read_claims()
    found = problems([replace(first, **change), *others], known_tests())
    assert len(found) == 1
    assert found[0].startswith(said)
