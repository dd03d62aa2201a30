"""Noise really is added, with each level's own law, from fresh bits unless simulated."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from pgsr import Budget, Sizes, hierarchy_of, tree_of
from pgsr.level_noise import Calibration, NoiseSource, calibrate
from pgsr.vectors import measure_exactly
from tests.helpers.groups import book, released

TREE = tree_of([[-1], [0] * 4, sorted([*range(4)] * 5)])
REGIONS = hierarchy_of([("US", "", "nation"), ("GA", "US", "state"), ("NY", "US", "state")])
SHARES = ["1/2", "1/4", "1/4"]
N_SIZES = 20_000
WHY = "made up for these tests"


def by_level(noisy):
    return [noisy[:, TREE.columns(level)].reshape(-1) for level in range(3)]


def test_geometric_noise_has_the_stated_scale_at_every_level():
    """A level drawn with another level's scale, or not at all, is a privacy failure nobody sees in the output.

    Mean |x| of the two-sided geometric is 2a / (1 - a^2); at least 20,000 draws a level, bound 6 standard errors.
    """
    plan = calibrate("tail", TREE, Sizes(N_SIZES), Budget(1, shares=SHARES))
    assert plan.parameters == (2, 4, 4)
    for x, scale in zip(
        by_level(NoiseSource(7).add(np.zeros((N_SIZES, TREE.n_nodes), dtype=np.int64), plan, TREE)),
        (2, 4, 4),
        strict=True,
    ):
        a = exp(-1 / scale)
        spread = 2 * a / (1 - a) ** 2
        assert abs(np.abs(x).mean() - 2 * a / (1 - a * a)) < 6 * (spread / len(x)) ** 0.5
        assert abs(x.mean()) < 6 * (spread / len(x)) ** 0.5
        assert spread == pytest.approx(x.var(), rel=0.1)


def test_gaussian_noise_has_the_stated_variance():
    """The law must follow the plan's choice of noise."""
    plan = calibrate("tail", TREE, Sizes(N_SIZES), Budget(rho="1/50", shares=SHARES))
    assert plan.parameters == (50, 100, 100)
    noisy = NoiseSource(7).add(np.zeros((N_SIZES, TREE.n_nodes), dtype=np.int64), plan, TREE)
    for x, variance in zip(by_level(noisy), (50, 100, 100), strict=True):
        assert variance == pytest.approx(x.var(), rel=0.1)


def test_wide_noise_of_simulations_has_the_stated_scale():
    """Past the sampler's table a simulation uses another generator; it must draw the same law."""
    plan = Calibration(
        "geometric", "correct", Fraction(1), Fraction(1), (Fraction(50_000),) * 3, (1, 1, 1), ("move",)
    )
    noisy = NoiseSource(3).add(np.zeros((N_SIZES, TREE.n_nodes), dtype=np.int64), plan, TREE)
    assert pytest.approx(np.abs(noisy).mean(), rel=0.02) == 50_000


def test_a_release_draws_fresh_noise_on_its_answers(tmp_path):
    """Equal noise in two releases, or none, would hand out the truth."""
    groups = {"region": ["GA", "NY"], "size": [1, 2], "count": [1000, 2000]}
    twice = {"sizes": 200, "epsilon_limit": 1, "again": True, **book(tmp_path)}
    made = [released(groups, REGIONS, "tracking", "1/2", out=tmp_path / str(i), **twice) for i in range(2)]
    leaves = np.zeros((200, 2), dtype=np.int64)
    leaves[0, 0], leaves[1, 1] = 1000, 2000
    tree = REGIONS.tree
    noise = [one.noisy - measure_exactly("tail", tree, tree.sums(leaves)) for one in made]
    assert not np.array_equal(noise[0], noise[1])
    for drawn in noise:
        assert np.abs(drawn).mean() == pytest.approx(4, rel=0.5)


def test_simulations_repeat_and_say_so():
    """A seed gives the same answers, and never the status of a release."""
    groups = {"region": ["GA"], "size": [1], "count": [10]}
    made = [
        released(groups, REGIONS, "tracking", 1, sizes=5, simulate=9, truth_is_public=WHY) for _ in range(2)
    ]
    assert np.array_equal(made[0].noisy, made[1].noisy)
    assert not made[0].is_release
    assert not NoiseSource(9).is_release
    assert NoiseSource().is_release
