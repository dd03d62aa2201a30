"""Kernels that fit how alike siblings are, and shrink each to its parent.

Rows are regions, columns sizes. The last size is left out: its cumulative count is the region's total.
Slow twin: `shrink_by_rationals` in `tests/oracles/group_sizes.py`.
"""

from __future__ import annotations

from math import pow, sqrt

import numpy as np

from topdown.arrays import (
    Bools,
    Floats,
    FloatsOut,
    FloatTable,
    FloatTableOut,
    Ints,
    IntTable,
    SingleTable,
    Whole,
)

PHI_START, LEAST_SPREAD, TRUST_ROUNDS, SPREAD_PASSES = 1e-4, 0.0025, 3, 3
ISOTONIC: float = 0.2
DOUBT: float = 0.5
"""Standard errors by which siblings may differ more than is fitted, in variances; set on made-up data."""


def fit_tree_rows(values: FloatTableOut, first_child: Ints, own: FloatTable, share: FloatTable) -> None:
    """Replace values [node][size] by the consistent ones nearest to them, as `TreeLeastSquares.fit` does.

    Args:
        values: changed in place.
        first_child: see `Tree.first_child`.
        own, share: of `TreeLeastSquares`, one a node, (n_nodes, 1); or of `share_cells`, one a node and size.
    """
    n_inner, n = first_child.shape[0] - 1, values.shape[1]
    by_size: Whole = 1 if own.shape[1] > 1 else 0
    sums: FloatsOut = np.empty(n)
    for g in range(n_inner - 1, -1, -1):
        sums[:] = 0.0
        for c in range(first_child[g], first_child[g + 1]):
            for s in range(n):
                sums[s] += values[c, s]
        for s in range(n):
            values[g, s] = sums[s] + own[g, s * by_size] * (values[g, s] - sums[s])
    for g in range(n_inner):
        for s in range(n):
            sums[s] = values[g, s]
        for c in range(first_child[g], first_child[g + 1]):
            for s in range(n):
                sums[s] -= values[c, s]
        for c in range(first_child[g], first_child[g + 1]):
            for s in range(n):
                values[c, s] += sums[s] * share[c, s * by_size]


def narrow_by_tree(variance: FloatTableOut, heard: SingleTable, first_child: Ints) -> None:
    """Lower the variances of counts by what regions and their parts say of each other: least squares on the tree.

    A region whose count comes from its prior says nothing new of its parent, which the prior was made from.

    Args:
        variance: [node][size], changed in place.
        heard: how far a count comes from a region's own answers, 0..1, [node][size].
        first_child: see `Tree.first_child`.
    """
    n_inner = first_child.shape[0] - 1
    for g in range(n_inner - 1, -1, -1):
        for s in range(variance.shape[1]):
            parts: float = 0.0
            for c in range(first_child[g], first_child[g + 1]):
                parts += variance[c, s]
            if variance[g, s] > 0.0:
                variance[g, s] -= heard[g, s] * (variance[g, s] * variance[g, s]) / (variance[g, s] + parts)
    for g in range(n_inner):
        for s in range(variance.shape[1]):
            parts = 0.0
            for c in range(first_child[g], first_child[g + 1]):
                parts += variance[c, s]
            if parts == 0.0:
                continue
            known = 1.0 - min(variance[g, s] / parts, 1.0)
            for c in range(first_child[g], first_child[g + 1]):
                variance[c, s] -= heard[c, s] * known * (variance[c, s] * variance[c, s]) / parts


def block_precision(base: Floats, own: float, joint: float, out: FloatsOut) -> None:
    """Fill the precision of every cumulative count of a region: of its own block of sizes, at least `joint`.

    Args:
        base: isotonic cumulative counts.
        own: precision of one answer of the region.
        joint: precision of one size from all levels together.
        out: filled; its last entry is not used.
    """
    n = base.shape[0] - 1
    out[n] = joint
    i: Whole = 0
    while i < n:
        j = i
        while j < n and base[j] == base[i]:
            j += 1
        for k in range(i, j):
            out[k] = max(joint, (j - i) * own)
        i = j


def isotonic_noise(base: FloatTable, own: Floats, noise: FloatTableOut) -> None:
    """Lower the variance of cumulative counts to what isotonic regression leaves where few groups have each size.

    Where a size has rho groups and an answer the variance v, it is some (4 v rho)^(2/3) / 5, times 0.263 / 0.2 by
    Chernoff's law; at least half of that of a block's mean.

    Args:
        base: isotonic cumulative counts [node][size].
        own: precision of one answer of every node.
        noise: variances [node][size], lowered in place.
    """
    n = base.shape[1]
    for r in range(base.shape[0]):
        i: Whole = 0
        while i < n - 1:
            j = i
            while j < n - 1 and base[r, j] == base[r, i]:
                j += 1
            block = 0.5 / ((j - i) * own[r])
            for k in range(i, j):
                low: float = base[r, k - 3] if k >= 3 else 0.0
                high = min(k + 2, n - 1)
                rho = max(base[r, high] - low, 0.0) / (high - max(k - 3, -1))
                noise[r, k] = min(noise[r, k], max(block, ISOTONIC * pow(4.0 * rho / own[r], 2.0 / 3.0)))
            i = j


