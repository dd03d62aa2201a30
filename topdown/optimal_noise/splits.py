"""How several counts may share one (epsilon, delta): splits among promises of their own, found in floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats
from topdown.optimal_noise.noise_request import LARGEST_EPSILON
from topdown.optimal_noise.real_noise import analytic_gaussian_sigma

_STEPS = 22
SHARES = (Fraction(1, 50), Fraction(3, 10), Fraction(19, 20))
_STEPS_IN_EPSILON = (1 << 10, 1 << 14)
MOST_TAILS = 20_000
_SPARE = 8.0  # most nats beyond epsilon that are told apart


def tails_law(epsilon: float, delta: float) -> list[float]:
    """Return the least-tails law of one count (epsilon above 0, delta above 0 and below 1), in floats."""
    factor, tails = math.exp(epsilon), []
    tail = (1 - delta) / (1 + factor)
    while tail > 0:
        tails.append(tail)
        tail = (tail - delta) / factor
    steps = [a - b for a, b in zip(tails, [*tails[1:], 0.0], strict=True)]
    return [*reversed(steps), 1 - 2 * tails[0], *steps]


def law_variance(masses: Sequence[float]) -> float:
    """Return the variance of a symmetric law."""
    middle = len(masses) // 2
    return math.fsum(mass * (k - middle) ** 2 for k, mass in enumerate(masses))


def largest_scale(epsilon: float, delta: float, each: float, counts: Mapping[float, int]) -> float:
    """Return about the largest c such that counts with promises (c x part, each) keep (epsilon, delta) together.

    Args:
        epsilon, delta: of all counts together.
        each: delta of every count.
        counts: part of epsilon -> how many counts have it.

    Returns: 0 if there is none.
    """
    low, high = 0.0, min(epsilon, float(LARGEST_EPSILON)) / max(counts)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        needed = epsilon_needed({middle * part: n for part, n in counts.items()}, each, epsilon)
        low, high = (middle, high) if needed <= delta else (low, middle)
    return low


def epsilon_needed(promises: Mapping[float, int], each: float, epsilon: float) -> float:
    """Return about the delta that counts with these epsilons, and `each` as delta, need together at epsilon.

    1 for epsilons so small that the laws would have very many values.

    Args:
        promises: epsilon of a count -> how many have it.
        each: delta of every count.
        epsilon: of all counts together.
    """
    if -math.log(each) > MOST_TAILS * min(promises):
        return 1.0
    step = epsilon / n_steps(epsilon, min(promises), sum(promises.values()))
    reach = math.ceil((epsilon + spare_nats(epsilon)) / step)
    half = 1 << (2 * reach).bit_length()  # sums of two losses do not go round the circle
    spectrum: NDArray[np.complex128] = np.ones(half + 1, dtype=complex)
    kept = 1.0
    for own, n in promises.items():
        row, infinite = _losses(np.array(tails_law(own, each)), step, reach, half)
        spectrum *= np.fft.rfft(row) ** n
        kept *= (1 - infinite) ** n
    masses = np.fft.irfft(spectrum, 2 * half)[:half]
    losses = np.arange(half) * step
    telling = losses > epsilon
    return float((masses[telling] * -np.expm1(epsilon - losses[telling])).sum()) + 1 - kept


def n_steps(epsilon: float, least: float, n_counts: int) -> int:
    """Return in how many steps of a lattice of losses epsilon is divided: equal parts of it lie on the lattice."""
    fewest, most = _STEPS_IN_EPSILON
    wanted = min(max(fewest, math.ceil(8 * epsilon / least)), most)
    return n_counts * math.ceil(wanted / n_counts)


def spare_nats(epsilon: float) -> float:
    """Return how many nats beyond epsilon losses are told apart; beyond they count as infinite."""
    return min(_SPARE, 2 + 2 * epsilon)


def _losses(masses: Floats, step: float, reach: int, half: int) -> tuple[Floats, float]:
    """Return masses of losses, in steps round a circle of 2 x half, each loss split between two neighbours.

    Losses from `reach` steps on count as infinite, those below -reach as -reach.
    """
    row = np.zeros(2 * half)
    infinite = float(masses[0])
    steps = np.log(masses[1:] / masses[:-1]) / step
    far = steps >= reach
    infinite += float(masses[1:][far].sum())
    steps, own = np.maximum(steps[~far], -reach), masses[1:][~far]
    low = np.floor(steps)
    upper = np.expm1(-(steps - low) * step) / math.expm1(-step)
    np.add.at(row, low.astype(int) % (2 * half), own * (1 - upper))
    np.add.at(row, (low.astype(int) + 1) % (2 * half), own * upper)
    return row, infinite


COUNTS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class SharedNoise:
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


def shared_noise(epsilon: float, delta: float, n_answers: int) -> SharedNoise:
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
    gaussian = analytic_gaussian_sigma(epsilon, delta, math.sqrt(n_answers)) ** 2
    return SharedNoise(n_answers, best, gaussian)
