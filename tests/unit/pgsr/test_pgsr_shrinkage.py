"""Known numbers of groups come out exactly; posterior and shrinkage are as slow twins say."""

from fractions import Fraction
from itertools import product
from math import lgamma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import Budget, Sizes, tree_of
from pgsr.estimators import (
    CLUSTERED,
    Adapted,
    Answers,
    ColumnsAndRows,
    Differences,
    LevelAnswers,
    PathBuffers,
    RowsDesign,
    Siblings,
    SmoothPrior,
    TreeLeastSquares,
    adapt_to_region,
    add_up_known,
    all_answers,
    best_linear,
    bridge,
    clustering_of_large,
    constrained_estimate,
    estimate,
    exact_answers,
    fit_adapted,
    fit_differences,
    fit_neighbours,
    fit_siblings,
    fit_tails,
    fit_tree_rows,
    fitted_totals,
    join_answers,
    mechanism_named,
    path_posterior,
    rates_apart,
    shrink_jointly,
    smooth_counts,
    split_bounded,
    steady_tails,
    variance_of_shared_noise,
    weigh_large,
    whole_counts,
    whole_totals,
)
from pgsr.level_noise import NoiseSource, calibrate
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import measure_exactly
from tests.oracles.group_sizes import (
    adapted_by_blocks,
    best_linear_counts,
    clustering_by_regions,
    covariance_of_siblings,
    learned_by_steps,
    path_posterior_by_enumeration,
    ratios_of_adapted,
    ratios_of_neighbours,
    ratios_of_siblings,
    ratios_of_tails,
    shared_noise_of_sizes,
)

BUFFERS = PathBuffers(np.empty(1), np.empty(1))
"""Of all examples: what one region leaves must not reach the next."""
TREES = ([[-1]], [[-1], [0]], [[-1], [0, 0, 0]], [[-1], [0, 0], [0, 0, 1]], [[-1], [0], [0, 0], [0, 1, 1]])


@st.composite
def populations(draw):
    """Return a tree and counts [size][node]; empty regions, single children and one size among them."""
    tree = tree_of(draw(st.sampled_from(TREES)))
    n_sizes = draw(st.integers(1, 6))
    cells = st.lists(st.sampled_from([0, 0, 0, 1, 2, 9, 300]), min_size=tree.n_leaves, max_size=tree.n_leaves)
    leaves = draw(st.lists(cells, min_size=n_sizes, max_size=n_sizes))
    return tree, tree.sums(np.array(leaves, dtype=np.int64))


@settings(max_examples=150, deadline=None)
@given(
    populations(),
    st.integers(0, 2**32),
    st.sampled_from(
        [("tail", "tracking"), ("cumulative", "tracking"), ("tail", "posterior"), ("tail_rows", "posterior")]
    ),
    st.data(),
)
def test_known_numbers_come_out_exactly(population, seed, how, data):
    """Any set of public numbers is kept, beside sums, wholeness and nonnegativity, under any noise."""
    tree, truth = population
    kind, name = how
    rng = np.random.default_rng(seed)
    noisy = (
        measure_exactly(kind, tree, truth)
        + rng.geometric(0.05, truth.shape)
        - rng.geometric(0.05, truth.shape)
    )
    is_known = np.array(data.draw(st.lists(st.booleans(), min_size=tree.n_nodes, max_size=tree.n_nodes)))
    known = np.where(is_known, truth.sum(axis=0), -1)
    plan = calibrate(kind, tree, Sizes(len(truth)), Budget(1))
    found = estimate(mechanism_named(name), tree, noisy, int(truth[:, 0].sum()), kind, plan, known)
    assert np.array_equal(tree.sums(found.counts[:, tree.n_inner :]), found.counts)
    assert found.counts.min() >= 0
    kept = is_known | (np.arange(tree.n_nodes) == 0)
    assert truth[:, kept].sum(axis=0).tolist() == found.counts[:, kept].sum(axis=0).tolist()


@given(st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 4)), min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_a_bounded_split_is_the_nearest(entries, data):
    """The split costs what the best of all splits within the bounds costs."""
    target = np.array([t / 8 for t, _ in entries])
    cap = np.array([c for _, c in entries], dtype=np.int64)
    total = data.draw(st.integers(0, int(cap.sum())))
    out = np.empty(len(cap), dtype=np.int64)
    split_bounded(target, cap, total, out)
    options = [x for x in product(*(range(c + 1) for c in cap.tolist())) if sum(x) == total]
    least = min(sum((8 * v - t) ** 2 for v, (t, _) in zip(x, entries, strict=True)) for x in options)
    assert tuple(out.tolist()) in options
    assert least == sum((8 * v - t) ** 2 for v, (t, _) in zip(out.tolist(), entries, strict=True))


