"""The worst event: the sweep, a plain twin that looks at every pair of cells, and shifts between the points."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topdown.optimal_noise import shifts_of, worst_at


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
