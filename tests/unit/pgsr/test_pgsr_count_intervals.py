"""Intervals beside counts: the probability asked on average over cells, under the law of the posterior."""

from dataclasses import replace
from fractions import Fraction
from math import erf, exp, floor, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr.estimators import COVERAGES, CountPosterior, Siblings, bridge, fit_differences


def posterior_of(mean, variance, most=1e6, noise="geometric", ratio=-1.0, of_noise=1e6):
    """Return the posterior of one size in every region; the noise is large, and the paths say nothing, unless given."""
    n = len(mean)
    tails = np.broadcast_to(np.array(ratio, dtype=np.float32).reshape(-1, 1), (n, 1)).copy()
    own, all_above = np.full(n, float(of_noise)), np.full(n, float(most))
    return CountPosterior(
        np.reshape(mean, (n, 1)), np.reshape(variance, (n, 1)), tails, own, all_above, noise
    )


def law_below(mean, variance, noise, ratio, of_noise):
    """Return the mass of the posterior's law below x, as a function, by other formulas than the kernel's.

    Below a mean of 1: 0, or geometric from 1 on, with the stated first two moments; a variance above Poisson's keeps
    the second moment alone; a known ratio of the tail counts half.
    """
    part = mean - floor(mean)
    variance = max(variance, part * (1 - part))
    if mean >= 1 or variance <= 1e-3:
        z = (lambda x: (x - mean) / sqrt(variance)) if variance else (lambda x: 1e9 * (x - mean))
        # A mixture of normal and Laplace laws of equal variance has a kurtosis between 3 and 6, in proportion.
        excess = max(min(variance / of_noise, 1) * (3 / 2 + 1 / of_noise), 9 / 10)
        of_laplace = min(excess / 3, 1) if noise == "geometric" else 0
        laplace = lambda x: exp(sqrt(2) * z(x)) / 2 if z(x) < 0 else 1 - exp(-sqrt(2) * z(x)) / 2  # noqa: E731
        return lambda x: of_laplace * laplace(x) + (1 - of_laplace) * (1 + erf(z(x) / sqrt(2))) / 2
    poisson = max(np.roots([1.0, 1.0, -variance - mean * mean]).real)
    first, second = max(mean, poisson), variance + mean * mean
    # A geometric number from 1 on with the tail ratio q has the moments 1 / (1 - q) and (1 + q) / (1 - q)^2.
    q = max((second - first) / (second + first), 0.0)
    q = q if ratio < 0 else (q + ratio) / 2
    return lambda x: 1 - min(first * (1 - q), 1.0) * q ** floor(x) if x > 0 else 0.0


def two_runs(count, mean, variance, coverage, noise, ratio, of_noise):
    """Return the longest run with less than the coverage, None if there is none, and the shortest with as much.

    Trying every length: the run that holds the count and lies nearest to the mean, with its mass; of all mass, or of
    the mass of 1 group or more where that is less.
    """
    shorter = None
    below, part = law_below(mean, variance, noise, ratio, of_noise), mean - floor(mean)
    is_possible = max(variance, part * (1 - part)) > 1e-3
    for length in range(1, 10_000):
        starts = range(count - length + 1, count + 1)
        first = min(starts, key=lambda a: (abs(2 * a + length - 1 - 2 * mean), -a))
        mass = below(first + length - 0.5)
        of_groups = mass - below(max(first, 1) - 0.5)
        mass -= below(first - 0.5) if first > 0 else 0
        mass = min(mass, of_groups / (1 - below(0.5))) if is_possible else mass
        least = 1 if count == 0 and is_possible else 0
        found = max(first, 0), max(first + length - 1, least), mass
        if mass >= coverage:
            return shorter, found
        shorter = found
    raise AssertionError


@given(
    st.integers(0, 60),
    st.floats(0, 60).filter(lambda m: abs(2 * m - floor(2 * m) - 0.5) < 0.49),
    st.floats(0.04, 12),
    st.sampled_from(["geometric", "gaussian"]),
    st.sampled_from([-1.0, 0.0, 0.25, 0.75]),
    st.sampled_from([0.125, 2.0, 150.0]),
    st.sampled_from([(1, 500), (500, 1), (22, 23)]),
)
@settings(deadline=None, max_examples=300)
def test_intervals_have_the_mass_asked_on_average(count, mean, sd, noise, ratio, of_noise, shape):
    """Cells of one law, over regions, sizes and both; every length is tried; wider coverage holds the narrower."""
    counts, n = np.full(shape, count), shape[0] * shape[1]
    each = np.ones((shape[1], shape[0]))
    of_region = posterior_of([mean] * shape[1], [sd * sd] * shape[1], noise=noise, of_noise=of_noise)
    tails = (ratio * each).astype(np.float32)
    posterior = replace(of_region, mean=mean * each, variance=sd * sd * each, ratio=tails)
    inside = counts, counts
    for coverage in COVERAGES:
        lower, upper = posterior.bounds(counts, coverage)
        shorter, longer = two_runs(count, mean, sd * sd, float(coverage), noise, ratio, of_noise)
        is_longer = (lower == longer[0]) & (upper == longer[1])
        if shorter is None:
            assert is_longer.all()
        else:
            assert (is_longer | ((lower == shorter[0]) & (upper == shorter[1]))).all()
        if shorter is not None and shorter[:2] != longer[:2]:
            part = (float(coverage) - shorter[2]) / (longer[2] - shorter[2])
            assert abs(is_longer.mean() - part) < 8 / n
        assert (lower <= inside[0]).all()
        assert (inside[1] <= upper).all()
        inside = lower, upper


