"""What `topdown tables --json` prints."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Part, Positive, Rational, Sha256


class TablesFile(Part, frozen=True, kw_only=True):
    """One table of a query at a level, or for a list of areas."""

    query: str
    level: str
    path: Annotated[str, Meta(description="Inside the folder; .csv, or .partN.csv where there are many rows")]
    wide: bool
    intervals: bool
    n_rows: Count


class Tables(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.tables"):
    """Tables for ordinary programs, made from a release."""

    version: Literal[1] = 1
    release: str
    plan_hash: Sha256
    out: str
    coverage: Rational | None
    meaning: str
    n_files: Positive
    n_named: Annotated[Count, Meta(description="Areas with a name")]
    tables: list[TablesFile]
