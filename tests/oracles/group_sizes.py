"""Slow, obvious twins of the estimators of group sizes: enumeration, cost tables, flows, loops, plain splits."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import exp, floor, lgamma, log, log1p, prod, sqrt

import numpy as np

from pgsr import Tree, tree_of
from pgsr.estimators import Answers, Differences, Siblings
from pgsr.exact_arguments import scaled_weights, squared_cost
from pgsr.hierarchy import check_matrix
from pgsr.sensitivity_audit import compositions
from tests.oracles.kernels_tables import tables_down
from topdown.arrays import Floats, Ints


def all_counts(tree: Tree, n_sizes: int, total: int) -> Iterator[Ints]:
    """Yield every consistent, valid, faithful table of counts [size][node]."""
    for cells in compositions(total, n_sizes * tree.n_leaves):
        yield tree.sums(np.array(cells, dtype=np.int64).reshape(n_sizes, tree.n_leaves))


def enumerate_model1(
    levels: Sequence[Sequence[int]] | Tree, noisy: object, total: int, weights: Sequence[int] | None = None
) -> int:
    """Return the optimal cost of Model 1 by trying everything."""
    tree, a = tree_of(levels), np.asarray(noisy)
    w = np.asarray(weights or [1] * tree.n_levels)[tree.level_of]
    return min(int((w * (x - a) ** 2).sum()) for x in all_counts(tree, len(a), total))


def enumerate_model2(levels: Sequence[Sequence[int]] | Tree, noisy: object, total: int) -> int:
    """Return the optimal cost of Model 2 by trying everything."""
    tree, a = tree_of(levels), np.asarray(noisy)
    return min(int(((np.cumsum(x, axis=0) - a) ** 2).sum()) for x in all_counts(tree, len(a), total))


def chain_by_tables(
    y: Sequence[int],
    tied: Sequence[bool],
    total: int,
    weights: Sequence[int] | None = None,
    *,
    last: bool = True,
) -> int:
    """Return the optimal cost of a chain by dynamic programming over all values 0..total (Model 3's tables)."""
    w = weights or [1] * len(y)
    best = [0] * (total + 1)
    for i, (target, weight) in enumerate(zip(y, w, strict=True)):
        if i > 0 and not tied[i - 1]:
            for v in range(1, total + 1):
                best[v] = min(best[v], best[v - 1])
        best = [cost + weight * (v - target) ** 2 for v, cost in enumerate(best)]
    return best[total] if last else min(best)


def isotonic_by_minmax(y: Sequence[int], low: int, high: int) -> list[int]:
    """Return the rounded isotonic regression by the max-min formula of means, in rationals."""
    n = len(y)
    means = [
        [Fraction(sum(y[a : b + 1]), b - a + 1) if b >= a else Fraction(0) for b in range(n)]
        for a in range(n)
    ]
    best = [max(min(means[a][b] for b in range(i, n)) for a in range(i + 1)) for i in range(n)]
    return [min(max(floor(v + Fraction(1, 2)), low), high) for v in best]


def split_by_units(target: Sequence[float], total: int) -> list[int]:
    """Return the nearest nonnegative integers that sum to `total`: one unit at a time to the cheapest place."""
    counts = [0] * len(target)
    for _ in range(total):
        cheapest = min(range(len(target)), key=lambda i: 2 * (counts[i] - target[i]) + 1)
        counts[cheapest] += 1
    return counts


def best_linear_counts(
    siblings: Siblings,
    shrinks: Sequence[bool],
    share: Floats,
    law: Floats,
    differ: Differences,
    along: Floats,
) -> list[tuple[Floats, Floats, Floats]]:
    """Return what each part's cumulative counts are beyond its share, and their covariance, by dense matrices.

    The last covariance is the one that counts of one size have.

    Args:
        siblings, shrinks, share, law, differ: see `best_linear`.
        along: variances of the region's own counts along the eigenvectors of the law; other directions have none.
    """
    found = []
    of_parent = np.linalg.eigh(law)[1]
    of_parent = of_parent @ np.diag(along) @ of_parent.T
    for i, off in enumerate(siblings.off):
        signal = (
            differ.directions @ differ.directions.T + differ.white * np.eye(len(law)) + differ.random * law
        )
        prior = siblings.chance[i] * law + siblings.signal[i] * signal
        noise = siblings.noise[i] * np.eye(len(law))
        inverse = np.linalg.inv(prior + noise) if shrinks[i] else np.zeros_like(law)
        covariance = of_counts = noise - noise @ inverse @ noise
        if not differ.directions.shape[1]:
            lean = noise @ inverse
            unseen = differ.unseen * siblings.signal[i] * law
            covariance = covariance + lean @ (share[i] ** 2 * of_parent + unseen) @ lean.T
            of_counts = covariance + (differ.likely - 1) * lean @ unseen @ lean.T
        found.append((off - noise @ inverse @ off, covariance, of_counts))
    return found


def covariance_of_siblings(siblings: Siblings, chance: Floats) -> tuple[Floats, float]:
    """Return the covariance of siblings' shares that `fit_differences` means, and how much more there is unseen.

    One region and one size at a time; the rest by dense matrices and an integral.
    """
    n, regions = len(chance), range(len(siblings.off))
    middle = sum(chance[s, s] for s in range(n)) / n
    spread = 1e-4
    for _ in range(3):
        weights, above, below = [], 0.0, 0.0
        for r in regions:
            random = siblings.noise[r] + siblings.chance[r] * middle
            bounded = min(siblings.signal[r], 4.0 * float(np.median(siblings.signal)))
            weights.append(bounded / (random * (random + spread * siblings.signal[r])))
            above += weights[r] * (sum(x * x for x in siblings.off[r]) / n - random)
            below += weights[r] * siblings.signal[r]
        spread = max(above / below, 0.0)
    known = np.zeros((n, n))
    seen = np.zeros((n, n))
    for r in regions:
        known += weights[r] * (siblings.noise[r] * np.eye(n) + siblings.chance[r] * chance)
        seen += weights[r] * np.outer(siblings.off[r], siblings.off[r])
    by_noise = [weights[r] * (siblings.noise[r] + siblings.chance[r] * middle) for r in regions]
    ratio = n * sum(x * x for x in by_noise) / sum(by_noise) ** 2
    half = np.linalg.cholesky(known)
    inverse = np.linalg.inv(half)
    clear, missed = np.zeros((n, n)), 0.0
    others, rest, taken = np.eye(n), inverse @ seen @ inverse.T, 0.0
    values, vectors = np.linalg.eigh(inverse @ seen @ inverse.T)
    for value, direction in zip(values, vectors.T, strict=True):
        if value <= (1 + sqrt(ratio)) ** 2:
            continue
        # The larger root of value = (1 + true) (1 + ratio / true).
        true = max(np.roots([1.0, 1.0 + ratio - value, ratio]).real)
        squared_cosine = (1 - ratio / true**2) / (1 + ratio / true)
        clear += true * squared_cosine * np.outer(half @ direction, half @ direction)
        missed += true * (1 - squared_cosine) / n
        others -= np.outer(direction, direction)
        rest -= value * np.outer(direction, direction)
        taken += ratio * (1 + 1 / true)
    # Of the others a square of mean 1 less what was taken from each; more by `unit` for each unit of what is unseen.
    rest -= others * (1 - taken / max(np.trace(others), 1.0))
    unit = others @ inverse @ chance @ inverse.T @ others * below
    usual = 0.5 * sqrt(ratio) / below / max(np.linalg.eigvalsh(chance))
    noise, by_chance = (
        sum(w * x for w, x in zip(weights, part, strict=True)) for part in (siblings.noise, siblings.chance)
    )
    usual *= noise + by_chance * max(np.linalg.eigvalsh(chance))
    unit *= usual
    squares = float((unit * unit).sum())
    if n * squares > 1e-8 * ratio:
        usual *= mean_by_integration(float((unit * rest).sum()) / squares, 2 * ratio / (n * squares), 1.0)
    return np.asarray((clear + missed * known) / below), usual


def clustering_by_regions(
    answers: Ints, columns: Ints, rows: Ints, totals: Ints, parent: Sequence[int], tails: Floats, noise: float
) -> float:
    """Return the fitted clustering of large groups, before the factor, from sums over every person and region.

    Args:
        answers: of every region [node][size].
        columns, rows, totals, parent: of every region; only those with a parent count.
        tails: posterior mean tail counts of every region [node][size + 1].
        noise: variance of one answer.
    """
    squares, weights = [], []
    for r, g in enumerate(parent):
        if g < 0 or rows[r] == 0 or totals[r] in (0, totals[g]):
            continue
        share = totals[r] / totals[g]
        expected = [share * (tails[g, c] - tails[g, c + 1]) for c in range(columns[r], answers.shape[1])]
        # A group of the c-th size past the columns has c + 1 persons there.
        persons = sum((c + 1) * e for c, e in enumerate(expected))
        by_chance = (1 - share) * sum((c + 1) ** 2 * e for c, e in enumerate(expected)) + rows[r] * noise
        seen = sum(int(answers[r, columns[r] + i]) for i in range(rows[r]))
        squares.append(((seen - persons) ** 2 - by_chance) / persons**2)
        weights.append((persons**2 / (by_chance + persons**2)) ** 2)
    return (
        max(sum(w * x for w, x in zip(weights, squares, strict=True)) / sum(weights), 0.0) if weights else 0.0
    )


def siblings(answers: Answers, level: int) -> Iterator[tuple[int, int, float]]:
    """Yield the regions of a level that have siblings and groups, their parents and their shares of these."""
    tree, totals = answers.tree, answers.totals
    for r in range(*tree.columns(level).indices(tree.n_nodes)):
        g = tree.parent[r]
        if totals[r] not in (0, totals[g]):
            yield r, g, totals[r] / totals[g]


def ratios_of_tails(
    answers: Answers, apart: Floats, tails: Floats, of_tails: Floats, level: int
) -> list[float]:
    """Return, per size, how rates of groups of that size or larger vary between siblings; see `ratios_of_siblings`."""
    seen = []
    for r, g, share in siblings(answers, level):
        for c in range(1, answers.choice.columns[r]):
            due = share * tails[g, c]
            by_chance = answers.variance(level) + due * (1 - share) + share**2 * of_tails[g, c]
            seen.append((c, (answers.noisy[r, c] - due) ** 2, by_chance, apart[r] * due**2))
    return ratios_by_integration(seen, [0.25] * answers.noisy.shape[1], 0.5)


def ratios_of_siblings(
    answers: Answers, apart: Floats, tails: Floats, spread: Floats, usual: list[float], level: int
) -> list[float]:
    """Return, per size, how rates of a level's regions vary about their parents', from a list of squared differences.

    Args:
        answers: of which only columns are read.
        apart, tails, spread, usual: see `fit_siblings`.
    """
    totals, n = answers.totals, answers.noisy.shape[1]
    noise, seen, regions = answers.variance(level), [], []
    for r, g, share in siblings(answers, level):
        tail = [totals[r], *answers.noisy[r, 1:], 0]
        for c in range(n if answers.choice.columns[r] == n else answers.choice.columns[r] - 1):
            due = share * max(tails[g, c] - tails[g, c + 1], 0.0)
            exact = (c == 0) + (c + 1 == n)
            by_chance = (2 - exact) * noise if exact < 2 else noise
            by_chance += due * (1 - share) + share**2 * spread[g, c]
            seen.append((c, (tail[c] - tail[c + 1] - due) ** 2, by_chance, apart[r] * due**2))
            regions.append(r)
    return ratios_by_integration(seen, usual, 0.0, regions)


def adapted_by_blocks(before: Floats, tails: Floats, scale: float) -> list[tuple[float, float, float]]:
    """Return, per size, what a region expects after its own tail counts, what is left, and the variance by noise.

    Args:
        before: expected numbers, of the parent.
        tails: of the region [size + 1], whole or not.
        scale: of the noise of one answer.
    """
    need, noise = max(6 * scale, 10.0), 4 * scale**2
    most, blocks, some = min(int(before.sum() / need), len(before)), [], []
    for c in range(len(before) - 1, -1, -1):
        some.insert(0, c)
        if before[some].sum() >= need and len(blocks) < most - 1:
            blocks.append(some)
            some = []
    empty, blocks = not some, [b for b in [*blocks, some] if b]
    off = [tails[b[0]] - tails[b[-1] + 1] - before[b].sum() for b in blocks]
    squares = sum(before[b].sum() ** 2 for b in blocks)
    # A last block without sizes counts as one that shows less than its noise.
    above = sum(d**2 - noise - before[b].sum() for d, b in zip(off, blocks, strict=True)) - empty * noise
    variance = above / squares
    made = [(float(x), 1.0, 0.0) for x in before]
    for d, b in zip(off, blocks, strict=True) if most > 1 and variance > 0 else ():
        due = float(before[b].sum())
        weight = 1 / (1 + noise / (variance * due**2))
        for c in b:
            share = before[c] / due
            made[c] = (before[c] * max(1 + weight * d / due, 0.02), 1 - weight, (weight * share) ** 2 * noise)
    return made


def shared_noise_of_sizes(follows: float, prior: float, variance: float) -> float:
    """Return by how much the middle of many sizes varies more as its prior's mean follows its own noise.

    By dense matrices: numbers of groups are estimated from those answered, whose noise is differences of answers', and
    from the prior's means, which that noise moves.

    Args:
        follows: derivative of each mean by the own number.
        prior, variance: see `variance_of_shared_noise`.
    """
    n, unit = 201, np.eye(201)
    steps = np.diff(np.eye(n + 1), axis=0)
    noise = variance * steps @ steps.T
    weight = prior * np.linalg.inv(prior * unit + noise)
    of_noise = weight + (unit - weight) * follows
    without = weight @ noise @ weight.T + follows**2 * (unit - weight) @ noise @ (unit - weight).T
    return float((of_noise @ noise @ of_noise.T - without)[n // 2, n // 2])


def learned_by_steps(before: Floats, steady: Ints, scale: float) -> list[float]:
    """Return, per size, how what it expects changes with its own number: small steps of both answers, sum of effects.

    A step of an answer moves the tail counts that it is pooled with, those of the same value, each by the mean.
    """
    step, n = 1e-5, len(before)

    def effect(answer: int, size: int) -> float:
        if not 0 < answer < n or steady[answer] in (0, steady[0]):
            return 0.0
        pool = (steady == steady[answer]) & (np.arange(n + 1) % n > 0)
        up, down = (steady + sign * step * pool / pool.sum() for sign in (1, -1))
        expected = [adapted_by_blocks(before, tails, scale)[size][0] for tails in (up, down)]
        return (expected[0] - expected[1]) / (2 * step)

    return [effect(c, c) - effect(c + 1, c) for c in range(n)]


def ratios_of_adapted(
    answers: Answers,
    apart: Floats,
    tails: Floats,
    spread: Floats,
    steady: Ints,
    unlike: list[float],
    level: int,
) -> list[float]:
    """Return, per size, how rates vary beyond what blocks of sizes tell; see `fit_adapted` and `ratios_of_siblings`."""
    totals, n = answers.totals, answers.noisy.shape[1]
    variance, seen = answers.variance(level), []
    scale = sqrt(variance / 2)
    for r, g, share in siblings(answers, level):
        numbers = np.maximum(tails[g, :-1] - tails[g, 1:], 0.0)
        near = [(min(int((c + 1) / 1.2), c), min(int((c + 1) * 1.2) + 1, n)) for c in range(n)]
        smooth = np.array([max(tails[g, a] - tails[g, b], 0.0) / (b - a) for a, b in near])
        before = share * (0.8 * numbers + 0.2 * smooth) + 1e-4 / n
        tail, learned = [totals[r], *answers.noisy[r, 1:], 0], learned_by_steps(before, steady[r], scale)
        made = adapted_by_blocks(before, steady[r], scale)
        for c in range(n if answers.choice.columns[r] == n else answers.choice.columns[r] - 1):
            due, left, of_noise = made[c]
            if left == 1.0:
                continue
            unit = apart[r] * before[c] ** 2
            by_chance = variance * (1 if c in (0, n - 1) else 2) + due * (1 - share) + share**2 * spread[g, c]
            by_chance += (before[c] - share * numbers[c]) ** 2 + of_noise + left**2 * unlike[c] * unit
            square = (tail[c] - tail[c + 1] - due) ** 2 + 2 * variance * learned[c]
            seen.append((c, square, by_chance, (1 - left**2) * unit))
    return ratios_by_integration(seen, unlike, 0.0)


def ratios_of_neighbours(answers: Answers, tails: Floats, level: int) -> list[float]:
    """Return, per size, how numbers of groups vary about the mean of neighbouring sizes; see `ratios_of_siblings`."""
    n, seen = answers.noisy.shape[1], []
    for r in range(*answers.tree.columns(level).indices(answers.tree.n_nodes)):
        stop = answers.choice.columns[r] - 1
        for c in range(1, stop):
            first, end = min(int((c + 1) / 1.2), c), min(int((c + 1) * 1.2) + 1, n)
            if first < 1 or end > stop:
                continue
            # Weights of numbers of groups, and what they make of the answers.
            of_counts = np.zeros(n)
            of_counts[first:end] = -1 / (end - first - 1)
            of_counts[c] = 1
            of_answers = np.diff(of_counts, prepend=0.0)
            rate = max(tails[r, first] - tails[r, end], 0.0) / (end - first)
            square = float(of_counts @ of_counts)
            by_chance = answers.variance(level) * float(of_answers @ of_answers) + rate * square
            seen.append((c, float(of_answers @ answers.noisy[r]) ** 2, by_chance, rate**2 * square))
    return ratios_by_integration(seen, [0.05] * n, 0.5)


def ratios_by_integration(
    seen: Sequence[tuple[int, float, float, float]],
    usual: list[float],
    of_all: float,
    regions: Sequence[int] | None = None,
) -> list[float]:
    """Return posterior means of ratios from (size, square, its mean by chance, its further mean for a ratio of 1).

    Three passes of weighted least squares; the error of a ratio is normal, the prior exponential with the usual mean,
    of which a part comes from all sizes. If the region of each square is given, ratios are larger by one excess over it
    at all sizes, of all regions but the one that tells most, exponential with the mean 1/4 before any data.
    """

    def mean_of(part: list[tuple[float, float]], before: float) -> float:
        weight = sum(w for w, _ in part)
        if weight * before * before <= 1e-8:
            return before
        return mean_by_integration(sum(w * x for w, x in part) / weight, 3 / weight, before)

    ratios, excess = usual, 0.0
    for _ in range(3):
        made = [
            (c, (unit / (chance + ratios[c] * unit)) ** 2, (square - chance) / unit)
            for c, square, chance, unit in seen
            if unit > 0
        ]
        every = [(w, x) for _, w, x in made]
        before = [(1 - of_all) * mean + of_all * mean_of(every, mean) for mean in usual]
        if regions is not None:
            at = [r for r, (*_, unit) in zip(regions, seen, strict=True) if unit > 0]
            by_region = [
                [(w, x - usual[c]) for one, (c, w, x) in zip(at, made, strict=True) if one == r]
                for r in {*at}
            ]
            told = sorted(by_region, key=lambda part: sum(w for w, _ in part))
            excess = mean_of([pair for part in told[:-1] for pair in part], 0.25)
        near = [(int(0.9 * c), min(int(1.1 * c) + 1, len(usual))) for c in range(len(usual))]
        ratios = [
            excess + mean_of([(w, x - excess) for s, w, x in made if a <= s < b], mean)
            for (a, b), mean in zip(near, before, strict=True)
        ]
    return ratios


def mean_by_integration(middle: float, variance: float, before: float) -> float:
    """Return the mean of a number of normal error that is exponential, with the mean `before`, before any data."""
    peak = max(middle - variance / before, 0.0)
    reach = sqrt(variance) if peak > 0 else 1 / (1 / before - middle / variance + 1 / sqrt(variance))
    x = np.linspace(max(peak - 12 * sqrt(variance), 0.0), peak + 40 * reach, 20_001)
    energy = (x - middle) ** 2 / (2 * variance) + x / before
    law = np.exp(energy.min() - energy)
    law[0] /= 2
    return max(float(law @ x / law.sum()), 1e-6)


def path_posterior_by_enumeration(
    answers: Ints,
    columns: int,
    rows: int,
    total: int,
    expected: Floats,
    alike: Floats,
    scale: float,
    large: tuple[int, Floats] | None = None,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return posterior means and variances of tail counts, variances of counts and ratios of their tails.

    From every histogram. The ratio is that of a geometric number from 1 on with E j^2 / E j = (1 + q) / (1 - q).

    Args:
        answers: columns, rows and corners [size], with geometric noise of this scale.
        columns, rows: how the region was measured.
        total: its number of groups, known.
        expected, alike: means and shapes of the negative binomial prior numbers of groups of each size.
        large: cell where large groups begin, and factors on the prior of their number.
    """
    n = len(answers)
    prior = np.zeros((n, total + 1))
    for c in range(n):
        for j in range(total + 1):
            p = expected[c] / (alike[c] + expected[c])
            ways = lgamma(alike[c] + j) - lgamma(alike[c]) - lgamma(j + 1)
            prior[c, j] = exp(ways + alike[c] * log1p(-p) + j * log(p)) + (1e-6 / (j * j) if j else 0.0)
    weights, tails, counts = [], [], []
    for histogram in product(range(total + 1), repeat=n):
        if sum(histogram) != total:
            continue
        long = [size for size in range(n - 1, -1, -1) for _ in range(histogram[size])]
        tail = [sum(histogram[c:]) for c in range(n)]
        exact = tail[:columns] + [max(size + 1 - columns, 0) for size in long[:rows]]
        exact += [max(t - rows, 0) for t in tail[columns : n - rows]]
        # The number of groups is known: its column says nothing.
        off = sum(abs(int(a) - e) for a, e in zip(answers[1:], exact[1:], strict=True))
        weight = exp(-off / scale) * prod(prior[c, j] for c, j in enumerate(histogram))
        weights.append(weight if large is None else weight * large[1][tail[large[0]]])
        tails.append(tail)
        counts.append(histogram)
    law = np.array(weights) / sum(weights)
    held, each = np.array(tails, dtype=np.float64), np.array(counts, dtype=np.float64)
    mean, middle = law @ held, law @ each
    over = law @ each**2 / middle
    return mean, law @ held**2 - mean**2, law @ each**2 - middle**2, (over - 1) / (over + 1)


def model1_by_flow(tree: Tree, noisy: object, total: int) -> tuple[Ints, int | Fraction]:
    """Return counts and cost of Model 1 as a minimum-cost flow (networkx), the readable twin of M_H.

    Every region of every size is an arc bundle of unit segments from its parent's place to its own; leaves
    drain into one sink. Small sizes only.
    """
    import networkx as nx

    a = check_matrix("noisy", noisy, tree)
    graph = nx.MultiDiGraph()
    graph.add_node("groups", demand=-total)
    graph.add_node("sink", demand=total)
    above = {(s, g): (s, int(tree.parent[g])) if g else "groups" for s, g in np.ndindex(a.shape)}
    for (s, g), source in above.items():
        for k in range(total):
            graph.add_edge(source, (s, g), key=k, capacity=1, weight=2 * k + 1 - 2 * int(a[s, g]))
        if g >= tree.n_inner:
            graph.add_edge((s, g), "sink", capacity=total, weight=0)
    _, flow = nx.network_simplex(graph)
    counts = np.zeros_like(a)
    for place, source in above.items() if total else ():
        counts[place] = sum(flow[source][place].values())
    return counts, squared_cost(np.ones(1, dtype=np.int64), counts - a, 1)


def table_optimum(
    levels: Sequence[Sequence[int]] | Tree,
    noisy: object,
    total: int,
    weights: Sequence[int | Fraction] | None = None,
    radius: int | None = None,
) -> tuple[Ints, int | Fraction] | None:
    """Return counts and cost by cost tables, the paper's method at its best.

    Args:
        levels, noisy, total, weights: as in `tree.tree_optimum`.
        radius: keep only counts within this distance of the noisy value (the paper's 3 ceil(2 lam^2)); None
            keeps 0..total.

    Returns:
        None if the truncated domains admit no solution (pgsr.md 1.3, item 7).
    """
    tree = tree_of(levels)
    a = check_matrix("noisy", noisy, tree)
    per_level, denominator = scaled_weights(weights, tree.n_levels)
    w = per_level[tree.level_of]
    low, high = np.zeros_like(a), np.full_like(a, total)
    if radius is not None:
        low, high = np.maximum(a - radius, 0), a + radius
        if np.any(high < low):
            return None
    counts = np.zeros_like(a)
    width = int((high - low).max()) + 1
    if not tables_down(a, w, tree.first_child, low, high, total, width, counts):
        return None
    return counts, squared_cost(w[None, :], counts - a, denominator)


def model_by_gurobi(tree: Tree, noisy: object, total: int, *, cumulative: bool) -> int:
    """Return the optimal cost of Model 1, or of Model 2 with `cumulative`, by gurobi's quadratic program."""
    import gurobipy as gp

    a = check_matrix("noisy", noisy, tree)
    with gp.Env(params={"OutputFlag": 0}) as env, gp.Model(env=env) as model:
        model.Params.MIPGap = 0.0
        model.Params.Threads = 1
        n = model.addMVar((len(a), tree.n_leaves), vtype=gp.GRB.INTEGER, lb=0.0, ub=float(total))
        model.addConstr(n.sum() == total)
        cost = 0
        for g in range(tree.n_nodes):
            below = n[:, tree.leaf_start[g] : tree.leaf_stop[g]].sum(axis=1)
            for s in range(len(a)):
                x = below[: s + 1].sum() if cumulative else below[s]
                cost = cost + (x - int(a[s, g])) * (x - int(a[s, g]))
        model.setObjective(cost, gp.GRB.MINIMIZE)
        model.optimize()
        assert model.Status == gp.GRB.OPTIMAL
        return round(model.ObjVal)


def merge_tables(tables: list[list[int]]) -> list[int]:
    """Return phi(v) = min sum tau_c(x_c) s.t. sum x_c = v for v = 0, 1, ... (Algorithm 1, Table merge).

    Line 2 of the printed algorithm takes the slopes below a minimum in the wrong direction; merging all slopes in
    ascending order from v = 0 is the corrected reading (pgsr.md 1.3, item 4).

    Args:
        tables: convex tables tau_c(0), tau_c(1), ... of the children.
    """
    slopes = sorted(b - a for table in tables for a, b in pairwise(table))
    values = [sum(table[0] for table in tables)]
    for slope in slopes:
        values.append(values[-1] + slope)
    return values


def units_by_slope(tables: list[list[int]], v: int) -> list[int]:
    """Return the argmin x_c of phi(v): the v smallest slopes, each child's in order."""
    slopes = sorted((b - a, c) for c, table in enumerate(tables) for a, b in pairwise(table))
    counts = [0] * len(tables)
    for _, c in slopes[:v]:
        counts[c] += 1
    return counts
