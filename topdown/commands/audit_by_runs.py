"""`topdown audit --runs`: the code that draws a release, run on made-up neighbours and held against the claim."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import topdown
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.documents.audit_runs import AuditRuns, Pair, ReachedSecret, UnreachedSecret

SHOWN = 5  # pairs that beat their claim; --json lists them all


def audit_by_runs(screen: Screen, source: Path, base: Path | None, deltas: tuple[str, ...], runs: int) -> int:
    """Run and show; opens no records and spends nothing."""
    from topdown.screen.bars import follow

    if len(deltas) != 1:
        raise ConfigError("--runs takes one delta", code="C005", fix="give --delta once")
    progress = follow(screen)
    try:
        found = topdown.audit_runs(source, runs, base=base, delta=deltas[0], report=progress)
    finally:
        progress.close()
    made = found.document
    screen.document(made)
    _show(screen, made, extends=found.extends)
    return EXIT_OK if made.passes else EXIT_CHECK_FAILED


def _show(screen: Screen, made: AuditRuns, *, extends: bool) -> None:
    from topdown.screen.layout import Column
    from topdown.screen.look import FAIL, OK, WARN, bold, dim

    screen.say(
        bold("What the drawing code shows"),
        f", {made.runs:,} runs on each side of {made.n_pairs} pairs of made-up neighbours "
        f"(plan {made.plan_hash[:8]}; no records were opened)",
    )
    if extends:
        screen.say(dim("this step alone, not what it extends"), indent=2)
    screen.blank()
    columns = [Column("secret", wraps=True), Column("pairs", right=True)]
    columns += [Column(name, right=True) for name in ("right in 100", "μ", f"ε at δ {_delta(made)}")]
    screen.table(columns, [_row(secret) for secret in made.secrets])
    screen.say(dim("each: shown at least / claimed at most"), indent=2)
    for place in made.not_reached:
        screen.item(WARN, f"no pair found: {place.secret}, {place.query} at {place.level}")
    wrong = [pair for pair in made.pairs if pair.exceeds]
    for pair in wrong[:SHOWN]:
        screen.item(FAIL, _what(pair))
    if len(wrong) > SHOWN:
        screen.say(dim(f"({len(wrong) - SHOWN} more; --json lists them)"), indent=4)
    screen.blank()
    if made.passes:
        screen.last(
            f"None of {made.n_tests:,} tests beat the claim. That proves no claim right; a failure would prove "
            f"it wrong, but for {_once(made)} audits of true claims.",
            symbol=OK,
        )
        return
    screen.last(
        f"{made.code}: noise as it is drawn does not keep what is claimed. True claims fail in at most "
        f"{_once(made)} audits.",
        symbol=FAIL,
    )


def _delta(made: AuditRuns) -> str:
    from topdown.screen import figures

    delta = Fraction(made.delta)
    power = len(str(delta.denominator)) - 1
    return f"1e-{power}" if delta == Fraction(1, 10**power) else figures.exact(delta)


def _once(made: AuditRuns) -> str:
    rate = Fraction(made.false_alarm)
    return f"{rate.numerator:,} in {rate.denominator:,}"


def _row(secret: ReachedSecret | UnreachedSecret) -> tuple[str, ...]:
    from topdown.documents.audit_runs import ReachedSecret
    from topdown.screen import figures

    if not isinstance(secret, ReachedSecret):
        return (secret.name, "0", "-", "-", "-")
    texts = []
    for (low, high), times, digits in (
        (secret.best_guess, 100, 1),
        (secret.mu, 1, 3),
        (secret.epsilon, 1, 2),
    ):
        most = high if high == "inf" else figures.decimal(times * Fraction(high), digits, up=True)
        texts.append(f"{figures.decimal(times * Fraction(low), digits, down=True)} / {most}")
    return (secret.name, str(secret.n_pairs), *texts)


def _what(pair: Pair) -> str:
    """Say which of a pair's views beat its claim by most."""
    tests = [(view, test) for view in pair.views for test in view.tests if test.exceeds]
    view, test = max(tests, key=lambda one: float(one[1].mu[0]) - float(one[1].mu[1]))
    of = "everything drawn" if view.of is None else f"{view.of.query} at {view.of.level}"
    low, high = test.mu
    return f"{pair.secret}, by {of} ({view.score}): μ at least {low}, claimed at most {high}"
