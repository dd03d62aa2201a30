"""The screen of a verification: one line a check, then what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from topdown.screen import figures
from topdown.screen.console import Screen
from topdown.screen.look import FAIL, OK, WARN, Chunk, Span, dim

if TYPE_CHECKING:
    from topdown.publish.verify.result import Finding, VerifyResult

SHOWN_A_CHECK = 3
ALWAYS = ("manifest", "plan", "ledger")  # shown even when they pass and others fail


def show_checks(screen: Screen, result: VerifyResult, *, everything: bool) -> None:
    """Write one line a check; where some fail, the passed ones are only counted."""
    if not screen.talks:
        return
    key = max((len(check.name) for check in result.checks), default=0)
    hidden = 0
    for check in result.checks:
        if check.ok and not result.ok and not everything and check.name not in ALWAYS:
            hidden += 1
            continue
        symbol = OK if check.ok else FAIL
        mark = len(screen.out.look.plain(symbol))
        pad = " " * (len(screen.out.look.plain(FAIL)) - mark)
        time = f"  {figures.seconds(check.seconds)}" if screen.verbose else ""
        hang = 2 + mark + len(pad) + 1 + key + 2
        screen.say(
            symbol,
            pad,
            " ",
            check.name.ljust(key).replace(" ", "\u00a0"),
            "  ",
            check.text,
            time,
            indent=2,
            hang=hang,
        )
        for warning in check.warnings:
            screen.item(WARN, warning, indent=4)
    if hidden:
        screen.say(dim(f"({hidden} more passed; --all shows them)"), indent=4)
    for what in result.not_checked:
        screen.say(dim(f"not checked: {what}"), indent=4, hang=6)


def show_findings(screen: Screen, result: VerifyResult, release: Path) -> None:
    """Write what the failed checks found: code, place, both values, why and fix."""
    said: set[tuple[str, str]] = set()
    for check in result.checks:
        if check.ok:
            continue
        for finding in check.findings[:SHOWN_A_CHECK]:
            _finding(screen, finding, release, said)
        more = check.n_findings - min(len(check.findings), SHOWN_A_CHECK)
        if more > 0:
            screen.say(dim(f"({more:,} more from the check {check.name}; --json lists them)"), indent=5)


def _finding(screen: Screen, finding: Finding, release: Path, said: set[tuple[str, str]]) -> None:
    screen.say(Span(finding.code, "error"), " ", finding.text, hang=5)
    place = [str(release / finding.file)] if finding.file else []
    place += [f"row {finding.row:,}"] if finding.row is not None else []
    if place and place[0] not in finding.text:
        screen.say(", ".join(place), indent=5, hang=7)
    rows: list[tuple[Chunk, Chunk]] = []
    if finding.node and finding.node not in finding.text:
        rows.append((dim("area"), finding.node))
    if finding.expected or finding.found:
        rows += [(dim("expected"), finding.expected or "-"), (dim("found"), finding.found or "-")]
    if (finding.why, finding.fix) not in said:
        said.add((finding.why, finding.fix))
        rows += [(dim(k), v) for k, v in (("why", finding.why), ("fix", finding.fix)) if v]
    screen.pairs(rows, indent=5)
