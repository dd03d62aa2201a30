"""Counts that keep public numbers of groups exactly, with intervals: `tracking` given any, `tracking+parent`.

Numbers that are not public are estimated from the noisy answers first, whole and consistent. With shrinkage a region's
cumulative counts are its share of the parent's plus a difference whose size is fitted from the noisy answers, so that
it costs nothing; regions unlike their siblings keep their own data. Nothing here reads anything confidential.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgsr.estimators.cumulative import TreeLeastSquares, smoothed, track
from pgsr.estimators.kernels_isotonic import block_noise, isotonic_cells, isotonic_rows_real, share_cells
from pgsr.estimators.kernels_shrinkage import block_precision, fit_tree_rows, pooled_spread, shrink_siblings
from pgsr.estimators.kernels_split import split, track_down
from pgsr.estimators.large_groups import RowsDesign, decode_tails, match_rows
from pgsr.hierarchy import Tree
from topdown.arrays import Floats, Ints
from topdown.errors import InternalError

CERTAIN = 1e9
"""Weight of a public number in proportion to a noisy one, in least squares; it is exact by the split all the same."""


def add_up_known(tree: Tree, known: Ints) -> Ints:
    """Return the known numbers with those of regions whose parts are all known; -1 where a number is not known.

    Args:
        tree: the regions.
        known: number of groups of every node, -1 where it is not public.
    """
    full = known.copy()
    for g in range(tree.n_inner - 1, -1, -1):
        below = full[tree.first_child[g] : tree.first_child[g + 1]]
        if full[g] < 0 and below.min() >= 0:
            full[g] = below.sum()
    return full


def whole_totals(tree: Tree, measured: Floats, weights: Floats, known: Ints) -> Ints:
    """Return the number of groups of every node: whole, from 0 on, consistent, equal to every known number.

    Weighted least squares on the tree, then split from the root down; a region holds at least what is known
    of its parts, so that every split has a solution if the known numbers are those of some population.

    Args:
        tree: the regions.
        measured: noisy number of every node.
        weights: positive precision of every node.
        known: as `spread_known` takes it; the root's is known.

    Raises:
        InternalError: X147 the known numbers contradict each other.
    """
    known = add_up_known(tree, known)
    is_known = known >= 0
    fitted = TreeLeastSquares(tree, np.where(is_known, CERTAIN * weights.max(), weights)).fit(
        np.where(is_known, known.astype(np.float64), measured)[None, :]
    )[0]
    least = np.where(is_known, known, 0)
    for g in range(tree.n_inner - 1, -1, -1):
        if not is_known[g]:
            least[g] = least[tree.first_child[g] : tree.first_child[g + 1]].sum()
    totals = known.copy()
    for g in range(tree.n_inner):
        below = np.arange(tree.first_child[g], tree.first_child[g + 1])
        free = below[~is_known[below]]
        room = int(totals[g] - least[below].sum())
        if room < 0 or (room > 0 and len(free) == 0):
            raise InternalError("public numbers of groups contradict each other", code="X147")
        if len(free):
            more = np.empty(len(free), dtype=np.int64)
            split(fitted[free] - least[free], room, more)
            totals[free] = least[free] + more
    return totals


@dataclass(frozen=True, eq=False)
class SmoothedCounts:
    """Cumulative counts of every region from its own and its parts' answers.

    Args:
        values: [node][size], ascending, the last the number of groups.
        noise: variance of the noise in them, [node][size].
    """

    values: Floats
    noise: Floats


def smooth_counts(
    tree: Tree, answers: Floats, totals: Ints, variances: Floats, rounds: int = 8
) -> SmoothedCounts:
    """Return isotonic cumulative counts with the tree's least squares in turn, held at the known totals.

    Args:
        tree: the regions.
        answers: noisy cumulative counts [size][node]; the last row is not read.
        totals: number of groups of every node, whole and consistent.
        variances: of one answer of every node.
        rounds: alternations; the root takes one, where more would add the bias of empty cells below.
    """
    high = totals.astype(np.float64)
    solver = TreeLeastSquares(tree, 1.0 / variances)
    smooth = _isotonic_to_totals(np.ascontiguousarray(answers.T), high)
    precision = np.empty_like(smooth)
    joint = joint_precision(tree, 1.0 / variances)
    for node in range(tree.n_nodes):
        block_precision(smooth[node], 1.0 / variances[node], joint[node], precision[node])
    root = smooth[0]
    for i in range(rounds):
        fit_tree_rows(smooth, tree.first_child, solver.own, solver.share)
        smooth = _isotonic_to_totals(smooth, high)
        root = smooth[0].copy() if i == 0 else root
    smooth[0] = root
    return SmoothedCounts(smooth, 1.0 / precision)


def smooth_counts_by_cell(
    tree: Tree, answers: Floats, totals: Ints, variances: Floats, rounds: int = 8
) -> SmoothedCounts:
    """Return what `base_of` does where answers of one region differ in variance, [size][node]."""
    high = totals.astype(np.float64)
    own = np.ascontiguousarray(1.0 / variances.T)
    joint, kept, share, noise = own.copy(), np.empty_like(own), np.empty_like(own), np.empty_like(own)
    share_cells(joint, tree.first_child, kept, share)
    smooth = np.empty_like(own)
    isotonic_cells(np.ascontiguousarray(answers.T), own, high, smooth)
    block_noise(smooth, own, joint, noise)
    root = smooth[0]
    for i in range(rounds):
        fit_tree_rows(smooth, tree.first_child, kept, share)
        isotonic_cells(smooth.copy(), own, high, smooth)
        root = smooth[0].copy() if i == 0 else root
    smooth[0] = root
    return SmoothedCounts(smooth, noise)


def shrink_to_parent(tree: Tree, base: SmoothedCounts, shrinks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return cumulative counts [node][size] that are shrunk to the parent from the root down, and their variances.

    Args:
        tree: the regions.
        base: see `base_of`.
        shrinks: which nodes are shrunk to their parent; the others keep their own data.
    """
    final, variance = base.values.copy(), base.noise.copy()
    variance[:, -1] = 0.0
    totals = base.values[:, -1].copy()
    pooled = np.empty(len(base.values[0]) - 1)
    for g in range(tree.n_inner):
        level = tree.columns(int(tree.level_of[g]))
        if g == level.start:
            pooled_spread(base.values, base.noise, tree.first_child, level.start, level.stop, pooled)
        b, e = tree.first_child[g], tree.first_child[g + 1]
        if not shrinks[b:e].any():
            continue
        above = np.stack([base.values[g], final[g], variance[g]])
        own = base.values[b:e], base.noise[b:e], totals[b:e], shrinks[b:e]
        shrink_siblings(above, *own, pooled, final[b:e], variance[b:e])
        final[b:e, -1] = np.inf
        isotonic_rows_real(final[b:e].copy(), np.zeros(e - b), totals[b:e], final[b:e])
    return final, variance