@pytest.mark.parametrize(("excess", "lacks"), [(0.0, 0.012), (0.5, 0.027)])
def test_intervals_hold_among_cells_that_hold_groups(excess, lacks):
    """Most cells of rare sizes are empty: an interval that holds 95 of 100 of all held half of those with groups.

    Numbers as Poisson has them, of means that are known, or too low by half with the error in the variance: a law of
    the noise held too few of the latter.
    """
    rng, n = np.random.default_rng(6), 60_000
    true = rng.uniform(0.02, 0.8, n)
    truth, mean = rng.poisson(true), (1.0 - excess) * true
    variance = true + (true - mean) ** 2
    posterior = posterior_of(mean, variance)
    for coverage in COVERAGES:
        lower, upper = posterior.bounds(np.zeros((1, n), dtype=np.int64), coverage)
        held = (lower[0] <= truth) & (truth <= upper[0])
        assert held.mean() >= float(coverage)
        assert held[truth > 0].mean() >= float(coverage) - lacks


def test_a_rare_size_has_the_variance_of_a_whole_number_at_least():
    """A mean of 1/4 without variance is no law of whole numbers: such cells were said to be empty for certain."""
    posterior = posterior_of([0.25], [0.0])
    lower, upper = posterior.bounds(np.array([[0]]), Fraction(99, 100))
    assert (lower[0, 0], upper[0, 0]) == (0, 1)


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_intervals_hold_as_often_as_they_say_under_their_law(noise):
    """Wide laws of many means: each level of coverage is met on average, and not exceeded."""
    rng, n = np.random.default_rng(3), 60_000
    mean, sd = rng.uniform(200, 300, n), rng.uniform(10, 20, n)
    peaked = noise == "geometric" and rng.random(n) < 0.3
    drawn = np.where(peaked, rng.laplace(0.0, sqrt(1 / 2), n), rng.normal(size=n))
    truth = np.rint(mean + sd * drawn).astype(np.int64)
    posterior = posterior_of(mean, sd**2, noise=noise)
    counts = np.rint(mean).astype(np.int64)[None, :]
    for coverage in COVERAGES:
        lower, upper = posterior.bounds(counts, coverage)
        held = ((lower <= truth) & (truth <= upper)).mean()
        assert held == pytest.approx(float(coverage), abs=0.005)


def test_what_is_certain_has_no_width_and_what_is_possible_is_held():
    """A number without variance is itself; a count of 0 where a group is not ruled out reaches 1 at every coverage."""
    posterior = posterior_of([3.0, 0.02, 0.0], [0.0, 0.02, 1e-5], most=9.0)
    for coverage in (Fraction(1, 2), Fraction(99, 100)):
        lower, upper = posterior.bounds(np.array([[3, 0, 0]]), coverage)
        assert lower[0].tolist() == [3, 0, 0]
        assert upper[0].tolist() == [3, 1, 0]


def test_no_bound_is_further_away_than_the_noise_reaches():
    """A posterior that is wider than all noise, or far from the count, cannot be right."""
    posterior = posterior_of([90.0], [1e8], most=100.0, noise="gaussian")
    lower, upper = posterior.bounds(np.array([[50]]), Fraction(19, 20))
    assert (lower[0, 0], upper[0, 0]) == (50, 50 + 20)


@pytest.mark.parametrize(("part", "low", "high"), [(0.0, 0.0, 0.2), (0.5, 0.35, 0.65)])
def test_what_does_not_stand_out_from_noise_is_fitted(part, low, high):
    """Siblings of one law, or that differ by half of what may be unseen, at forty sizes alike: the same was allowed."""
    rng, n, sizes = np.random.default_rng(6), 400, 40
    chance = bridge(np.arange(1, sizes + 1) / (sizes + 1))
    groups, noise = np.full(n, 200.0), np.full(n, 9.0)
    allowed = fit_differences(Siblings(np.zeros((n, sizes)), noise, groups, groups**2), chance).unseen
    by_chance = rng.normal(0, 1, (n, sizes)) * np.sqrt(200 + 200**2 * part * allowed)
    off = by_chance @ np.linalg.cholesky(chance).T + rng.normal(0, 3, (n, sizes))
    found = fit_differences(Siblings(off, noise, groups, groups**2), chance)
    assert found.directions.shape[1] == 0
    assert low <= found.likely <= high
