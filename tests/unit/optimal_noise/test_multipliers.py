"""Lower bounds by weak duality hold for any weights, and refuse what are not weights."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topdown.optimal_noise import ABSOLUTE, SQUARE, Multiplier, PiecewiseLinear, lower_bound


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


def test_a_loss_that_falls_without_end_is_refused() -> None:
    """Its infimum would be minus infinity, which no bound survives."""
    for slopes in ((1, 1), (-1, -1)):
        with pytest.raises(ValueError, match="falls"):
            PiecewiseLinear(((Fraction(0), Fraction(0)),), *map(Fraction, slopes))
