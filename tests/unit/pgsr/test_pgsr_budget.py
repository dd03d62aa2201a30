"""Budgets to noise: sensitivities against brute force, scales and true losses, and noise of each level's own law."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import exp

import numpy as np
import pytest

from pgsr import Budget, Sizes, hierarchy_of, tree_of
from pgsr.estimators import half_width
from pgsr.level_noise import Calibration, NoiseSource, calibrate
from pgsr.neighbours import PERSON_STEPS, RELATIONS
from pgsr.sensitivity_audit import enumerate_sensitivity, naive_vector
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import KINDS, Sensitivity, measure_exactly, sensitivity
from tests.helpers.groups import book, released
from topdown.errors import BudgetError

TREE = tree_of([[-1], [0, 0], [0, 0, 1, 1]])
CENSUS = synthesize("census").hierarchy.tree


def test_scales_are_those_of_the_paper():
    """2L/eps for histograms, L/eps for cumulative counts."""
    assert (Fraction(12),) * 3 == calibrate("histogram", TREE, Sizes(5), Budget("1/2")).parameters
    assert (Fraction(6),) * 3 == calibrate("cumulative", TREE, Sizes(5), Budget("1/2")).parameters
    assert (Fraction(6),) * 3 == calibrate("tail", TREE, Sizes(5), Budget("1/2"), ("move", "new")).parameters


def test_chain_needs_the_number_of_regions():
    """The correct chain has scale |R_l| L / eps at level l."""
    plan = calibrate("chain", CENSUS, Sizes(1000), Budget(Fraction(1)))
    assert (Fraction(3), Fraction(156), Fraction(9432)) == plan.parameters
    assert plan.private


@pytest.mark.parametrize(("claimed", "true"), [("1/10", "3197/30"), ("1", "3197/3")])
def test_published_chain_is_priced_honestly(claimed, true):
    """|R| eps / L: 106.6 at claim 0.1 on the census tree."""
    plan = calibrate("chain", CENSUS, Sizes(1000), Budget(claimed, calibration="published"))
    assert Fraction(true) == plan.loss
    assert not plan.private


def test_gaussian_noise_costs_its_rho():
    """Variance follows from the squared sensitivity; histograms change in two places a level."""
    plan = calibrate("histogram", TREE, Sizes(5), Budget(rho="1/2"))
    assert ((Fraction(6),) * 3, Fraction(1, 2)) == (plan.parameters, plan.loss)


def test_unequal_shares_are_exact():
    """Shares that do not sum to one would spend another budget than the ledger says."""
    plan = calibrate("tail", TREE, Sizes(5), Budget("1/2", shares=["1/10", "2/10", "7/10"]))
    assert (Fraction(20), Fraction(10), Fraction(20, 7)) == plan.parameters
    assert Fraction(1, 2) == plan.loss
    for shares in (["1/2", "1/2"], ["1/2", "1/4", "1/8"]):
        with pytest.raises(BudgetError):
            calibrate("tail", TREE, Sizes(5), Budget("1/2", shares=shares))


def test_interval_widths():
    """Half widths measured for the specification: 123 and 12 (differences), 180 and 18 (histograms)."""
    for epsilon, difference, single in ((Fraction(1, 10), 123, 180), (Fraction(1), 12, 18)):
        assert difference == half_width("geometric", 3 / epsilon, accumulates=True, coverage=Fraction(19, 20))
        assert single == half_width("geometric", 6 / epsilon, accumulates=False, coverage=Fraction(19, 20))


WIDE_TREE = tree_of([[-1], [0] * 4, sorted([*range(4)] * 5)])
REGIONS = hierarchy_of([("US", "", "nation"), ("GA", "US", "state"), ("NY", "US", "state")])
NOISE_SHARES = ["1/2", "1/4", "1/4"]
N_SIZES = 20_000
WHY = "made up for these tests"


def by_level(noisy):
    return [noisy[:, WIDE_TREE.columns(level)].reshape(-1) for level in range(3)]


def test_geometric_noise_has_the_stated_scale_at_every_level():
    """A level drawn with another level's scale, or not at all, is a privacy failure nobody sees in the output.

    Mean |x| of the two-sided geometric is 2a / (1 - a^2); at least 20,000 draws a level, bound 6 standard errors.
    """
    plan = calibrate("tail", WIDE_TREE, Sizes(N_SIZES), Budget(1, shares=NOISE_SHARES))
    assert plan.parameters == (2, 4, 4)
    for x, scale in zip(
        by_level(NoiseSource(7).add(np.zeros((N_SIZES, WIDE_TREE.n_nodes), dtype=np.int64), plan, WIDE_TREE)),
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
    plan = calibrate("tail", WIDE_TREE, Sizes(N_SIZES), Budget(rho="1/50", shares=NOISE_SHARES))
    assert plan.parameters == (50, 100, 100)
    noisy = NoiseSource(7).add(np.zeros((N_SIZES, WIDE_TREE.n_nodes), dtype=np.int64), plan, WIDE_TREE)
    for x, variance in zip(by_level(noisy), (50, 100, 100), strict=True):
        assert variance == pytest.approx(x.var(), rel=0.1)


def test_wide_noise_of_simulations_has_the_stated_scale():
    """Past the sampler's table a simulation uses another generator; it must draw the same law."""
    plan = Calibration(
        "geometric", "correct", Fraction(1), Fraction(1), (Fraction(50_000),) * 3, (1, 1, 1), ("move",)
    )
    noisy = NoiseSource(3).add(np.zeros((N_SIZES, WIDE_TREE.n_nodes), dtype=np.int64), plan, WIDE_TREE)
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