@given(populations(), st.integers(0, 2**32))
@settings(deadline=None)
def test_least_squares_by_rows_is_that_by_columns(population, seed):
    """The compiled fit of rows of regions against the one of columns, weights of every region its own."""
    tree, _ = population
    rng = np.random.default_rng(seed)
    target, solver = (
        rng.normal(0, 9, (3, tree.n_nodes)),
        TreeLeastSquares(tree, rng.uniform(0.1, 5, tree.n_nodes)),
    )
    rows = np.ascontiguousarray(target.T)
    fit_tree_rows(rows, tree.first_child, solver.own[:, None], solver.share[:, None])
    assert pytest.approx(rows) == solver.fit(target).T


def test_whole_totals_follow_what_is_known():
    """A region whose parts are known is known; an unknown one holds at least what is known of its parts."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1, 1]])
    known = np.array([20, -1, -1, 3, 4, 6, -1])
    assert add_up_known(tree, known).tolist() == [20, 7, -1, 3, 4, 6, -1]
    noisy = np.array([20.0, 9.0, 2.0, 0.0, 0.0, 0.0, -30.0])
    assert whole_totals(tree, noisy, np.ones(7), known).tolist() == [20, 7, 13, 3, 4, 6, 7]


def test_regions_that_are_not_shrunk_keep_their_own_data():
    """Where no region may be shrunk, each keeps what answers of its own and its parts say, split to sum up."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    rng = np.random.default_rng(4)
    truth = tree.sums(rng.integers(0, 200, (6, 3)))
    noisy = np.cumsum(truth, axis=0) + rng.integers(-9, 10, truth.shape)
    variances, totals = np.full(tree.n_nodes, 20.0), truth.sum(axis=0)
    joined = join_answers(tree, np.ascontiguousarray(noisy[:5].T, dtype=np.float64), variances)
    assert joined.variance == pytest.approx([140 / 13, 40 / 3, 10.0, 20.0, 20.0, 20.0])
    assert joined.values[2] == pytest.approx((noisy[:5, 2] + noisy[:5, 5]) / 2)
    final, variance = np.cumsum(truth.T.copy(), axis=1, dtype=float), np.ones((tree.n_nodes, 6))
    shrink_jointly(tree, joined, totals, np.zeros(tree.n_nodes, dtype=np.bool_), final, variance)
    assert variance[1:3, :5] == pytest.approx(np.repeat([[40 / 3], [10.0]], 5, axis=1))
    assert final[1:3].sum(axis=0) == pytest.approx(final[0])
    fitted = fitted_totals(tree, noisy, variances, totals, tail=False)
    base = smooth_counts(tree, noisy.astype(float), totals, variances)
    found = constrained_estimate(tree, noisy, variances, fitted, tail=False)
    assert np.array_equal(whole_counts(tree, base.values, totals), found.counts)


@st.composite
def families(draw):
    """Return siblings of random answers, how they differ, the law of their parent; empty ones and only children."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, sizes, directions = draw(st.integers(1, 6)), draw(st.integers(1, 7)), draw(st.integers(0, 2))
    share = rng.dirichlet(np.ones(n))
    share[0] = draw(st.sampled_from([share[0], 0.0]))
    groups = np.round(share * 10.0 ** rng.uniform(0, 5))
    siblings = Siblings(
        rng.normal(0, 30, (n, sizes)),
        10.0 ** rng.uniform(-5, 4, n),
        groups * (1 - share),
        groups * groups * (1 - share),
    )
    law = bridge(np.sort(rng.uniform(0, 1, sizes)))
    unseen = rng.uniform(0, 0.01) if directions == 0 else 0.0
    differ = Differences(
        rng.normal(0, 0.1, (sizes, directions)), *rng.uniform(0, 0.01, 2), unseen, rng.uniform(0, 4)
    )
    return siblings, rng.random(n) < 0.8, share, law, differ, rng.uniform(0, 9, sizes)


@settings(max_examples=80, deadline=None)
@given(families())
def test_siblings_are_shrunk_as_dense_matrices_say(family):
    """One solution for all parts of a region, by eigenvectors, against the inverse of every part's covariance."""
    siblings, shrinks, share, law, differ, along = family
    basis = np.linalg.eigh(law)[1]
    of_parent = basis @ np.diag(along) @ basis.T if not differ.directions.shape[1] else np.zeros_like(law)
    made = best_linear(siblings, shrinks, share, law, differ, of_parent)
    close = {"rel": 1e-6, "abs": 1e-6 * float(siblings.noise.max() + np.abs(siblings.off).max())}
    due = best_linear_counts(siblings, shrinks.tolist(), share, law, differ, along)
    for i, (off, covariance, of_counts) in enumerate(due):
        steps = np.diff(np.eye(len(law)), axis=0, prepend=0.0)
        assert made.off[i] == pytest.approx(off, **close)
        assert made.covariance(i) == pytest.approx(covariance, **close)
        assert made.variance[i] == pytest.approx(np.diag(covariance), **close)
        assert made.of_counts[i] == pytest.approx(np.diag(steps @ of_counts @ steps.T), **close)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 7), st.floats(0.0, 2.0))
