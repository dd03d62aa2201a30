"""mu-GDP: the closed form of the continuous Gaussian, a labelled comparison and never a bound here."""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def log_tail(x: float) -> float:
    """Return ln P[N(0, 1) > x]; for large x by the Laplace continued fraction."""
    if x < 30:
        return math.log(0.5 * math.erfc(x / math.sqrt(2)))
    fraction = 0.0
    for k in range(60, 0, -1):
        fraction = k / (x + fraction)
    return -x * x / 2 - 0.5 * math.log(2 * math.pi) - math.log(x + fraction)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return delta(epsilon) of mu-GDP (Dong, Roth, Su 2022, corollary 1)."""
    return math.exp(_log_delta(mu, epsilon))


def gaussian_trade_off(mu: float, alpha: float) -> float:
    """Return f(alpha) = Phi(Phi^-1(1 - alpha) - mu) (Dong, Roth, Su 2022, equation 6)."""
    if alpha in (0.0, 1.0):
        return 1.0 - alpha
    return _NORMAL.cdf(-_NORMAL.inv_cdf(alpha) - mu)


def gaussian_epsilon(mu: float, log_delta: float) -> float:
    """Return epsilon with mu-GDP delta(epsilon) = exp(log_delta), by bisection; 0 if delta(0) is smaller."""
    if _log_delta(mu, 0.0) <= log_delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * log_delta) + 1e-300
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_delta(mu, middle) > log_delta else (low, middle)
    return (low + high) / 2


def quantile(probability: float) -> float:
    """Return Phi^-1(probability), at the nearest float inside (0, 1)."""
    return _NORMAL.inv_cdf(min(max(probability, 5e-324), 1 - 2.0**-53))


def _log_delta(mu: float, epsilon: float) -> float:
    first = log_tail(epsilon / mu - mu / 2)
    second = epsilon + log_tail(epsilon / mu + mu / 2)
    difference = second - first
    return first + math.log(-math.expm1(difference)) if difference < -1e-16 else first - 36.0
