"""Enclosures of the best real noise: known intervals, order of the bounds, and cases where plain bounds are wrong."""

from fractions import Fraction

import pytest

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.optimal_noise import (
    ABSOLUTE,
    SQUARE,
    NoSolutionError,
    PiecewiseLinear,
    Promise,
    RealQuestion,
    analytic_gaussian_sigma,
    classic_gaussian_sigma,
    geng_lower,
    lower_by_cells,
    sandwich,
    truncated_laplace,
    upper_law,
    worst_delta,
)
from topdown.privacy import SimulationBits

ONE = Fraction(1)
FIFTH = Promise(ONE, Fraction(1, 5))
GOLDEN = {
    ("1", "1/5", "l1"): (0.558636, 0.558754),
    ("1", "1/5", "l2"): (0.512257, 0.512466),
    ("1/2", "1/5", "l1"): (0.782771, 0.782850),
    ("2", "1/2", "l1"): (0.199866, 0.202450),
    ("2", "1/5", "l2"): (0.218529, 0.218737),
    ("1/5", "1/5", "l1"): (1.008990, 1.009049),
    ("5", "1/200", "l1"): (0.082103, 0.082959),
    ("5", "1/5", "l2"): (0.022873, 0.023082),
}


def question(epsilon: str, delta: str, cells: int) -> RealQuestion:
    return RealQuestion(Promise(Fraction(epsilon), Fraction(delta)), ONE, cells)


def test_the_best_noise_at_epsilon_one_is_enclosed() -> None:
    """The interval of the reference case; too wide or beside it, and no other interval is worth anything."""
    found = sandwich(question("1", "1/5", 36), "l1")
    assert Fraction(5586, 10_000) <= found.lower <= found.upper <= Fraction(5588, 10_000)


@pytest.mark.parametrize("case", GOLDEN, ids="-".join)
def test_intervals_meet_the_known_ones(case: tuple[str, str, str]) -> None:
    """Two enclosures of one number that do not meet: one of them is wrong."""
    epsilon, delta, loss = case
    found = sandwich(question(epsilon, delta, 16), loss)
    low, high = GOLDEN[case]
    assert found.lower <= high
    assert low <= found.upper + Fraction(1, 10**6)


def test_the_law_keeps_its_guarantee_in_integers() -> None:
    """Everything said of the law rests on this one number."""
    found = sandwich(question("1", "1/5", 8), "l1")
    assert worst_delta(found.law.weights, 8, ONE) == found.law.excess <= Fraction(1, 5)
    assert worst_delta(found.law.weights, 7, ONE) <= found.law.excess
    assert worst_delta(found.law.weights, 9, ONE) > Fraction(1, 5)


def test_squared_loss_of_the_salary_example() -> None:
    """Scale and squares: 360 times the root of the best mean square lies between 257.6 and 257.9."""
    found = sandwich(RealQuestion(FIFTH, Fraction(360), 32), "l2")
    assert 257.6 < float(found.lower) ** 0.5 <= float(found.upper) ** 0.5 < 257.9


def test_bounds_are_ordered_and_close_with_finer_cells() -> None:
    """A lower bound above an upper one, or a finer grid that costs more, shows a wrong program."""
    uppers, lowers = [], []
    for cells in (1, 2, 4, 8):
        asked = question("1", "1/5", cells)
        uppers.append(upper_law(asked, ABSOLUTE, range(-2 * cells, 2 * cells))[1])
        lowers.append(lower_by_cells(asked, ABSOLUTE, range(-3 * cells, 3 * cells)))
        between = sandwich(asked, "l1")
        assert lowers[-1] <= between.upper
        assert between.lower <= uppers[-1]
    assert sorted(uppers, reverse=True) == pytest.approx(uppers, rel=1e-8)
    assert sorted(lowers) == lowers
    assert max(lowers) <= min(uppers)


@pytest.mark.parametrize(
    ("promise", "support", "values"),
    [
        (Promise(Fraction(5), Fraction(1, 4)), 3, (0.51341, 0.27325, 0.16727)),
        (FIFTH, 4, (1.16218, 1.13213, 1.11849)),
        (Promise(Fraction(1, 5), Fraction(1, 20)), 12, (4.71479, 4.70992, 4.70886)),
    ],
    ids=["5, 1/4", "1, 1/5", "1/5, 1/20"],
)
def test_upper_bounds_at_sensitivity_two(promise: Promise, support: int, values: tuple[float, ...]) -> None:
    """Costs of cells of width 1, 1/2 and 1/4 on a fixed support are known to five digits."""
    for cells, value in zip((2, 4, 8), values, strict=True):
        reach = support * cells // 2
        inner = range(-reach, reach)
        found = upper_law(RealQuestion(promise, Fraction(2), cells), ABSOLUTE, inner)[1]
        assert float(found) == pytest.approx(value, abs=6e-6)


def test_lattice_values_fall_with_finer_lattices() -> None:
    """Lattice noise is real noise rounded: a lattice that holds another can only bound more."""
    lower = [sandwich(question("1", "1/5", cells), "l1").lower for cells in (1, 2, 4)]
    assert sorted(lower) == lower
    upper = upper_law(question("1", "1/5", 4), ABSOLUTE, range(-12, 12))[1]
    assert max(lower) <= upper


def test_events_outside_the_window_are_no_relaxation() -> None:
    """With events on padded cells the bound of a one-cell window would be infinite; it is 0.2."""
    asked = question("1", "1/5", 4)
    assert abs(lower_by_cells(asked, ABSOLUTE, range(-1, 2)) - Fraction(1, 5)) < Fraction(1, 10**9)
    with pytest.raises(NoSolutionError):
        upper_law(asked, ABSOLUTE, range(-5, 6)[4:7])


