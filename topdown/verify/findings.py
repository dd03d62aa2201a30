"""What checks find, collected as they run, and the result of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from topdown import __version__
from topdown.arrays import Ints
from topdown.formats.verify_documents import MAX_FINDINGS, CheckResult, Finding, VerifyResult

NOT_SOLVED = "that the microdata follow from the measurements (--solve)"


def verify_result(
    checks: Sequence[CheckResult], seconds: float, not_checked: Sequence[str] = (NOT_SOLVED,)
) -> VerifyResult:
    """Return the result of all checks; `not_checked` says in words what none of them looks at."""
    return VerifyResult(
        engine=__version__,
        ok=bool(checks) and all(check.ok for check in checks),
        n_checks=len(checks),
        n_failed=sum(not check.ok for check in checks),
        n_warnings=sum(len(check.warnings) for check in checks),
        seconds=round(seconds, 2),
        checks=tuple(checks),
        not_checked=tuple(not_checked),
    )


@dataclass
class Findings:
    """Collects what one check finds while it runs.

    Args:
        n_checked: units looked at, set by the check.
        n_failed: units that failed; at least 1 if there is a finding.
        counts: other numbers, by what they count.
        seconds: to be added to what the check itself takes.
    """

    n_checked: int = 0
    n_failed: int = 0
    n_findings: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0
    kept: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

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

    def failures(self, wrong: Ints, n_failed: int | None = None) -> list[int]:
        """Count failed rows or keys, as so many units if there are any; return the first, to be described in `kept`."""
        if len(wrong):
            self.n_failed += len(wrong) if n_failed is None else n_failed
        self.n_findings += len(wrong)
        first: list[int] = wrong[: MAX_FINDINGS - len(self.kept)].tolist()
        return first

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
            round(seconds, 2),
            tuple(self.kept),
            self.n_findings,
            tuple(self.warnings),
        )
