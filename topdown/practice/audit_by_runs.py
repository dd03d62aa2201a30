"""Hold the drawing code against its claim: many runs on pairs of made-up neighbours, tests, verdict, document.

A score is a number of a run that says which of two data sets it was drawn from: large for the second. What counted
guesses prove of every test is rounded down, beside what the composition of the noise allows, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri
from threadpoolctl import threadpool_limits

from topdown import __version__
from topdown.arrays import Floats
from topdown.errors import ConfigError
from topdown.formats import privacy_documents as form
from topdown.formats.common import SecretKind
from topdown.formats.privacy_documents import ScoreName
from topdown.model import NeighbourChange
from topdown.plan import Plan, PublicContext
from topdown.practice.neighbour_pairs import LEAST_PAIRS, AuditedAnswer, NeighbourPair, find_pairs, queries_of
from topdown.practice.repeated_draws import PairAnswers, PairRuns
from topdown.privacy.accountant import ComposedLoss, NoisyCounts, PairLoss, PureLoss, compose_noise
from topdown.privacy.exact_values import fixed
from topdown.privacy.laws import LAWS, FormulaDistribution, NoiseDistribution, Weights
from topdown.progress import Event, Report, silent

Runs = NDArray[np.int32]
_NEVER = -1000.0  # nats; far from every sum of ratios of values that a law gives
_RIDGE = 1e-9  # of the mean variance: noise that is a function of other noise has none of its own


@dataclass(frozen=True, eq=False)
class LikelihoodRatios:
    """Log-likelihood ratios under the claimed laws, each over some of a run's numbers.

    Args:
        answers: what the numbers are.
        law: of all noise.
        targets: what each ratio looks at; None: everything.
    """

    answers: PairAnswers
    law: str
    targets: Sequence[AuditedAnswer | None]

    def of(self, runs: Runs) -> Floats:
        """Return the scores of each run, summed over its files: (n_targets, n_runs). Numbers that stay add nothing."""
        first, second = self.answers.truth.astype(np.float64)
        moved = np.flatnonzero(first != second)
        first, second, parameter = first[moved], second[moved], self.answers.parameter[moved]
        counts = np.array(
            [[target in (None, self.answers.target[i]) for i in moved] for target in self.targets],
            dtype=float,
        ).reshape(len(self.targets), len(moved))
        weights = self.answers.weights or ((),) * self.answers.truth.shape[1]
        noise = [
            LAWS[self.law].distribution(Fraction(own), weights[i])
            for i, own in zip(moved, parameter, strict=True)
        ]
        out = np.zeros((len(self.targets), len(runs)))
        for start in range(0, runs.shape[1], len(self.answers.target)):
            noisy = runs[:, start + moved].T.astype(np.float64)
            odds = [
                _log_masses(own, x - b) - _log_masses(own, x - a)
                for own, x, a, b in zip(noise, noisy, first, second, strict=True)
            ]
            out += counts @ np.array(odds).reshape(noisy.shape)
        return out


def _log_masses(noise: NoiseDistribution, values: Floats) -> Floats:
    """Return the logarithm of each value's probability, up to a constant; of what never happens that of e^-1000."""
    sizes = np.abs(values)
    if isinstance(noise, FormulaDistribution):
        slope, bend = noise.energy(1), noise.energy(2) - 2 * noise.energy(1)  # energies are quadratic
        energies: Floats = float(slope) * sizes + float(bend) / 2 * sizes * (sizes - 1)
        return -energies
    known = np.array([math.log(float(noise.pmf(k, 60)[0])) for k in range(noise.half_width(60) + 1)])
    place = sizes.astype(np.int64)
    return np.where(place < len(known), known[np.minimum(place, len(known) - 1)], _NEVER)


@dataclass(frozen=True, eq=False)
class LinearScore:
    """A weighted sum of a run's numbers."""

    weights: Floats

    def of(self, runs: Runs) -> Floats:
        """Return the score of each run, (1, n_runs)."""
        return np.asarray(runs @ self.weights)[None, :]


Score = LikelihoodRatios | LinearScore


