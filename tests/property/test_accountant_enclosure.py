"""Random compositions: float64 contains the ball value, curves are monotone, laws of privacy hold."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.compositions import weighted
from tests.helpers.depth import repeats
from topdown.privacy.accountant import Composition, Quadrature, canonne_kamath_steinke

denominators = st.integers(1, 24)


@st.composite
def compositions(draw) -> Composition:
    """Draw a few groups on one lattice 1/q, from coarse single mechanisms to fine large ones."""
    q = draw(denominators)
    tops = draw(st.lists(st.integers(1, 3 * q), min_size=1, max_size=3, unique=True))
    return weighted({Fraction(t, q): draw(st.integers(1, 6)) for t in tops})


@st.composite
def cases(draw) -> tuple[Composition, list[Fraction]]:
    """Draw a composition and epsilons spread to about ten standard deviations, some on the lattice of the loss."""
    case = draw(compositions())
    width = math.sqrt(2 * float(case.rho))
    raw = draw(st.lists(st.integers(0, 10_000), min_size=12, max_size=12))
    reach = case.rho + Fraction(round(10 * width * 1000), 1000)
    points = [reach * Fraction(r, 10_000) for r in raw[:9]]
    ties = [abs(case.rho + case.law.spacing * (r % 40 - 10)) for r in raw[9:]]
    return case, sorted(points + ties)


@pytest.mark.deep
@settings(max_examples=repeats(8, 220), deadline=None)
@given(cases())
def test_float64_contains_the_ball_value(given_case):
    """A float64 bound that is too small anywhere (over 2500 random values a run) is a false certificate."""
    case, epsilons = given_case
    boxes = Quadrature(case.law).deltas(epsilons)
    balls = case.curve(epsilons, engine="ball", digits=20)
    for box, ball in zip(boxes, balls, strict=True):
        assert box.lower <= ball.upper
        assert ball.lower <= box.upper
        if ball.relative_width < 1e-15:
            assert box.lower <= ball.lower
            assert ball.upper <= box.upper


@settings(max_examples=60, deadline=None)
@given(cases())
def test_delta_falls_and_stays_a_probability(given_case):
    """delta(epsilon) is decreasing, convex in e**epsilon, at most 1, and never above the sub-Gaussian bound."""
    case, epsilons = given_case
    boxes = case.curve(epsilons)
    assert all(0 <= b.lower <= b.upper <= 1 for b in boxes)
    assert all(a.upper >= b.lower for a, b in pairwise(boxes))
    for epsilon, box in zip(epsilons, boxes, strict=True):
        excess = float(epsilon - case.rho)
        if excess > 0:
            assert float(box.lower) <= math.exp(-excess * excess / (4 * float(case.rho))) * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(compositions(), st.integers(1, 25))
def test_epsilon_inverts_delta(case, exponent):
    """delta(epsilon(delta)) = delta between the certified ends, and epsilon is below the zCDP conversion."""
    delta = Fraction(1, 10**exponent)
    box = case.epsilon(delta)
    assert case.delta(box.upper).lower <= delta
    assert box.lower == 0 or case.delta(box.lower).upper >= delta
    assert box.lower <= canonne_kamath_steinke(case.rho, delta).upper


@pytest.mark.deep
@settings(max_examples=repeats(15, 80), deadline=None)
@given(compositions(), st.lists(st.fractions(0, 1, max_denominator=500), min_size=4, max_size=8, unique=True))
def test_trade_off_is_convex_falling_and_its_own_inverse(case, alphas):
    """F is convex, falling, below 1 - alpha, and f(f(alpha)) = alpha (the pair is symmetric)."""
    alphas = sorted(alphas)
    boxes = case.trade_off_curve(alphas)
    assert all(b.upper <= 1 - a for a, b in zip(alphas, boxes, strict=True))
    points = list(zip(alphas, boxes, strict=True))
    for (a, fa), (b, fb), (c, fc) in zip(points, points[1:], points[2:], strict=False):
        share = (b - a) / (c - a)
        assert fb.lower <= fa.upper * (1 - share) + fc.upper * share
    for a, box in points:
        if 0 < a < 1 and box.relative_width < 1e-10:
            middle = Fraction(float(box)).limit_denominator(10**14)
            slack = Fraction(1, 10**9)
            if slack < middle < 1 - slack:
                # f falls, so f at points just around f(alpha) must lie on both sides of alpha
                left, right = case.trade_off_curve([middle - slack, middle + slack])
                assert right.lower <= a <= left.upper


@pytest.mark.deep
@settings(max_examples=repeats(15, 80), deadline=None)
@given(compositions(), compositions())
def test_more_measurements_never_cost_less(one, two):
    """Adding measurements cannot lower delta at any epsilon."""
    for epsilon in (0, Fraction(1, 2), 2):
        assert one.delta(epsilon).lower <= (one + two).delta(epsilon).upper
