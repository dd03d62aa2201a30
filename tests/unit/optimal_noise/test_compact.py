"""The linear program of the best noise: every event written out, the worst event, lower bounds by weak duality."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.helpers.optimal_runs import error_costs
from topdown.errors import ConfigError
from topdown.optimal_noise import (
    ABSOLUTE,
    SQUARE,
    Absolute,
    CompactLP,
    ErrorLoss,
    Multiplier,
    NoSolutionError,
    PiecewiseLinear,
    Pinball,
    Square,
    TableLoss,
    lower_bound,
    solve_linear_program,
    worst_at,
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


def test_padding_only_lowers() -> None:
    """Rows over padded cells would make a lower bound of a problem with truncated support: infeasible here."""
    costs_of = [Fraction(max(abs(2 * i + 1) - 1, 0), 8) for i in range(-5, 5)]
    lp = CompactLP(tuple(costs_of), 4, ((E1, Fraction(1, 5)),), 4)
    assert solve_linear_program(lp.program).value < 0.25
    with pytest.raises(NoSolutionError):
        solve_linear_program(CompactLP(tuple(costs_of[4:-4]), 4, ((E1, Fraction(1, 5)),)).program)


MIRRORED_UNEVEN = {"mirror": True, "costs": error_costs(Pinball(Fraction(1), Fraction(2)), 3)}


@pytest.mark.parametrize(
    "broken", [{"n_shifts": 0}, {"pad": -1}, {"pad": 4}, {"limits": ()}, MIRRORED_UNEVEN]
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
    ("make", "error", "words"),
    [
        (lambda: Pinball(Fraction(0), Fraction(1)), ConfigError, None),
        (lambda: Pinball(0.5, Fraction(1)), TypeError, None),
        (lambda: TableLoss((Fraction(1), Fraction(0))), ConfigError, None),
        (lambda: TableLoss((Fraction(-1),)), ConfigError, None),
        (lambda: TableLoss((Fraction(1),), left=Fraction(-1)), ConfigError, None),
        (
            lambda: PiecewiseLinear(((Fraction(0), Fraction(0)),), Fraction(1), Fraction(1)),
            ValueError,
            "falls",
        ),
        (
            lambda: PiecewiseLinear(((Fraction(0), Fraction(0)),), Fraction(-1), Fraction(-1)),
            ValueError,
            "falls",
        ),
    ],
)
def test_losses_below_zero_or_falling_are_refused(
    make: object, error: type[Exception], words: str | None
) -> None:
    """A loss that falls outwards has no finite window that decides it, and no bound survives one without end."""
    with pytest.raises(error, match=words):
        make()


def absolute(_: int, start: int | None, end: int | None) -> Fraction:
    """|x| on cells of width 1/2."""
    scaled = [None if x is None else Fraction(x, 2) for x in (start, end)]
    return ABSOLUTE.infimum(*scaled)


def multiplier(shift: int, cuts: list[int], weights: list[int]) -> Multiplier:
    """Weights of tenths on the intervals between the cuts."""
    steps = [(a, b, Fraction(w, 10)) for a, b, w in zip(cuts[:-1], cuts[1:], weights, strict=False) if w]
    return Multiplier(0, 0, shift, tuple(steps), max([w for _, _, w in steps], default=Fraction(0)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            multiplier,
            st.sampled_from([-2, -1, 1, 2]),
            st.lists(st.integers(-9, 9), min_size=2, max_size=6, unique=True).map(sorted),
            st.lists(st.integers(0, 10), min_size=5, max_size=5),
        ),
        max_size=4,
    )
)
def test_any_weights_stay_below_a_private_law(multipliers: list[Multiplier]) -> None:
    """A bound above the cost of some private noise would certify a falsehood."""
    delta, growth = Fraction(1, 4), Fraction(2)  # uniform on [-2, 2): moved by up to 1, excess at most 1/4
    assert lower_bound(multipliers, delta, growth, 1, absolute) <= ABSOLUTE.mean(Fraction(-2), Fraction(0))


def test_half_lines_give_the_known_bound() -> None:
    """Weights on two half lines prove P(X = 0) cannot be too large; the number is worked out by hand."""
    ahead = Multiplier(0, 0, 2, ((-1, 40, Fraction(1, 10)),), Fraction(1, 10))
    bound = lower_bound([ahead, ahead.mirrored()], Fraction(1, 10), Fraction(2), 1, absolute)
    # [-1, 1): 0 + 1/5 - 2/5 + 2/5 or less by cell; below -1 the loss 1/2 - 2/5 + ... decides
    outcomes = [
        absolute(0, a, a + 1)
        + Fraction(1, 10) * ((-1 <= a < 40) + (-40 <= a < 1))
        - Fraction(2, 10) * ((-3 <= a < 38) + (-38 <= a < 3))
        for a in range(-60, 60)
    ]
    assert min(outcomes) - Fraction(2, 100) == bound


@pytest.mark.parametrize(
    ("steps", "ceiling"),
    [
        (((0, 1, Fraction(-1)),), 1),
        (((0, 1, Fraction(2)),), 1),
        (((0, 2, Fraction(1)), (1, 3, Fraction(1))), 1),
    ],
    ids=["negative", "above the ceiling", "overlapping"],
)
def test_what_is_no_weight_is_refused(steps: tuple, ceiling: int) -> None:
    """With any of these the bound is not a bound."""
    with pytest.raises(ValueError, match="multiplier"):
        Multiplier(0, 0, 1, steps, Fraction(ceiling))


def test_means_and_infima_of_losses() -> None:
    """A mean below or an infimum above the true one turns a bound into a guess."""
    bowl = PiecewiseLinear(
        ((Fraction(-1), Fraction(3)), (Fraction(1), Fraction(1))), Fraction(-1), Fraction(2)
    )
    for loss in (ABSOLUTE, SQUARE, bowl):
        for lo, hi in ((-3, -1), (-2, 1), (0, 2), (1, 4)):
            n = 240
            grid = [Fraction(lo) + Fraction((2 * i + 1) * (hi - lo), 2 * n) for i in range(n)]
            values = [loss.at(x) for x in grid]
            assert abs(loss.mean(Fraction(lo), Fraction(hi)) - sum(values) / n) < Fraction(1, 1000)
            assert 0 <= min(values) - loss.infimum(Fraction(lo), Fraction(hi)) < Fraction(1, 10)
        assert loss.infimum(None, Fraction(-3)) == loss.at(Fraction(-3))
        assert loss.infimum(Fraction(3), None) == loss.at(Fraction(3))


def plain_excess(
    points: list[int], above: list[Fraction], below: list[Fraction], e: Fraction, shift: Fraction
):
    """Add up what every elementary piece contributes; each cell is looked up from scratch."""
    ends = sorted({*map(Fraction, points), *(p + shift for p in points)})
    total = Fraction(0)
    for lo, hi in pairwise(ends):
        middle = (lo + hi) / 2
        densities = []
        for masses, at in ((above, middle), (below, middle - shift)):
            cells = [j for j in range(len(masses)) if points[j] <= at < points[j + 1]]
            densities.append(sum((masses[j] / (points[j + 1] - points[j]) for j in cells), Fraction(0)))
        total += max(Fraction(0), (densities[0] - e * densities[1]) * (hi - lo))
    return total


@st.composite
def laws(draw):
    """Draw a partition of up to six cells, two laws on it, a growth and a sensitivity."""
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    points = [draw(st.integers(-5, 0))]
    for width in widths:
        points.append(points[-1] + width)
    masses = [draw(st.lists(st.integers(0, 9), min_size=len(widths), max_size=len(widths))) for _ in "ab"]
    weights = [[Fraction(w, max(1, sum(m))) for w in m] for m in masses]
    return points, *weights, Fraction(draw(st.integers(4, 12)), 4), draw(st.integers(1, 5))


def shifts_of(points: Sequence[int], sensitivity: int) -> set[int]:
    """List the shifts at which the excess of a density on a partition can be largest: all N + 1 points take part."""
    differences = {a - b for a in points for b in points}
    return {d for d in differences if 0 < abs(d) <= sensitivity} | {sensitivity, -sensitivity}


@settings(max_examples=60, deadline=None)
@given(laws())
def test_the_sweep_agrees_with_its_plain_twin(case) -> None:
    """A piece that the sweep skips or counts twice would let noise through that is not private."""
    points, above, below, e, k = case
    for shift in shifts_of(points, k):
        event = worst_at(points, above, below, e, shift)
        assert plain_excess(points, above, below, e, Fraction(shift)) == event.excess


@settings(max_examples=40, deadline=None)
@given(laws(), st.integers(1, 12))
def test_no_shift_between_the_points_is_worse(case, step: int) -> None:
    """If an unlisted shift could be worse, the listed ones would prove nothing about it."""
    points, masses, _, e, k = case
    listed = max(worst_at(points, masses, masses, e, shift).excess for shift in shifts_of(points, k))
    for n in range(-12, 13):
        shift = Fraction(n * step, 12) * k / step
        assert plain_excess(points, masses, masses, e, shift) <= listed


@settings(max_examples=40, deadline=None)
@given(laws())
def test_the_event_has_the_excess_it_states(case) -> None:
    """A cut made of another set than the one that was summed would cut off private noise."""
    points, above, below, e, k = case
    for shift in shifts_of(points, k):
        event = worst_at(points, above, below, e, shift)
        mass = [Fraction(0), Fraction(0)]
        for side, (masses, moved) in enumerate(((above, 0), (below, shift))):
            for j, m in enumerate(masses):
                lo, hi = points[j] + moved, points[j + 1] + moved
                inside = sum(max(0, min(b, hi) - max(a, lo)) for a, b in event.pieces)
                mass[side] += m * inside / (hi - lo)
        assert event.excess == mass[0] - e * mass[1]


def test_differences_need_the_right_end() -> None:
    """With the left ends alone, the worst event of this density is missed by a tenth."""
    points, masses = (-3, -1, 1, 4), (0.2639, 0.0138, 0.7223)
    events = [worst_at(points, masses, masses, math.e, shift) for shift in shifts_of(points, 4)]
    worst = max(events, key=lambda event: event.excess)
    left = {a - b for a in points[:-1] for b in points[:-1] if 0 < abs(a - b) <= 4}
    without = max(worst_at(points, masses, masses, math.e, s).excess for s in left | {4, -4})
    assert worst.shift == -3
    assert pytest.approx([worst.excess, without], abs=2e-4) == [0.8356, 0.7292]


def test_uniform_law_without_growth_has_one_cell_in_excess() -> None:
    """Moving n even cells by one uncovers exactly one of them: the smallest delta at epsilon 0."""
    for n in range(1, 9):
        points, even = range(n + 1), [Fraction(1, n)] * n
        events = [worst_at(points, even, even, Fraction(1), s).excess for s in shifts_of(points, 1)]
        assert [Fraction(1, n)] * 2 == events