def learned_score(runs: tuple[Iterable[Runs], Iterable[Runs]]) -> LinearScore:
    """Return the linear score that separates runs on two data sets best."""
    means: list[Floats] = []
    within = np.zeros(())
    for side in runs:
        noisy = np.concatenate(list(side)).astype(np.float64)
        means.append(noisy.mean(axis=0))
        noisy -= means[-1]
        within = within + noisy.T @ noisy / len(noisy)
    mean = float(np.trace(within)) / len(within)
    within += (_RIDGE * mean + 1e-12) * np.eye(len(within))
    return LinearScore(np.asarray(np.linalg.solve(within, means[1] - means[0]), dtype=np.float64))


_GRID = 10**9  # ends of binomial rates are rounded outward to its parts
_THRESHOLDS = np.linspace(0, 1, 401)


@dataclass(frozen=True)
class GuessCut:
    """A threshold and what it is good for: decide for the second data set where a score is above it."""

    threshold: float
    goal: str  # best_guess or epsilon


@dataclass(frozen=True)
class ShownLoss:
    """What counted guesses prove of one test, beside what the claimed noise allows.

    Args:
        alpha: false-alarm rate, an upper end.
        power: rate of hits, a lower end; `most` is the most that any test with that alpha can have.
        best_guess, mu, epsilon: what follows of the noise, at least; with what is claimed, at most.
    """

    alpha: Fraction
    power: Fraction
    most: Fraction
    best_guess: tuple[Fraction, Fraction]
    mu: tuple[float, float]
    epsilon: tuple[float, float]

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted."""
        return self.power > self.most or self.best_guess[0] > self.best_guess[1]


def choose_cuts(first: Floats, second: Floats, delta: float, level: float) -> tuple[GuessCut, ...]:
    """Choose the thresholds whose best guess, and whose epsilon, would be shown to be largest.

    Args:
        first, second: scores of runs on both data sets.
        delta: where epsilon is stated.
        level: error probability of one end.
    """
    every = np.concatenate([first, second])
    cuts = np.unique(np.quantile(every, _THRESHOLDS, method="lower"))
    alarms = len(first) - np.searchsorted(np.sort(first), cuts, side="right")
    hits = len(second) - np.searchsorted(np.sort(second), cuts, side="right")
    alpha, power = _upper_bound(alarms, len(first), level), _lower_bound(hits, len(second), level)
    ratio = np.maximum(power - delta, 1e-300) / alpha
    return (
        GuessCut(float(cuts[np.argmax(power - alpha)]), "best_guess"),
        GuessCut(float(cuts[np.argmax(ratio)]), "epsilon"),
    )


def guess_rates(cut: GuessCut, first: Floats, second: Floats, level: float) -> tuple[Fraction, Fraction]:
    """Return an upper end of the false-alarm rate and a lower end of the rate of hits, rounded outward."""
    alpha = float(_upper_bound(np.array(int((first > cut.threshold).sum())), len(first), level))
    power = float(_lower_bound(np.array(int((second > cut.threshold).sum())), len(second), level))
    up = min(Fraction(math.ceil(alpha * _GRID) + 1, _GRID), Fraction(1))
    down = max(Fraction(math.floor(power * _GRID) - 1, _GRID), Fraction(0))
    return up, down


def _upper_bound(k: NDArray[np.int64], n: int, level: float) -> Floats:
    return np.where(k >= n, 1.0, betaincinv(np.minimum(k, n - 1) + 1.0, n - np.minimum(k, n - 1), 1 - level))


def _lower_bound(k: NDArray[np.int64], n: int, level: float) -> Floats:
    return np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1), n - np.maximum(k, 1) + 1.0, level))


def loss_of(
    plan: Plan, pair: NeighbourPair, chosen: frozenset[tuple[int, int]] | None = None
) -> ComposedLoss:
    """Return the loss of the noise that a plan claims, between the data sets of a pair.

    Args:
        chosen: levels and measurements that are looked at; None: all.
    """
    moved = tuple(
        (m.law, m.parameter, pair.moved[depth][q], pair.n_records, m.count_delta, m.whole_weights)
        for depth, level in enumerate(plan.levels)
        for q, m in enumerate(level.measurements)
        if pair.moved[depth][q] and (chosen is None or (depth, q) in chosen)
    )
    return _loss_of_rates(tuple(sorted(moved)), plan.loss_name)


@lru_cache(maxsize=1024)
def _loss_of_rates(
    moved: tuple[tuple[str, Fraction, int, int, Fraction, Weights], ...], loss_name: str
) -> ComposedLoss:
    return compose_noise((NoisyCounts(*row) for row in moved), loss_name)


def shown_loss(
    loss: ComposedLoss, found: Sequence[tuple[Fraction, Fraction]], delta: Fraction
) -> list[ShownLoss]:
    """Hold rates of false alarms and hits against what a loss allows.

    Args:
        loss: of the claimed noise.
        found: upper ends of false-alarm rates with lower ends of rates of hits.
        delta: where epsilon is stated.
    """
    curve = loss.trade_off_curve([alpha for alpha, _ in found])
    guess, most_epsilon = _claimed_rates(loss, delta)
    out = []
    for (alpha, power), misses in zip(found, curve, strict=True):
        most = 1 - misses.lower
        at_least = max(Fraction(1, 2), (1 + power - alpha) / 2)
        excess = float(power - delta)
        epsilon = math.log(excess / float(alpha)) if excess > alpha else 0.0
        mu = (_gaussian_mu(alpha, power), _gaussian_mu(alpha, most))
        out.append(ShownLoss(alpha, power, most, (at_least, guess), mu, (epsilon, most_epsilon)))
    return out


@lru_cache(maxsize=1024)
def _claimed_rates(loss: ComposedLoss, delta: Fraction) -> tuple[Fraction, float]:
    if isinstance(loss, PairLoss):  # of hundreds of pairs: their losses are not composed
        return loss.guess_by_sums().upper, float(loss.epsilon)
    if isinstance(loss, PureLoss):
        return loss.best_guess().upper, float(loss.epsilon)
    return loss.best_guess().upper, float(loss.epsilon(delta).upper)


def _gaussian_mu(alpha: Fraction, power: Fraction) -> float:
    """Return how many standard deviations apart two Gaussians are that a test tells apart so well; may be infinite."""
    if power <= alpha:
        return 0.0
    return float(ndtri(float(power)) - ndtri(float(alpha)))


FALSE_ALARM = Fraction(1, 1000)
LEAST_RUNS, MOST_RUNS = 1_000, 10_000_000
_MOST_TAUGHT = 20_000  # runs that a score is learned from
_ENDS = 4  # of rates, a view: false alarms and hits, at two thresholds


@dataclass(frozen=True)
class AuditView:
    """What of a run is looked at, by which score, and what was found.

    Args:
        target: level and measurement that alone are looked at; None: all.
        score: "likelihood ratio" or "learned".
        shown: of the tests chosen for best guess and for epsilon.
    """

    target: AuditedAnswer | None
    score: ScoreName
    shown: tuple[ShownLoss, ...]


@dataclass(frozen=True)
class AuditedPair:
    """A pair and what was found on it."""

    pair: NeighbourPair
    views: tuple[AuditView, ...]

    @property
    def exceeds(self) -> bool:
        """Whether some view refutes the claim."""
        return any(s.exceeds for v in self.views for s in v.shown)


@dataclass(frozen=True)
class RunsAudited:
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
    pairs: tuple[AuditedPair, ...]
    missing: tuple[tuple[NeighbourChange, AuditedAnswer], ...]

    @property
    def n_tests(self) -> int:
        """How many tests were counted."""
        return sum(len(v.shown) for a in self.pairs for v in a.views)

    @property
    def passes(self) -> bool:
        """Whether no claim was refuted."""
        return not any(a.exceeds for a in self.pairs)


def audit_by_runs(
    context: PublicContext,
    runs: int,
    *,
    delta: Fraction = Fraction(1, 10**10),
    false_alarm: Fraction = FALSE_ALARM,
    at_least: int = LEAST_PAIRS,
    report: Report = silent,
) -> RunsAudited:
    """Run the code that draws a release on pairs of made-up neighbours: see `topdown.audit_runs`.

    A claim that is refuted is wrong, but for `false_alarm`; one that is not may be wrong too.

    Args:
        context: of an extension, its own step is audited, on areas and answers that its base leaves open.
        false_alarm: probability at most that any true claim fails.
        at_least: pairs, where there are so many.

    Cost: about 1 CPU second for 10^5 runs on a pair of four levels and two queries.
    """
    if not LEAST_RUNS <= runs <= MOST_RUNS:
        raise ConfigError(
            f"{runs:,} runs are too {'few' if runs < LEAST_RUNS else 'many'}",
            code="A051",
            fix=f"give --runs from {LEAST_RUNS} to {MOST_RUNS}; 100000 takes a minute or two",
        )
    pairs, missing = find_pairs(context, at_least=at_least, report=report)
    if not pairs:
        raise ConfigError(
            "no pair of made-up neighbours was found that agrees on what is exact and public",
            code="A052",
            fix="audit without --runs",
        )
    views = sum(len(_likelihood_score(pair)) + 1 for pair in pairs)
    level = float(false_alarm) / (_ENDS * views)
    out, queries = [], queries_of(context)
    with threadpool_limits(limits=1):  # these tables are too small for more than one thread
        for number, pair in enumerate(pairs, 1):
            out.append(_audit_pair(context, PairRuns(context, queries, pair), pair, runs, delta, level))
            report(Event("audit", number, len(pairs), "pairs"))
    return RunsAudited(runs, delta, false_alarm, tuple(out), missing)


def _likelihood_score(pair: NeighbourPair) -> tuple[AuditedAnswer | None, ...]:
    """Return what likelihood ratios look at: all, and alone what the pair was chosen for; nothing if nothing moves."""
    return (None, *pair.targets) if any(map(any, pair.moved)) else ()


def _audit_pair(
    context: PublicContext, stage: PairRuns, pair: NeighbourPair, runs: int, delta: Fraction, level: float
) -> AuditedPair:
    answers, law = stage.answers, context.plan.levels[0].measurements[0].law
    targets = _likelihood_score(pair)
    taught = min(runs // 4, _MOST_TAUGHT)
    scores: list[Score] = [learned_score((stage.runs(0, taught), stage.runs(1, taught)))]
    if targets:
        scores.append(LikelihoodRatios(answers, law, targets))
    values = [_scored_values(stage, which, runs - runs // 4, scores) for which in (0, 1)]
    names: list[tuple[AuditedAnswer | None, ScoreName]] = [(None, "learned")]
    names += [(target, "likelihood ratio") for target in targets]
    half = runs // 4
    views = []
    for (target, name), first, second in zip(names, *values, strict=True):
        tests = choose_cuts(first[:half], second[:half], float(delta), level)
        found = [guess_rates(test, first[half:], second[half:], level) for test in tests]
        loss = loss_of(context.plan, pair, None if target is None else frozenset([target]))
        views.append(AuditView(target, name, tuple(shown_loss(loss, found, delta))))
    return AuditedPair(pair, tuple(views))


def _scored_values(stage: PairRuns, which: int, n: int, scores: list[Score]) -> NDArray[np.float64]:
    """Return the scores of n runs: (n_scores, n)."""
    calls = stage.runs(which, n)
    return np.concatenate([np.concatenate([s.of(runs) for s in scores]) for runs in calls], axis=1)


CODE: Final = "A053"
_DIGITS = 6


def runs_document(
    context: PublicContext, found: RunsAudited, secrets: Sequence[Mapping[str, Any]]
) -> form.AuditRuns:
    """Return the document of an audit by runs; `secrets` are certified, in the order of the policy's changes."""
    changes = context.policy.changes
    name = {(c.kind, c.of): str(row["name"]) for c, row in zip(changes, secrets, strict=True)}
    rows = [_reached_attribute(c, row, found) for c, row in zip(changes, secrets, strict=True)]
    passes = found.passes and not any(isinstance(row, form.ReachedSecret) and row.exceeds for row in rows)
    return form.AuditRuns(
        engine=__version__,
        plan_hash=context.plan.plan_hash,
        neighbours=context.plan.neighbours,
        runs=found.runs,
        delta=str(found.delta),
        false_alarm=str(found.false_alarm),
        n_pairs=len(found.pairs),
        n_tests=found.n_tests,
        passes=passes,
        code=None if passes else CODE,
        secrets=rows,
        not_reached=[
            form.NotReached(secret=name[change.kind, change.of], **_place_of_pair(context, target))
            for change, target in found.missing
        ],
        pairs=[_pair_document(context, audited, name) for audited in found.pairs],
    )


