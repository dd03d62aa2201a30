"""The whole audit by runs: pairs, runs, tests, verdict.

A quarter of the runs teaches a score, a quarter chooses thresholds, half counts. All counts hold together with the
stated confidence: each end of a rate has its part of the error (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from topdown.audit_runs.judge import Shown, choose, loss_of, rates, shown
from topdown.audit_runs.pairs import LEAST_PAIRS, Pair, Target, find_pairs, queries_of
from topdown.audit_runs.score import LikelihoodRatios, Score, learned
from topdown.audit_runs.stage import PairRuns
from topdown.documents.audit_runs import ScoreName
from topdown.errors import ConfigError
from topdown.model.changes import Change
from topdown.plan.prepare import Context
from topdown.progress import Event, Report, silent

FALSE_ALARM = Fraction(1, 1000)
LEAST_RUNS, MOST_RUNS = 1_000, 10_000_000
_MOST_TAUGHT = 20_000  # runs that a score is learned from
_ENDS = 4  # of rates, a view: false alarms and hits, at two thresholds


@dataclass(frozen=True)
class View:
    """What of a run is looked at, by which score, and what was found.

    Args:
        target: level and measurement that alone are looked at; None: all.
        score: "likelihood ratio" or "learned".
        shown: of the tests chosen for best guess and for epsilon.
    """

    target: Target | None
    score: ScoreName
    shown: tuple[Shown, ...]


@dataclass(frozen=True)
class Audited:
    """A pair and what was found on it."""

    pair: Pair
    views: tuple[View, ...]

    @property
    def exceeds(self) -> bool:
        """Whether some view refutes the claim."""
        return any(s.exceeds for v in self.views for s in v.shown)


@dataclass(frozen=True)
class AuditRuns:
    """What an audit by runs found.

    Args:
        runs: on each data set of each pair.
        delta: where epsilon is stated.
        false_alarm: probability at most that true claims fail.
        pairs: what was found, pair by pair.
        missing: secrets, levels and measurements that no pair was found for.
    """

    runs: int
    delta: Fraction
    false_alarm: Fraction
    pairs: tuple[Audited, ...]
    missing: tuple[tuple[Change, Target], ...]

    @property
    def n_tests(self) -> int:
        """How many tests were counted."""
        return sum(len(v.shown) for a in self.pairs for v in a.views)

    @property
    def passes(self) -> bool:
        """Whether no claim was refuted."""
        return not any(a.exceeds for a in self.pairs)


def audit_runs(
    context: Context,
    runs: int,
    *,
    delta: Fraction = Fraction(1, 10**10),
    false_alarm: Fraction = FALSE_ALARM,
    at_least: int = LEAST_PAIRS,
    report: Report = silent,
) -> AuditRuns:
    """Run the code that draws a release on pairs of made-up neighbours, and hold what it shows against the claim.

    Opens no records and spends nothing. A claim that is refuted is wrong, but for `false_alarm`; one that is not may be
    wrong too.

    Args:
        context: plan and public facts; of an extension, its own step is audited, on areas and answers that the
            release it extends leaves open.
        runs: on each data set of each pair, 1,000 to 10,000,000.
        delta: where epsilon is stated.
        false_alarm: probability at most that any true claim fails.
        at_least: pairs, where there are so many.
        report: told after every pair.

    Raises:
        ConfigError: A051 too few or too many runs, A052 no pair.

    Cost: about 1 CPU second for 10^5 runs on a pair of four levels and two queries.
    """
    if not LEAST_RUNS <= runs <= MOST_RUNS:
        raise ConfigError(
            f"{runs:,} runs are too {'few' if runs < LEAST_RUNS else 'many'}",
            code="A051",
            fix=f"give --runs from {LEAST_RUNS} to {MOST_RUNS}; 100000 takes a minute or two",
        )
    pairs, missing = find_pairs(context, at_least=at_least)
    if not pairs:
        raise ConfigError(
            "no pair of made-up neighbours was found that agrees on what is exact and public",
            code="A052",
            fix="audit without --runs",
        )
    views = sum(_n_views(pair) for pair in pairs)
    level = float(false_alarm) / (_ENDS * views)
    out, queries = [], queries_of(context)
    with threadpool_limits(limits=1):  # these tables are too small for more than one thread
        for number, pair in enumerate(pairs, 1):
            out.append(_audit(context, PairRuns(context, queries, pair), pair, runs, delta, level))
            report(Event("audit", number, len(pairs), "pairs"))
    return AuditRuns(runs, delta, false_alarm, tuple(out), missing)


def _n_views(pair: Pair) -> int:
    return len(_likely(pair)) + 1


def _likely(pair: Pair) -> tuple[Target | None, ...]:
    """Return what likelihood ratios look at: all, and alone what the pair was chosen for; nothing if nothing moves."""
    return (None, *pair.targets) if any(map(any, pair.moved)) else ()


def _audit(
    context: Context, stage: PairRuns, pair: Pair, runs: int, delta: Fraction, level: float
) -> Audited:
    answers, law = stage.answers, context.plan.levels[0].measurements[0].law
    targets = _likely(pair)
    taught = min(runs // 4, _MOST_TAUGHT)
    scores: list[Score] = [learned((stage.runs(0, taught), stage.runs(1, taught)))]
    if targets:
        scores.append(LikelihoodRatios(answers, law, targets))
    values = [_values(stage, which, runs - runs // 4, scores) for which in (0, 1)]
    names: list[tuple[Target | None, ScoreName]] = [(None, "learned")]
    names += [(target, "likelihood ratio") for target in targets]
    half = runs // 4
    views = []
    for (target, name), first, second in zip(names, *values, strict=True):
        tests = choose(first[:half], second[:half], float(delta), level)
        found = [rates(test, first[half:], second[half:], level) for test in tests]
        loss = loss_of(context.plan, pair, None if target is None else frozenset([target]))
        views.append(View(target, name, tuple(shown(loss, found, delta))))
    return Audited(pair, tuple(views))


def _values(stage: PairRuns, which: int, n: int, scores: list[Score]) -> NDArray[np.float64]:
    """Return the scores of n runs: (n_scores, n)."""
    calls = stage.runs(which, n)
    return np.concatenate([np.concatenate([s.of(runs) for s in scores]) for runs in calls], axis=1)
