"""How the best noise for one answer fares where several answers share a promise: beside Gaussian noise.

For sensitivity 1 and an even loss. Computed in floats, for comparison only: no promise rests on it. A loss between two
points of the lattice is split upwards, so the noise found keeps the promise up to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from topdown.noise.optimal.baselines import gaussian_sigma
from topdown.noise.optimal.split import SHARES, largest_scale, law_variance, tails_law

COUNTS = (1, 2, 4, 8, 16, 32)


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
    best = law_variance(tails_law(epsilon / n_answers, delta / n_answers))  # sums of epsilons and deltas
    for share in SHARES if n_answers > 1 else ():
        each = float(share) * delta / n_answers
        scale = largest_scale(epsilon, delta, each, {1.0: n_answers})
        if scale > 0:
            best = min(best, law_variance(tails_law(scale, each)))
    return Shared(n_answers, best, gaussian_sigma(epsilon, delta, math.sqrt(n_answers)) ** 2)