def _reached_attribute(
    change: NeighbourChange, certified: Mapping[str, Any], found: RunsAudited
) -> form.ReachedSecret | form.UnreachedSecret:
    mine = [a for a in found.pairs if (a.pair.kind, a.pair.of) == (change.kind, change.of)]
    if not mine:
        return form.UnreachedSecret(name=certified["name"], status=change.status, n_pairs=0)
    tests = [t for a in mine for v in a.views for t in v.shown]
    guess = max(t.best_guess[0] for t in tests)
    epsilon = max(Fraction(t.epsilon[0]) for t in tests)
    most_guess = Fraction(certified["best_guess"][1])
    ((_, stated),) = certified["epsilon"].values()  # at one delta, or at every one
    most_epsilon = Fraction(stated)
    furthest = max(tests, key=lambda t: t.mu[0])
    return form.ReachedSecret(
        name=certified["name"],
        status=change.status,
        n_pairs=len(mine),
        exceeds=any(a.exceeds for a in mine) or guess > most_guess or epsilon > most_epsilon,
        best_guess=_down_and_up(guess, most_guess),
        mu=_down_and_up(*furthest.mu),
        epsilon=_down_and_up(epsilon, most_epsilon),
    )


def _pair_document(
    context: PublicContext, audited: AuditedPair, name: dict[tuple[SecretKind, str], str]
) -> form.Pair:
    pair = audited.pair
    return form.Pair(
        secret=name[pair.kind, pair.of],
        from_=_record_labels(context, pair.gone),
        to=None if pair.come is None else _record_labels(context, pair.come),
        exceeds=audited.exceeds,
        views=[
            form.View(
                of=None if v.target is None else form.Target(**_place_of_pair(context, v.target)),
                score=v.score,
                tests=[
                    form.ThresholdTest(
                        false_alarms=fixed(t.alpha, 9, up=True),
                        hits=(fixed(t.power, 9, up=False), fixed(t.most, 9, up=True)),
                        best_guess=_down_and_up(*t.best_guess),
                        mu=_down_and_up(*t.mu),
                        epsilon=_down_and_up(*t.epsilon),
                        exceeds=t.exceeds,
                    )
                    for t in v.shown
                ],
            )
            for v in audited.views
        ],
    )


def _record_labels(context: PublicContext, place: tuple[int, int]) -> form.MadeUpRecord:
    """Return a made-up record in the words of the schema."""
    leaf, cell = place
    schema, values = context.plan.schema, []
    for attribute in reversed(schema.attributes):
        cell, value = divmod(cell, len(attribute.labels))
        values.append((attribute.name, attribute.labels[value]))
    return form.MadeUpRecord(geocode=context.geography.leaves.codes[leaf], values=dict(reversed(values)))


def _place_of_pair(context: PublicContext, target: tuple[int, int]) -> dict[str, str]:
    level = context.plan.levels[target[0]]
    return {"level": level.name, "query": level.measurements[target[1]].query}


def _down_and_up(shown: Fraction | float, claimed: Fraction | float) -> tuple[str, str]:
    """Return what is shown, rounded down, and what is claimed, rounded up: "inf" where it bounds nothing."""
    most = "inf" if claimed == math.inf else fixed(Fraction(claimed), _DIGITS, up=True)
    return fixed(Fraction(shown), _DIGITS, up=False), most
