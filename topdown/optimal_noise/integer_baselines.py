"""Other private noise for the same query, to say what an optimal law saves: each as good as its kind can be made.

Truncated geometric laws are whole weights whose delta is checked exactly. The others are known by formulas and
computed in floats to about nine digits; nothing private rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topdown.optimal_noise.exact_laws import (
    geometric_weights,
    plain_ratio,
    smallest_truncated,
    staircase,
    worst_excess,
)
from topdown.optimal_noise.noise_request import (
    Absolute,
    ErrorLoss,
    NoiseRequest,
    Pinball,
    Promise,
    Square,
    factor_below,
)
from topdown.optimal_noise.real_noise import analytic_gaussian_sigma, truncated_laplace

_STEPS = 60
_SIGMA_STEPS = 50
_NUDGE = Fraction(1, 10**9)
_RADII = 50  # below that of the plain ratio
_WIDEST = 20_000  # sigma of discrete Gaussian noise whose values are written out


@dataclass(frozen=True)
class Baseline:
    """One other kind of noise."""

    name: str
    parameter: str
    loss: Fraction


def baselines(ask: NoiseRequest) -> list[Baseline]:
    """Return the noise of other kinds that keeps the one promise of the ask, least loss of each kind.

    For l1, l2 and pinball losses; for others the truncated geometric ones only.

    Args:
        ask: with one promise.

    Raises: ValueError for several promises.
    """
    if len(ask.promises) != 1:
        raise ValueError("Baselines are made for one promise.")
    return [*_geometric(ask), *_by_moments(ask), *_without_delta(ask)]


def _geometric(ask: NoiseRequest) -> Iterator[Baseline]:
    promise = ask.promises[0]
    ratio = plain_ratio(promise.epsilon, ask.sensitivity)
    plain = smallest_truncated(ratio, ask.promises, ask.sensitivity, Fraction(1))
    radius = len(plain) // 2
    yield Baseline("truncated geometric", f"radius {radius}", _loss(plain, ask.loss))
    best = (_loss(plain, ask.loss), radius, float(ratio))
    for other in range(max(1, radius - _RADII), radius + 2):
        found = _least_ratio(other, promise, ask.sensitivity)
        if found is not None:
            weights = geometric_weights(found, other)
            best = min(best, (_loss(weights, ask.loss), other, float(found)))
    yield Baseline("truncated geometric, best ratio", f"radius {best[1]}, ratio {best[2]:.6f}", best[0])


def _loss(weights: tuple[int, ...], loss: ErrorLoss) -> Fraction:
    radius = len(weights) // 2
    total = sum((w * loss.at(k - radius) for k, w in enumerate(weights)), Fraction(0))
    return total / sum(weights)


def _least_ratio(radius: int, promise: Promise, sensitivity: int) -> Fraction | None:
    """Return the least ratio, to nine digits, at which this radius keeps the promise; None if there is none."""
    places = np.abs(np.arange(-radius, radius + 1))
    factor, delta = float(promise.factor), float(promise.delta)

    def needed(ratio: float) -> float:
        p = ratio**places
        p = p / p.sum()
        padded = np.concatenate([np.zeros(sensitivity), p])
        shifts = (padded[sensitivity - s : sensitivity - s + p.size] for s in range(1, sensitivity + 1))
        return max(float(np.maximum(p - factor * shifted, 0.0).sum()) for shifted in shifts)

    low, high = 0.0, 1.0  # needed falls, then rises: the least of it is between
    for _ in range(_STEPS):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if needed(first) < needed(second) else (first, high)
    if needed(high) > delta:
        return None
    low = 0.0
    for _ in range(_STEPS):  # where it is just at most delta
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= delta else (middle, high)
    found = min(Fraction(high) + _NUDGE * Fraction(high), Fraction(1))
    keeps = worst_excess(geometric_weights(found, radius), sensitivity, promise.factor) <= promise.delta
    return found if keeps else None


def _by_moments(ask: NoiseRequest) -> Iterator[Baseline]:
    """Gaussian and Laplace noise: known by mean absolute value and mean square."""
    promise = ask.promises[0]
    if not isinstance(ask.loss, Absolute | Square | Pinball):
        return
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    shift = ask.sensitivity
    wide = analytic_gaussian_sigma(epsilon, delta, shift)
    if wide <= _WIDEST:
        sigma = _least_sigma(lambda s: _discrete_delta(s, epsilon, shift), delta)
        values = np.arange(1, math.ceil(40 * sigma) + 1, dtype=float)
        weights = np.exp(-(values**2) / (2 * sigma * sigma))
        total = 1 + 2 * weights.sum()
        mean, square = 2 * (weights * values).sum() / total, 2 * (weights * values**2).sum() / total
        yield Baseline("discrete Gaussian", f"sigma {sigma:.4f}", _of_moments(ask.loss, mean, square))
    if epsilon > 0:
        mean, square = truncated_laplace(epsilon, delta, shift)
    else:
        mean, square = shift / (4 * delta), (shift / (2 * delta)) ** 2 / 3
    yield Baseline("truncated Laplace, not whole", "", _of_moments(ask.loss, mean, square))
    mean, square = wide * math.sqrt(2 / math.pi), wide * wide
    yield Baseline("analytic Gaussian, not whole", f"sigma {wide:.4f}", _of_moments(ask.loss, mean, square))


def _of_moments(loss: ErrorLoss, mean: float, square: float) -> Fraction:
    """Return the expected loss of symmetric noise with this mean absolute value and mean square."""
    if isinstance(loss, Square):
        return Fraction(float(square))
    slope = (loss.over + loss.under) / 2 if isinstance(loss, Pinball) else Fraction(1)
    return slope * Fraction(float(mean))


def _least_sigma(needed: Callable[[float], float], delta: float) -> float:
    high = 1.0
    while needed(high) > delta:
        high *= 2
    low = high
    while needed(low) <= delta and low > 1e-3:
        low /= 2
    for _ in range(_SIGMA_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= delta else (middle, high)
    return high


def _discrete_delta(sigma: float, epsilon: float, sensitivity: int) -> float:
    """Return the largest over shifts s of P(X < t) - e^epsilon P(X < t - s), t = s / 2 - epsilon sigma^2 / s."""
    radius = math.ceil(40 * sigma) + sensitivity
    weights = np.exp(-(np.arange(-radius, radius + 1, dtype=float) ** 2) / (2 * sigma * sigma))
    below = np.concatenate([[0.0], np.cumsum(weights)]) / weights.sum()
    worst = 0.0
    for s in range(1, sensitivity + 1):
        t = min(max(math.ceil(s / 2 - epsilon * sigma * sigma / s) + radius, 0), 2 * radius)
        worst = max(worst, float(below[t] - math.exp(epsilon) * below[max(t - s, 0)]))
    return worst


def _without_delta(ask: NoiseRequest) -> Iterator[Baseline]:
    epsilon = ask.promises[0].epsilon
    if epsilon > 0 and isinstance(ask.loss, Absolute | Square):
        steps, loss = staircase(factor_below(epsilon), ask.sensitivity, ask.loss)
        name = "geometric, delta 0" if ask.sensitivity == 1 else "staircase, delta 0"
        yield Baseline(
            name, f"{steps} of {ask.sensitivity} values a step" if ask.sensitivity > 1 else "", loss
        )