def test_how_siblings_differ_is_fitted_as_loops_over_regions_say(seed, n, sizes, strength):
    """Weights, whitening and the size of every direction against loops and another square root of the covariance."""
    rng = np.random.default_rng(seed)
    groups, noise = rng.integers(1, 400, n).astype(float), rng.uniform(1, 50, n)
    chance = bridge(np.sort(rng.uniform(0.02, 0.98, sizes)))
    off = rng.normal(0, 1, (n, 1)) * strength * groups[:, None] * rng.normal(0, 0.3, sizes)
    off += rng.multivariate_normal(np.zeros(sizes), chance, n) * np.sqrt(groups)[:, None]
    off += rng.normal(0, 1, (n, sizes)) * np.sqrt(noise)[:, None]
    siblings = Siblings(off, noise, groups, groups * groups)
    found = fit_differences(siblings, chance)
    made = found.directions @ found.directions.T + found.white * np.eye(sizes) + found.random * chance
    due, unseen = covariance_of_siblings(siblings, chance)
    assert made == pytest.approx(due, rel=1e-6, abs=1e-9 * float(np.abs(due).max()) + 1e-15)
    assert found.unseen * found.likely == pytest.approx(unseen, rel=1e-3)


def test_directions_are_those_of_which_siblings_were_made():
    """Two directions among twelve sizes, smaller than the noise at each: found, and no others; none in noise alone."""
    rng, n, sizes = np.random.default_rng(5), 600, 12
    chance = bridge(np.arange(1, sizes + 1) / (sizes + 1.0))
    groups, noise = np.full(n, 200.0), np.full(n, 900.0)
    true = np.stack([np.full(sizes, 0.1), 0.08 * np.cos(np.arange(sizes))], axis=1)
    random = np.sqrt(200.0) * rng.multivariate_normal(np.zeros(sizes), chance, n)
    random += rng.normal(0, 30, (n, sizes))
    off = 200.0 * rng.normal(0, 1, (n, 2)) @ true.T + random
    found = fit_differences(Siblings(off, noise, groups, groups**2), chance)
    assert found.directions.shape == (sizes, 2)
    assert found.directions @ found.directions.T == pytest.approx(true @ true.T, abs=0.005)
    assert 0.0 < found.white < 1e-3
    alike = fit_differences(Siblings(random, noise, groups, groups**2), chance)
    assert (alike.directions.shape[1], alike.white, alike.random) == (0, 0.0, 0.0)


@pytest.mark.parametrize(("epsilon", "most"), [("1/10", 0.65), ("1/2", 0.8)])
def test_two_opposed_kinds_are_told_apart_under_large_noise(epsilon, most):
    """One size at a time, siblings of two kinds were left to their own noise: errors twice as large.

    Their chance is not their parent's either, whose variances held 93 in 100 where a kind has many groups of a size.
    """
    rng = np.random.default_rng(9)
    tree = tree_of([[-1], [0] * 4, np.repeat(np.arange(4), 25).tolist()])
    law = np.array([40, 25, 14, 9, 6, 3, 2, 1]) / 100
    laws = np.where(rng.random((100, 1)) < 0.5, law, law[::-1])
    truth = tree.sums(np.ascontiguousarray(rng.multinomial(400, laws).T.astype(np.int64)))
    leaves = truth[:, tree.n_inner :]
    found, own = posterior_and_tracking(tree, truth, Fraction(epsilon), 2)
    off, before = (
        np.abs(np.cumsum(f.counts[:, tree.n_inner :] - leaves, axis=0)).sum() for f in (found, own)
    )
    assert off < most * before
    lower, upper = found.posterior.bounds(found.counts, Fraction(19, 20))
    held = ((lower <= truth) & (truth <= upper))[:, tree.n_inner :]
    assert held[leaves > 70].mean() > 0.96


