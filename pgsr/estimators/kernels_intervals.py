"""Kernels of intervals: what is expected of counts, how far they vary about it, and intervals around them.

Intervals are made of the mean and variance of each count; see `count_intervals.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, erfc, exp, floor, pi, pow, sqrt

import numpy as np

from topdown.arrays import (
    Floats,
    FloatsOut,
    FloatTable,
    Ints,
    IntsOut,
    IntTable,
    IntTableOut,
    SingleTable,
    Whole,
)

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
"""Neighbouring sizes are averaged over this factor."""
MIXED_IN: float = 0.2
"""Part of the expected density that is averaged over neighbouring sizes."""
BLOCK: float = 6.0
LEAST_BLOCK: float = 10.0
"""Groups that a block of sizes expects: in noise scales, and at least."""
LEAST_FACTOR: float = 0.02
"""By which a block's answers multiply what a region expects, at least."""
OF_ALL: float = 0.5
"""Part of the mean of a ratio, before the data of its size, that comes from all sizes; set on made-up data."""
PASSES: Whole = 3
OF_SQUARES: float = 3.0
"""Variance of a mean of squared differences times its precision; see `likely_ratio`."""
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


@dataclass(eq=False, repr=False)
class LevelAnswers:
    """What the regions of one level answer, beside what their parents have.

    Args:
        answers: [node][size].
        columns, totals, parent: of every node.
        apart: of every node, how far its rate varies about its parent's, in proportion to the variance of siblings'.
        tails, of_tails: tail counts, of levels above their posterior mean, and their variance, [node][size + 1].
        spread: variance of the parents' number of groups of each size, [node][size].
        first, stop: first node of the level and the one after the last.
        variance: of one answer.
    """

    answers: IntTable
    columns: Ints
    totals: Ints
    parent: Ints
    apart: Floats
    tails: FloatTable
    of_tails: FloatTable
    spread: FloatTable
    first: Whole
    stop: Whole
    variance: float


def fit_tails(here: LevelAnswers, out: FloatsOut) -> None:
    """Fill, per size, the relative variance of siblings' rates of groups of that size or larger.

    One answer tells of all of them, of which there are more beside its noise than of one size.
    """
    answers, tails, of_tails = here.answers, here.tails, here.of_tails
    n = here.answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    usual: FloatsOut = np.full(n, USUAL_RATIO)
    out[:] = usual
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        for r in range(here.first, here.stop):
            g = here.parent[r]
            if here.totals[r] <= 0 or here.totals[r] == here.totals[g]:
                continue
            share = here.totals[r] / here.totals[g]
            for c in range(1, here.columns[r]):
                due = share * max(tails[g, c], 0.0)
                off: float = answers[r, c] - due
                by_chance = here.variance + due * (1.0 - share) + share * share * of_tails[g, c]
                weigh(c, off * off, by_chance, here.apart[r] * due * due, out[c], above, below)
        likely_ratios(above, below, usual, OF_ALL, out)


def fit_siblings(here: LevelAnswers, usual: Floats, out: FloatsOut) -> None:
    """Fill, per size, the relative variance of rates of siblings, fitted over a whole level.

    Rates of many sizes together vary less than those of each where sizes differ by themselves: the usual ratio is then
    too small. Their mean excess over it, the same at all sizes, is fitted to the squares of all of them and added. The
    region that tells most of it is left out: one that is far larger than its siblings tells of itself alone.

    Args:
        usual: mean of the ratio of each size, less the excess, before any data of single sizes: that of `fit_tails`.
        out: filled.
    """
    answers, tails, spread = here.answers, here.tails, here.spread
    n = here.answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    out[:] = usual
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        over: float = 0.0
        under: float = 0.0
        most_over: float = 0.0
        most: float = 0.0
        for r in range(here.first, here.stop):
            g = here.parent[r]
            if here.totals[r] <= 0 or here.totals[r] == here.totals[g]:
                continue
            share = here.totals[r] / here.totals[g]
            stop = n if here.columns[r] == n else here.columns[r] - 1
            own_over: float = 0.0
            own_under: float = 0.0
            for c in range(stop):
                noise = here.variance if c in (0, n - 1) else 2.0 * here.variance
                own = (here.totals[r] if c == 0 else answers[r, c]) - (answers[r, c + 1] if c + 1 < n else 0)
                due = share * max(tails[g, c] - tails[g, c + 1], 0.0)
                by_chance = noise + due * (1.0 - share) + share * share * spread[g, c]
                unit = here.apart[r] * due * due
                more: float = (own - due) * (own - due) - by_chance - usual[c] * unit
                told = weigh(c, (own - due) * (own - due), by_chance, unit, out[c], above, below)
                own_under += told * told
                if told > 0.0:
                    own_over += told * told * more / unit
            over += own_over
            under += own_under
            if own_under > most:
                most_over, most = own_over, own_under
        excess = likely_ratio(over - most_over, under - most, USUAL_RATIO)
        for c in range(n):
            above[c + 1] -= excess * below[c + 1]
        likely_ratios(above, below, usual, 0.0, out)
        for c in range(n):
            out[c] += excess


