"""Known numbers of groups come out exactly, whatever the tree; shrinkage to the parent is what its twin says."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import Budget, Sizes, tree_of
from pgsr.estimators import (
    TreeLeastSquares,
    add_up_known,
    constrained_estimate,
    estimate,
    fit_tree_rows,
    fitted_totals,
    mechanism_named,
    shrink_siblings,
    shrink_to_parent,
    smooth_counts,
    split_bounded,
    whole_counts,
    whole_totals,
)
from pgsr.level_noise import calibrate
from pgsr.vectors import measure_exactly
from tests.oracles.group_sizes import shrink_by_rationals

TREES = (
    [[-1]],
    [[-1], [0]],
    [[-1], [0, 0, 0]],
    [[-1], [0, 0], [0, 0, 1]],
    [[-1], [0], [0, 0], [0, 1, 1]],
)


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
    """Without shrinkage the estimate is that of the base alone, to the last digit."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    rng = np.random.default_rng(4)
    truth = tree.sums(rng.integers(0, 200, (6, 3)))
    noisy = np.cumsum(truth, axis=0) + rng.integers(-9, 10, truth.shape)
    variances = np.full(tree.n_nodes, 20.0)
    totals = truth.sum(axis=0)
    base = smooth_counts(tree, noisy.astype(float), totals, variances)
    final, variance = shrink_to_parent(tree, base, np.zeros(tree.n_nodes, dtype=np.bool_))
    assert np.array_equal(base.values, final)
    assert np.array_equal(base.noise[:, :-1], variance[:, :-1])
    fitted = fitted_totals(tree, noisy, variances, totals, tail=False)
    found = constrained_estimate(tree, noisy, variances, fitted, tail=False)
    assert np.array_equal(whole_counts(tree, base.values, totals), found.counts)


@pytest.mark.parametrize("empty", [False, True])
def test_shrinkage_is_what_its_twin_in_rationals_says(empty):
    """The compiled formulas of siblings' likeness, trust, means and variances against exact ones: seven nodes."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1, 1]])
    rng = np.random.default_rng(7)
    leaves = rng.integers(1, 90, (4, 4))
    leaves[:, 1] = 0 if empty else leaves[:, 1]
    truth = tree.sums(leaves)
    noisy = np.cumsum(truth, axis=0) + rng.integers(-6, 7, truth.shape)
    base = smooth_counts(tree, noisy.astype(float), truth.sum(axis=0), np.full(7, 8.0))
    exact = [[Fraction(value) for value in row] for row in base.values.tolist()]
    noise = [[Fraction(value) for value in row] for row in base.noise.tolist()]
    for g, below in ((0, slice(1, 3)), (1, slice(3, 5)), (2, slice(5, 7))):
        above = np.stack([base.values[g], base.values[g] * 0.99, base.noise[g]])
        above[1, -1] = above[0, -1]
        n = below.stop - below.start
        out, variance = np.empty((n, 4)), np.empty((n, 4))
        totals = base.values[below, -1].copy()
        own, pooled = (base.values[below], base.noise[below], totals), np.array([0.0, 0.02, 9.0])
        shrink_siblings(above, *own, np.ones(n, np.bool_), pooled, out, variance)
        rows = [[Fraction(value) for value in row] for row in above.tolist()]
        expected = shrink_by_rationals(rows, exact[below], noise[below], [Fraction(p) for p in pooled])
        for found, due in zip((out, variance), expected, strict=True):
            assert np.array([[float(v) for v in row] for row in due]) == pytest.approx(
                found, rel=1e-9, abs=1e-9
            )


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
