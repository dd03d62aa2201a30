"""The pages of the error codes: data in `pages.toml`, one table a code."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FAMILIES = {
    "C": "configuration: a run file, a schema, an option",
    "D": "data: a table that was given as input",
    "B": "budget and ledger",
    "I": "infeasible: facts that contradict each other",
    "H": "an answer only a person can give",
    "V": "verification of a release",
    "A": "audit of the privacy claim",
    "X": "the engine itself",
}


TOPDOWN_PAGES = Path(__file__).parent / "pages.toml"
REFERENCE_TEXTS = Path(__file__).parent / "reference.toml"


@dataclass(frozen=True)
class Page:
    """What a code means.

    Args:
        title: the error in a few words.
        why: why it is an error, and what has happened so far.
        example: lines to copy, may be empty.
    """

    title: str
    why: str
    fix: str
    example: str = ""


@cache
def pages(path: Path = TOPDOWN_PAGES) -> dict[str, Page]:
    """Return every page of a file by its code, sorted by family, then number."""
    order = "".join(FAMILIES)
    text = path.read_text(encoding="utf-8")
    found = sorted(tomllib.loads(text).items(), key=lambda item: (order.index(item[0][0]), item[0]))
    return {
        code: Page(**{k: " ".join(v.split()) if k != "example" else v for k, v in page.items()})
        for code, page in found
    }


TITLES = {
    "run": "run.toml: everything one release needs",
    "schema": "a schema: what a record can say",
    "invariants": "invariants: what stays exactly true",
    "settings": "settings: who measures what with which share",
    "geography": "the table [geography] of a run file",
}
