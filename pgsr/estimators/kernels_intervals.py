"""Kernels of the shortest intervals around counts, given the mean and variance of each; see `count_intervals.py`."""

from __future__ import annotations

from math import erf, exp, floor, pow, sqrt, tanh

import numpy as np

from topdown.arrays import Floats, FloatsOut, FloatTable, Ints, IntTable, IntTableOut, SingleTable, Whole

NOT_RULED_OUT: float = 1e-3
"""Variance of a number of groups from which on its interval also holds where there is a group at all."""
LEAST_VARIANCE: float = 1e-18
LOGISTIC: float = 0.9068996821171089
"""pi / (2 sqrt 3): turns standard deviations into the argument of tanh in the logistic law."""
OF_LOGISTIC: float = 1.2
OF_LAPLACE: float = 3.0
"""Excess kurtosis of the two laws."""


def fill_bounds(
    counts: IntTable,
    mean: FloatTable,
    variance: FloatTable,
    ratio: SingleTable,
    noise: Floats,
    most: Ints,
    coverage: float,
    is_normal: Whole,
    lower: IntTableOut,
    upper: IntTableOut,
) -> None:
    """Fill the bounds of every count [size][node]: the shortest interval with the count and enough probability.

    Enough is `coverage` of all probability, and of that of 1 group or more wherever a group is not ruled out.

    Args:
        counts: released.
        mean, variance: [node][size].
        ratio: of the tail of every number of groups, [node][size]; -1 where only mean and variance are known.
        noise: of every node, variance of the difference of two of its answers.
        most: of every node, furthest distance of a bound from its count.
        coverage: least probability.
        is_normal: 1 where the law is normal, 0 where it is between logistic and Laplace.
        lower, upper: filled.
    """
    law: FloatsOut = np.empty(5)
    for s in range(counts.shape[0]):
        for r in range(counts.shape[1]):
            count = counts[s, r]
            m: float = mean[r, s]
            whole_variance: float = max(variance[r, s], (m - floor(m)) * (1.0 - m + floor(m)))
            fill_law(m, whole_variance, ratio[r, s], noise[r], law)
            few: Whole = 0
            enough: Whole = 1
            of_groups: float = 0.0
            if whole_variance > NOT_RULED_OUT:
                of_groups = 1.0 - mass_to(0, law, is_normal)
            while is_short(count, enough, m, law, is_normal, coverage, of_groups):
                few, enough = enough, 2 * enough
            while enough - few > 1:
                middle = (few + enough) // 2
                if is_short(count, middle, m, law, is_normal, coverage, of_groups):
                    few = middle
                else:
                    enough = middle
            low = first_of(count, enough, m)
            low, high = max(low, 0), low + enough - 1
            if count == 0 and whole_variance > NOT_RULED_OUT:
                high = max(high, 1)
            lower[s, r], upper[s, r] = max(low, count - most[r]), min(high, count + most[r])


def first_of(count: Whole, length: Whole, mean: float) -> Whole:
    """Return where the run of so many whole numbers begins that contains a count and is nearest to the mean."""
    return min(max(int(floor(mean - 0.5 * length + 1.0)), count - length + 1), count)


def is_short(
    count: Whole,
    length: Whole,
    mean: float,
    law: Floats,
    is_normal: Whole,
    coverage: float,
    of_groups: float,
) -> Whole:
    """Return 1 where that run, cut at 0, is improbable, or from 1 on too small a part of `of_groups`; 0 elsewhere."""
    first = first_of(count, length, mean)
    end: float = mass_to(first + length - 1, law, is_normal)
    below: float = mass_to(first - 1, law, is_normal) if first > 0 else 0.0
    if end - below < coverage:
        return 1
    if first <= 0:
        below = mass_to(0, law, is_normal)
    return 1 if of_groups > 0.0 and end - below < coverage * of_groups else 0


def fill_law(mean: float, variance: float, ratio: float, noise: float, law: FloatsOut) -> None:
    """Fill mean and standard deviation of a law, the probability of 1 group or more, and the ratio of its tail.

    Below a mean of 1 a number of groups is 0, or geometric from 1 on. A variance above Poisson's is due to a mean that
    was cut at 0 or fitted too low: the second moment is kept, with the mean that Poisson's law has then. Where the
    ratio is known too, the law has the mean of both. The last entry is the share of Laplace's law from a mean of 1 on:
    it gives the excess kurtosis of the noise, 3/2 + 1 / its variance for two-sided geometrics, as far as the variance
    is that of the noise.
    """
    square = variance + mean * mean
    law[0], law[1], law[2], law[3] = mean, sqrt(max(variance, LEAST_VARIANCE)), -1.0, 0.0
    excess = (1.5 + 1.0 / noise) * min(variance / noise, 1.0)
    law[4] = min(max((excess - OF_LOGISTIC) / (OF_LAPLACE - OF_LOGISTIC), 0.0), 1.0)
    if mean < 1.0 and variance > NOT_RULED_OUT:
        few = max(mean, 0.5 * (sqrt(1.0 + 4.0 * square) - 1.0))
        steps = max(square / few, 1.0)
        law[3] = (steps - 1.0) / (steps + 1.0)
        if ratio >= 0.0:
            law[3] = 0.5 * (law[3] + ratio)
        law[2] = min(few * (1.0 - law[3]), 1.0)


def mass_to(number: Whole, law: Floats, is_normal: Whole) -> float:
    """Return the probability of at most so many groups."""
    if law[2] >= 0.0:
        return 1.0 - law[2] * pow(law[3], number) if number >= 0 else 0.0
    z: float = (number + 0.5 - law[0]) / law[1]
    if is_normal:
        return 0.5 * (1.0 + erf(z / sqrt(2.0)))
    of_laplace: float = law[4]
    tail: float = 0.5 * exp(-sqrt(2.0) * abs(z))
    laplace: float = tail if z < 0.0 else 1.0 - tail
    return (1.0 - of_laplace) * 0.5 * (1.0 + tanh(LOGISTIC * z)) + of_laplace * laplace
