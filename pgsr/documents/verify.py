"""The document of `pgsr verify`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Part


class Checked(Part, frozen=True, kw_only=True):
    """One check, and the first of what it found."""

    name: str
    ok: bool
    summary: str
    n_checked: Count
    n_failed: Count
    findings: Annotated[list[str], Meta(max_length=100)]


class Verify(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.verify"):
    """The result of pgsr verify --json."""

    version: Literal[1] = 1
    engine: str
    ok: bool
    n_checks: Count
    n_failed: Count
    checks: Annotated[list[Checked], Meta(min_length=1)]