def smooth_density(tails: Floats, out: FloatsOut) -> None:
    """Fill groups a size, averaged over the sizes from five sixths to six fifths of each."""
    n = tails.shape[0] - 1
    for c in range(n):
        a = min(int((c + 1) / NEAR), c)
        b = min(int((c + 1) * NEAR) + 1, n)
        out[c] = max((tails[a] - tails[b]) / (b - a), 0.0)


def density_variance(of_tails: Floats, out: FloatsOut) -> None:
    """Fill the variance of what `smooth_density` makes of tail counts of such variances."""
    n = of_tails.shape[0] - 1
    for c in range(n):
        a = min(int((c + 1) / NEAR), c)
        b = min(int((c + 1) * NEAR) + 1, n)
        out[c] = (of_tails[a] + of_tails[b]) / ((b - a) * (b - a))


@dataclass(eq=False, repr=False)
class Adapted:
    """What a region expects after its own answers, by size; see `adapt_to_region`.

    Args:
        expected: number of groups.
        left: part of how a block's rates differ from the parent's by which they still differ from the expected ones.
        of_noise: variance of the expected number by the noise of its block.
        learned: covariance of its noise and that of the region's own number, in variances of one answer.
    """

    expected: FloatsOut
    left: FloatsOut
    of_noise: FloatsOut
    learned: FloatsOut


def expect_share(tails: Floats, density: Floats, share: float, out: FloatsOut) -> None:
    """Fill the numbers of groups that a region expects: its share of its parent's, some averaged over sizes.

    Args:
        tails, density: of the parent; see `smooth_density`.
        share: of the region in its groups.
        out: filled.
    """
    n = out.shape[0]
    for c in range(n):
        number: float = max(tails[c] - tails[c + 1], 0.0)
        out[c] = share * ((1.0 - MIXED_IN) * number + MIXED_IN * density[c]) + 1e-4 / n


def adapt_to_region(before: Floats, reference: Ints, scale: float, out: Adapted) -> None:
    """Multiply what a region expects, in blocks of sizes, by how far its own answers differ from it.

    A block expects several noise scales of groups. The ratio of its own number to the expected one is shrunk to 1 by
    the variance of such ratios, beyond noise, over the blocks of the region.

    Args:
        before: expected numbers, of the parent.
        reference: steady tail counts of the region [size + 1].
        scale: of the noise of one answer.
        out: filled.
    """
    n = before.shape[0]
    out.expected[:] = before
    out.left[:] = 1.0
    out.of_noise[:] = 0.0
    out.learned[:] = 0.0
    whole: float = 0.0
    for c in range(n):
        whole += before[c]
    need, noise = max(BLOCK * scale, LEAST_BLOCK), 4.0 * scale * scale
    most = min(int(whole / need), n)
    if most < 2:
        return
    edge: IntsOut = np.zeros(most + 1, dtype=np.int64)
    sums: FloatsOut = np.zeros(most)
    off: FloatsOut = np.zeros(most)
    edge[0] = n
    run: float = 0.0
    k: Whole = 0
    for c in range(n - 1, -1, -1):
        run += before[c]
        if run >= need and k < most - 1:
            sums[k], edge[k + 1] = run, c
            k += 1
            run = 0.0
    sums[k], edge[k + 1] = run, 0
    above: float = 0.0
    below: float = 0.0
    for i in range(k + 1):
        off[i] = reference[edge[i + 1]] - reference[edge[i]] - sums[i]
        above += off[i] * off[i] - noise - sums[i]
        below += sums[i] * sums[i]
    phi = max(above / below, 0.0)
    if phi == 0.0:
        return
    for i in range(k + 1):
        if sums[i] > 0.0:
            signal = phi * sums[i] * sums[i]
            weight = signal / (signal + noise)
            ratio: float = max(1.0 + weight * (off[i] / sums[i]), LEAST_FACTOR)
            for c in range(edge[i + 1], edge[i]):
                part = weight * before[c] / sums[i]
                out.left[c], out.of_noise[c] = 1.0 - weight, part * part * noise
                out.expected[c] *= ratio
    trace_noise(before, reference, edge, sums, off, k, phi, below, noise, out.learned)