def parent_chance(parent: Floats, chance: FloatsOut, part: FloatsOut) -> float:
    """Fill F (1 - F) and the parent's histogram as shares; return how many sizes share it evenly, 1 / sum p^2.

    Args:
        parent: cumulative counts of the parent, the last its number of groups, >= 1.
        chance, part: filled.
    """
    n = parent.shape[0] - 1
    of_parent = parent[n]
    peak: float = 0.0
    before: float = 0.0
    for s in range(n + 1):
        part[s] = max(parent[s] - before, 0.0) / of_parent
        before = parent[s]
        peak += part[s] * part[s]
        f = min(max(parent[s] / of_parent, 0.5 / of_parent), 1.0 - 0.5 / of_parent)
        chance[s] = f * (1.0 - f)
    return 1.0 / peak


def fit_sibling_spread(
    parent: Floats,
    base: FloatTable,
    noise: FloatTable,
    totals: Floats,
    shrinks: Bools,
    phi: FloatsOut,
    trust: FloatsOut,
) -> None:
    """Fill how much siblings differ (phi, per size) and how far each is like the others (trust, 0..1).

    Args:
        parent: cumulative counts of the parent, the last its number of groups, >= 1.
        base, noise: cumulative counts and the variance of their noise, a row a child.
        totals: number of groups of every child.
        shrinks: which children are shrunk at all.
        phi, trust: filled.
    """
    n_children, n = base.shape[0], base.shape[1] - 1
    chance: FloatsOut = np.empty(n + 1)
    part: FloatsOut = np.empty(n + 1)
    k = parent_chance(parent, chance, part)
    above: FloatsOut = np.empty(n)
    below: FloatsOut = np.empty(n)
    for c in range(n_children):
        trust[c] = 1.0 if shrinks[c] else 0.0
    rounds: Whole = TRUST_ROUNDS
    passes: Whole = SPREAD_PASSES
    start: float = PHI_START
    least: float = LEAST_SPREAD
    for _ in range(rounds):
        phi[:] = start
        for _ in range(passes):
            above[:] = 0.0
            below[:] = 0.0
            for c in range(n_children):
                a = totals[c] / parent[n]
                random, scale = totals[c] * (1.0 - a), totals[c] * totals[c] * (1.0 - a)
                if scale == 0.0 or trust[c] == 0.0:
                    continue
                for s in range(n):
                    known = noise[c, s] + random * chance[s]
                    off = base[c, s] - a * parent[s]
                    whole = known + phi[s] * scale
                    worth = trust[c] * scale / (whole * whole)
                    above[s] += worth * (off * off - known)
                    below[s] += worth * scale
            for s in range(n):
                phi[s] = max(above[s] / below[s], 0.0) if below[s] > 0.0 else 0.0
        for c in range(n_children):
            if not shrinks[c]:
                continue
            a = totals[c] / parent[n]
            odd: float = 0.0
            random, scale = totals[c] * (1.0 - a), totals[c] * totals[c] * (1.0 - a)
            for s in range(n):
                off = base[c, s] - a * parent[s]
                v = max(random * chance[s] + phi[s] * scale, least)
                odd += part[s] * off * off / (noise[c, s] + v)
            trust[c] = min(1.0, (0.5 + k) / (0.5 + k * odd))


def excess_of_siblings(
    answers: IntTable,
    columns: Ints,
    totals: Ints,
    base: FloatTable,
    first_child: Ints,
    first: Whole,
    stop: Whole,
    variance: float,
) -> float:
    """Return by how much cumulative shares of siblings differ beyond noise, squared, on average over the groups.

    Args:
        answers: noisy tail counts [node][size], as far as `columns` of every node.
        totals: number of groups of every node.
        base: cumulative counts [node][size].
        first_child: see `Tree.first_child`.
        first, stop: first region of the parents' level and the one after the last.
        variance: of one answer.
    """
    excess: float = 0.0
    scale: float = 0.0
    for g in range(first, stop):
        for c in range(first_child[g], first_child[g + 1]):
            if totals[c] == 0:
                continue
            random = totals[c] * (1.0 - totals[c] / totals[g])
            before: float = 0.0
            for s in range(min(columns[c], base.shape[1]) - 1):
                share = base[g, s] / totals[g]
                off = totals[c] - answers[c, s + 1] - totals[c] * share
                excess += (off * off - variance - share * (1.0 - share) * random) * (share - before)
                before = share
            scale += totals[c] * random
    return excess / scale if scale > 0.0 else 0.0


