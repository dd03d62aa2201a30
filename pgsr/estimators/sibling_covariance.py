"""Shrinkage of regions to their parent by how siblings differ at all sizes at once.

Regions differ in few ways: one has more large households and therefore fewer small ones at many sizes. One cumulative
count is often less than its noise apart from the parent's; many in one direction are not. The covariance of siblings'
cumulative shares is fitted to a whole level from noisy answers, by moments. Of its directions those are kept that
stand out from noise, each as far as it does: the spiked covariance model (Donoho, Gavish and Johnstone, Annals of
Statistics 46, 2018). A region's counts are then the best linear ones given its answers, its parent's counts, that
covariance and the chance by which groups are of a size.

Only the leading sizes are treated so, of which regions hold many groups.
Slow twins: `best_linear_counts` and `covariance_of_siblings` in `tests/oracles/group_sizes.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgsr.estimators.kernels_intervals import likely_ratio
from pgsr.estimators.kernels_isotonic import isotonic_rows_real
from pgsr.hierarchy import Tree
from topdown.arrays import Floats, Ints

MOST_SIZES = 64
PAST_THEM = 12.0
"""A level's leading sizes end where its mean region has fewer groups past them."""
START, PASSES = 1e-4, 3
"""Mean squared difference of siblings' cumulative shares before any data, and how often it is fitted."""
LEAST_CHANCE = 1e-9
TYPICAL = 4.0
"""Times the median region that any region counts at most."""
UNSEEN = 0.5
"""Part of the least difference that stands out which there may be unseen; set on made-up data."""


@dataclass(frozen=True, eq=False)
class JoinedAnswers:
    """Cumulative counts as far as the answers of a region and its parts tell them, before any prior.

    Args:
        values: [node][leading size].
        variance: of every node's values; the noise of different sizes is independent.
    """

    values: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Siblings:
    """The regions of one level beside what their parents say of them.

    Args:
        off: cumulative counts beyond their share of the parent's [region][size].
        noise: variance of each region's answers.
        chance: variance, in proportion to F (1 - F), by which groups of independent sizes differ from the share.
        signal: the factor of the covariance of shares.
    """

    off: Floats
    noise: Floats
    chance: Floats
    signal: Floats

    def some(self, which: NDArray[np.bool_] | slice) -> Siblings:
        """Return some of the regions."""
        return Siblings(self.off[which], self.noise[which], self.chance[which], self.signal[which])


def join_answers(tree: Tree, cumulative: Floats, variances: Floats) -> JoinedAnswers:
    """Return every region's answers joined with the sums of its parts', by precision.

    Args:
        tree: the regions.
        cumulative: noisy cumulative counts [node][leading size].
        variances: of one answer of every node.
    """
    values, variance = cumulative.copy(), variances.copy()
    for level in range(tree.n_levels - 2, -1, -1):
        here, below = tree.columns(level), tree.columns(level + 1)
        first = tree.first_child[here] - below.start
        of_sum = np.add.reduceat(variance[below], first)
        own = (of_sum / (of_sum + variances[here]))[:, None]
        values[here] = own * values[here] + (1.0 - own) * np.add.reduceat(values[below], first, axis=0)
        variance[here] *= own[:, 0]
    return JoinedAnswers(values, variance)