def trace_noise(
    before: Floats,
    reference: Ints,
    edge: Ints,
    sums: Floats,
    off: Floats,
    last_block: Whole,
    phi: float,
    below: float,
    noise: float,
    learned: FloatsOut,
) -> None:
    """Add how the noise of a size's own number moves what is expected of it, by Stein's formula.

    An own number is the difference of two answers. A block reads tail counts at its two edges, each the mean of answers
    that isotonic regression pools, and none where it was cut at 0 or at all groups: both answers move it alike unless
    the pool ends between them. The tail counts of edges in one pool move together, and the variance of ratios with
    them.

    Args:
        before, reference, learned: see `adapt_to_region`.
        edge, sums, off: of blocks, from the largest sizes on: where they begin and end, their expected number, and how
            far their own is beyond it.
        last_block: position of the last.
        phi: variance of ratios; `below` is its denominator.
        noise: variance of a block's own number.
    """
    n = before.shape[0]
    j: Whole = 1
    while j <= last_block:
        value = reference[edge[j]]
        first, end, m = edge[j], edge[j] + 1, j
        while end < n and reference[end] == value:
            end += 1
        while first > 1 and reference[first - 1] == value:
            first -= 1
        while m < last_block and edge[m + 1] >= first:
            m += 1
        if 0 < value < reference[0]:
            each: float = 1.0 / (end - first)
            of_phi: float = 2.0 * (off[j - 1] - off[m]) / below * each
            inside, below_it = end - 1, first - 1
            learned[inside] += moved_by(before[inside], sums[j - 1], off[j - 1], each, phi, of_phi, noise)
            learned[below_it] -= moved_by(before[below_it], sums[m], off[m], -each, phi, of_phi, noise)
        j = m + 1


def moved_by(
    before: float, whole: float, off: float, more: float, phi: float, of_phi: float, noise: float
) -> float:
    """Return the derivative of what a size expects, by that of its block's own number and of the variance of ratios."""
    signal = phi * whole * whole
    weight = signal / (signal + noise)
    if whole <= 0.0 or 1.0 + weight * (off / whole) <= LEAST_FACTOR:
        return 0.0
    of_weight = noise * whole * whole / ((signal + noise) * (signal + noise))
    return before / whole * (weight * more + off * of_weight * of_phi)


