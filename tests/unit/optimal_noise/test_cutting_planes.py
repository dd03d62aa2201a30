"""Cutting planes: agreement with the compact program, honest ends, and a bound that is none."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.oracles.cutting_planes import CellPartition, certified_law, cutting_planes, proved
from topdown.errors import ConfigError
from topdown.optimal_noise import (
    ABSOLUTE,
    SQUARE,
    NoSolutionError,
    PiecewiseLinear,
    Promise,
    RealQuestion,
    exp_bounds,
    lower_by_cells,
    upper_law,
    worst_events,
)

FIFTH = Promise(Fraction(1), Fraction(1, 5))
TENTH = Promise(Fraction(1), Fraction(1, 10))
EIGHTH = Fraction(1, 8)
KINKED = PiecewiseLinear(
    tuple((Fraction(x), Fraction(y, 1000)) for x, y in ((-1, 1001), (0, 0), (1, 1001))),
    Fraction(-1, 1000),
    Fraction(1, 1000),
    "steep to 1, then flat",
)


def uneven(right: list[int], pad: int = 0) -> CellPartition:
    """Mirror the points of the right half; the sensitivity is 8 widths."""
    return CellPartition(tuple(sorted({*right, *(-x for x in right)})), 8, pad)


@pytest.mark.parametrize("loss", [ABSOLUTE, SQUARE], ids=["l1", "l2"])
@pytest.mark.parametrize("promise", [FIFTH, Promise(Fraction(0), Fraction(1, 3))], ids=["e^1", "e^0"])
def test_the_compact_program_says_the_same(loss, promise: Promise) -> None:
    """One row for every event, or one column for every excess: a slip in either would part them."""
    partition, width = CellPartition(tuple(range(-9, 10)), 4), Fraction(1, 4)
    slow = cutting_planes(partition, partition.costs(loss, width), promise, tolerance=Fraction(1, 10**11))
    _, value = upper_law(RealQuestion(promise, Fraction(1), 4), loss, range(-9, 9))
    assert slow.converged
    assert abs(value - Fraction(slow.value)) < Fraction(1, 10**8)


def test_the_value_on_merged_cells_is_no_bound() -> None:
    """Least costs on cells of unequal width give 0.5656, and noise that costs 0.5527 is private."""
    _, feasible = upper_law(RealQuestion(TENTH, Fraction(1), 8), KINKED, range(-32, 32))
    merged = uneven([*range(9), 20, 32, 40], pad=1)
    least = [KINKED.infimum(a * EIGHTH, b * EIGHTH) for a, b in merged.cells()]
    outcome = cutting_planes(merged, least, TENTH)
    assert (round(float(feasible), 4), round(outcome.value, 4)) == (0.5527, 0.5656)
    assert proved(outcome, TENTH, KINKED.infimum, EIGHTH) <= feasible


def test_multipliers_on_even_cells_prove_what_the_program_says() -> None:
    """If the recomputed bound were loose here, no certified interval could be narrow."""
    even, width = CellPartition(tuple(range(-13, 14)), 4, 4), Fraction(1, 4)
    least = [ABSOLUTE.infimum(a * width, b * width) for a, b in even.cells()]
    outcome = cutting_planes(even, least, FIFTH, tolerance=Fraction(1, 10**11))
    bound = proved(outcome, FIFTH, ABSOLUTE.infimum, width)
    assert abs(bound - Fraction(outcome.value)) < Fraction(1, 10**8)
    direct = lower_by_cells(RealQuestion(FIFTH, Fraction(1), 4), ABSOLUTE, range(-9, 9))
    assert abs(bound - direct) < Fraction(1, 10**8)


def test_an_uneven_law_is_checked_in_rationals() -> None:
    """A law within a tolerance of private is not private."""
    partition = uneven([0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 26])
    masses, value = certified_law(partition, partition.costs(ABSOLUTE, EIGHTH), TENTH)
    assert sum(masses) == 1
    worst = worst_events(partition.points, masses, exp_bounds(Fraction(1))[0], 8)[0].excess
    assert Fraction(999, 10_000) < worst <= Fraction(1, 10)
    assert lower_by_cells(RealQuestion(TENTH, Fraction(1), 8), ABSOLUTE, range(-24, 24)) <= value


def test_a_search_cut_short_gives_no_law() -> None:
    """The law of a program without all its cuts is not private."""
    partition = CellPartition(tuple(range(-9, 10)), 4)
    costs = partition.costs(ABSOLUTE, Fraction(1, 4))
    outcome = cutting_planes(partition, costs, FIFTH, max_rounds=3)
    assert (outcome.status, outcome.masses, outcome.rounds) == ("not converged", None, 3)
    assert outcome.violation > 0
    whole = cutting_planes(partition, costs, FIFTH)
    assert outcome.value < whole.value
    assert proved(outcome, FIFTH, ABSOLUTE.infimum, Fraction(1, 4)) <= Fraction(whole.value)


def test_cells_without_a_private_law_are_refused() -> None:
    """Three cells cannot hide a move by four."""
    with pytest.raises(NoSolutionError):
        cutting_planes(CellPartition((-1, 0, 1, 2), 4), [Fraction(1)] * 3, FIFTH)


def test_what_is_no_partition_is_refused() -> None:
    """Cells that overlap would count mass twice; padded ones are not checked."""
    for points, n_shifts, pad in (
        ((0,), 1, 0),
        ((0, 0), 1, 0),
        ((2, 1), 1, 0),
        ((0, 1), 0, 0),
        ((0, 1, 2), 1, 1),
    ):
        with pytest.raises(ValueError, match="Fix"):
            CellPartition(points, n_shifts, pad)
    with pytest.raises(ValueError, match="one a cell"):
        cutting_planes(CellPartition((0, 1), 1), [], FIFTH)
    with pytest.raises(ValueError, match="padded"):
        certified_law(uneven([0, 8, 16], pad=1), [Fraction(1)] * 4, FIFTH)
    with pytest.raises(ConfigError, match="rows"):
        upper_law(RealQuestion(FIFTH, Fraction(1), 400), ABSOLUTE, range(-400, 400))