def test_a_loss_that_falls_outside_the_window() -> None:
    """Without mass beyond the padding the bound would be 1.0, and noise around 12 costs 0.185."""
    knots = ((-12, "0.1"), (-6, "1"), (6, "1"), (12, "0.1"))
    loss = PiecewiseLinear(
        tuple((Fraction(x), Fraction(y)) for x, y in knots), Fraction(-15, 100), Fraction(15, 100)
    )
    asked = question("1", "1/5", 4)
    _, far = upper_law(asked, loss, range(48 - 9, 48 + 9))
    assert round(float(far), 3) == 0.185
    for reach in (8, 12, 16):
        assert lower_by_cells(asked, loss, range(-reach, reach + 1)) <= Fraction(1, 10)


def test_a_loss_with_two_slopes_gets_noise_to_one_side() -> None:
    """Programs that fold the line in half would miss it."""
    loss = PiecewiseLinear(((Fraction(0), Fraction(0)),), Fraction(-1), Fraction(2), "twice above")
    asked = question("1", "1/5", 4)
    law, value = upper_law(asked, loss, range(-12, 12))
    mean = sum(p * (2 * i + 1) for i, p in law.items())
    assert mean < 0
    assert lower_by_cells(asked, loss, range(-12, 12)) <= value < Fraction(9, 10)


def test_squares_are_not_linear_between_lattice_points() -> None:
    """Half of the mass at either of two half-integers costs 1/4; the best lattice noise costs 1/2."""
    found = sandwich(question("0", "1/2", 1), "l2")
    assert Fraction(1, 4) - Fraction(1, 10**8) <= found.lower <= Fraction(1, 4)
    assert abs(found.on_lattice - Fraction(1, 2)) < Fraction(1, 10**6)


def test_draws_follow_the_weights() -> None:
    """A draw one cell off would have another mean and loss than the law that was checked."""
    found = sandwich(question("1", "1/5", 3), "l1")
    bits, n = SimulationBits(11), 40_000
    drawn = [found.law.draw(bits) for _ in range(n)]
    assert min(drawn) >= found.law.first
    for cell, mass in found.law.items():
        p = float(mass)
        assert abs(drawn.count(cell) - n * p) <= 6 * (n * p * (1 - p)) ** 0.5


def test_known_baselines() -> None:
    """A baseline that is too bad flatters what is compared with it."""
    assert truncated_laplace(1.0, 0.2, 2.0)[0] == pytest.approx(1.22392, abs=1e-5)
    assert truncated_laplace(0.2, 0.05, 2.0)[0] == pytest.approx(4.72669, abs=1e-5)
    assert 360 * truncated_laplace(1.0, 0.2, 1.0)[1] ** 0.5 == pytest.approx(273.483, abs=1e-3)
    assert geng_lower(1.0, 0.2, 2.0) == pytest.approx(0.573357, abs=1e-6)
    assert geng_lower(0.2, 0.05, 2.0) == pytest.approx(3.91688, abs=1e-5)
    assert geng_lower(0.005, 0.005, 1.0, up=False) < truncated_laplace(0.005, 0.005, 1.0)[0]
    assert geng_lower(0.005, 0.005, 1.0) > truncated_laplace(0.005, 0.005, 1.0)[0]
    assert analytic_gaussian_sigma(1.0, 0.2, 2.0) == pytest.approx(1.6719974, abs=1e-6)
    assert analytic_gaussian_sigma(1.0, 0.1, 1.0) == pytest.approx(1.0858777651918, abs=1e-10)
    assert analytic_gaussian_sigma(0.5, 1e-14, 1.0) == pytest.approx(14.128546966625547, rel=1e-12)
    assert classic_gaussian_sigma(1.0, 0.2, 360.0) == pytest.approx(689.21 * 360 / 360.82, rel=3e-3)


@pytest.mark.parametrize(("sensitivity", "cells"), [(Fraction(0), 4), (Fraction(1), 0), (Fraction(1), True)])
def test_impossible_questions_are_refused(sensitivity: Fraction, cells: int) -> None:
    """No width can be made of these."""
    with fails_with("C162", ConfigError):
        RealQuestion(FIFTH, sensitivity, cells)


def test_other_losses_have_no_sandwich() -> None:
    """Random rounding keeps E|x| and bounds E x^2; nothing is known of others."""
    with pytest.raises(ConfigError, match="no loss"):
        sandwich(question("1", "1/5", 4), "pinball")
    assert SQUARE.at(Fraction(3)) == 9


def test_tiny_and_huge_units_change_nothing() -> None:
    """Numbers that a solver's tolerances would swallow must be scaled away before it sees them."""
    plain = sandwich(question("1", "1/5", 4), "l2")
    for unit in (Fraction(1, 10**9), Fraction(10**9)):
        scaled = sandwich(RealQuestion(FIFTH, unit, 4), "l2")
        assert float(scaled.lower / unit**2) == pytest.approx(float(plain.lower), rel=1e-9)
        assert float(scaled.upper / unit**2) == pytest.approx(float(plain.upper), rel=1e-9)


def test_a_small_delta_needs_a_wider_window() -> None:
    """Mass at the edge that looks like nothing beside 1 is as large as a delta of 10^-12."""
    found = sandwich(question("1/20", "1/1000000000000", 1), "l1")
    assert found.law.excess <= Fraction(1, 10**12)
    assert found.gap < Fraction(1, 1000)
