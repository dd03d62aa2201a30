"""Counts that keep public numbers of groups exactly, with intervals; the posterior of regions given their parent.

Numbers that are not public are estimated from the noisy answers first, whole and consistent. Nothing here reads
anything confidential.

The mechanism `posterior` has every region's sizes given its answers and its parent's, exact where groups are few.
From the root down, a region's number of groups of each size has a prior with the mean of its share of its parent's, as
far as the region's own answers agree with it, and a variance fitted to the siblings of the whole level; where siblings
differ too much, the prior is its own estimate by least squares. The posterior of its tail counts is that of a hidden
Markov chain (`kernels_paths.py`) for all sizes of which few groups are expected; sizes of many groups come from least
squares, and are shrunk to the parent by how siblings differ at all these sizes at once (`sibling_covariance.py`).
Regions and their parts are then reconciled cell by cell in proportion to posterior variance, made whole and consistent.
Everything is fitted from noisy answers and public numbers, so that it costs nothing; no variance has a constant part,
so that the error vanishes with the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from pgsr.estimators.cumulative import TreeLeastSquares, smoothed, track
from pgsr.estimators.kernels_intervals import (
    Adapted,
    LevelAnswers,
    adapt_to_region,
    density_variance,
    expect_share,
    fit_adapted,
    fit_neighbours,
    fit_siblings,
    fit_tails,
    smooth_density,
)
from pgsr.estimators.kernels_isotonic import (
    block_precision,
    excess_of_siblings,
    fit_tree_rows,
    isotonic_noise,
    isotonic_rows_real,
    narrow_by_tree,
    share_cells,
)
from pgsr.estimators.kernels_paths import (
    PathBuffers,
    fit_alikeness,
    path_posterior,
    steady_tails,
    weigh_large,
)
from pgsr.estimators.kernels_split import split, track_down
from pgsr.estimators.large_groups import ColumnsAndRows
from pgsr.estimators.sibling_covariance import (
    MOST_SIZES,
    LeadingSizes,
    join_answers,
    rates_apart,
    shrink_jointly,
    variance_of_shared_noise,
)
from pgsr.hierarchy import Tree
from pgsr.level_noise import Calibration
from topdown.arrays import Floats, Ints, SingleTable
from topdown.errors import InternalError

CERTAIN = 1e9
"""Weight of a public number in proportion to a noisy one, in least squares; it is exact by the split all the same."""


def add_up_known(tree: Tree, known: Ints) -> Ints:
    """Return the known numbers with those of regions whose parts are all known; -1 where a number is not known.

    Args:
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
        answers: noisy cumulative counts [size][node]; the last row is not read.
        totals: number of groups of every node, whole and consistent.
        variances: of one answer of every node.
        rounds: alternations; the root takes one, where more would add the bias of empty cells below.
    """
    high = totals.astype(np.float64)
    solver = TreeLeastSquares(tree, 1.0 / variances)
    smooth = _isotonic_to_totals(np.ascontiguousarray(answers.T), high)
    del answers
    precision = np.empty_like(smooth)
    joint = joint_precision(tree, 1.0 / variances)
    for node in range(tree.n_nodes):
        block_precision(smooth[node], 1.0 / variances[node], joint[node], precision[node])
    root = smooth[0]
    for i in range(rounds):
        fit_tree_rows(smooth, tree.first_child, solver.own[:, None], solver.share[:, None])
        smooth = _isotonic_to_totals(smooth, high)
        root = smooth[0].copy() if i == 0 else root
    smooth[0] = root
    return SmoothedCounts(smooth, np.divide(1.0, precision, out=precision))


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


@dataclass(frozen=True, eq=False)
class ConstrainedEstimate:
    """Counts and how far they may be off.

    Args:
        counts: released counts [size][node].
        mean, variance: of the number of groups of every size, [node][size].
        ratio: of the tail of its law, [node][size]; see `CountPosterior`.
    """

    counts: Ints
    mean: Floats
    variance: Floats
    ratio: SingleTable


@dataclass(frozen=True, eq=False)
class FittedTotals:
    """Number of groups of every node: whole, consistent, the public ones themselves.

    Args:
        totals: of every node.
        variance: of each; 0 where it is public.
        certain: which are public, or large compared with their noise.
    """

    totals: Ints
    variance: Floats
    certain: NDArray[np.bool_]


def fitted_totals(
    tree: Tree, noisy: Ints, variances: Floats, known: Ints, *, tail: bool
) -> FittedTotals | None:
    """Return the numbers of groups, estimated from the noisy answers where they are not public.

    None if no number but the root's is known, and most leaves hold so few groups, by their noisy numbers, that
    estimated totals would do more harm than good.

    Args:
        noisy: sums over sizes [size][node]: from the largest size with `tail`, else from the smallest.
        variances: of one answer of every node.
        known: number of groups of every node, -1 where it is not public; the root's is known.
        tail: which sums were measured.
    """
    known = add_up_known(tree, known)
    reach = TOO_SMALL * np.sqrt(variances / 2.0)
    totals = known
    if known.min() < 0:
        measured = _noisy_totals(tree, noisy, variances, int(known[0]), tail=tail)
        totals = whole_totals(tree, measured, 1.0 / variances, known)
        n_small = np.count_nonzero((totals < reach)[tree.n_inner :])
        if known[1:].max(initial=-1) < 0 and 2 * n_small > tree.n_leaves:
            return None
    joint = 1.0 / joint_precision(tree, 1.0 / variances)
    return FittedTotals(totals, np.where(known >= 0, 0.0, joint), (known >= 0) | (totals >= reach))


def constrained_estimate(
    tree: Tree, noisy: Ints, variances: Floats, fitted: FittedTotals, *, tail: bool
) -> ConstrainedEstimate:
    """Return counts by `tracking` that are whole, consistent and equal to every number of groups.

    Args:
        tree, noisy, variances, tail: see `fitted_totals`.
        fitted: the numbers of groups.
    """
    answers = noisy.astype(np.float64)
    if tail:
        answers[:-1] = fitted.totals - noisy[1:]
    base = smooth_counts(tree, answers, fitted.totals, variances)
    first = fitted.variance[:, None]
    # Sums from the largest size: all groups, then all but those of size 1, ...; the last is 0 for certain.
    sums = np.concatenate([first, base.noise[:, :-1], np.zeros_like(first)], axis=1)
    mean = np.diff(base.values, axis=1, prepend=0.0)
    return ConstrainedEstimate(
        whole_counts(tree, base.values, fitted.totals),
        mean,
        sums[:, 1:] + sums[:, :-1],
        np.full(mean.shape, UNKNOWN, dtype=np.float32),
    )


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


ROUNDS = 3
"""Of smoothing, for sizes of many groups; more change errors at the leaves by less than 1 %."""
FEW, FEW_UNLIKE = 100.0, 12.0
"""Sizes of which a region expects fewer groups have their exact posterior."""
UNLIKE = 0.012
"""Mean squared difference of siblings' cumulative shares from which the prior of rare sizes is a region's own."""
NO_INFORMATION = 1e-4
"""Variance that is added where cells are compared, so that certain ones can be."""
UNKNOWN = -1.0
"""Ratio of the tail where only mean and variance are known."""
REACH = 60
CLUSTERED = 4.0
"""Times the fitted clustering of large groups: where most regions have none, a gamma law of its moments holds too few
of them; set on made-up data."""
MOST_LARGE = 4000


@dataclass(frozen=True, eq=False)
class Answers:
    """What the posterior is computed from; all of it public.

    Args:
        noisy: columns, rows and corners [node][size].
        choice: which answers are columns and rows.
        totals: number of groups of every node, whole and consistent.
        noise: law and parameters of the noise of every level.
    """

    tree: Tree
    noisy: Ints
    choice: ColumnsAndRows
    totals: Ints
    noise: Calibration

    def variance(self, level: int) -> float:
        """Variance of one answer of a level; of geometric noise, 2 scale^2."""
        return float(self.noise.relative_variance[level])

    def likelihood(self, level: int) -> Floats:
        """Return the likelihood of noise 0, 1, ... in proportion to that of 0."""
        parameter = float(self.noise.parameters[level])
        if self.noise.noise == "gaussian":
            x = np.arange(ceil(12.0 * sqrt(parameter)) + 50, dtype=np.float64)
            return np.exp(-x * x / (2.0 * parameter))
        return np.asarray(np.exp(-np.arange(ceil(REACH * parameter) + 50) / parameter))


@dataclass(frozen=True, eq=False)
class SmoothPrior:
    """What the prior says of numbers of groups that come from least squares, of some sizes of a region.

    Least squares in order heap groups at some sizes and leave none at their neighbours. Counts keep to that; their
    intervals lean to the prior as far as it is known better.

    Args:
        region, sizes: which.
        mean, variance: of the number of groups of each of these sizes.
    """

    region: int
    sizes: slice
    mean: Floats
    variance: Floats

    def weigh(self, mean: Floats, variance: Floats) -> None:
        """Change mean and variance of an estimate to those of the posterior, both laws being normal."""
        weight = variance / (variance + self.variance)
        mean += weight * (self.mean - mean)
        variance *= 1.0 - weight


@dataclass(frozen=True, eq=False)
class Paths:
    """Posterior of the tail counts of every region.

    Args:
        mean, variance: of the tail counts [node][size + 1].
        spread: variance of the number of groups of each size, [node][size].
        heard: how far it comes from the region's own answers and not from its prior, 0..1, [node][size].
        ratio: of the tail of its law, [node][size]; see `CountPosterior`.
        smooth: of the leaves' sizes of many groups that are not shrunk to the parent together.
    """

    mean: Floats
    variance: Floats
    spread: Floats
    heard: SingleTable
    ratio: SingleTable
    smooth: list[SmoothPrior]


def posterior_estimate(answers: Answers, shrinks: NDArray[np.bool_], of_total: Floats) -> ConstrainedEstimate:
    """Return whole counts, consistent and equal to the numbers of groups, with their posterior means and variances.

    Args:
        shrinks: which regions may be shrunk to their parent.
        of_total: variance of every node's number of groups; 0 where it is public.
    """
    tree, totals = answers.tree, answers.totals
    n_sizes = answers.noisy.shape[1]
    steady = _steady(answers)
    paths = _paths(answers, steady, _body(answers, steady, shrinks))
    cumulative = np.empty((tree.n_nodes, n_sizes))
    np.subtract(totals[:, None], paths.mean[:, 1:n_sizes], out=cumulative[:, :-1])
    cumulative[:, -1] = totals
    precision = np.full_like(cumulative, 1.0 / NO_INFORMATION)
    np.divide(1.0, paths.variance[:, 1:n_sizes] + NO_INFORMATION, out=precision[:, :-1])
    spread, heard, ratio, smooth = paths.spread, paths.heard, paths.ratio, paths.smooth
    del steady, paths  # each is as large as all counts
    agreed = _reconciled(tree, cumulative, precision, totals)
    counts = whole_counts(tree, agreed, totals)
    narrow_by_tree(spread, heard, tree.first_child)
    spread[:, 0] += of_total
    mean = np.diff(agreed, axis=1, prepend=0.0)
    for prior in smooth:
        prior.weigh(mean[prior.region, prior.sizes], spread[prior.region, prior.sizes])
    return ConstrainedEstimate(counts, mean, spread, ratio)


def _steady(answers: Answers) -> Ints:
    """Return descending whole tail counts of every region from its own answers, [node][size + 1]."""
    tree, choice = answers.tree, answers.choice
    out = np.empty((tree.n_nodes, answers.noisy.shape[1] + 1), dtype=np.int64)
    for r in range(tree.n_nodes):
        steady_tails(answers.noisy[r], choice.columns[r], choice.rows[r], answers.totals[r], out[r])
    return out


@dataclass(frozen=True, eq=False)
class Body:
    """Estimate by least squares, for sizes of many groups.

    Args:
        tails, variance: tail counts [node][size + 1].
        alike: of every level, whether siblings are alike enough to follow from their parent.
        leading: sizes that are shrunk to the parent together.
    """

    tails: Floats
    variance: Floats
    alike: NDArray[np.bool_]
    leading: LeadingSizes


def _body(answers: Answers, steady: Ints, shrinks: NDArray[np.bool_]) -> Body:
    tree, totals, n = answers.tree, answers.totals, answers.noisy.shape[1]
    by_level = np.array([answers.variance(i) for i in range(tree.n_levels)])
    variances = by_level[tree.level_of]
    upward = _upward(answers, steady)
    base = smooth_counts(tree, upward.T, totals, variances, ROUNDS)
    isotonic_noise(base.values, 1.0 / variances, base.noise)
    alike = np.ones(tree.n_levels, dtype=np.bool_)
    for level in range(1, tree.n_levels):
        above = tree.columns(level - 1)
        variance = answers.variance(level)
        own = answers.noisy, answers.choice.columns, totals
        excess = excess_of_siblings(*own, base.values, tree.first_child, above.start, above.stop, variance)
        alike[level] = excess <= UNLIKE
    values, of_values = base.values, base.noise
    own_data = join_answers(tree, upward[:, : min(MOST_SIZES, n - 1)], variances)
    del upward
    leading = shrink_jointly(tree, own_data, totals, shrinks, values, of_values)
    tails, spread = np.zeros((tree.n_nodes, n + 1)), np.zeros((tree.n_nodes, n + 1))
    tails[:, 0] = totals
    np.subtract(totals[:, None], values[:, :-1], out=tails[:, 1:n])
    spread[:, 1:n] = of_values[:, :-1]
    return Body(tails, spread, alike, leading)


def _upward(answers: Answers, steady: Ints) -> Floats:
    """Return cumulative counts [node][size] of the answers; of the steady tail counts past the columns of a region."""
    totals, choice = answers.totals, answers.choice
    up = np.zeros(answers.noisy.shape)
    np.subtract(totals[:, None], answers.noisy[:, 1:], out=up[:, :-1])
    for r in np.flatnonzero(choice.rows):
        columns = int(choice.columns[r])
        up[r, columns - 1 : -1] = totals[r] - steady[r, columns:-1]
    return up


def _paths(answers: Answers, steady: Ints, body: Body) -> Paths:
    tree, totals, n = answers.tree, answers.totals, answers.noisy.shape[1]
    mean, variance = body.tails, body.variance
    spread, heard = np.empty((tree.n_nodes, n)), np.zeros((tree.n_nodes, n), dtype=np.float32)
    ratio, of_paths = np.full((tree.n_nodes, n), UNKNOWN, dtype=np.float32), np.empty(n)
    smooth: list[SmoothPrior] = []
    density, of_density, alike, unlike = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    usual, within, before = np.empty(n), np.empty(n), np.empty(n)
    by_size = np.empty((4, n))  # the arrays of `adapted`
    adapted = Adapted(by_size[0], by_size[1], by_size[2], by_size[3])
    of_rates = rates_apart(tree, totals)
    clustering, buffers = 0.0, PathBuffers(np.empty(16 * n), np.empty(16 * n))
    for level in range(tree.n_levels):
        here = tree.columns(level)
        scale = sqrt(answers.variance(level) / 2.0)
        likelihood, few = answers.likelihood(level), FEW if body.alike[level] else FEW_UNLIKE
        of_nodes = answers.noisy, answers.choice.columns, totals, tree.parent
        of_parents = of_rates, mean, variance, spread
        regions = LevelAnswers(*of_nodes, *of_parents, here.start, here.stop, answers.variance(level))
        from_parent = level > 0 and body.alike[level]
        if from_parent:
            fit_alikeness(*of_nodes, mean, np.array([here.start, here.stop]), scale, alike)
            fit_tails(regions, usual)
            fit_siblings(regions, usual, unlike)
            fit_adapted(regions, steady, unlike, within)
        else:
            fit_neighbours(regions, unlike)
        if level > 0:
            clustering = clustering_of_large(answers, mean, level)
        for r in range(here.start, here.stop):
            if totals[r] == 0:
                mean[r] = variance[r] = spread[r] = 0.0
                continue
            # `likely` is the variance of counts about the prior's means, `of_prior` that of these: the parent's numbers
            # and how far the prior is off them, or smoothed own ones.
            if from_parent:
                up = tree.parent[r]
                share = totals[r] / totals[up]
                smooth_density(mean[up], density)
                expect_share(mean[up], density, share, before)
                adapt_to_region(before, steady[r], scale, adapted)
                expected, left, of_noise, learned = by_size[:4]
                rates = within + left * left * (unlike - within)
                likely = (1.0 - share) * expected + of_rates[r] * rates * before * before + of_noise
                off_by = before - share * np.maximum(mean[up, :-1] - mean[up, 1:], 0.0)
                of_prior = share * share * spread[up] + off_by * off_by
            else:
                smooth_density(mean[r], density)
                expected = density + (1e-4 if level > 0 else 0.5) / n
                alike[:] = 1.0 if level > 0 else 4.0
                likely = expected + unlike * expected * expected
                density_variance(variance[r], of_density)
                of_prior = of_density
            many = np.flatnonzero(expected > few)
            first = min(int(many[-1]) + 1, n - 1) if len(many) else 0
            end = np.array([float(totals[r]), 0.0] if first == 0 else [mean[r, first], variance[r, first]])
            if first > 0 and end[1] == 0.0:
                end[:] = steady[r, first], 0.0
            large, from_cell = np.ones(1), -1
            if answers.choice.rows[r] > 0 and clustering > 0.0:
                large = np.ones(min(int(totals[r]), MOST_LARGE) + 1)
                from_cell = weigh_large(expected, alike, answers.choice.columns[r], clustering, large)
            measured = np.array([answers.choice.columns[r], answers.choice.rows[r], first, from_cell])
            path_posterior(
                answers.noisy[r],
                measured,
                steady[r],
                expected,
                alike,
                likelihood,
                end,
                large,
                mean[r],
                variance[r],
                spread[r],
                of_paths,
                buffers,
            )
            ratio[r, first:] = of_paths[first:]
            prior = expected + expected * expected / alike
            pull = np.minimum(spread[r, first:] / prior[first:], 1.0)
            # As far as the prior counts, the error of its means goes on.
            spread[r, first:] += pull * pull * of_prior[first:]
            if from_parent and learned.any():
                spread[r, first:] += variance_of_shared_noise(learned, prior, answers.variance(level))[first:]
            heard[r, first:] = 1.0 - np.minimum(spread[r, first:] / prior[first:], 1.0)
            # To the same extent counts vary as is likely, and not as widely as the prior allows.
            spread[r, first:] += pull * pull * (likely[first:] - prior[first:])
            apart = variance[r, :first] + variance[r, 1 : first + 1]
            if first > 0:
                allowed = prior[first:].sum()
                pull = min(variance[r, first] / allowed, 1.0)
                of_tail = share * share * variance[up, first] if from_parent else end[1]
                apart[-1] += pull * pull * (of_tail + likely[first:].sum() - allowed)
            off = mean[r, :first] - mean[r, 1 : first + 1] - expected[:first]
            about = likely[:first] + of_prior[:first]
            spread[r, :first] = np.minimum(apart, about + off * off)
            leading = min(first, body.leading.n_sizes[level])
            spread[r, :leading] = np.minimum(apart[:leading], body.leading.variance[r, :leading])
            heard[r, :first] = 1.0 - np.minimum(spread[r, :first] / prior[:first], 1.0)
            if r < tree.n_inner:  # these have heard their parts already
                heard[r, :leading] = 0.0
            elif first > leading:
                rest = slice(leading, first)
                smooth.append(SmoothPrior(r, rest, expected[rest].copy(), about[rest].copy()))
    return Paths(mean, variance, spread, heard, ratio, smooth)


def clustering_of_large(answers: Answers, tails: Floats, level: int) -> float:
    """Return the relative variance of a level's numbers of large groups beyond that of independent groups.

    By moments of the persons in the rows, which are many noise scales where a region has large groups at all.
    Slow twin: `clustering_by_regions` in `tests/oracles/group_sizes.py`.

    Args:
        tails: posterior mean tail counts of the levels above, [node][size + 1].
        level: its position, below the root.
    """
    tree, choice, totals = answers.tree, answers.choice, answers.totals
    noise, above, below = answers.variance(level), 0.0, 0.0
    for g in range(*tree.columns(level - 1).indices(tree.n_nodes)):
        parts = np.arange(tree.first_child[g], tree.first_child[g + 1])
        for r in parts[(choice.rows[parts] > 0) & (totals[parts] < totals[g])]:
            columns, rows, share = choice.columns[r], choice.rows[r], totals[r] / totals[g]
            past = tails[g, columns:-1]
            due, square = share * past.sum(), share * (past @ np.arange(1, 2 * len(past), 2))
            own = answers.noisy[r, columns : columns + rows].sum()
            by_chance = rows * noise + square * (1.0 - share)
            worth = (due / (by_chance + due * due)) ** 2
            above += worth * ((own - due) ** 2 - by_chance)
            below += worth * due * due
    return CLUSTERED * max(above / below, 0.0) if below > 0.0 else 0.0


def _reconciled(tree: Tree, cumulative: Floats, precision: Floats, totals: Ints) -> Floats:
    """Return ascending cumulative counts [node][size], regions nearly sums of their parts; changes its arguments."""
    kept, share = np.empty_like(precision), np.empty_like(precision)
    share_cells(precision, tree.first_child, kept, share)
    fit_tree_rows(cumulative, tree.first_child, kept, share)
    return _isotonic_to_totals(cumulative, totals.astype(np.float64))
