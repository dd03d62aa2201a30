"""The glossary has every word that the code is written in."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_word_of_the_house_is_explained_once() -> None:
    """A word that is used everywhere and explained nowhere, or twice, is read in two ways."""
    words = (DOCS / "architecture.md").read_text(encoding="utf-8").split("## Words\n")[1]
    named = {
        re.sub(r"\(.*?\)", "", word).strip().rstrip(".")
        for word in re.split(r"[,·\n]", re.sub(r"\([^)]*\)", "", words))
    }
    rows = re.findall(
        r"^\| ([^|]+?) \| ([^|]+?) \|$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    explained = [word for word, _ in rows]
    assert len(explained) == len(set(explained))
    assert named - {""} <= set(explained)
    assert all(text.endswith(".") and len(text) <= 120 for word, text in rows if word != "word")