def posterior_and_tracking(tree, truth, epsilon, seed):
    """Return both estimates with public totals from the same tail counts."""
    totals = truth.sum(axis=0)
    plan = calibrate("tail", tree, Sizes(len(truth)), Budget(epsilon))
    rng, success = np.random.default_rng(seed), -np.expm1(-1 / float(plan.parameters[0]))
    exact = measure_exactly("tail", tree, truth)
    noisy = exact + rng.geometric(success, exact.shape) - rng.geometric(success, exact.shape)
    return [
        estimate(mechanism_named(name), tree, noisy, int(totals[0]), "tail", plan, totals)
        for name in ("posterior", "tracking")
    ]


def posterior_of_rows(tree, truth, epsilon, seed):
    """Return the estimate with public totals from columns and rows, and which they were."""
    totals = truth.sum(axis=0)
    plan = calibrate("tail_rows", tree, Sizes(len(truth)), Budget(epsilon))
    public = RowsDesign(tree, totals, tuple(map(float, plan.relative_variance)))
    noisy = all_answers(NoiseSource(seed), measure_exactly("tail_rows", tree, truth), plan, tree, public)
    found = estimate(mechanism_named("posterior"), tree, noisy, int(totals[0]), "tail_rows", plan, totals)
    return found, public.choice(noisy)


@given(*[st.floats(-40, 40)] * 2, *[st.floats(0.5, 90)] * 2)
@settings(deadline=None)
def test_what_leans_to_a_prior_is_the_posterior(own, expected, variance, about):
    """Against moments of the product of both laws, summed over a grid."""
    mean, left = np.array([own]), np.array([variance])
    SmoothPrior(0, slice(0, 1), np.array([expected]), np.array([about])).weigh(mean, left)
    x = np.arange(-120, 120, 0.01)
    surprise = (x - own) ** 2 / (2 * variance) + (x - expected) ** 2 / (2 * about)
    law = np.exp(surprise.min() - surprise)
    law /= law.sum()
    assert mean[0] == pytest.approx(law @ x, abs=1e-6)
    assert left[0] == pytest.approx(law @ (x - mean[0]) ** 2, rel=1e-6)


def test_intervals_lean_from_heaped_counts_to_neighbouring_sizes():
    """Least squares heap groups of leaves unlike each other at some sizes: the truth is nearer to the smoothed ones."""
    rng = np.random.default_rng(1)
    tree = tree_of([[-1], [0] * 12])
    leaves = np.zeros((200, 12), dtype=np.int64)
    for leaf in range(12):
        sizes = np.minimum(rng.lognormal(rng.normal(3.3, 0.5), 0.7, 4000).astype(np.int64), 199)
        leaves[:, leaf] = np.bincount(sizes, minlength=200)
    truth = tree.sums(leaves)
    found, _ = posterior_of_rows(tree, truth, Fraction(1, 10), 0)
    mean, variance = found.posterior.mean.T[:, 1:], found.posterior.variance.T[:, 1:]
    heaped = found.counts[:, 1:] >= 20
    off = truth[:, 1:] - mean
    assert heaped.sum() > 600
    assert (off[heaped] ** 2).mean() < 0.85 * ((truth - found.counts)[:, 1:][heaped] ** 2).mean()
    assert (off[heaped] ** 2).mean() == pytest.approx(variance[heaped].mean(), rel=0.08)


def test_odd_regions_keep_their_own_data():
    """One region under another law must not be made like its many siblings."""
    n = 40
    tree = tree_of([[-1], [0] * n])
    rng = np.random.default_rng(1)
    usual, odd = np.array([40, 30, 20, 10]) / 100, np.array([5, 10, 25, 60]) / 100
    leaves = np.stack([rng.multinomial(800, odd if i == 0 else usual) for i in range(n)], axis=1)
    truth = tree.sums(leaves.astype(np.int64))
    found, own = posterior_and_tracking(tree, truth, Fraction(1, 10), 1)
    wrong, before = (np.abs(f.counts - truth).sum(axis=0)[1:] for f in (found, own))
    assert wrong[0] <= 2 * before[0] + 4
    assert wrong[1:].sum() < 0.7 * before[1:].sum()


def test_few_groups_a_region_are_left_to_tracking():
    """Where most regions hold less than the noise, estimated totals tripled the error: plain tracking is taken."""
    tree = tree_of([[-1], [0] * 30])
    rng = np.random.default_rng(2)
    truth = tree.sums((rng.random((500, 30)) < 0.004).astype(np.int64))
    noisy = (
        measure_exactly("tail", tree, truth) + rng.geometric(0.2, (500, 31)) - rng.geometric(0.2, (500, 31))
    )
    plan = calibrate("tail", tree, Sizes(500), Budget(Fraction(2, 5)))
    total = int(truth[:, 0].sum())
    plain, informed = (
        estimate(mechanism_named(name), tree, noisy, total, "tail", plan)
        for name in ("tracking", "posterior")
    )
    assert np.array_equal(plain.counts, informed.counts)
    assert informed.posterior is None


