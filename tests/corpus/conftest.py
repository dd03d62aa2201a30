"""Print how many cases of each group were run."""

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a table of the groups of cases with how many passed and failed."""
    found: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            case = dict(report.user_properties).get("corpus")
            if case:
                found.setdefault(case, Counter())[outcome] += 1
    if found:
        terminalreporter.section("cases of wrong input")
        for group, counts in sorted(found.items()):
            terminalreporter.write_line(
                f"{group:<56}{counts['passed']:>5} passed{counts['failed']:>5} failed"
            )
        total = sum(counts.total() for counts in found.values())
        terminalreporter.write_line(f"{'all':<56}{total:>5}")
