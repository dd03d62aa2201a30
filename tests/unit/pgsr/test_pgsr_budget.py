"""Budgets to noise: the paper's scales, the true loss of its chain, and refusals."""

from fractions import Fraction

import pytest

from pgsr import Budget, Sizes, tree_of
from pgsr.estimators import half_width
from pgsr.level_noise import calibrate
from pgsr.synthetic_groups import synthesize
from topdown.errors import BudgetError

TREE = tree_of([[-1], [0, 0], [0, 0, 1, 1]])
CENSUS = synthesize("census").hierarchy.tree


def test_scales_are_those_of_the_paper():
    """2L/eps for histograms, L/eps for cumulative counts."""
    assert (Fraction(12),) * 3 == calibrate("histogram", TREE, Sizes(5), Budget("1/2")).parameters
    assert (Fraction(6),) * 3 == calibrate("cumulative", TREE, Sizes(5), Budget("1/2")).parameters
    assert (Fraction(6),) * 3 == calibrate("tail", TREE, Sizes(5), Budget("1/2"), ("move", "new")).parameters


def test_new_groups_make_cumulative_counts_n_times_dearer():
    """Why tail counts are the default: the same protection with N times less noise."""
    plan = calibrate("cumulative", TREE, Sizes(5), Budget("1/2"), ("move", "new"))
    assert (Fraction(30),) * 3 == plan.parameters


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
