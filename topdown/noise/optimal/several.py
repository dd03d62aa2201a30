"""How the best noise for one answer fares where several answers share a promise: beside Gaussian noise.

For sensitivity 1 and an even loss. Privacy losses of the least-tails law are +-epsilon, one larger one at each end, and
an infinite one; those of n answers are sums of n. Computed in floats, for comparison only: no promise rests on it. What
is left out counts as an infinite loss, so the noise found keeps the promise up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from topdown.noise.optimal.baselines import gaussian_sigma

COUNTS = (1, 2, 4, 8, 16, 32)
_FEW = 3  # losses at an end that are told apart
_SHARES = (0.3, 0.6, 0.9, 0.99)
_STEPS = 24


@dataclass(frozen=True)
class Shared:
    """Noise of n answers that keep one (epsilon, delta) together.

    Args:
        n_answers: each moved by 1 by one record.
        variance: of the best noise found, each answer's.
        gaussian: variance of Gaussian noise.
    """

    n_answers: int
    variance: float
    gaussian: float

    @property
    def ratio(self) -> float:
        """Variance over that of Gaussian noise: above 1, Gaussian noise is better."""
        return self.variance / self.gaussian


def shared(epsilon: float, delta: float, n_answers: int) -> Shared:
    """Return the noise of n answers that keep (epsilon, delta) together, of both kinds.

    Args:
        epsilon: > 0.
        delta: small; at 10^-3 and below little is left out.
        n_answers: >= 1.
    """
    best = math.inf
    for share in (1.0,) if n_answers == 1 else _SHARES:
        each = share * delta / n_answers
        low, high = 0.0, epsilon
        while high - low > epsilon * 2.0**-_STEPS:
            middle = (low + high) / 2 if n_answers > 1 else epsilon
            found = _law(middle, each)
            if n_answers == 1 or _needed(found, middle, n_answers, epsilon) <= delta:
                best = min(best, _variance(found))
                low = middle
            else:
                high = middle
    return Shared(n_answers, best, gaussian_sigma(epsilon, delta, math.sqrt(n_answers)) ** 2)


def _law(epsilon: float, delta: float) -> list[float]:
    """Return the least-tails law, as `closed_form.least_tails` has it in rationals."""
    factor, tails = math.exp(epsilon), []
    tail = (1 - delta) / (1 + factor)
    while tail > 0:
        tails.append(tail)
        tail = (tail - delta) / factor
    steps = [a - b for a, b in zip(tails, [*tails[1:], 0.0], strict=True)]
    return [*reversed(steps), 1 - 2 * tails[0], *steps]


def _variance(masses: list[float]) -> float:
    middle = len(masses) // 2
    return math.fsum(mass * (k - middle) ** 2 for k, mass in enumerate(masses))


def _needed(masses: list[float], each: float, n: int, epsilon: float) -> float:
    """Return the delta that n answers need at epsilon, at most."""
    infinite, edge = masses[0], masses[1]
    if len(masses) < 5:
        return 1.0
    top = math.log(masses[1] / masses[0])
    back = masses[-1]  # the loss -top
    up = math.fsum(masses[2 : len(masses) // 2 + 1])
    down = 1 - infinite - edge - back - up
    total = left = 0.0
    for k1 in range(min(_FEW, n) + 1):
        for k2 in range(min(_FEW, n - k1) + 1):
            rest = n - k1 - k2
            ways = math.comb(n, k1) * math.comb(n - k1, k2) * edge**k1 * back**k2
            for ups in range(rest + 1):
                mass = ways * math.comb(rest, ups) * up**ups * down ** (rest - ups)
                loss = (k1 - k2) * top + (2 * ups - rest) * each
                left += mass
                if loss > epsilon:
                    total += mass * -math.expm1(epsilon - loss)
    return total + max(1 - left, 0.0)
