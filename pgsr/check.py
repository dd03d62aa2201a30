"""One check of a release and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_FINDINGS = 100


@dataclass
class Check:
    """One check and what it found.

    Args:
        name: of the check.
        summary: what was checked, with numbers.
        n_checked: things compared.
        findings: first failures, in words.
        n_failed: number of failures.
    """

    name: str
    summary: str = ""
    n_checked: int = 0
    findings: list[str] = field(default_factory=list)
    n_failed: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return self.n_failed == 0

    def fail(self, text: str, n: int = 1) -> None:
        """Record a failure."""
        self.n_failed += n
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(text)