def test_bounds_hold_where_noise_hides_how_siblings_differ():
    """Families of three that look alike by chance: their own likeness alone gave bounds that held 57 in 100."""
    rng = np.random.default_rng(11)
    tree = tree_of([[-1], [0] * 100, np.repeat(np.arange(100), 3).tolist()])
    laws = np.exp(rng.normal(0, 0.35, (300, 1)) * np.arange(6)) * np.array([30, 30, 15, 14, 7, 4])
    leaves = rng.multinomial(480, laws / laws.sum(axis=1, keepdims=True)).T.astype(np.int64)
    truth = tree.sums(np.ascontiguousarray(leaves))
    found, _ = posterior_and_tracking(tree, truth, Fraction(1, 100), 11)
    lower, upper = found.posterior.bounds(found.counts, Fraction(19, 20))
    held = (lower <= truth) & (truth <= upper)
    assert held[:, tree.n_inner :].mean() > 0.93
    assert (upper - lower)[:, tree.n_inner :].mean() < 600


@pytest.mark.parametrize("epsilon", ["1/10", "1/2"])
def test_intervals_hold_where_every_size_differs_by_itself(epsilon):
    """Rates of all sizes are independent: numbers of many sizes hide it, and priors are adapted to single sizes.

    Of intervals of 95 % here 88 and 89 in 100 held.
    """
    held = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        tree = tree_of([[-1], [0] * 4, np.repeat(np.arange(4), 30).tolist()])
        truth = tree.sums(rng.poisson(45 * rng.gamma(4.0, 0.25, (24, 120))))
        found, _ = posterior_and_tracking(tree, truth, Fraction(epsilon), seed)
        lower, upper = found.posterior.bounds(found.counts, Fraction(19, 20))
        held.append(((lower <= truth) & (truth <= upper))[:, tree.n_inner :].mean())
    assert np.mean(held) > 0.925


@given(st.floats(0.0, 1.0), st.floats(1.0, 900.0), st.floats(0.5, 90.0))
@settings(deadline=None, max_examples=15)
def test_noise_that_prior_and_answers_share_is_that_of_dense_matrices(follows, prior, variance):
    """The closed form of an even row of sizes against the middle of 201 sizes; both answers of a number move it."""
    made = variance_of_shared_noise(np.array([2.0 * follows]), np.array([prior]), variance)
    assert made == pytest.approx(shared_noise_of_sizes(follows, prior, variance), rel=1e-6, abs=1e-9)


@given(st.integers(2, 4), st.integers(1, 4), st.integers(0, 2**32), st.data())
@settings(deadline=None, max_examples=60)
def test_the_posterior_is_that_of_all_paths(n, total, seed, data):
    """Columns, rows and corners of few groups: means and variances against the sum over every set of groups."""
    rng, scale = np.random.default_rng(seed), 1.5
    columns = data.draw(st.integers(1, n))
    rows = data.draw(st.integers(0, min(n - columns, total)))
    sizes = rng.integers(0, n, total)
    tails = (sizes[:, None] >= np.arange(n)).sum(axis=0)[:, None]
    choice = ColumnsAndRows(np.array([columns]), np.array([rows]))
    answers = exact_answers(tails, choice, slice(0, 1))[:, 0] + rng.integers(-2, 3, n)
    expected, alike = rng.uniform(0.1, 2.0, n), rng.uniform(1.0, 6.0, n)
    likelihood = np.exp(-np.arange(200) / scale)
    reference = np.empty(n + 1, dtype=np.int64)
    steady_tails(answers, columns, rows, total, reference)
    made = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n), np.zeros(n)
    begin, large = data.draw(st.integers(-1, n - 1)), rng.uniform(0.2, 5.0, total + 1)
    measured, end = np.array([columns, rows, 0, begin]), np.array([float(total), 0.0])
    path_posterior(answers, measured, reference, expected, alike, likelihood, end, large, *made, BUFFERS)
    factors = None if begin < 0 else (begin, large)
    due = path_posterior_by_enumeration(answers, columns, rows, total, expected, alike, scale, factors)
    for found, right in zip(made, due, strict=True):
        assert found[:n] == pytest.approx(right, abs=2e-4)


