"""Counts that keep public numbers of groups exactly, with intervals: `tracking` given any, `tracking+parent`.

Numbers that are not public are estimated from the noisy answers first; nothing here reads anything confidential.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgsr.borrow import Base, base_of, base_of_cells, counts_of, joint_precision, lean
from pgsr.cumulative import smoothed, track
from pgsr.hierarchy import Ints, Tree
from pgsr.match_rows import match_rows
from pgsr.rows import Sideways, read_tails
from pgsr.totals import spread_known, whole_totals

Floats = NDArray[np.float64]
TOO_SMALL = 5.0
"""A region whose estimated number of groups is below this many noise scales keeps its own data."""
NORMAL_95 = 1.96


@dataclass(frozen=True, eq=False)
class Informed:
    """Counts and how far they may be off.

    Args:
        counts: released counts [size][node].
        half_widths: of intervals that hold some 95 % of the true counts, [size][node].
    """

    counts: Ints
    half_widths: Ints


def informed_estimate(
    tree: Tree, noisy: Ints, variances: Floats, known: Ints, *, tail: bool, parent: bool
) -> Informed | None:
    """Return counts that are whole, consistent and equal to every known number of groups.

    None if no number but the root's is known, and most leaves hold so few groups, by their noisy numbers, that
    estimated totals would do more harm than good.

    Args:
        tree: the regions.
        noisy: sums over sizes [size][node]: from the largest size with `tail`, else from the smallest.
        variances: of one answer of every node.
        known: number of groups of every node, -1 where it is not public; the root's is known.
        tail: which sums were measured.
        parent: whether regions lean on their parent (`tracking+parent`).
    """
    known = spread_known(tree, known)
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
    base = base_of(tree, answers, totals, variances)
    of_total = np.where(known >= 0, 0.0, joint)
    return _leaning(tree, base, totals, parent & ((known >= 0) | (totals >= reach)), of_total)


def sideways_estimate(public: Sideways, noisy: Ints) -> Informed:
    """Return counts from columns and rows; they equal every number of groups, all of which are known.

    Args:
        public: what the columns and rows were chosen from, beside the answers.
        noisy: answers [size][node].
    """
    read, tree = read_tails(public, noisy), public.tree
    answers, spread = read.tails.astype(np.float64), read.variances
    answers[:-1], spread[:-1] = public.totals - answers[1:], spread[1:].copy()
    base = base_of_cells(tree, answers, public.totals, spread)
    everywhere, exact = np.ones(tree.n_nodes, dtype=np.bool_), np.zeros(tree.n_nodes)
    found = _leaning(tree, base, public.totals, everywhere, exact)
    most = np.floor(NORMAL_95 * np.sqrt(2.0 * np.cumsum(public.variances)) + 0.5).astype(np.int64)
    widths = np.minimum(np.maximum(found.half_widths, read.loose), most[tree.level_of])
    return Informed(match_rows(public, public.choice(noisy), read, found.counts), widths)


def _leaning(tree: Tree, base: Base, totals: Ints, leans: NDArray[np.bool_], of_total: Floats) -> Informed:
    """Return whole counts and half widths; `of_total` is the variance of every node's number of groups."""
    final, variance = lean(tree, base, leans)
    first = of_total[:, None]
    # Sums from the largest size: all groups, then all but those of size 1, ...; the last is 0 for certain.
    sums = np.concatenate([first, variance[:, :-1], np.zeros_like(first)], axis=1)
    widths = np.floor(NORMAL_95 * np.sqrt(sums[:, 1:] + sums[:, :-1]) + 0.5).astype(np.int64)
    return Informed(counts_of(tree, final, totals), np.ascontiguousarray(widths.T))


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
