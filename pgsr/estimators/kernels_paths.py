"""Kernels of columns and rows: how many a region has, its answers, and the posterior of its tail counts.

A tail count t_c is the number of groups in row c of the sizes or past it; rank i has e_i cells from column T on.
Arithmetic of the choice is IEEE addition, multiplication, division and square root only, so that every machine
chooses alike. Slow twin: `choice_of` in `group_checks.py`.

The posterior is exact for independent prior numbers of groups of each size.
Walk along the sizes from the largest down. The state t is the number of groups of that size or larger; it grows by the
number of groups of each size. The answer of a column is a noisy t, that of a row the noisy size at which its group
joins, and that of a corner a noisy excess of t over the rows. Forward and backward sums over t give the posterior
(hidden Markov chain). States of negligible probability are left out.
Slow twin: `path_posterior_by_enumeration` in `tests/oracles/group_sizes.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, pow, sqrt

import numpy as np

from pgsr.estimators.kernels_isotonic import pool
from topdown.arrays import Floats, FloatsOut, FloatTable, Ints, IntsOut, IntTable, Whole

GAIN: float = 0.95
"""Rows are chosen below this part of the expected error of columns alone: their posterior takes longer."""
MORE_ROWS: float = 3.0
SPARE_ROWS: Whole = 10

SURPRISE: float = 1e-6
"""Prior weight of one unexpected group of a size; of j of them, in proportion to 1 / j^2."""
FAINT: float = 1e-7
MOST_JUMP: Whole = 2048
USUAL_RATIO: float = 0.25
USUAL_WEIGHT: float = 8.0
ALMOST_ALIKE: float = 0.02
"""Relative variance of siblings' rates before any data, its weight in noise variances, and the least."""
BEYOND: float = 14.0
"""A row's group is sought where its noise is less surprising than exp(-BEYOND)."""
NOT_LARGE: float = 0.1
"""Part of the persons past the columns in whose cells groups are not yet large; set on made-up data."""


def third_root(x: float) -> float:
    """Return x to the power 85/256, by square roots alone: close to the cube root, the same on every machine."""
    a = sqrt(sqrt(x))
    b = sqrt(sqrt(a))
    c = sqrt(sqrt(b))
    return a * b * c * sqrt(sqrt(c))