@st.composite
def measured_in_rows(draw):
    """Return a tree with one region and its parts, noisy answers of which some are rows, and the design."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.integers(1, 6))
    tree, n_sizes = tree_of([[-1], [0] * n]), draw(st.integers(3, 9))
    columns = rng.integers(1, n_sizes, n + 1)
    rows = np.minimum(rng.integers(0, 3, n + 1), n_sizes - columns)
    truth = tree.sums(rng.poisson(0.8, (n_sizes, n)))
    plan = calibrate(
        "tail_rows", tree, Sizes(n_sizes), Budget(draw(st.sampled_from([Fraction(1, 3), Fraction(40)])))
    )
    noisy = rng.integers(-9, 30, (n + 1, n_sizes))
    tails = np.zeros((n + 1, n_sizes + 1))
    tails[0, :-1] = np.sort(rng.uniform(0.0, 30.0, n_sizes))[::-1]
    return Answers(tree, noisy, ColumnsAndRows(columns, rows), truth.sum(axis=0), plan), tails


@settings(max_examples=80, deadline=None)
@given(measured_in_rows())
def test_clustering_is_fitted_as_sums_over_groups_and_regions_say(made):
    """Persons in rows, what chance does to them, and the weight of every region, against loops over groups."""
    answers, tails = made
    choice, tree = answers.choice, answers.tree
    parents = [-1] + [0] * (tree.n_nodes - 1)
    due = clustering_by_regions(
        answers.noisy, choice.columns, choice.rows, answers.totals, parents, tails, answers.variance(1)
    )
    assert CLUSTERED * due == pytest.approx(clustering_of_large(answers, tails, 1), rel=1e-9, abs=1e-12)


@given(st.integers(2, 9), st.integers(1, 14), st.integers(0, 2**32), st.sampled_from([3.0, 40.0, 3000.0]))
@settings(deadline=None, max_examples=40)
def test_what_counts_vary_by_is_fitted_as_lists_of_squares_say(parts, n_sizes, seed, many):
    """Rates of siblings and neighbouring sizes, known well, hardly or not at all, against sums and an integral."""
    rng = np.random.default_rng(seed)
    tree = tree_of([[-1], [0] * parts])
    truth = tree.sums(rng.poisson(many * rng.gamma(2.0, 0.5, (n_sizes, parts))))
    plan = calibrate("tail", tree, Sizes(n_sizes), Budget(Fraction(1, 2)))
    tails = np.zeros((tree.n_nodes, n_sizes + 1))
    tails[:, :-1] = np.cumsum(truth[::-1], axis=0)[::-1].T
    noisy = np.rint(tails[:, :-1] + rng.laplace(0.0, 4.0, (tree.n_nodes, n_sizes))).astype(np.int64)
    columns = np.where(rng.random(tree.n_nodes) < 0.3, rng.integers(1, n_sizes + 1), n_sizes)
    answers = Answers(tree, noisy, ColumnsAndRows(columns, 0 * columns), truth.sum(axis=0), plan)
    apart, spread = rates_apart(tree, answers.totals), rng.uniform(0.0, 9.0, noisy.shape)
    found, usual, of_tails = np.empty(n_sizes), np.empty(n_sizes), rng.uniform(0.0, 9.0, tails.shape)
    of_nodes = noisy, columns, answers.totals, tree.parent, apart, tails, of_tails, spread
    level = LevelAnswers(*of_nodes, 1, tree.n_nodes, answers.variance(1))
    fit_tails(level, usual)
    assert usual == pytest.approx(ratios_of_tails(answers, apart, tails, of_tails, 1), rel=1e-3, abs=2e-6)
    fit_siblings(level, usual, found)
    due = ratios_of_siblings(answers, apart, tails, spread, usual.tolist(), 1)
    assert found == pytest.approx(due, rel=1e-3, abs=2e-6)
    steady, unlike = np.zeros((tree.n_nodes, n_sizes + 1), dtype=np.int64), found.copy()
    for r in range(tree.n_nodes):
        steady_tails(noisy[r], n_sizes, 0, answers.totals[r], steady[r])
    fit_adapted(level, steady, unlike, found)
    due = ratios_of_adapted(answers, apart, tails, spread, steady, unlike.tolist(), 1)
    assert found == pytest.approx(due, rel=1e-3, abs=2e-6)
    fit_neighbours(level, found)
    assert found == pytest.approx(ratios_of_neighbours(answers, tails, 1), rel=1e-3, abs=2e-6)


@given(st.integers(2, 12), st.floats(0.5, 9.0), st.sampled_from([2.0, 30.0, 400.0]), st.integers(0, 2**32))
@settings(deadline=None, max_examples=80)
def test_a_region_adapts_its_prior_as_its_blocks_say(n, scale, many, seed):
    """Blocks, weights and noise against lists; what noise moves, through pools and the variance of ratios, by steps."""
    rng = np.random.default_rng(seed)
    before = many * rng.gamma(0.5, 2.0, n)
    own = rng.poisson(before * rng.gamma(2.0, 0.5, n))
    tails = np.append(np.cumsum(own[::-1])[::-1], 0)
    steady = np.empty(n + 1, dtype=np.int64)
    steady_tails(tails[:-1] + np.rint(rng.laplace(0.0, scale, n)).astype(np.int64), n, 0, tails[0], steady)
    made = np.empty((4, n))
    adapt_to_region(before, steady, scale, Adapted(*made))
    assert made[:3] == pytest.approx(
        np.transpose(adapted_by_blocks(before, steady, scale)), rel=1e-9, abs=1e-12
    )
    assert made[3] == pytest.approx(learned_by_steps(before, steady, scale), rel=1e-4, abs=1e-5)


def test_squared_errors_of_an_adapted_prior_are_told_by_noisy_answers():
    """Of rates that blocks share: squares from answers are the true ones, and what is left of their variance nearly.

    About the parent's numbers it is three times as large. Squares of which the covariance of noise and prior is not
    taken away say nothing.
    """
    rng, scale, n, apart = np.random.default_rng(6), 20.0, 30, 0.2
    before, noise, some = np.full(n, 45.0), 2 * scale**2, slice(1, n - 1)
    left_over, true, from_answers, without, of_parent = np.zeros((5, n - 2))
    for _ in range(600):
        rates = before * np.repeat(rng.gamma(1 / apart, apart, n // 3), 3)
        truth = rng.poisson(rates)
        tails = np.append(np.cumsum(truth[::-1])[::-1], 0)
        noisy = tails[:-1] + np.rint(rng.laplace(0.0, scale, n)).astype(np.int64)
        steady, (expected, left, of_noise, learned) = np.empty(n + 1, dtype=np.int64), np.empty((4, n))
        steady_tails(noisy, n, 0, tails[0], steady)
        adapt_to_region(before, steady, scale, Adapted(expected, left, of_noise, learned))
        square = (noisy[1:-1] - noisy[2:] - expected[some]) ** 2 - 2 * noise - expected[some]
        left_over += (left**2 * apart * before**2 + of_noise)[some]
        true += (rates - expected)[some] ** 2
        without += square
        from_answers += square + 2 * noise * learned[some]
        of_parent += apart * before[some] ** 2
    assert from_answers.sum() == pytest.approx(true.sum(), rel=0.1)
    assert without.sum() < 0.0
    assert true.sum() < left_over.sum() < 1.5 * true.sum()
    assert of_parent.sum() > 2.5 * true.sum()


@given(st.lists(st.integers(0, 900), min_size=1, max_size=7).filter(sum))
def test_a_part_varies_about_its_parent_as_the_rates_of_all_parts_say(groups):
    """With independent rates of variance 1: a giant hardly differs from its parent, and its siblings doubly."""
    tree, totals = tree_of([[-1], [0] * len(groups)]), np.array([sum(groups), *groups])
    differences = np.eye(len(groups)) - totals[1:] / totals[0]
    assert rates_apart(tree, totals)[1:] == pytest.approx((differences**2).sum(axis=1), abs=1e-12)


@given(st.integers(1, 6), st.integers(0, 2**32), st.floats(0.5, 8.0))
@settings(deadline=None, max_examples=40)
def test_factors_turn_the_prior_of_large_groups_into_the_clustered_one(n, seed, clustering):
    """The number of large groups keeps its mean and gets the asked variance; less than it has changes nothing."""
    rng = np.random.default_rng(seed)
    expected, alike = rng.uniform(0.1, 1.0, n), rng.uniform(1.0, 6.0, n)
    factors = np.empty(400)
    begin = weigh_large(expected, alike, 0, clustering, factors)
    persons = expected * np.arange(1, n + 1)
    tails = np.cumsum(expected[::-1])[::-1]
    assert tails[:begin].sum() < 0.1 * persons.sum() or begin == 0
    mean = expected[begin:].sum()
    apart = (expected[begin:] ** 2 / alike[begin:]).sum() / mean**2
    if clustering <= apart:
        assert np.array_equal(factors, np.ones(400))
        return
    surprise = np.append(0.0, 1e-6 * (n - begin) / np.arange(1, 400) ** 2)
    independent, clustered = (negative_binomial(mean, 1 / relative) for relative in (apart, clustering))
    assert factors * (independent + surprise) == pytest.approx(clustered + surprise, rel=1e-6)


def negative_binomial(mean, shape):
    """Return the law of 0 to 399."""
    number = np.arange(400)
    ways = np.array([lgamma(shape + j) - lgamma(shape) - lgamma(j + 1) for j in number])
    return np.exp(ways + shape * np.log(shape / (shape + mean)) + number * np.log(mean / (shape + mean)))


def test_regions_without_large_groups_are_told_from_those_with_many():
    """Of independent sizes, every leaf got some hotels that only a third of them have."""
    rng = np.random.default_rng(4)
    tree = tree_of([[-1], [0] * 60])
    leaves = np.zeros((300, 60), dtype=np.int64)
    leaves[0] = 300
    for leaf in range(0, 60, 3):
        np.add.at(leaves[:, leaf], rng.integers(30, 80, 12), 1)
    truth = tree.sums(leaves)
    found, choice = posterior_of_rows(tree, truth, Fraction(1, 10), 3)
    assert choice.rows[1:].all()
    large = found.counts[1:, 1:].sum(axis=0)
    assert np.delete(large, np.arange(0, 60, 3)).sum() <= 25
    assert large[::3].sum() == pytest.approx(240, abs=24)


@pytest.mark.parametrize("shape", ["few large groups", "many groups", "two opposed kinds"])
def test_the_error_vanishes_with_the_noise(shape):
    """A variance with a constant part left errors of thousands of persons at epsilon 1000."""
    rng = np.random.default_rng(3)
    tree = tree_of([[-1], [0] * 4, np.repeat(np.arange(4), 5).tolist()])
    leaves = np.zeros((80, 20), dtype=np.int64)
    if shape == "few large groups":
        np.add.at(leaves, (rng.integers(0, 80, 90), rng.integers(0, 20, 90)), 1)
    else:
        leaves[:6] = rng.poisson(40, (6, 20))
        leaves[6:] = rng.poisson(0.05, (74, 20))
    if shape == "two opposed kinds":
        leaves[:, ::2] = leaves[::-1, ::2].copy()
    truth = tree.sums(leaves)
    found, choice = posterior_of_rows(tree, truth, Fraction(1000), 1)
    assert (shape == "few large groups") <= bool(choice.rows.any())
    assert np.array_equal(truth, found.counts)


def test_large_groups_stay_where_they_are():
    """A few group quarters among households: fewer persons off than tracking, at every level."""
    rng = np.random.default_rng(8)
    tree = tree_of([[-1], [0] * 6, np.repeat(np.arange(6), 10).tolist()])
    leaves = np.zeros((300, 60), dtype=np.int64)
    leaves[:5] = rng.poisson(np.array([90, 100, 40, 30, 10])[:, None], (5, 60))
    np.add.at(leaves, (rng.integers(60, 300, 40), rng.integers(0, 60, 40)), 1)
    truth = tree.sums(leaves)
    found, own = (
        posterior_of_rows(tree, truth, Fraction(1), 2)[0],
        posterior_and_tracking(tree, truth, 1, 2)[1],
    )
    off, before = (np.abs(np.cumsum((f.counts - truth)[::-1], axis=0)).sum(axis=0) for f in (found, own))
    lower, upper = found.posterior.bounds(found.counts, Fraction(19, 20))
    assert ((lower <= truth) & (truth <= upper))[truth > 0].mean() > 0.92
    for level in range(3):
        assert (
            off[tree.columns(level)].sum() < (0.7 if level == 2 else 1.0) * before[tree.columns(level)].sum()
        )


def test_intervals_hold_where_numbers_end_at_a_size():
    """A state has 900 groups of size 11 and 10 of size 12; the prior, smoothed there, is off by more than its variance.

    Of intervals of 95 %, 94 in 100 of sizes 11 to 13 hold here; 51 did where that was not part of the variance.
    """
    held = []
    for seed in range(3):
        made = synthesize("census", seed)
        some = np.flatnonzero(made.hierarchy.tree.parents[2] < 8)
        tree = tree_of([[-1], [0] * 8, made.hierarchy.tree.parents[2][some].tolist()])
        truth = tree.sums(np.ascontiguousarray(made.counts[:, made.hierarchy.tree.n_inner + some]))
        found, _ = posterior_of_rows(tree, truth, Fraction(1, 10), seed)
        lower, upper = found.posterior.bounds(found.counts, Fraction(19, 20))
        held.append(((lower <= truth) & (truth <= upper))[10:13, 1:9])
    assert np.mean(held) >= 0.85
