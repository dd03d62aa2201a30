"""All pairs of paths on one grid, beside the composition of each pair in balls."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from topdown.privacy.accountant import PathPairs, dhc_paths, pair_composition, path_law, release_path

BUDGETS = st.builds(Fraction, st.integers(1, 99), st.sampled_from([50, 100, 200, 400, 650]))
PATHS = st.lists(st.dictionaries(BUDGETS, st.integers(1, 12), min_size=1, max_size=3), min_size=1, max_size=3)
EPSILONS = [Fraction(0), Fraction(1, 100), Fraction(3, 2), Fraction(7), Fraction(23)]


@settings(deadline=None, max_examples=12)
@given(PATHS, st.sampled_from(EPSILONS))
@example([{Fraction(1, 100): 1}, {Fraction(1, 200): 1}], Fraction(0))  # an even number of points in a period
@example(
    [{Fraction(1, 997): 3}, {Fraction(1, 10_000): 4}], Fraction(3, 2)
)  # no period for both: composed alone
@example([{Fraction(20): 1}, {Fraction(1, 10): 3}, {Fraction(40): 2}], Fraction(7))  # noise below the sieve
@example([{Fraction(4): 1}, {Fraction(1, 4): 30}], Fraction(1, 100))
def test_a_pair_on_the_grid_is_its_composition(paths, epsilon):
    """A node, a mirror image or a dropped mass too little would put the exact delta outside the bounds."""
    named = [release_path(str(i), budgets) for i, budgets in enumerate(paths)]
    sums = PathPairs([path_law(path) for path in named])
    lower, upper = sums.deltas([epsilon, *EPSILONS])
    for (one, two), low, high in zip(sums.pairs, lower, upper, strict=True):
        pair = pair_composition(named[one], named[two])
        exact = pair.curve([epsilon, *EPSILONS], engine=pair.certifying())
        least, most = pair.delta_arrays([epsilon, *EPSILONS])
        assert np.all(high - low <= 10 * (most - least) + 1e-12 * high + 1e-300)
        for box, a, b in zip(exact, low.tolist(), high.tolist(), strict=True):
            assert Fraction(a) <= box.upper
            assert box.lower <= Fraction(b)


def test_bounds_hold_nothing_back_at_thresholds_between_tilts():
    """Thresholds share tilts; the widest enclosure stays where a tilt for each would have it, but for a few times."""
    paths = [release_path("a", {"1/10": 9, "4/10": 2}), release_path("b", {"1/5": 7, "1/10": 3})]
    epsilons = [Fraction(k, 7) for k in range(90)]
    lower, upper = PathPairs([path_law(path) for path in paths]).deltas(epsilons)
    assert ((upper - lower) / lower).max() < 1e-12


@pytest.mark.slow
def test_every_published_pair_on_the_grid_is_its_composition():
    """All 946 pairs of the 2020 paths: large ones, periods of an even number of points, eight spacings."""
    paths, _ = dhc_paths()
    sums = PathPairs([path_law(path) for path in paths])
    epsilons = [Fraction(0), Fraction(25, 2), Fraction(37)]
    lower, upper = sums.deltas(epsilons)
    assert ((upper - lower) / lower).max() < 1e-12
    for (one, two), low, high in zip(sums.pairs, lower, upper, strict=True):
        least, most = pair_composition(paths[one], paths[two]).delta_arrays(epsilons)
        assert np.all(least <= high)
        assert np.all(low <= most)
