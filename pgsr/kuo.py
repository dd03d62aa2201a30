"""The method of Kuo, Cho, Kifer and Machanavajjhala (2018) as a peer in `pgsr compare`; no release has it.

Every region's number of groups is public. A level measures cumulative counts ("cumulative") or the sorted sizes of
its groups ("sizes"); from the root down the groups of a parent are matched to those of its children in order of
size, and matched groups take the mean of both sizes by inverse variance. The leaves are summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel
from pgsr.hierarchy import Ints, Tree
from pgsr.kernels import isotonic_rows_real
from pgsr.medians import median_isotonic

Floats = NDArray[np.float64]
FORMS = ("cumulative", "sizes")
MOST_GROUPS = 3_000_000
"""Sorted sizes need one answer a group and level; past this many they are not compared."""
Draw = Callable[[int, tuple[int, ...]], Ints]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of one region in order of size, equal ones together.

    Args:
        size: row of the size, ascending.
        variance: of the size.
        count: number of groups, above 0.
    """

    size: Ints
    variance: Floats
    count: Ints


def kuo_counts(tree: Tree, truth: Ints, forms: Sequence[str], scales: Sequence[float], draw: Draw) -> Ints:
    """Return simulated counts [size][node]: reads the truth, which must be made up or public.

    Args:
        tree: the regions.
        truth: true counts [size][node]; only the numbers of groups are taken to be public.
        forms: of `FORMS`, one a level, root first.
        scales: of the noise of every level.
        draw: returns noise of a level in a shape.
    """
    found: list[Groups] = []
    for level, form in enumerate(forms):
        here = tree.columns(level)
        measured = _cumulative if form == "cumulative" else _sorted_sizes
        found += measured(truth[:, here], scales[level], partial(draw, level))
    for g in range(tree.n_inner):
        b, e = int(tree.first_child[g]), int(tree.first_child[g + 1])
        found[b:e] = _matched(found[g], found[b:e], len(truth))
    leaves = np.zeros((len(truth), tree.n_leaves), dtype=np.int64)
    for i, groups in enumerate(found[tree.n_inner :]):
        np.add.at(leaves[:, i], groups.size, groups.count)
    return tree.sums(leaves)


def _cumulative(truth: Ints, scale: float, draw: Callable[[tuple[int, ...]], Ints]) -> list[Groups]:
    """Return groups from noisy cumulative counts: isotonic medians within 0..G; variance of a size 4 b^2 / count."""
    totals = truth.sum(axis=0)
    noisy = np.cumsum(truth, axis=0) + draw(truth.shape)
    found = []
    for i, total in enumerate(totals.tolist()):
        rising = np.clip(np.floor(median_isotonic(noisy[:, i].astype(np.float64)) + 0.5), 0, total)
        rising[-1] = total
        counts = np.diff(rising, prepend=0.0).astype(np.int64)
        size = np.flatnonzero(counts)
        found.append(Groups(size, 4.0 * scale * scale / counts[size], counts[size]))
    return found


def _sorted_sizes(truth: Ints, scale: float, draw: Callable[[tuple[int, ...]], Ints]) -> list[Groups]:
    """Return groups from the noisy sizes of all groups in order, made ascending; variance 2 b^2 / block."""
    found = []
    rows = np.arange(len(truth))
    for i in range(truth.shape[1]):
        true = np.repeat(rows, truth[:, i])
        if len(true) == 0:
            found.append(Groups(true, np.empty(0), true))
            continue
        fitted = np.empty((1, len(true)))
        noisy = (true + draw(true.shape)).astype(np.float64)[None, :]
        isotonic_rows_real(noisy, np.full(1, -np.inf), np.full(1, np.inf), fitted)
        _, start, block = np.unique(fitted[0], return_index=True, return_counts=True)
        size = np.clip(np.floor(fitted[0, start] + 0.5), 0, len(truth) - 1).astype(np.int64)
        found.append(Groups(size, 2.0 * scale * scale / block, block.astype(np.int64)))
    return found


def _matched(parent: Groups, children: Sequence[Groups], n_sizes: int) -> list[Groups]:
    """Return the children's groups after they met their parent's, in order of size."""
    child = np.repeat(np.arange(len(children)), [len(c.size) for c in children])
    size = np.concatenate([c.size for c in children])
    variance = np.concatenate([c.variance for c in children])
    count = np.concatenate([c.count for c in children])
    order = np.lexsort((child, size))
    most = 4 * (len(size) + len(parent.size) * len(children)) + 16
    out = np.empty((most, 4))
    n = match(
        (parent.size, parent.count, size[order], count[order].copy()),
        (parent.variance, variance[order]),
        child[order],
        out,
    )
    rows = out[:n]
    new = np.minimum(np.floor(rows[:, 1] + 0.5), n_sizes - 1)
    again = np.lexsort((new, rows[:, 0]))
    rows, new = rows[again], new[again].astype(np.int64)
    bounds = np.searchsorted(rows[:, 0], np.arange(len(children) + 1))
    cut = [slice(bounds[c], bounds[c + 1]) for c in range(len(children))]
    return [Groups(new[here], rows[here, 2], rows[here, 3].astype(np.int64)) for here in cut]


@kernel
def match(
    runs: tuple[Ints, Ints, Ints, Ints], variances: tuple[Floats, Floats], child: Ints, out: Floats
) -> int:
    """Fill rows (child, mean size, variance, groups) of matched groups; return how many.

    Children with groups of one size share the parent's in proportion to what they have left.

    Args:
        runs: size and count of the parent's groups; size and count of the children's, ascending; the last is used up.
        variances: of both.
        child: whose each of the children's runs is.
    """
    size_p, count_p, size_c, left = runs
    var_p, var_c = variances
    n, i, have = 0, 0, 0
    start = 0
    while start < size_c.shape[0]:
        stop, tied = start, 0
        while stop < size_c.shape[0] and size_c[stop] == size_c[start]:
            tied += left[stop]
            stop += 1
        while tied > 0:
            if have == 0:
                have = count_p[i]
                i += 1
            m = min(have, tied)
            given = 0
            fraction = np.full(stop - start, -1.0)
            take = np.zeros(stop - start, dtype=np.int64)
            for j in range(start, stop):
                exact = m * (left[j] / tied)
                take[j - start] = min(int(exact), left[j])
                given += take[j - start]
                if take[j - start] < left[j]:
                    fraction[j - start] = exact - take[j - start]
            while given < m:
                best = int(np.argmax(fraction))
                take[best] += 1
                fraction[best] = fraction[best] - 1.0 if take[best] < left[start + best] else -1e300
                given += 1
            for j in range(start, stop):
                if take[j - start] > 0:
                    wp, wc = 1.0 / var_p[i - 1], 1.0 / var_c[j]
                    out[n, 0] = child[j]
                    out[n, 1] = (wp * size_p[i - 1] + wc * size_c[j]) / (wp + wc)
                    out[n, 2] = 1.0 / (wp + wc)
                    out[n, 3] = take[j - start]
                    left[j] -= take[j - start]
                    n += 1
            have -= m
            tied -= m
        start = stop
    return n
