"""What counted guesses prove of every test, and what a composition of noise allows.

A score and a threshold make a test of the first data set against the second. Runs that were not used to choose it
count its false alarms and its hits; both counts are binomial, so Clopper and Pearson's ends (1934) hold with the
stated confidence, whatever the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from topdown.accountant.approximate import MovedCounts, PairLoss
from topdown.accountant.composition import Composition
from topdown.accountant.law import law_of
from topdown.accountant.pure import PureLoss
from topdown.accountant.semantics import Loss
from topdown.audit_runs.pairs import Pair
from topdown.laws import LAWS, Weights
from topdown.plan.plan import Plan

Floats = NDArray[np.float64]
_GRID = 10**9  # ends of binomial rates are rounded outward to its parts
_THRESHOLDS = np.linspace(0, 1, 401)


@dataclass(frozen=True)
class Cut:
    """A threshold and what it is good for: decide for the second data set where a score is above it."""

    threshold: float
    goal: str  # best_guess or epsilon


@dataclass(frozen=True)
class Shown:
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


def choose(first: Floats, second: Floats, delta: float, level: float) -> tuple[Cut, ...]:
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
    alpha, power = _upper(alarms, len(first), level), _lower(hits, len(second), level)
    ratio = np.maximum(power - delta, 1e-300) / alpha
    return (
        Cut(float(cuts[np.argmax(power - alpha)]), "best_guess"),
        Cut(float(cuts[np.argmax(ratio)]), "epsilon"),
    )


def rates(cut: Cut, first: Floats, second: Floats, level: float) -> tuple[Fraction, Fraction]:
    """Return an upper end of the false-alarm rate and a lower end of the rate of hits, rounded outward."""
    alpha = float(_upper(np.array(int((first > cut.threshold).sum())), len(first), level))
    power = float(_lower(np.array(int((second > cut.threshold).sum())), len(second), level))
    up = min(Fraction(math.ceil(alpha * _GRID) + 1, _GRID), Fraction(1))
    down = max(Fraction(math.floor(power * _GRID) - 1, _GRID), Fraction(0))
    return up, down


def _upper(k: NDArray[np.int64], n: int, level: float) -> Floats:
    return np.where(k >= n, 1.0, betaincinv(np.minimum(k, n - 1) + 1.0, n - np.minimum(k, n - 1), 1 - level))


def _lower(k: NDArray[np.int64], n: int, level: float) -> Floats:
    return np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1), n - np.maximum(k, 1) + 1.0, level))


def loss_of(plan: Plan, pair: Pair, chosen: frozenset[tuple[int, int]] | None = None) -> Loss:
    """Return the loss of the noise that a plan claims, between the data sets of a pair.

    Args:
        chosen: levels and measurements that are looked at; None: all.
    """
    moved = tuple(
        (m.parameter, pair.moved[depth][q], m.count_delta, m.whole_weights)
        for depth, level in enumerate(plan.levels)
        for q, m in enumerate(level.measurements)
        if pair.moved[depth][q] and (chosen is None or (depth, q) in chosen)
    )
    law = plan.levels[0].measurements[0].law if plan.levels else ""
    return _loss(tuple(sorted(moved)), law)


@lru_cache(maxsize=1024)
def _loss(moved: tuple[tuple[Fraction, int, Fraction, Weights], ...], law: str) -> Loss:
    if law == "optimal_integer":
        return PairLoss(tuple(MovedCounts(weights, own, delta, n) for own, n, delta, weights in moved))
    if law == "discrete_gaussian" and moved:
        return Composition(law_of((parameter, 1, counts) for parameter, counts, _, _ in moved))
    epsilon = sum((LAWS[law].loss(parameter, 1, counts) for parameter, counts, _, _ in moved), Fraction(0))
    return PureLoss(epsilon, sum(counts for _, counts, _, _ in moved), law)


def shown(loss: Loss, found: Sequence[tuple[Fraction, Fraction]], delta: Fraction) -> list[Shown]:
    """Hold rates of false alarms and hits against what a loss allows.

    Args:
        loss: of the claimed noise.
        found: upper ends of false-alarm rates with lower ends of rates of hits.
        delta: where epsilon is stated.
    """
    curve = loss.trade_off_curve([alpha for alpha, _ in found])
    guess, most_epsilon = _claimed(loss, delta)
    out = []
    for (alpha, power), misses in zip(found, curve, strict=True):
        most = 1 - misses.lower
        at_least = max(Fraction(1, 2), (1 + power - alpha) / 2)
        excess = float(power - delta)
        epsilon = math.log(excess / float(alpha)) if excess > alpha else 0.0
        mu = (_mu(alpha, power), _mu(alpha, most))
        out.append(Shown(alpha, power, most, (at_least, guess), mu, (epsilon, most_epsilon)))
    return out


@lru_cache(maxsize=1024)
def _claimed(loss: Loss, delta: Fraction) -> tuple[Fraction, float]:
    if isinstance(loss, PureLoss | PairLoss):
        return loss.best_guess().upper, float(loss.epsilon)
    return loss.best_guess().upper, float(loss.epsilon(delta).upper)


def _mu(alpha: Fraction, power: Fraction) -> float:
    """Return how many standard deviations apart two Gaussians are that a test tells apart so well; may be infinite."""
    if power <= alpha:
        return 0.0
    return float(ndtri(float(power)) - ndtri(float(alpha)))