def falling(values: Ints, high: Whole, out: IntsOut) -> None:
    """Fill the whole numbers nearest to `values` that descend within 0..high, rounded half up."""
    n = values.shape[0]
    sums: IntsOut = np.empty(n, dtype=np.int64)
    weights: IntsOut = np.empty(n, dtype=np.int64)
    last: IntsOut = np.empty(n, dtype=np.int64)
    turned: IntsOut = np.empty(n, dtype=np.int64)
    for i in range(n):
        turned[i] = values[n - 1 - i]
    n_blocks: Whole = pool(turned, np.ones(n, dtype=np.int64), sums, weights, last)
    at: Whole = 0
    for b in range(n_blocks):
        level = min(max((2 * sums[b] + weights[b]) // (2 * weights[b]), 0), high)
        while at <= last[b]:
            out[n - 1 - at] = level
            at += 1


def tails_from_rows(rows: Ints, out: IntsOut) -> None:
    """Fill out[j] with how many rows are longer than j: tail counts from lengths of rows, which descend."""
    k: Whole = rows.shape[0]
    for j in range(out.shape[0]):
        while k > 0 and rows[k - 1] <= j:
            k -= 1
        out[j] = k


def steady_tails(answers: Ints, columns: Whole, rows: Whole, total: Whole, out: IntsOut) -> None:
    """Fill the tail counts of a region that the choices of its parts are made from: descending, whole, from 0 on.

    Args:
        answers: of the region: `columns` tail counts, then `rows` rows, then nothing.
        columns, rows: how it was measured.
        total: its number of groups.
        out: filled; one more than sizes, the last 0.
    """
    n = answers.shape[0]
    out[0] = total
    falling(answers[1:columns], total, out[1:columns])
    out[columns:] = 0
    if rows > 0:
        long: IntsOut = np.empty(rows, dtype=np.int64)
        over: IntsOut = np.empty(n - rows - columns, dtype=np.int64)
        falling(answers[columns : columns + rows], n - columns, long)
        falling(answers[columns + rows :], total - rows, over)
        tails_from_rows(long, out[columns:n])
        for c in range(columns, n):
            if c - columns < over.shape[0] and out[c] == rows:
                out[c] += over[c - columns]
            out[c] = min(out[c], total)
        for c in range(1, columns):
            out[c] = max(out[c], out[columns])


def expected_density(tails: Ints, share: float, out: FloatsOut) -> None:
    """Fill how many groups of each size a region expects: its share of its parent's, over half as many sizes again."""
    n = tails.shape[0] - 1
    for c in range(n):
        end = min((3 * c + 4) // 2 + 1, n)
        out[c] = share * (tails[c] - tails[end]) / (end - c)


def choose_columns_and_rows(tails: Ints, part: Whole, total: Whole, variance: float) -> tuple[int, int]:
    """Return how many columns and rows a region has; all sizes and 0 where rows are not expected to be better.

    Args:
        tails: steady tail counts of its parent.
        part, total: number of groups of the region and of its parent.
        variance: of one answer.
    """
    n = tails.shape[0] - 1
    if total <= 0 or part <= 0:
        return n, 0
    share, scale = part / total, sqrt(variance / 2.0)
    rho: FloatsOut = np.empty(n)
    expected_density(tails, share, rho)
    column: FloatsOut = np.empty(n)
    largest: float = 0.0
    alone: float = 0.0
    for c in range(n):
        column[c] = min(share * tails[c], third_root(variance * rho[c]))
        largest = max(largest, column[c])
        alone += column[c]
    after: float = 0.0
    for c in range(n):
        rho[c] = min(min(rho[c] * scale, third_root(rho[c] * rho[c] * variance)), largest)
        after += rho[c]
    best: float = GAIN * alone
    columns: Whole = n
    rows: Whole = 0
    before: float = 0.0
    for c in range(1, n):
        before += column[c - 1]
        after -= rho[c - 1]
        cost = before + after
        if cost < best:
            k = min(int(ceil(MORE_ROWS * (share * tails[c - 1]))) + SPARE_ROWS, part)
            if 2 * k <= n - c:
                best, columns, rows = cost, c, k
    return columns, rows


def fill_rows(tails: Ints, columns: Whole, rows: Whole, out: IntsOut) -> None:
    """Fill the exact answers of a region from its tail counts: columns, then rows, then corners."""
    n = tails.shape[0]
    for c in range(columns):
        out[c] = tails[c]
    for c in range(columns, n - rows):
        out[c + rows] = max(tails[c] - rows, 0)
    end: Whole = n
    for i in range(rows):
        while end > columns and tails[end - 1] < i + 1:
            end -= 1
        out[columns + i] = end - columns


def prior_of_counts(expected: float, alike: float, begin: Whole, out: FloatsOut) -> Whole:
    """Fill prior weights of 0, 1, ... groups (negative binomial) from `begin` on; return the last that matters."""
    p = expected / (alike + expected)
    w: float = pow(1.0 - p, alike)
    peak: float = w
    out[begin] = w
    j: Whole = 0
    while j < MOST_JUMP and (w > FAINT * peak or j < expected):
        j += 1
        w *= p * (alike + j - 1.0) / j
        out[begin + j] = w + SURPRISE / (j * j)
        peak = max(peak, w)
    return j


@dataclass(eq=False, repr=False)
class PathBuffers:
    """States of a region's paths, and weights of its numbers of groups; the next region is written over them."""

    kept: FloatsOut
    weights: FloatsOut


def grown(values: FloatsOut, used: Whole, more: Whole) -> FloatsOut:
    """Return a longer array of the used values, with room for some more behind them."""
    larger: FloatsOut = np.empty(2 * values.shape[0] + more)
    for i in range(used):
        larger[i] = values[i]
    return larger


def usual_factor(likelihood: Floats) -> float:
    """Return 1 / the geometric mean of the likelihood of noise: products of many then stay near 1."""
    mass: float = likelihood[0]
    surprise: float = 0.0
    for i in range(1, likelihood.shape[0]):
        if likelihood[i] > 0.0:
            mass += 2.0 * likelihood[i]
            surprise -= 2.0 * likelihood[i] * log(likelihood[i])
    return exp(surprise / mass)


def path_posterior(
    answers: Ints,
    measured: Ints,
    reference: Ints,
    expected: Floats,
    alike: Floats,
    likelihood: Floats,
    end: Floats,
    large: Floats,
    mean: FloatsOut,
    variance: FloatsOut,
    spread: FloatsOut,
    ratio: FloatsOut,
    buffers: PathBuffers,
) -> None:
    """Fill posterior mean and variance of the tail counts of a region, from its cell `first` on.

    Args:
        answers: columns, rows, corners [size].
        measured: number of columns, of rows; first cell; cell where large groups begin, or -1.
        reference: steady tail counts [size + 1], near which paths are sought; the first is the number of groups.
        expected: prior number of groups of each size.
        alike: shape of the gamma law by which the rate of each size differs from the expected one.
        likelihood: of noise 0, 1, ... in proportion to that of 0; the last stands for all beyond.
        end: mean and variance of the tail count of the first cell, from other sources; variance 0 where exact.
        large: factors on the prior of 0, 1, ... large groups; the last stands for all beyond.
        mean, variance, spread: filled, of tail counts [size + 1]; variance of the groups of each size [size].
        ratio: filled, of the tail of the law that is geometric from 1 on, with the first two moments.
    """
    n, columns, rows = answers.shape[0], measured[0], measured[1]
    first, begin = measured[2], measured[3]
    reach = likelihood.shape[0] - 1
    low: IntsOut = np.zeros(n + 1, dtype=np.int64)
    start: IntsOut = np.zeros(n + 1, dtype=np.int64)
    width: IntsOut = np.ones(n + 1, dtype=np.int64)
    kept: FloatsOut = buffers.kept
    kept[0] = 1.0
    used: Whole = 1
    span: Whole = 1
    while span < reach and likelihood[span] > exp(-BEYOND):
        span += 1
    even: float = usual_factor(likelihood) if rows > 0 else 1.0
    size_of: IntsOut = np.full(rows, n - columns, dtype=np.int64)
    k: Whole = rows
    for c in range(columns, n):
        while k > 0 and reference[c] < k:
            k -= 1
            size_of[k] = c - columns
    weights: FloatsOut = buffers.weights
    reach_of: IntsOut = np.zeros(n, dtype=np.int64)
    prior: IntsOut = np.zeros(n, dtype=np.int64)
    of_row: FloatsOut = np.empty(reference[0] + 1 if rows > 0 else 1)
    next_prior = 0
    least: Whole = 0
    most: Whole = 0
    for c in range(n - 1, first - 1, -1):
        e = c + 1 - columns
        low_before, from_before = low[c + 1], start[c + 1]
        high_before = low_before + width[c + 1] - 1
        if next_prior + MOST_JUMP + 1 > weights.shape[0]:
            weights = grown(weights, next_prior, MOST_JUMP + 1)
        last = prior_of_counts(expected[c], alike[c], next_prior, weights)
        if c >= columns:
            while least < rows and size_of[least] > e + span:
                least += 1
            while most < rows and size_of[most] >= e - span:
                most += 1
            lo, hi = max(low_before, least), max(most, high_before)
            if most == rows:
                hi = max(hi, high_before + last, reference[c] + 1)
            jumps = max(last, 8, least - low_before)
        else:
            lo = low_before
            hi = max(high_before + last, reference[c] + 1)
            jumps = max(last, reference[c] + 1 - low_before)
        hi = min(hi, reference[0])
        lo = min(lo, hi)
        if c == first and end[1] == 0.0:
            lo = hi = int(end[0])
            jumps = hi - low_before
        if used + hi - lo + 1 > kept.shape[0]:
            kept = grown(kept, used, hi - lo + 1)
        prior[c], reach_of[c] = next_prior, min(jumps, hi - low_before)
        jumps = reach_of[c]
        if next_prior + jumps + 1 > weights.shape[0]:
            weights = grown(weights, next_prior + last + 1, jumps)
        here = next_prior
        for j in range(last + 1, jumps + 1):
            weights[here + j] = SURPRISE / (j * j)
        next_prior += jumps + 1
        if c < columns or low_before >= rows:
            for i in range(used, used + hi - lo + 1):
                kept[i] = 0.0
            for at in range(high_before, low_before - 1, -1):
                mass = kept[from_before + at - low_before]
                for t in range(max(lo, at), min(hi, at + jumps) + 1):
                    kept[used + t - lo] += mass * weights[here + t - at]
        else:
            fill_row_chances(answers, columns, rows, low_before, hi, e, likelihood, even, of_row)
            for t in range(lo, hi + 1):
                total: float = 0.0
                product: float = 1.0
                for j in range(min(jumps, t - low_before) + 1):
                    at = t - j
                    if j > 0:
                        product *= of_row[at - low_before]
                    if at <= high_before:
                        total += kept[from_before + at - low_before] * weights[here + j] * product
                kept[used + t - lo] = total
        observe(answers, columns, rows, c, lo, hi, likelihood, c == first, end, used, kept)
        if c == begin:
            for t in range(lo, hi + 1):
                kept[used + t - lo] *= large[min(t, large.shape[0] - 1)]
        peak: float = 0.0
        for i in range(used, used + hi - lo + 1):
            peak = max(peak, kept[i])
        if peak == 0.0:
            lo = hi = min(max(reference[c], lo), hi)
            kept[used] = peak = 1.0
        a, b = 0, hi - lo
        while b > a and kept[used + b] < FAINT * peak and (c < columns or lo + b > rows):
            b -= 1
        while c < columns and a < b and kept[used + a] < FAINT * peak:
            a += 1
        for i in range(a, b + 1):
            kept[used + i - a] = kept[used + i] / peak
        low[c], start[c], width[c] = lo + a, used, b - a + 1
        used += b - a + 1
    buffers.kept, buffers.weights = kept, weights
    # Of each state of the next cell: the mass that follows it; of the jump: its first moments.
    widest: Whole = 1
    for c in range(first, n + 1):
        widest = max(widest, width[c])
    following: FloatsOut = np.empty(widest)
    back: FloatsOut = np.ones(widest)
    for c in range(first, n):
        lo, w = low[c], width[c]
        before = start[c + 1]
        moments(kept, start[c], w, back, lo, c, mean, variance)
        observe(answers, columns, rows, c, lo, lo + w - 1, likelihood, c == first, end, 0, back)
        if c == begin:
            for i in range(w):
                back[i] *= large[min(lo + i, large.shape[0] - 1)]
        low_next, n_next, e = low[c + 1], width[c + 1], c + 1 - columns
        for i in range(n_next):
            following[i] = 0.0
        here = prior[c]
        whole: float = 0.0
        once: float = 0.0
        twice: float = 0.0
        if c < columns or low_next >= rows:
            for j in range(reach_of[c] + 1):
                ahead = low_next + j - lo
                weight = weights[here + j]
                shared: float = 0.0
                for i in range(max(0, -ahead), min(n_next, w - ahead)):
                    following[i] += weight * back[ahead + i]
                    shared += kept[before + i] * back[ahead + i]
                shared *= weight
                whole += shared
                once += shared * j
                twice += shared * (j * j)
        else:
            fill_row_chances(answers, columns, rows, low_next, lo + w - 1, e, likelihood, even, of_row)
            for i in range(n_next):
                at = low_next + i
                product = 1.0
                follows: float = 0.0
                for t in range(at, min(lo + w, at + reach_of[c] + 1)):
                    j = t - at
                    if j > 0:
                        product *= of_row[t - 1 - low_next]
                    if t >= lo:
                        part = weights[here + j] * product * back[t - lo]
                        follows += part
                        once += kept[before + i] * part * j
                        twice += kept[before + i] * part * (j * j)
                following[i] = follows
                whole += kept[before + i] * follows
        ratio[c] = (twice - once) / (twice + once) if once > 0.0 else 0.0
        spread[c] = max(twice / whole - (once / whole) * (once / whole), 0.0) if whole > 0.0 else 0.0
        peak = 0.0
        for i in range(n_next):
            peak = max(peak, following[i])
        for i in range(n_next):
            back[i] = following[i] / peak if peak > 0.0 else 1.0


def fill_row_chances(
    answers: Ints,
    columns: Whole,
    rows: Whole,
    low: Whole,
    high: Whole,
    size: Whole,
    likelihood: Floats,
    even: float,
    out: FloatsOut,
) -> None:
    """Fill the likelihood that the groups of rows low..high - 1 have this size; of those that were not measured, 1."""
    reach = likelihood.shape[0] - 1
    for at in range(low, min(high, rows)):
        out[at - low] = even * likelihood[min(abs(answers[columns + at] - size), reach)]
    for at in range(max(low, rows), high):
        out[at - low] = 1.0


def observe(
    answers: Ints,
    columns: Whole,
    rows: Whole,
    c: Whole,
    lo: Whole,
    hi: Whole,
    likelihood: Floats,
    is_first: Whole,
    end: Floats,
    begin: Whole,
    values: FloatsOut,
) -> None:
    """Multiply the values of the states lo..hi of a cell, from `begin` on, by the likelihood of what is observed."""
    reach = likelihood.shape[0] - 1
    if is_first:
        if end[1] > 0.0:
            for t in range(lo, hi + 1):
                values[begin + t - lo] *= exp(-0.5 * ((t - end[0]) * (t - end[0])) / end[1])
    elif c < columns:
        for t in range(lo, hi + 1):
            values[begin + t - lo] *= likelihood[min(abs(answers[c] - t), reach)]
    if c >= columns and c + rows < answers.shape[0]:
        for t in range(lo, hi + 1):
            values[begin + t - lo] *= likelihood[min(abs(answers[c + rows] - max(t - rows, 0)), reach)]
    if c == columns and rows > 0:
        product: float = 1.0
        even: float = usual_factor(likelihood)
        for t in range(hi - 1, lo - 1, -1):
            if t < rows:
                product *= even * likelihood[min(abs(answers[columns + t]), reach)]
            values[begin + t - lo] *= product


def moments(
    kept: Floats,
    begin: Whole,
    width: Whole,
    back: FloatsOut,
    lo: Whole,
    c: Whole,
    mean: FloatsOut,
    variance: FloatsOut,
) -> None:
    """Fill mean and variance of one cell; the products of values kept and values from behind are its law."""
    total: float = 0.0
    first: float = 0.0
    second: float = 0.0
    for i in range(width):
        total += kept[begin + i] * back[i]
    if total <= 0.0:
        total = 0.0
        for i in range(width):
            back[i] = 1.0
            total += kept[begin + i]
    for i in range(width):
        p = kept[begin + i] * back[i] / total
        first += p * i
        second += p * i * i
    mean[c], variance[c] = lo + first, max(second - first * first, 0.0)


def fit_alikeness(
    answers: IntTable,
    columns: Ints,
    totals: Ints,
    parent: Ints,
    tails: FloatTable,
    level: Ints,
    scale: float,
    out: FloatsOut,
) -> None:
    """Fill, per size, the shape of the gamma law by which rates of siblings differ, fitted over a whole level.

    Its inverse is their relative variance.

    Args:
        answers: [node][size].
        columns: of every node.
        totals, parent: of every node.
        tails: posterior mean tail counts of the parents, [node][size + 1].
        level: first node and the one after the last.
        scale: of the noise of one answer; its variance is 2 scale^2.
        out: filled.
    """
    n = answers.shape[1]
    above: FloatsOut = np.zeros(n + 1)
    below: FloatsOut = np.zeros(n + 1)
    for r in range(level[0], level[1]):
        g = parent[r]
        if totals[r] <= 0 or totals[r] == totals[g]:
            continue
        share = totals[r] / totals[g]
        stop = n if columns[r] == n else columns[r] - 1
        for c in range(stop):
            noise = 2.0 * scale * scale if c in (0, n - 1) else 4.0 * scale * scale
            own = (totals[r] if c == 0 else answers[r, c]) - (answers[r, c + 1] if c + 1 < n else 0)
            due = share * max(tails[g, c] - tails[g, c + 1], 0.0)
            above[c + 1] += (own - due) * (own - due) - noise - due * (1.0 - share)
            below[c + 1] += due * due
    for c in range(n):
        above[c + 1] += above[c]
        below[c + 1] += below[c]
    usual = 4.0 * scale * scale * USUAL_WEIGHT
    for c in range(n):
        a = max(min(int(0.8 * c), c - 1), 0)
        b = min(max(int(1.25 * c) + 1, c + 2), n)
        ratio = (above[b] - above[a] + USUAL_RATIO * usual) / (below[b] - below[a] + usual)
        out[c] = 1.0 / min(max(ratio, ALMOST_ALIKE), 1.0)


def weigh_large(
    expected: Floats, alike: Floats, columns: Whole, clustering: float, factors: FloatsOut
) -> Whole:
    """Fill what a common rate of large groups changes of the prior of their number; return the cell they begin at.

    The prior of independent sizes cannot tell regions with many large groups from regions with none. Both laws of the
    number are negative binomial with the same mean, and may be surprised at any size. Groups are large where nine in
    ten of the persons past the columns are.

    Args:
        expected, alike: see `path_posterior`.
        columns: measured as such.
        clustering: relative variance of the number of large groups, beyond that of independent groups.
        factors: filled, of 0, 1, ... large groups.
    """
    n = expected.shape[0]
    tail: float = 0.0
    persons: float = 0.0
    for c in range(n - 1, columns - 1, -1):
        tail += expected[c]
        persons += tail
    begin: Whole = columns
    passed: float = 0.0
    while begin < n - 1 and passed + tail < NOT_LARGE * persons:
        passed += tail
        tail -= expected[begin]
        begin += 1
    mean: float = 0.0
    apart: float = 0.0
    for c in range(begin, n):
        mean += expected[c]
        apart += expected[c] * expected[c] / alike[c]
    factors[:] = 1.0
    if clustering * mean * mean <= apart:
        return begin
    old, new = mean * mean / apart, 1.0 / clustering
    was: float = pow(old / (old + mean), old)
    now: float = pow(new / (new + mean), new)
    if was == 0.0:
        return begin
    for t in range(factors.shape[0]):
        surprise: float = 0.0
        if t > 0:
            was *= (old + t - 1.0) / t * mean / (old + mean)
            now *= (new + t - 1.0) / t * mean / (new + mean)
            surprise = SURPRISE * (n - begin) / (t * t)
        factors[t] = (now + surprise) / (was + surprise)
    return begin
