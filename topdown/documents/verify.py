"""The document of `topdown verify`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Part


class Finding(Part, frozen=True, kw_only=True):
    """One thing that is wrong."""

    code: Annotated[str, Meta(pattern="^V[0-9]{3}$", description="Page of `topdown explain`")]
    text: str
    file: str
    row: Count | None
    node: Annotated[str | None, Meta(description="Geocode of the area concerned")]
    expected: str
    found: str
    why: str
    fix: str


class Check(Part, frozen=True, kw_only=True):
    """One check: how much it looked at, what failed, and the first of what it found."""

    name: str
    ok: bool
    text: str
    n_checked: Count
    n_failed: Count
    seconds: float
    findings: Annotated[list[Finding], Meta(max_length=100)]
    n_findings: Count
    warnings: list[str]


class Verify(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.verify"):
    """The result of topdown verify --json."""

    version: Literal[1] = 1
    engine: str
    ok: bool
    n_checks: Count
    n_failed: Count
    n_warnings: Count
    seconds: float
    checks: list[Check]
    not_checked: Annotated[list[str], Meta(description="What none of the checks looks at, in words")]