def fit_adapted(here: LevelAnswers, steady: IntTable, unlike: Floats, out: FloatsOut) -> None:
    """Fill, per size, the relative variance of rates that regions' blocks of sizes do not tell.

    An adapted number follows its block: of how rates differ from the parent's a part is left, whose square is in
    proportion to the variance left. The rest of the squared differences from adapted numbers, less noise and twice its
    covariance with them, is of sizes that differ from their block.

    Args:
        steady: tail counts that regions are adapted to, [node][size + 1].
        unlike: relative variance about the parent's numbers; the mean of what is fitted before any data.
        out: filled.
    """
    answers, tails, spread = here.answers, here.tails, here.spread
    n = here.answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    density: FloatsOut = np.zeros(n)
    before: FloatsOut = np.zeros(n)
    adapted = Adapted(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    out[:] = unlike
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        smoothed: Whole = -1
        for r in range(here.first, here.stop):
            g = here.parent[r]
            if here.totals[r] <= 0 or here.totals[r] == here.totals[g]:
                continue
            share = here.totals[r] / here.totals[g]
            if g != smoothed:
                smooth_density(tails[g], density)
                smoothed = g
            expect_share(tails[g], density, share, before)
            adapt_to_region(before, steady[r], sqrt(0.5 * here.variance), adapted)
            stop = n if here.columns[r] == n else here.columns[r] - 1
            for c in range(stop):
                kept = adapted.left[c] * adapted.left[c]
                if kept == 1.0:
                    continue
                noise = here.variance if c in (0, n - 1) else 2.0 * here.variance
                own = (here.totals[r] if c == 0 else answers[r, c]) - (answers[r, c + 1] if c + 1 < n else 0)
                due: float = adapted.expected[c]
                off_by: float = before[c] - share * max(tails[g, c] - tails[g, c + 1], 0.0)
                unit = here.apart[r] * before[c] * before[c]
                by_chance = noise + due * (1.0 - share) + share * share * spread[g, c] + off_by * off_by
                by_chance += adapted.of_noise[c] + kept * unlike[c] * unit
                square = (own - due) * (own - due) + 2.0 * here.variance * adapted.learned[c]
                weigh(c, square, by_chance, (1.0 - kept) * unit, out[c], above, below)
        likely_ratios(above, below, unlike, 0.0, out)


def fit_neighbours(here: LevelAnswers, out: FloatsOut) -> None:
    """Fill, per size, the relative variance of numbers of groups beside neighbouring sizes, fitted over a whole level.

    They are compared with the regions' own tail counts.
    """
    n = here.answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    usual: FloatsOut = np.full(n, UNEVEN)
    out[:] = usual
    for _ in range(PASSES):
        above[:] = 0.0
        below[:] = 0.0
        for r in range(here.first, here.stop):
            stop = min(here.columns[r], n) - 1
            for c in range(1, stop):
                a = min(int((c + 1) / NEAR), c)
                b = min(int((c + 1) * NEAR) + 1, n)
                if a < 1 or b > stop:
                    continue
                others = 1.0 / (b - a - 1)
                # Its own answers less the mean of the others, in answers of a, c, c + 1 and b.
                own = (here.answers[r, c] - here.answers[r, c + 1]) * (1.0 + others)
                own -= (here.answers[r, a] - here.answers[r, b]) * others
                first = 1.0 if a == c else 1.0 + others
                last = 1.0 if b == c + 1 else 1.0 + others
                noise = first * first + last * last
                noise += (0.0 if a == c else others * others) + (0.0 if b == c + 1 else others * others)
                due = max((here.tails[r, a] - here.tails[r, b]) / (b - a), 0.0)
                by_chance = here.variance * noise + due * (1.0 + others)
                weigh(c, own * own, by_chance, due * due * (1.0 + others), out[c], above, below)
        likely_ratios(above, below, usual, OF_ALL, out)


def weigh(
    c: Whole, square: float, by_chance: float, unit: float, ratio: float, above: FloatsOut, below: FloatsOut
) -> float:
    """Add a squared difference, of mean by_chance + ratio x unit, to the parts of a size's ratio by its precision.

    Returns:
        The root of the precision.
    """
    if unit > 0.0:
        weight = unit / (by_chance + ratio * unit)
        above[c + 1] += weight * weight * (square - by_chance) / unit
        below[c + 1] += weight * weight
        return weight
    return 0.0


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
    error = sqrt(OF_SQUARES / below)
    z = above / (below * error) - error / usual
    if z > FAR_BELOW:
        past = z + exp(-0.5 * z * z) / (sqrt(0.5 * pi) * erfc(-sqrt(0.5) * z))
    else:
        part = 1.0 / (z * z)
        past = -(1.0 - part * (2.0 - 10.0 * part)) / z
    return max(error * past, LEAST_RATIO)
