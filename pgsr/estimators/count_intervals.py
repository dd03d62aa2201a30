"""How far a released count may be from the truth: intervals of the noise alone, and the bounds beside every count.

A count is one noisy answer (histograms) or the difference of two (cumulative, tail, chain). The interval covers
that noise with at least the stated probability. Post-processing narrows the error of most cells but adds bias
where many empty cells were clipped, worst at the root of M_H^dp: bench_pgsr.py measures the real coverage.
`shrinkage.py` gives narrower ones where regions are shrunk to their parent.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, sqrt

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints

REACH = 40
OF_NOISE, OF_MODEL = "noise of the level", "noise and likeness of siblings, closed form"
MEANING = (
    "meant to hold the true count 95 times in 100 on average over cells, not exact; for a sum of counts add squared "
    "half widths, which neglects covariance"
)


def count_bounds(counts: Ints, half_widths: Ints, most: Ints | int, *, valid: bool) -> tuple[Ints, Ints]:
    """Return lower and upper bounds of counts, [size][node].

    Args:
        counts: released counts [size][node].
        half_widths: of their intervals.
        most: number of groups of every node, or of all.
        valid: whether counts keep to 0..most; bounds then do too.
    """
    lower, upper = counts - half_widths, counts + half_widths
    return (np.maximum(lower, 0), np.minimum(upper, most)) if valid else (lower, upper)


def half_width(
    noise: str, parameter: Fraction, *, accumulates: bool, coverage: Fraction = Fraction(19, 20)
) -> int:
    """Return the least h with P(|noise of a count| <= h) >= coverage.

    Args:
        noise: "geometric" or "gaussian".
        parameter: scale or variance of the noise of one answer.
        accumulates: whether a count is the difference of two answers.
        coverage: probability.

    Float arithmetic on the noise's own law; the result is a whole number of groups.
    """
    spread = float(parameter) if noise == "geometric" else sqrt(float(parameter))
    reach = ceil(REACH * max(spread, 1.0))
    if reach > 2_000_000:
        return ceil(spread * (3.0 if noise == "geometric" else 1.96) * (1.6 if accumulates else 1.0))
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    energy = np.abs(x) / spread if noise == "geometric" else x * x / (2 * spread * spread)
    law = np.exp(-energy)
    law /= law.sum()
    if accumulates and noise == "gaussian":
        energy = x * x / (4 * spread * spread)
        law = np.exp(-energy) / np.exp(-energy).sum()
    elif accumulates:
        law = _difference_law(spread, np.abs(x))
    middle = len(law) // 2
    mass = np.cumsum(np.append(law[middle], 2 * law[middle + 1 :]))
    return int(np.searchsorted(mass, float(coverage)))


def _difference_law(scale: float, distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the law of the difference of two independent two-sided geometrics, in closed form."""
    a = exp(-1.0 / scale)
    front = ((1 - a) / (1 + a)) ** 2
    return np.asarray(front * a**distance * (distance + (1 + a * a) / (1 - a * a)))