TREES = (([-1], [0, 0]), ([-1], [0, 0], [0, 0, 1]), ([-1], [0], [0, 0]))
MANY = [
    ("household",),
    ("household", "appears"),
    *(subset for n in (1, 2, 3) for subset in combinations(PERSON_STEPS, n)),
]
SHARES = {2: ("1/5", "4/5"), 3: ("1/7", "2/7", "4/7")}


def test_a_unit_that_enters_alone_where_size_0_is_counted():
    """It stands in d_0 and in d_1 of every level: 4 in two levels, in L1 and in squared L2, not 2."""
    found = sensitivity("tail", "new", tree_of([[-1], [0, 0]]), 4, smallest=0)
    assert found == Sensitivity((2, 2), 4, 4)


@pytest.mark.parametrize("smallest", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_the_worst_neighbour(kind, smallest):
    """Noise of unequal levels must be paid for the worst single neighbour: no more, no less, no entry moved by two."""
    for levels, n_sizes in product(TREES, (1, 2, 3)):
        tree = tree_of(levels)
        seen = {r: enumerate_sensitivity(kind, r, tree, n_sizes, 2, smallest) for r in RELATIONS}
        assert all(found.largest_entry <= 1 for found in seen.values())
        for relations, noise in product(MANY, ("epsilon", "rho")):
            plan = calibrate(
                kind,
                tree,
                Sizes(n_sizes, smallest),
                Budget(**{noise: "3/2"}, shares=SHARES[len(levels)]),
                relations,
            )
            half = 2 if noise == "rho" else 1
            worst = max(
                (
                    sum(Fraction(n) / (half * p) for n, p in zip(pattern, plan.parameters, strict=True))
                    for relation in relations
                    for pattern in seen[relation].patterns
                ),
                default=Fraction(0),
            )
            assert worst == plan.loss, (levels, n_sizes, relations)


def table(units, smallest, n_sizes):
    """Count units, given as (leaf, people that count), top-coded; None if one is too small to be counted."""
    leaves = np.zeros((n_sizes, 2), dtype=np.int64)
    for leaf, size in units:
        if size < smallest:
            return None
        leaves[min(size - smallest, n_sizes - 1), leaf] += 1
    return leaves


def people_steps(units):
    """Yield what units become when one person joins: a unit grows, or a new one appears with 0 or 1 counted in it."""
    for i, (leaf, size) in enumerate(units):
        yield (*units[:i], (leaf, size + 1), *units[i + 1 :])
    for leaf, size in product((0, 1), (0, 1)):
        yield (*units, (leaf, size))


@pytest.mark.parametrize(("smallest", "n_sizes"), [(0, 3), (1, 3), (0, 1), (1, 2)])
def test_one_person_is_a_move_or_a_new_group(smallest, n_sizes):
    """A person who joins or leaves must be one of the named steps, whose noise then covers it: `move` if G stays."""
    tree = tree_of([[-1], [0, 0]])
    kinds = ("histogram", "cumulative", "tail", "chain", "tail_chain", "region_major")
    limit = {(k, r): sensitivity(k, r, tree, n_sizes, smallest) for k in kinds for r in ("move", "new")}
    n_pairs = 0
    units_of = product((0, 1), range(4))
    for units in combinations_with_replacement(tuple(units_of), 2):
        here = table(units, smallest, n_sizes)
        for joined in people_steps(units):
            other = table(joined, smallest, n_sizes)
            if here is None or other is None:
                continue
            n_pairs += 1
            step = "move" if here.sum() == other.sum() else "new"
            for kind in kinds:
                a, b = naive_vector(kind, tree, here), naive_vector(kind, tree, other)
                gaps = [
                    sum(abs(x - y) for x, y in zip(*level, strict=True)) for level in zip(a, b, strict=True)
                ]
                assert all(g <= s for g, s in zip(gaps, limit[kind, step].l1_by_level, strict=True))
    assert n_pairs > 50