def pooled_spread(
    base: FloatTable, noise: FloatTable, first_child: Ints, first: Whole, stop: Whole, out: FloatsOut
) -> None:
    """Fill how much the parts of all regions of a level differ from them, per size, with half a standard error.

    Few siblings under much noise often look all alike; together those of a level tell how unlike they are in the mean.

    Args:
        base, noise: as in `fit_sibling_spread`, a row a node.
        first_child: see `Tree.first_child`.
        first, stop: the regions of the level.
        out: filled.
    """
    n = base.shape[1] - 1
    chance: FloatsOut = np.empty(n + 1)
    part: FloatsOut = np.empty(n + 1)
    above: FloatsOut = np.empty(n)
    below: FloatsOut = np.empty(n)
    passes: Whole = SPREAD_PASSES
    start: float = PHI_START
    out[:] = start
    for _ in range(passes):
        above[:] = 0.0
        below[:] = 0.0
        for g in range(first, stop):
            whole = base[g, n]
            if whole == 0.0:
                continue
            parent_chance(base[g], chance, part)
            for c in range(first_child[g], first_child[g + 1]):
                a = base[c, n] / whole
                random, scale = base[c, n] * (1.0 - a), base[c, n] * base[c, n] * (1.0 - a)
                if scale == 0.0:
                    continue
                for s in range(n):
                    known = noise[c, s] + random * chance[s]
                    off = base[c, s] - a * base[g, s]
                    spread = known + out[s] * scale
                    worth = scale / (spread * spread)
                    above[s] += worth * (off * off - known)
                    below[s] += worth * scale
        for s in range(n):
            out[s] = max(above[s] / below[s], 0.0) if below[s] > 0.0 else 0.0
    for s in range(n):
        if below[s] > 0.0:
            out[s] += DOUBT * sqrt(2.0 / below[s])


def shrink_siblings(
    above: FloatTable,
    base: FloatTable,
    noise: FloatTable,
    totals: Floats,
    shrinks: Bools,
    pooled: Floats,
    out: FloatTableOut,
    variance: FloatTableOut,
) -> None:
    """Fill cumulative counts of siblings shrunk to their parent's, summing to them, and their variances.

    Args:
        above: of the parent: cumulative counts before it was shrunk to its own parent, final ones, their variances.
        base, noise, totals, shrinks: as in `fit_sibling_spread`.
        pooled: see `pooled_spread`; the variances allow for siblings that differ as much.
        out, variance: filled, a row a child.
    """
    parent: Floats = above[0]
    smooth: Floats = above[1]
    parent_variance: Floats = above[2]
    least: float = LEAST_SPREAD
    n_children, n = base.shape[0], base.shape[1] - 1
    if parent[n] == 0.0:
        out[:, :] = 0.0
        variance[:, :] = 0.0
        return
    for c in range(n_children):
        out[c, n] = totals[c]
        variance[c, n] = 0.0
    phi: FloatsOut = np.empty(n)
    trust: FloatsOut = np.empty(n_children)
    fit_sibling_spread(parent, base, noise, totals, shrinks, phi, trust)
    chance: FloatsOut = np.empty(n + 1)
    part: FloatsOut = np.empty(n + 1)
    parent_chance(parent, chance, part)
    lack: FloatsOut = np.empty(n)
    loose: FloatsOut = np.zeros(n)
    for s in range(n):
        lack[s] = smooth[s]
    inverse: FloatTableOut = np.empty((n_children, n))
    for c in range(n_children):
        a = totals[c] / parent[n]
        twice = trust[c] * trust[c]
        sure = twice * twice
        random, scale = totals[c] * (1.0 - a), totals[c] * totals[c] * (1.0 - a)
        for s in range(n):
            w = 1.0 / noise[c, s]
            u = sure / max(random * chance[s] + phi[s] * scale, least)
            pull = u * a / (w + u)
            inverse[c, s] = 1.0 / (w + u) if totals[c] > 0.0 else 0.0
            wide = max((random * chance[s] + pooled[s] * scale) * u, 1.0)
            own = min(inverse[c, s] * (w + u * wide) / (w + u), 1.0 / w)
            out[c, s] = w * base[c, s] / (w + u) + pull * smooth[s] if totals[c] > 0.0 else 0.0
            variance[c, s] = own + pull * pull * parent_variance[s]
            lack[s] -= out[c, s]
            loose[s] += inverse[c, s]
    for c in range(n_children):
        for s in range(n):
            out[c, s] += lack[s] * inverse[c, s] / loose[s]