def whole_counts(tree: Tree, cumulative: Floats, totals: Ints) -> Ints:
    """Return whole counts [size][node] that follow cumulative counts [node][size] and end at the totals."""
    root = np.floor(cumulative[0] + 0.5).astype(np.int64)
    root[-1] = totals[0]
    counts = np.empty(cumulative.shape[::-1], dtype=np.int64)
    target = np.ascontiguousarray(cumulative.T)
    track_down(target, np.diff(root, prepend=0), totals, tree.first_child, counts)
    return counts


def _isotonic_to_totals(rows: Floats, high: Floats) -> Floats:
    """Return isotonic rows [node][size] within 0..high, the last entry high itself; changes the last of `rows`."""
    rows[:, -1] = np.inf
    out = np.empty_like(rows)
    isotonic_rows_real(rows, np.zeros(len(rows)), high, out)
    return out


def joint_precision(tree: Tree, own: Floats) -> Floats:
    """Return the precision that every node's own answer and those of its parts have together."""
    joint = own.copy()
    for g in range(tree.n_inner - 1, -1, -1):
        below = slice(tree.first_child[g], tree.first_child[g + 1])
        joint[g] += 1.0 / float((1.0 / joint[below]).sum())
    return joint


TOO_SMALL = 5.0
"""A region whose estimated number of groups is below this many noise scales keeps its own data."""
NORMAL_95 = 1.96


@dataclass(frozen=True, eq=False)
class ConstrainedEstimate:
    """Counts and how far they may be off.

    Args:
        counts: released counts [size][node].
        half_widths: of intervals that hold some 95 % of the true counts, [size][node].
    """

    counts: Ints
    half_widths: Ints


