"""The posterior of tail counts is that of all paths; without noise the estimate is the truth."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import Budget, Sizes, tree_of
from pgsr.estimators import (
    ColumnsAndRows,
    RowsDesign,
    all_answers,
    estimate,
    exact_answers,
    mechanism_named,
    path_posterior,
    steady_tails,
)
from pgsr.level_noise import NoiseSource, calibrate
from pgsr.vectors import measure_exactly
from tests.oracles.group_sizes import path_posterior_by_enumeration


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
    mean, variance, spread = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n)
    measured, end = np.array([columns, rows, 0]), np.array([float(total), 0.0])
    path_posterior(answers, measured, reference, expected, alike, likelihood, end, mean, variance, spread)
    due = path_posterior_by_enumeration(answers, columns, rows, total, expected, alike, scale)
    for found, right in zip((mean[:n], variance[:n], spread), due, strict=True):
        assert found == pytest.approx(right, abs=2e-4)


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
    totals = truth.sum(axis=0)
    plan = calibrate("tail_rows", tree, Sizes(80), Budget(1000))
    public = RowsDesign(tree, totals, tuple(map(float, plan.relative_variance)))
    noisy = all_answers(NoiseSource(1), measure_exactly("tail_rows", tree, truth), plan, tree, public)
    found = estimate(mechanism_named("posterior"), tree, noisy, int(totals[0]), "tail_rows", plan, totals)
    assert (shape == "few large groups") <= bool(public.choice(noisy).rows.any())
    assert np.array_equal(truth, found.counts)


def test_large_groups_stay_where_they_are():
    """A few group quarters among households: fewer persons off than tracking, at every level."""
    rng = np.random.default_rng(8)
    tree = tree_of([[-1], [0] * 6, np.repeat(np.arange(6), 10).tolist()])
    leaves = np.zeros((300, 60), dtype=np.int64)
    leaves[:5] = rng.poisson(np.array([90, 100, 40, 30, 10])[:, None], (5, 60))
    np.add.at(leaves, (rng.integers(60, 300, 40), rng.integers(0, 60, 40)), 1)
    truth = tree.sums(leaves)
    totals = truth.sum(axis=0)
    error = {}
    for name, kind in (("posterior", "tail_rows"), ("tracking", "tail")):
        plan = calibrate(kind, tree, Sizes(300), Budget(Fraction(1)))
        public = RowsDesign(tree, totals, tuple(map(float, plan.relative_variance)))
        noisy = all_answers(
            NoiseSource(2),
            measure_exactly(kind, tree, truth),
            plan,
            tree,
            public if kind == "tail_rows" else None,
        )
        found = estimate(mechanism_named(name), tree, noisy, int(totals[0]), kind, plan, totals)
        off = np.abs(np.cumsum((found.counts - truth)[::-1], axis=0)).sum(axis=0)
        error[name] = np.array([off[tree.columns(level)].sum() for level in range(3)])
        if name == "posterior":
            some = truth > 0
            lower, upper = found.posterior.bounds(found.counts, Fraction(19, 20))
            assert ((lower <= truth) & (truth <= upper))[some].mean() > 0.92
    assert (error["posterior"] < error["tracking"]).all()
    assert error["posterior"][-1] < 0.7 * error["tracking"][-1]
