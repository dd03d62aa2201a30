"""Intervals of counts: the shortest around the posterior mean, nested, and as often right as they say."""

from fractions import Fraction
from math import erf, floor, pi, sqrt, tanh

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr.estimators import COVERAGES, CountPosterior


def below(x, mean, sd, noise):
    """Return the mass of the posterior's law below x, by other formulas than the kernel's."""
    z = (x - mean) / sd
    return (1 + erf(z / sqrt(2))) / 2 if noise == "gaussian" else (1 + tanh(z * pi / sqrt(12))) / 2


def shortest(count, mean, sd, coverage, noise):
    """Return the shortest run nearest to the mean that holds the count with enough mass, trying every length."""
    for length in range(1, 10_000):
        starts = range(count - length + 1, count + 1)
        first = min(starts, key=lambda a: (abs(2 * a + length - 1 - 2 * mean), -a))
        mass = below(first + length - 0.5, mean, sd, noise)
        mass -= below(first - 0.5, mean, sd, noise) if first > 0 else 0
        if mass >= coverage:
            return max(first, 0), first + length - 1
    raise AssertionError


@given(
    st.integers(0, 60),
    st.floats(0, 60).filter(lambda m: abs(2 * m - floor(2 * m) - 0.5) < 0.49),
    st.floats(0.04, 12),
    st.sampled_from(["geometric", "gaussian"]),
)
@settings(deadline=None, max_examples=150)
def test_an_interval_is_the_shortest_around_the_mean_that_holds_the_count(count, mean, sd, noise):
    """Against trying every length; a longer one promises less than it could, a shorter one too much."""
    posterior = CountPosterior(np.array([[mean]]), np.array([[sd * sd]]), np.array([1e6]), noise)
    inside = count, count
    for coverage in COVERAGES:
        lower, upper = posterior.bounds(np.array([[count]]), coverage)
        low, high = shortest(count, mean, sd, float(coverage), noise)
        assert (low, max(high, 1) if count == 0 and sd * sd > 1e-3 else high) == (lower[0, 0], upper[0, 0])
        assert lower[0, 0] <= inside[0]
        assert inside[1] <= upper[0, 0]
        inside = lower[0, 0], upper[0, 0]


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_intervals_hold_as_often_as_they_say_under_their_law(noise):
    """Wide laws of many means: each level of coverage is met, and hardly exceeded."""
    rng, n = np.random.default_rng(3), 20_000
    mean, sd = rng.uniform(200, 300, n), rng.uniform(10, 20, n)
    drawn = rng.normal(size=n) if noise == "gaussian" else rng.logistic(size=n) * sqrt(3) / pi
    truth = np.rint(mean + sd * drawn).astype(np.int64)
    posterior = CountPosterior(mean[:, None], sd[:, None] ** 2, np.full(n, 1e6), noise)
    counts = np.rint(mean).astype(np.int64)[None, :]
    for coverage in COVERAGES:
        lower, upper = posterior.bounds(counts, coverage)
        held = ((lower <= truth) & (truth <= upper)).mean()
        assert float(coverage) - 0.008 < held < float(coverage) + 0.02


def test_what_is_certain_has_no_width_and_what_is_possible_is_held():
    """A number without variance is itself; a count of 0 where a group is not ruled out reaches 1 at every coverage."""
    posterior = CountPosterior(
        np.array([[3.0, 0.02, 0.0]]), np.array([[0.0, 0.02, 1e-5]]), np.array([9.0]), "geometric"
    )
    for coverage in (Fraction(1, 2), Fraction(99, 100)):
        lower, upper = posterior.bounds(np.array([[3], [0], [0]]), coverage)
        assert lower[:, 0].tolist() == [3, 0, 0]
        assert upper[:, 0].tolist() == [3, 1, 0]


def test_no_bound_is_further_away_than_the_noise_reaches():
    """A posterior that is wider than all noise, or far from the count, cannot be right."""
    posterior = CountPosterior(np.array([[90.0]]), np.array([[1e8]]), np.array([100.0]), "gaussian")
    lower, upper = posterior.bounds(np.array([[50]]), Fraction(19, 20))
    assert (lower[0, 0], upper[0, 0]) == (50, 50 + 20)
