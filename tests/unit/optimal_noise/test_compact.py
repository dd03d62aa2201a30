"""The linear program of the best noise: against every event written out, and against values computed elsewhere."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from topdown.errors import ConfigError
from topdown.optimal_noise import (
    Absolute,
    CompactLP,
    ErrorLoss,
    NoSolutionError,
    Pinball,
    Square,
    TableLoss,
    error_costs,
    solve_linear_program,
)

E1 = Fraction(2718281828459045, 10**15)
TENTH = Fraction(1, 10)


def every_event(lp: CompactLP) -> float:
    """Return the optimum with one row for each shift, direction and set of inner cells: 2^cells rows a shift."""
    n = lp.n_cells
    rows, right = [], []
    for factor, delta in lp.limits:
        for shift in (s for k in range(1, lp.n_shifts + 1) for s in (k, -k)):
            for size in range(1, len(lp.inner) + 1):
                for event in combinations(lp.inner, size):
                    row = np.zeros(n)
                    row[list(event)] += 1
                    for cell in event:
                        if 0 <= cell - shift < n:
                            row[cell - shift] -= float(factor)
                    rows.append(row)
                    right.append(float(delta))
    found = linprog([float(c) for c in lp.costs], np.array(rows), right, np.ones((1, n)), [1.0])
    return float(found.fun)


@pytest.mark.parametrize("loss", [Absolute(), Square(), Pinball(Fraction(2), Fraction(1))])
@pytest.mark.parametrize(("n_shifts", "pad"), [(1, 0), (2, 0), (1, 1), (2, 2)])
def test_one_column_an_excess_says_what_every_event_says(loss: ErrorLoss, n_shifts: int, pad: int) -> None:
    """A column or row left out would let an event exceed delta, or forbid laws that are private."""
    lp = CompactLP(error_costs(loss, 3 + pad), n_shifts, ((E1, Fraction(1, 5)),), pad)
    assert every_event(lp) == pytest.approx(solve_linear_program(lp.program).value, abs=1e-9)


@pytest.mark.parametrize("loss", [Absolute(), Square()])
def test_mirrored_laws_lose_nothing(loss: ErrorLoss) -> None:
    """Half of the rows and columns must give the same optimum where the loss is even."""
    whole, half = (
        solve_linear_program(CompactLP(error_costs(loss, 9), 3, ((E1, TENTH),), 2, mirror).program)
        for mirror in (False, True)
    )
    assert whole.value == pytest.approx(half.value, rel=1e-9)


def test_several_limits_at_once() -> None:
    """Dropping all limits but the first would publish noise that keeps one promise of two."""
    limits = ((E1, TENTH), (E1 * E1, Fraction(1, 100)))
    both, *each = (
        solve_linear_program(CompactLP(error_costs(Absolute(), 5), 1, chosen).program).value
        for chosen in (limits, limits[:1], limits[1:])
    )
    assert every_event(CompactLP(error_costs(Absolute(), 3), 1, limits)) >= both - 1e-9
    assert max(each) < both - 1e-6


def test_falling_masses_cost_more() -> None:
    """The best law for sensitivity 2 at epsilon 3, delta 0.3 rises on its way outwards: .18757 against .19017."""
    limits = ((E1**3, Fraction(3, 10)),)
    free, falling = (
        solve_linear_program(CompactLP(error_costs(Absolute(), 12), 2, limits, 0, True, fall).program)
        for fall in (False, True)
    )
    assert pytest.approx(free.value, abs=5e-6) == 0.18757
    assert pytest.approx(falling.value, abs=5e-6) == 0.19017


def test_padding_only_lowers() -> None:
    """Rows over padded cells would make a lower bound of a problem with truncated support: infeasible here."""
    costs_of = [Fraction(max(abs(2 * i + 1) - 1, 0), 8) for i in range(-5, 5)]
    lp = CompactLP(tuple(costs_of), 4, ((E1, Fraction(1, 5)),), 4)
    assert solve_linear_program(lp.program).value < 0.25
    with pytest.raises(NoSolutionError):
        solve_linear_program(CompactLP(tuple(costs_of[4:-4]), 4, ((E1, Fraction(1, 5)),)).program)


def test_one_place_outside_takes_mass() -> None:
    """Without it, a lower bound for a loss that falls far out would be above what a law attains."""
    limits = ((E1, TENTH),)
    lp = CompactLP(error_costs(Absolute(), 3), 1, limits, 1, outside=Fraction(0))
    assert solve_linear_program(lp.program).value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    "broken",
    [
        {"n_shifts": 0},
        {"pad": -1},
        {"pad": 4},
        {"limits": ()},
        {"mirror": True, "costs": error_costs(Pinball(Fraction(1), Fraction(2)), 3)},
        {"falling": True},
    ],
)
def test_impossible_programs_are_refused(broken: dict[str, object]) -> None:
    """A program without rows would call any law private."""
    good = {"costs": error_costs(Absolute(), 3), "n_shifts": 1, "limits": ((E1, TENTH),)}
    with pytest.raises(ValueError):
        CompactLP(**{**good, **broken})


def test_losses_on_the_integers() -> None:
    """A slope on the wrong side, or a tail that falls, would certify a law that is not best."""
    pinball = Pinball(Fraction(2), Fraction(1, 3))
    assert [Fraction(2, 3), Fraction(1, 3), 0, 2, 4] == [pinball.at(x) for x in range(-2, 3)]
    table = TableLoss((Fraction(3), Fraction(0), Fraction(1)), right=Fraction(5))
    assert [table.at(x) for x in range(-2, 4)] == [3, 3, 0, 1, 6, 11]
    assert (Absolute().even, pinball.even, table.even) == (True, False, False)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Pinball(Fraction(0), Fraction(1)), ConfigError),
        (lambda: Pinball(0.5, Fraction(1)), TypeError),
        (lambda: TableLoss((Fraction(1), Fraction(0))), ConfigError),
        (lambda: TableLoss((Fraction(-1),)), ConfigError),
        (lambda: TableLoss((Fraction(1),), left=Fraction(-1)), ConfigError),
    ],
)
def test_losses_below_zero_or_falling_are_refused(make: object, error: type[Exception]) -> None:
    """A loss that falls outwards has no finite window that decides it."""
    with pytest.raises(error):
        make()