def bridge(shares: Floats) -> Floats:
    """Return the covariance of cumulative shares of one random group: min(F_s, F_t) - F_s F_t."""
    inside = np.clip(shares, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
    return np.asarray(np.minimum.outer(inside, inside) - np.outer(inside, inside))


@dataclass(frozen=True, eq=False)
class Differences:
    """How cumulative shares of siblings differ beyond chance.

    Args:
        directions: D; D D^T is the clear part of their covariance, [size][direction].
        white: variance at each size for itself: directions fitted from noise are off by an angle.
        random: the same in proportion to the law of chance.
        unseen: how much more there may be of that without standing out from noise; in variances alone.
        likely: of `unseen`, how many times as much there is; in variances of the number of groups of a size alone.
    """

    directions: Floats
    white: float
    random: float
    unseen: float = 0.0
    likely: float = 1.0


def fit_differences(siblings: Siblings, chance: Floats) -> Differences:
    """Return how siblings differ, fitted by moments.

    What does not stand out counts as in proportion to the law of chance: exponential, of mean `unseen`, before the
    squares along all other directions.

    Args:
        siblings: of a whole level.
        chance: `bridge` of the level.
    """
    n_sizes = len(chance)
    if len(siblings.off) == 0:
        return Differences(np.zeros((n_sizes, 0)), 0.0, 0.0)
    random = siblings.noise + siblings.chance * np.trace(chance) / n_sizes
    squares = (siblings.off * siblings.off).mean(axis=1)
    spread, bounded = START, np.minimum(siblings.signal, TYPICAL * np.median(siblings.signal))
    for _ in range(PASSES):
        weights = bounded / (random * (random + spread * siblings.signal))
        spread = max(float(weights @ (squares - random) / (weights @ siblings.signal)), 0.0)
    of_noise = weights * random
    ratio = n_sizes * float(of_noise @ of_noise) / float(of_noise.sum()) ** 2
    scales, basis = np.linalg.eigh(
        float(weights @ siblings.noise) * np.eye(n_sizes) + float(weights @ siblings.chance) * chance
    )
    root = np.sqrt(scales)
    white = siblings.off @ (basis / root)
    seen, directions = np.linalg.eigh((white * weights[:, None]).T @ white)
    clear = seen > (1.0 + np.sqrt(ratio)) ** 2
    others, rest = seen[~clear], directions[:, ~clear]
    seen, directions = seen[clear], directions[:, clear]
    half = seen + 1.0 - ratio
    true = (half + np.sqrt(np.maximum(half * half - 4.0 * seen, 0.0))) / 2.0 - 1.0
    squared_cosine = (1.0 - ratio / (true * true)) / (1.0 + ratio / true)
    whole, noise = float(weights @ siblings.signal), float(weights @ siblings.noise)
    by_chance = float(weights @ siblings.chance)
    missed = float(true @ (1.0 - squared_cosine)) / (n_sizes * whole)
    unseen = UNSEEN * np.sqrt(ratio) * (noise / float(np.linalg.eigvalsh(chance)[-1]) + by_chance) / whole
    # A direction that stands out took along noise of its own, and some that it shares with the others.
    left = 1.0 - ratio * float((1.0 + 1.0 / true).sum()) / max(len(others), 1)
    unit = rest.T @ ((1.0 - noise / scales)[:, None] * rest) * (unseen * whole / by_chance)
    # A mean square has the variance 2 ratio / n_sizes; `likely_ratio` reckons with 3 for 2.
    known = 1.5 * n_sizes / ratio
    beyond, precision = known * float(np.diag(unit) @ (others - left)), known * float((unit * unit).sum())
    return Differences(
        (basis * root) @ directions * np.sqrt(true * squared_cosine / whole),
        missed * noise,
        missed * by_chance,
        unseen,
        likely_ratio(beyond, precision, 1.0),
    )


@dataclass(frozen=True, eq=False)
class BestLinear:
    """Siblings' cumulative counts given their answers.

    Args:
        off: beyond their share of the parent's, [region][size].
        basis: functions of sizes, [size][function].
        along: variance along each of them, [region][function].
        more: what the directions of siblings add, [region][size][direction].
        beyond: variance along them that the number of groups of a size alone has more, [region][function].
    """

    off: Floats
    basis: Floats
    along: Floats
    more: Floats
    beyond: Floats

    @property
    def variance(self) -> Floats:
        """Variance of cumulative counts, [region][size]."""
        return np.asarray(self.along @ (self.basis * self.basis).T + (self.more * self.more).sum(axis=2))

    @property
    def of_counts(self) -> Floats:
        """Variance of the number of groups of each size, [region][size]."""
        steps, more = np.diff(self.basis, axis=0, prepend=0.0), np.diff(self.more, axis=1, prepend=0.0)
        return np.asarray((self.along + self.beyond) @ (steps * steps).T + (more * more).sum(axis=2))

    def covariance(self, region: int) -> Floats:
        """Covariance of one region's cumulative counts."""
        more = self.more[region]
        return np.asarray((self.basis * self.along[region]) @ self.basis.T + more @ more.T)


@dataclass(frozen=True, eq=False)
class LeadingSizes:
    """What leading sizes are after shrinkage.

    Args:
        n_sizes: how many sizes lead at each level; 0 at the root, and where none was shrunk.
        variance: of the number of groups of each leading size, [node][leading size].
    """

    n_sizes: Ints
    variance: Floats


def shrink_jointly(
    tree: Tree,
    found: JoinedAnswers,
    totals: Ints,
    shrinks: NDArray[np.bool_],
    final: Floats,
    variance: Floats,
) -> LeadingSizes:
    """Replace cumulative counts of the leading sizes, and their variances, from the root down.

    Args:
        tree: the regions.
        found: see `join_answers`.
        totals: number of groups of every node.
        shrinks: which nodes are shrunk to their parent; the others keep their own data.
        final, variance: of cumulative counts [node][size], changed in place.
    """
    m = leading = found.values.shape[1]
    n_sizes, of_counts = np.zeros(tree.n_levels, dtype=np.int64), np.zeros((tree.n_nodes, leading))
    none, of_noise = np.zeros((1, m)), np.full((1, m), found.variance[0])
    families = [(BestLinear(none, np.eye(m), of_noise, np.zeros((1, m, 0)), none), 0)]
    for level in range(1, tree.n_levels):
        here, parents = tree.columns(level), tree.columns(level - 1)
        groups, whole = totals[here].astype(np.float64), np.maximum(totals[tree.parent[here]], 1)
        share, shares = groups / whole, final[tree.parent[here], :m] / whole[:, None]
        past = groups.sum() - groups @ shares
        m = n_sizes[level] = int((past >= PAST_THEM * max(int((groups > 0.0).sum()), 1)).sum())
        if m == 0:
            break
        siblings = Siblings(
            found.values[here, :m] - groups[:, None] * shares[:, :m],
            found.variance[here],
            groups * (1.0 - share),
            groups * groups * (1.0 - share),
        )
        differ = fit_differences(
            siblings.some(shrinks[here] & (siblings.signal > 0.0)), bridge(1.0 - past[:m] / groups.sum())
        )
        above, families = families, []
        for g, (family, region) in zip(range(parents.start, parents.stop), above, strict=True):
            parts = slice(tree.first_child[g], tree.first_child[g + 1])
            own = slice(parts.start - here.start, parts.stop - here.start)
            law, of_parent = bridge(final[g, :m] / max(totals[g], 1)), family.covariance(region)[:m, :m]
            made = best_linear(siblings.some(own), shrinks[parts], share[own], law, differ, of_parent)
            values, spread = groups[own, None] * shares[own, :m] + made.off, made.variance
            lacking = final[g, :m] - values.sum(axis=0)
            values += lacking * spread / np.maximum(spread.sum(axis=0), LEAST_CHANCE)
            final[parts, :m], variance[parts, :m] = values, spread
            of_chance = np.diff(values, axis=1, prepend=0.0) * (1.0 - share[own, None])
            of_counts[parts, :m] = with_own_chance(made.of_counts, siblings.chance[own], law, of_chance)
            families += [(made, i) for i in range(parts.stop - parts.start)]
        final[here, -1] = np.inf
        isotonic_rows_real(final[here].copy(), np.zeros(len(groups)), groups, final[here])
    return LeadingSizes(n_sizes, of_counts)


def with_own_chance(of_counts: Floats, chance: Floats, law: Floats, own: Floats) -> Floats:
    """Return variances of counts, larger where a region has more groups of a size than its parent's law says.

    The numbers of such groups vary by chance as they are, not as they are at the parent; as far as chance counts.

    Args:
        of_counts: [region][size].
        chance: see `Siblings`.
        law: `bridge` of the parent.
        own: variance of every count by chance alone, as it is estimated.
    """
    steps = np.diff(np.diff(law, axis=0, prepend=0.0), axis=1, prepend=0.0)
    expected = np.outer(chance, np.diag(steps))
    pull = np.minimum(of_counts / np.maximum(expected, LEAST_CHANCE), 1.0)
    return np.asarray(of_counts + pull * pull * np.maximum(own - expected, 0.0))


def best_linear(
    siblings: Siblings,
    shrinks: NDArray[np.bool_],
    share: Floats,
    law: Floats,
    differ: Differences,
    above: Floats,
) -> BestLinear:
    """Return what answers and prior together say of the parts of one region.

    With A the covariance of what is seen of a part, noise v included, its best estimate is x - v A^-1 x, with
    covariance v - v^2 A^-1. A^-1 is diagonal in the basis of the law of chance but for the directions.

    Args:
        siblings: the parts.
        shrinks: which are shrunk.
        share: of the region's groups.
        law: `bridge` of the region.
        differ: see `fit_differences`.
        above: covariance of the region's own cumulative counts.
    """
    scales, basis = np.linalg.eigh(law)
    noise = siblings.noise[:, None]
    random = siblings.chance + differ.random * siblings.signal
    prior = random[:, None] * np.maximum(scales, 0.0) + differ.white * siblings.signal[:, None]
    narrow = shrinks[:, None] / (noise + prior)
    turned = basis.T @ differ.directions
    seen = narrow[:, :, None] * turned
    middle = np.eye(turned.shape[1]) + siblings.signal[:, None, None] * (turned.T @ seen)
    half = np.linalg.inv(np.linalg.cholesky(middle)).transpose(0, 2, 1)
    more = np.sqrt(siblings.signal)[:, None, None] * (basis @ (seen @ half))
    across = (siblings.off[:, :, None] * more).sum(axis=1)
    inverse = ((siblings.off @ basis) * narrow) @ basis.T - (more @ across[:, :, None])[:, :, 0]
    of_parent = ((basis.T @ above) * basis.T).sum(axis=1)
    unseen = differ.unseen * siblings.signal[:, None] * np.maximum(scales, 0.0)
    along = noise - noise * noise * narrow
    along += (noise * narrow) ** 2 * (share[:, None] ** 2 * of_parent + unseen)
    beyond = (noise * narrow) ** 2 * unseen * (differ.likely - 1.0)
    return BestLinear(siblings.off - noise * inverse, basis, along, noise[:, :, None] * more, beyond)


def variance_of_shared_noise(learned: Floats, prior: Floats, variance: float) -> Floats:
    """Return by how much counts vary more because their prior's means follow the noise of the answers they meet.

    It is twice the covariance of both parts of their error, among sizes that are alike. At the frequency t of sizes an
    answer weighs k = prior / (prior + variance w), w = 2 - 2 cos t: the mean over t of learned k (1 - k) variance w.
    Slow twin: `shared_noise_of_sizes` in `tests/oracles/group_sizes.py`.

    Args:
        learned: covariance of what is expected and the noise of its own number, in variances of one answer.
        prior: variance about what is expected.
        variance: of one answer.
    """
    mean_weight = np.sqrt(prior / (prior + 4.0 * variance))
    return np.asarray(0.5 * learned * prior * (1.0 - mean_weight) ** 2 * (2.0 + mean_weight))


def rates_apart(tree: Tree, totals: Ints) -> Floats:
    """Return how far rates of regions vary about their parents', in proportion to the variance of rates of siblings.

    A parent's rate is the mean of its parts' by their shares, so that a part's differs from it with the variance
    1 - 2 share + sum of squared shares.
    """
    shares = totals / np.maximum(totals[tree.parent], 1)
    squares = np.bincount(tree.parent[1:], shares[1:] ** 2, tree.n_nodes)
    return np.asarray(1.0 - 2.0 * shares + squares[tree.parent])
