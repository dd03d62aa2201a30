"""What a verification says: findings, one result a check, one result a release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from topdown import __version__

MAX_FINDINGS = 100
NOT_SOLVED = "that the microdata follow from the measurements (--solve)"
ALTERED = "the file is not the one that was certified"
GET_AGAIN = "get the release again from its publisher; do not use this copy"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Args:
        code: V and three digits.
        text: one sentence: what is wrong.
        file: path inside the release.
        row: row of that file, 1-based.
        node: geocode of the area concerned.
        expected, found: the two values that should agree.
        why: what it means.
        fix: what to do.

    """

    code: str
    text: str
    file: str = ""
    row: int | None = None
    node: str | None = None
    expected: str = ""
    found: str = ""
    why: str = ALTERED
    fix: str = GET_AGAIN

    def to_json(self) -> dict[str, object]:
        """Return the finding as JSON-ready values."""
        return {
            "code": self.code,
            "text": self.text,
            "file": self.file,
            "row": self.row,
            "node": self.node,
            "expected": self.expected,
            "found": self.found,
            "why": self.why,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one named check; `findings` holds the first hundred, `n_findings` counts them all."""

    name: str
    ok: bool
    text: str
    n_checked: int
    n_failed: int
    seconds: float
    findings: tuple[Finding, ...] = ()
    n_findings: int = 0
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the check as JSON-ready values."""
        return {
            "name": self.name,
            "ok": self.ok,
            "text": self.text,
            "n_checked": self.n_checked,
            "n_failed": self.n_failed,
            "seconds": round(self.seconds, 2),
            "findings": [finding.to_json() for finding in self.findings],
            "n_findings": self.n_findings,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class VerifyResult:
    """All checks of one release, in order; `not_checked` says in words what none of them looks at.

    >>> import topdown
    >>> topdown.verify("release")
    VerifyResult(ok=True, 16 of 16 checks passed)
    """

    checks: tuple[CheckResult, ...]
    seconds: float
    not_checked: tuple[str, ...] = (NOT_SOLVED,)

    @property
    def ok(self) -> bool:
        """Whether every check passed; False if there was none."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    def __repr__(self) -> str:
        return f"VerifyResult(ok={self.ok}, {self.n_checks - self.n_failed} of {self.n_checks} checks passed)"

    def _repr_html_(self) -> str:
        rows = ((c.name, "passed" if c.ok else "FAILED", c.text) for c in self.checks)
        cells = ("".join(f"<td>{_escaped(text)}</td>" for text in row) for row in rows)
        table = "".join(f"<tr>{row}</tr>" for row in cells)
        title = "All checks passed" if self.ok else f"{self.n_failed} checks FAILED"
        return f"<div><b>{title}</b><table>{table}</table></div>"

    @property
    def n_checks(self) -> int:
        """Number of checks."""
        return len(self.checks)

    @property
    def n_failed(self) -> int:
        """Number of failed checks."""
        return sum(not check.ok for check in self.checks)

    @property
    def n_warnings(self) -> int:
        """Number of warnings of all checks."""
        return sum(len(check.warnings) for check in self.checks)

    def check(self, name: str) -> CheckResult:
        """Return one check by name; KeyError if there is none."""
        return {check.name: check for check in self.checks}[name]

    def to_json(self) -> dict[str, object]:
        """Return the `topdown.verify` document."""
        return {
            "type": "topdown.verify",
            "version": 1,
            "engine": __version__,
            "ok": self.ok,
            "n_checks": self.n_checks,
            "n_failed": self.n_failed,
            "n_warnings": self.n_warnings,
            "seconds": round(self.seconds, 2),
            "checks": [check.to_json() for check in self.checks],
            "not_checked": list(self.not_checked),
        }


def _escaped(text: str) -> str:
    """Return text for HTML; what a release says of itself may be markup."""
    plain = "".join(c if c.isprintable() else " " for c in text[:300])
    for mark, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;")):
        plain = plain.replace(mark, name)
    return plain


@dataclass
class Findings:
    """Collects what one check finds while it runs.

    Args:
        n_checked: units looked at, set by the check.
        n_failed: units that failed; at least 1 if there is a finding.
        counts: other numbers, by what they count.
        seconds: to be added to what the check itself takes.
        name, text: of the check and what it says, where it says that itself.

    """

    n_checked: int = 0
    n_failed: int = 0
    n_findings: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0
    kept: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    name: str = ""
    text: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.n_findings == 0

    def add(self, finding: Finding) -> None:
        """Count one failed unit and keep its finding."""
        self.add_many(1, [finding])

    def fail(self, text: str) -> None:
        """Count one failed unit that is described by a sentence alone."""
        self.add(Finding("", text))

    def add_many(self, n_failed: int, findings: Iterable[Finding], n_findings: int | None = None) -> None:
        """Count failed units; keep findings up to the limit (`n_findings` says how many there are in all)."""
        listed = list(findings)
        self.n_failed += n_failed
        self.n_findings += len(listed) if n_findings is None else n_findings
        self.kept += listed[: MAX_FINDINGS - len(self.kept)]

    def merge(self, other: Findings) -> None:
        """Add what was found elsewhere."""
        self.n_checked += other.n_checked
        self.add_many(other.n_failed, other.kept, other.n_findings)
        self.counts.update(other.counts)
        self.warnings += other.warnings

    def close(self, name: str, text: str, seconds: float) -> CheckResult:
        """Freeze what was collected."""
        return CheckResult(
            name,
            self.ok,
            text,
            self.n_checked,
            self.n_failed,
            seconds,
            tuple(self.kept),
            self.n_findings,
            tuple(self.warnings),
        )
