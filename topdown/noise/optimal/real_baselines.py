"""What optimised noise for a real query is compared with: numbers for tables, in floats and never certified."""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def truncated_laplace(epsilon: float, delta: float, sensitivity: float) -> tuple[float, float]:
    """Return E|x| and E x^2 of the truncated Laplace law, epsilon > 0.

    Source: Geng, Ding, Guo, Kumar, "Tight analysis of privacy and utility tradeoff" (2020).
    """
    t = math.expm1(epsilon) / (2 * delta)
    a, scale = math.log1p(t), sensitivity / epsilon
    return scale * (1 - a / t), 2 * scale * scale * (1 - (a + a * a / 2) / t)


def geng_lower(epsilon: float, delta: float, sensitivity: float, *, up: bool = True) -> float:
    """Return the lower bound of E|x| of the same source, which asks for a whole n; rounded up it is not proved.

    With u = (delta + (e - 1) / 2) / e and q = 1 / e: 2 u sensitivity times the sum of j q^j, j = 1 .. n - 1,
    where u (1 + q + .. + q^(n - 1)) = 1/2. Rounded up it can be above what private noise costs.

    Args:
        epsilon, delta, sensitivity: of the guarantee.
        up: round n up, else down.

    """
    q = math.exp(-epsilon)
    u = (delta + math.expm1(epsilon) / 2) * q
    n, reached = 0, 0.0
    while reached < 0.5 - 1e-12:
        reached += u * q**n
        n += 1
    n -= not up and reached > 0.5 + 1e-12
    return 2 * u * sensitivity * sum(j * q**j for j in range(1, n))


def classic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the classic sigma, sensitivity sqrt(2 ln(1.25 / delta)) / epsilon."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least sigma of Gaussian noise that is (epsilon, delta)-private, to 12 digits.

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), Theorem 8.
    """

    def needed(sigma: float) -> float:
        half, slope = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return _NORMAL.cdf(half - slope) - math.exp(epsilon) * _NORMAL.cdf(-half - slope)

    low, high = 1e-9 * sensitivity, sensitivity
    while needed(high) > delta:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) > delta else (low, middle)
    return high