def constrained_estimate(
    tree: Tree, noisy: Ints, variances: Floats, known: Ints, *, tail: bool, parent: bool
) -> ConstrainedEstimate | None:
    """Return counts that are whole, consistent and equal to every known number of groups.

    None if no number but the root's is known, and most leaves hold so few groups, by their noisy numbers, that
    estimated totals would do more harm than good.

    Args:
        tree: the regions.
        noisy: sums over sizes [size][node]: from the largest size with `tail`, else from the smallest.
        variances: of one answer of every node.
        known: number of groups of every node, -1 where it is not public; the root's is known.
        tail: which sums were measured.
        parent: whether regions are shrunk to their parent (`tracking+parent`).
    """
    known = add_up_known(tree, known)
    joint = 1.0 / joint_precision(tree, 1.0 / variances)
    reach = TOO_SMALL * np.sqrt(variances / 2.0)
    totals, answers = known, noisy.astype(np.float64)
    if known.min() < 0:
        measured = _noisy_totals(tree, noisy, variances, int(known[0]), tail=tail)
        totals = whole_totals(tree, measured, 1.0 / variances, known)
        n_small = np.count_nonzero((totals < reach)[tree.n_inner :])
        if known[1:].max(initial=-1) < 0 and 2 * n_small > tree.n_leaves:
            return None
    if tail:
        answers[:-1] = totals - noisy[1:]
    base = smooth_counts(tree, answers, totals, variances)
    of_total = np.where(known >= 0, 0.0, joint)
    return _shrunk_estimate(tree, base, totals, parent & ((known >= 0) | (totals >= reach)), of_total)


def estimate_from_rows(public: RowsDesign, noisy: Ints) -> ConstrainedEstimate:
    """Return counts from columns and rows; they equal every number of groups, all of which are known.

    Args:
        public: what the columns and rows were chosen from, beside the answers.
        noisy: answers [size][node].
    """
    read, tree = decode_tails(public, noisy), public.tree
    answers, spread = read.tails.astype(np.float64), read.variances
    answers[:-1], spread[:-1] = public.totals - answers[1:], spread[1:].copy()
    base = smooth_counts_by_cell(tree, answers, public.totals, spread)
    everywhere, exact = np.ones(tree.n_nodes, dtype=np.bool_), np.zeros(tree.n_nodes)
    found = _shrunk_estimate(tree, base, public.totals, everywhere, exact)
    most = np.floor(NORMAL_95 * np.sqrt(2.0 * np.cumsum(public.variances)) + 0.5).astype(np.int64)
    widths = np.minimum(np.maximum(found.half_widths, read.loose), most[tree.level_of])
    return ConstrainedEstimate(match_rows(public, public.choice(noisy), read, found.counts), widths)


def _shrunk_estimate(
    tree: Tree, base: SmoothedCounts, totals: Ints, shrinks: NDArray[np.bool_], of_total: Floats
) -> ConstrainedEstimate:
    """Return whole counts and half widths; `of_total` is the variance of every node's number of groups."""
    final, variance = shrink_to_parent(tree, base, shrinks)
    first = of_total[:, None]
    # Sums from the largest size: all groups, then all but those of size 1, ...; the last is 0 for certain.
    sums = np.concatenate([first, variance[:, :-1], np.zeros_like(first)], axis=1)
    widths = np.floor(NORMAL_95 * np.sqrt(sums[:, 1:] + sums[:, :-1]) + 0.5).astype(np.int64)
    return ConstrainedEstimate(whole_counts(tree, final, totals), np.ascontiguousarray(widths.T))


def _noisy_totals(tree: Tree, noisy: Ints, variances: Floats, total: int, *, tail: bool) -> Floats:
    """Return the number of groups of every node from its running sums; sums that reach no further group repeat it.

    Upward sums repeat it at every size past the largest, where one group too many would stand too: their numbers are
    those at which tracking ends.
    """
    up = np.ascontiguousarray(noisy[::-1]) if tail else noisy
    if tail:
        return np.asarray(smoothed(tree, up, total, 1.0 / variances, 1)[-1])
    whole: Ints = track(tree, smoothed(tree, up, total, 1.0 / variances), total)
    return np.asarray(whole.sum(axis=0), dtype=np.float64)
