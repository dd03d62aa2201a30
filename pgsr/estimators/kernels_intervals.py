"""Kernels of intervals: how far counts vary about what is expected, and intervals around them.

Intervals are made of the mean and variance of each count; see `count_intervals.py`.
"""

from __future__ import annotations

from math import erf, erfc, exp, floor, pi, pow, sqrt

import numpy as np

from topdown.arrays import Floats, FloatsOut, FloatTable, Ints, IntTable, IntTableOut, SingleTable, Whole

NOT_RULED_OUT: float = 1e-3
"""Variance of a number of groups from which on its interval also holds where there is a group at all."""
LEAST_VARIANCE: float = 1e-18
OF_LAPLACE: float = 3.0
"""Excess kurtosis of Laplace's law; in a mixture with the normal law of the same variance, as much as its share."""
OF_RATES: float = 0.9
"""Excess kurtosis of a gamma law of relative variance 0.15, for rates that are not known; set on made-up data."""
USUAL_RATIO: float = 0.25
"""Mean relative variance of siblings' rates before any data."""
UNEVEN: float = 0.05
"""Mean relative variance, before any data, of a size's number of groups beside neighbouring sizes of the region; set on
made-up data."""
NEAR: float = 1.2
"""Of `kernels_paths.py`: sizes are averaged over this factor."""
OF_ALL: float = 0.5
"""Part of the mean of a ratio, before the data of its size, that comes from all sizes; set on made-up data."""
PASSES: Whole = 3
HARDLY_KNOWN: float = 1e-8
FAR_BELOW: float = -25.0
LEAST_RATIO: float = 1e-6
BY_SIZE: float = 0.7548776662466927
BY_NODE: float = 0.5698402909980532
"""1 / x and 1 / x^2 for x^3 = x + 1: fractional parts of sums of their multiples fill 0 to 1 evenly."""


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
    """Fill the bounds of every count [size][node]: runs with the count that have the coverage on average over cells.

    The longest with less, or the shortest with at least that much: the longer one in as many of all cells as makes
    their mean the coverage. Which cells these are depends on the places of size and node alone, at every coverage on
    the same number between 0 and 1: so runs of more coverage hold those of less. The probability is
    `probability_of_run`.

    Args:
        counts: released.
        mean, variance: [node][size].
        ratio: of the tail of every number of groups, [node][size]; -1 where only mean and variance are known.
        noise: of every node, variance of the difference of two of its answers.
        most: of every node, furthest distance of a bound from its count.
        coverage: probability that is asked for.
        is_normal: 1 where the noise is normal.
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
            short: float = 0.0
            held: float = probability_of_run(count, enough, m, law, is_normal, of_groups)
            while held < coverage:
                few, enough, short = enough, 2 * enough, held
                held = probability_of_run(count, enough, m, law, is_normal, of_groups)
            while enough - few > 1:
                middle = (few + enough) // 2
                found: float = probability_of_run(count, middle, m, law, is_normal, of_groups)
                if found < coverage:
                    few, short = middle, found
                else:
                    enough, held = middle, found
            place: float = 0.5 + BY_SIZE * s + BY_NODE * r
            is_longer = coverage - short > (place - floor(place)) * (held - short)
            length = enough if few == 0 or is_longer else few
            low = first_of(count, length, m)
            low, high = max(low, 0), low + length - 1
            if count == 0 and whole_variance > NOT_RULED_OUT:
                high = max(high, 1)
            lower[s, r], upper[s, r] = max(low, count - most[r]), min(high, count + most[r])


def first_of(count: Whole, length: Whole, mean: float) -> Whole:
    """Return where the run of so many whole numbers begins that contains a count and is nearest to the mean."""
    return min(max(int(floor(mean - 0.5 * length + 1.0)), count - length + 1), count)


def probability_of_run(
    count: Whole, length: Whole, mean: float, law: Floats, is_normal: Whole, of_groups: float
) -> float:
    """Return the probability of that run, cut at 0; where less, that of its numbers from 1 on in proportion to all.

    Args:
        of_groups: probability of 1 group or more; 0 where a group is ruled out.
    """
    first = first_of(count, length, mean)
    end: float = mass_to(first + length - 1, law, is_normal)
    below: float = mass_to(first - 1, law, is_normal) if first > 0 else 0.0
    if of_groups <= 0.0:
        return end - below
    from_one: float = below if first > 0 else mass_to(0, law, is_normal)
    return min(end - below, (end - from_one) / of_groups)


def fill_law(mean: float, variance: float, ratio: float, noise: float, law: FloatsOut) -> None:
    """Fill mean and standard deviation of a law, the probability of 1 group or more, and the ratio of its tail.

    Below a mean of 1 a number of groups is 0, or geometric from 1 on. A variance above Poisson's is due to a mean that
    was cut at 0 or fitted too low: the second moment is kept, with the mean that Poisson's law has then. Where the
    ratio is known too, the law has the mean of both. From a mean of 1 on it is normal and Laplace's; the last entry is
    the share of Laplace's, which gives the excess kurtosis of rates, or that of the noise as far as the variance is
    that of the noise: 3/2 + 1 / its variance for two-sided geometrics.
    """
    square = variance + mean * mean
    law[0], law[1], law[2], law[3] = mean, sqrt(max(variance, LEAST_VARIANCE)), -1.0, 0.0
    excess = (1.5 + 1.0 / noise) * min(variance / noise, 1.0)
    law[4] = min(max(excess, OF_RATES) / OF_LAPLACE, 1.0)
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
    probability: float = 0.5 * (1.0 + erf(z / sqrt(2.0)))
    if not is_normal:
        tail: float = 0.5 * exp(-sqrt(2.0) * abs(z))
        probability += law[4] * ((tail if z < 0.0 else 1.0 - tail) - probability)
    return probability


def fit_tails(
    answers: IntTable,
    columns: Ints,
    totals: Ints,
    parent: Ints,
    apart: Floats,
    tails: FloatTable,
    of_tails: FloatTable,
    level: Ints,
    variance: float,
    out: FloatsOut,
) -> None:
    """Fill, per size, the relative variance of siblings' rates of groups of that size or larger.

    One answer tells of all of them, of which there are more beside its noise than of one size.

    Args:
        of_tails: variance of the posterior mean tail counts of the parents, [node][size + 1].
        out: filled.

    For the others see `fit_siblings`.
    """
    n = answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    usual: FloatsOut = np.full(n, USUAL_RATIO)
    out[:] = usual
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        for r in range(level[0], level[1]):
            g = parent[r]
            if totals[r] <= 0 or totals[r] == totals[g]:
                continue
            share = totals[r] / totals[g]
            for c in range(1, columns[r]):
                due = share * max(tails[g, c], 0.0)
                off: float = answers[r, c] - due
                by_chance = variance + due * (1.0 - share) + share * share * of_tails[g, c]
                weigh(c, off * off, by_chance, apart[r] * due * due, out[c], above, below)
        likely_ratios(above, below, usual, OF_ALL, out)


def fit_siblings(
    answers: IntTable,
    columns: Ints,
    totals: Ints,
    parent: Ints,
    apart: Floats,
    tails: FloatTable,
    spread: FloatTable,
    usual: Floats,
    level: Ints,
    variance: float,
    out: FloatsOut,
) -> None:
    """Fill, per size, the relative variance of rates of siblings, fitted over a whole level.

    Args:
        answers: [node][size].
        columns, totals, parent: of every node.
        apart: of every node, how far its rate varies about its parent's, in proportion to that variance.
        tails: posterior mean tail counts of the parents, [node][size + 1].
        spread: variance of their number of groups of each size, [node][size].
        usual: mean of the ratio of each size before its own data: that of `fit_tails`.
        level: first node and the one after the last.
        variance: of one answer.
        out: filled.
    """
    n = answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    out[:] = usual
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        for r in range(level[0], level[1]):
            g = parent[r]
            if totals[r] <= 0 or totals[r] == totals[g]:
                continue
            share = totals[r] / totals[g]
            stop = n if columns[r] == n else columns[r] - 1
            for c in range(stop):
                noise = variance if c in (0, n - 1) else 2.0 * variance
                own = (totals[r] if c == 0 else answers[r, c]) - (answers[r, c + 1] if c + 1 < n else 0)
                due = share * max(tails[g, c] - tails[g, c + 1], 0.0)
                by_chance = noise + due * (1.0 - share) + share * share * spread[g, c]
                weigh(c, (own - due) * (own - due), by_chance, apart[r] * due * due, out[c], above, below)
        likely_ratios(above, below, usual, 0.0, out)


def fit_neighbours(
    answers: IntTable, columns: Ints, tails: FloatTable, level: Ints, variance: float, out: FloatsOut
) -> None:
    """Fill, per size, the relative variance of numbers of groups beside neighbouring sizes, fitted over a whole level.

    Args:
        answers: [node][size].
        columns: of every node.
        tails: estimated tail counts, [node][size + 1].
        level: first node and the one after the last.
        variance: of one answer.
        out: filled.
    """
    n = answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    usual: FloatsOut = np.full(n, UNEVEN)
    out[:] = usual
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        for r in range(level[0], level[1]):
            stop = min(columns[r], n) - 1
            for c in range(1, stop):
                a = min(int((c + 1) / NEAR), c)
                b = min(int((c + 1) * NEAR) + 1, n)
                if a < 1 or b > stop:
                    continue
                others = 1.0 / (b - a - 1)
                # Its own answers less the mean of the others, in answers of a, c, c + 1 and b.
                own = (answers[r, c] - answers[r, c + 1]) * (1.0 + others)
                own -= (answers[r, a] - answers[r, b]) * others
                first = 1.0 if a == c else 1.0 + others
                last = 1.0 if b == c + 1 else 1.0 + others
                noise = first * first + last * last
                noise += (0.0 if a == c else others * others) + (0.0 if b == c + 1 else others * others)
                due = max((tails[r, a] - tails[r, b]) / (b - a), 0.0)
                by_chance = variance * noise + due * (1.0 + others)
                weigh(c, own * own, by_chance, due * due * (1.0 + others), out[c], above, below)
        likely_ratios(above, below, usual, OF_ALL, out)


def weigh(
    c: Whole, square: float, by_chance: float, unit: float, ratio: float, above: FloatsOut, below: FloatsOut
) -> None:
    """Add a squared difference, of mean by_chance + ratio x unit, to the parts of a size's ratio by its precision."""
    if unit > 0.0:
        weight = unit / (by_chance + ratio * unit)
        above[c + 1] += weight * weight * (square - by_chance) / unit
        below[c + 1] += weight * weight


