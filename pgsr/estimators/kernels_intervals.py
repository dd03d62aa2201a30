"""Kernels of the shortest intervals around counts, given the mean and variance of each; see `count_intervals.py`."""

from __future__ import annotations

from math import erf, floor, sqrt, tanh

from topdown.arrays import FloatTable, Ints, IntTable, IntTableOut, Whole

NOT_RULED_OUT: float = 1e-3
"""Variance of a number of groups from which on its interval reaches one group at least."""
LEAST_VARIANCE: float = 1e-18
LOGISTIC: float = 0.9068996821171089
"""pi / (2 sqrt 3): turns standard deviations into the argument of tanh in the logistic law."""


def fill_bounds(
    counts: IntTable,
    mean: FloatTable,
    variance: FloatTable,
    most: Ints,
    coverage: float,
    is_normal: Whole,
    lower: IntTableOut,
    upper: IntTableOut,
) -> None:
    """Fill the bounds of every count [size][node]: the shortest interval with the count and enough probability.

    Args:
        counts: released.
        mean, variance: [node][size].
        most: of every node, furthest distance of a bound from its count.
        coverage: least probability.
        is_normal: 1 where the law is normal, 0 where it is logistic.
        lower, upper: filled.
    """
    for s in range(counts.shape[0]):
        for r in range(counts.shape[1]):
            count = counts[s, r]
            m: float = mean[r, s]
            sd: float = sqrt(max(variance[r, s], LEAST_VARIANCE))
            few: Whole = 0
            enough: Whole = 1
            while mass_around(count, enough, m, sd, is_normal) < coverage:
                few, enough = enough, 2 * enough
            while enough - few > 1:
                middle = (few + enough) // 2
                if mass_around(count, middle, m, sd, is_normal) < coverage:
                    few = middle
                else:
                    enough = middle
            low = first_of(count, enough, m)
            low, high = max(low, 0), low + enough - 1
            if count == 0 and variance[r, s] > NOT_RULED_OUT:
                high = max(high, 1)
            lower[s, r], upper[s, r] = max(low, count - most[r]), min(high, count + most[r])


def first_of(count: Whole, length: Whole, mean: float) -> Whole:
    """Return where the run of so many whole numbers begins that contains a count and is nearest to the mean."""
    return min(max(int(floor(mean - 0.5 * length + 1.0)), count - length + 1), count)


def mass_around(count: Whole, length: Whole, mean: float, sd: float, is_normal: Whole) -> float:
    """Return the probability of that run, cut at 0."""
    first = first_of(count, length, mean)
    mass = mass_below(first + length - 0.5, mean, sd, is_normal)
    return mass if first <= 0 else mass - mass_below(first - 0.5, mean, sd, is_normal)


def mass_below(x: float, mean: float, sd: float, is_normal: Whole) -> float:
    """Return the mass of a normal or logistic law below x."""
    z: float = (x - mean) / sd
    if is_normal:
        return 0.5 * (1.0 + erf(z / sqrt(2.0)))
    return 0.5 * (1.0 + tanh(LOGISTIC * z))
