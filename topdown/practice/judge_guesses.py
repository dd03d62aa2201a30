"""What counted guesses prove of every test, what a composition of noise allows, and the scores that guesses come from.

A score is a number of a run that says which of two data sets it was drawn from: large for the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from topdown.arrays import Floats
from topdown.plan import Plan
from topdown.practice.neighbour_pairs import AuditedAnswer, NeighbourPair
from topdown.practice.repeated_draws import PairAnswers
from topdown.privacy.accountant import (
    ComposedLoss,
    NoisyCounts,
    PairLoss,
    PureLoss,
    compose_noise,
)
from topdown.privacy.laws import LAWS, FormulaDistribution, NoiseDistribution, Weights

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
        (m.law, m.parameter, pair.moved[depth][q], m.count_delta, m.whole_weights)
        for depth, level in enumerate(plan.levels)
        for q, m in enumerate(level.measurements)
        if pair.moved[depth][q] and (chosen is None or (depth, q) in chosen)
    )
    return _loss_of_rates(tuple(sorted(moved)), plan.loss_name)


@lru_cache(maxsize=1024)
def _loss_of_rates(
    moved: tuple[tuple[str, Fraction, int, Fraction, Weights], ...], loss_name: str
) -> ComposedLoss:
    rows = (NoisyCounts(law, parameter, n, 1, delta, weights) for law, parameter, n, delta, weights in moved)
    return compose_noise(rows, loss_name)


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