def likely_ratios(above: FloatsOut, below: FloatsOut, usual: Floats, of_all: float, out: FloatsOut) -> None:
    """Fill the posterior mean of a ratio at every size, from sums over sizes within a tenth of it.

    Before these it is exponential, with the usual mean, or one between that and what all sizes say.

    Args:
        above, below: parts of the ratio, from the second entry on; replaced by their running sums.
        usual: mean of the ratio of each size before any data.
        of_all: part of that mean that comes from all sizes.
        out: filled.
    """
    n = out.shape[0]
    for c in range(n):
        above[c + 1] += above[c]
        below[c + 1] += below[c]
    over: float = float(above[n])
    under: float = float(below[n])
    for c in range(n):
        before: float = usual[c]
        if of_all > 0.0:
            before += of_all * (likely_ratio(over, under, before) - before)
        a, b = int(0.9 * c), min(int(1.1 * c) + 1, n)
        out[c] = likely_ratio(float(above[b] - above[a]), float(below[b] - below[a]), before)


def likely_ratio(above: float, below: float, usual: float) -> float:
    """Return the mean of above / below, of normal error, that is exponential before any data.

    Its parts are weighted by precision, which they are in units of. Neighbouring sizes share an answer: the covariance
    of their squares is a quarter of the variance, so that the variance of a mean is 3 / below instead of 2.
    """
    if below * usual * usual <= HARDLY_KNOWN:
        return usual
    error = sqrt(3.0 / below)
    z = above / (below * error) - error / usual
    if z > FAR_BELOW:
        past = z + exp(-0.5 * z * z) / (sqrt(0.5 * pi) * erfc(-sqrt(0.5) * z))
    else:
        part = 1.0 / (z * z)
        past = -(1.0 - part * (2.0 - 10.0 * part)) / z
    return max(error * past, LEAST_RATIO)
