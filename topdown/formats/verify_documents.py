"""What a verification says, and `topdown verify --json` prints: findings, one result a check, one result a folder."""

from __future__ import annotations

import json
from html import escape
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.json import encode

from topdown.formats.common import Count, Part

MAX_FINDINGS = 100
ALTERED = "the file is not the one that was certified"
GET_AGAIN = "get the release again from its publisher; do not use this copy"


class Finding(Part, frozen=True):
    """One thing that is wrong: a sentence, where, the two values that should agree, what it means and what to do."""

    code: Annotated[str, Meta(pattern="^V[0-9]{3}$", description="Page of `topdown explain`")]
    text: str
    file: str = ""
    row: Annotated[Count | None, Meta(description="Row of that file, 1-based")] = None
    node: Annotated[str | None, Meta(description="Geocode of the area concerned")] = None
    expected: str = ""
    found: str = ""
    why: str = ALTERED
    fix: str = GET_AGAIN


class CheckResult(Part, frozen=True):
    """One check: how much it looked at, what failed, and the first of what it found."""

    name: str
    ok: bool
    text: str
    n_checked: Count
    n_failed: Count
    seconds: float
    findings: Annotated[tuple[Finding, ...], Meta(max_length=MAX_FINDINGS)] = ()
    n_findings: Count = 0
    warnings: tuple[str, ...] = ()


class VerifyResult(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.verify"):
    """All checks of a folder, in order: the result of topdown verify --json.

    >>> import topdown
    >>> topdown.verify("release")
    VerifyResult(ok=True, 16 of 16 checks passed)
    """

    version: Literal[1] = 1
    engine: str
    ok: Annotated[bool, Meta(description="Whether every check passed; false if there was none")]
    n_checks: Count
    n_failed: Count
    n_warnings: Count
    seconds: float
    checks: tuple[CheckResult, ...]
    not_checked: Annotated[tuple[str, ...], Meta(description="What none of the checks looks at, in words")]

    def check(self, name: str) -> CheckResult:
        """Return one check by name; KeyError if there is none."""
        return {check.name: check for check in self.checks}[name]

    @property
    def failed(self) -> str:
        """The checks that failed, each with the first that it found, as an error names them."""
        bad = (check for check in self.checks if not check.ok)
        return "; ".join(f"{c.name}: {c.findings[0].text if c.findings else c.text}" for c in bad)

    def to_json(self) -> dict[str, Any]:
        """Return the `topdown.verify` document."""
        document: dict[str, Any] = json.loads(encode(self))
        return document

    def __repr__(self) -> str:
        return f"VerifyResult(ok={self.ok}, {self.n_checks - self.n_failed} of {self.n_checks} checks passed)"

    def _repr_html_(self) -> str:
        title = "All checks passed" if self.ok else f"{self.n_failed} checks FAILED"
        rows = ((c.name, "passed" if c.ok else "FAILED", c.text) for c in self.checks)
        table = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        return f"<div><b>{title}</b><table>{table}</table></div>"


def _cell(text: str) -> str:
    """Return a cell of a table in HTML; what a release says of itself may be markup."""
    plain = "".join(c if c.isprintable() else " " for c in text[:300])
    return f"<td>{escape(plain)}</td>"
