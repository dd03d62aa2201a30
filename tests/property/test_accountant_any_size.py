"""Any composition is answered within seconds: exactly where it can be summed, by certified bounds elsewhere."""

import math
import time
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.compositions import weighted
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.privacy import Enclosure, delta_of
from topdown.privacy.accountant import (
    Composition,
    Geometric,
    Mixture,
    PureDP,
    bun_steinke,
    canonne_kamath_steinke,
    solve_epsilon,
)
from topdown.privacy.accountant.bounds import _gaussian_delta

SECONDS = 20  # a hang takes minutes; a busy machine takes a few times the second that this takes alone
ALPHAS = [Fraction(a, 100) for a in (0, 1, 20, 50, 80, 99, 100)]


def powers(low: int, high: int) -> st.SearchStrategy[Fraction]:
    """Draw a number with a few digits between two powers of ten."""
    return st.builds(
        lambda k, d: Fraction(10) ** k * d / 100, st.integers(low, high - 1), st.integers(100, 999)
    )


@st.composite
def small(draw) -> Composition:
    """Draw a composition that balls can sum, from fine noise to noise that is mostly 0."""
    variances = draw(
        st.lists(st.sampled_from(["1/20", "1/4", "1", "3", "40", "2000"]), min_size=1, max_size=2)
    )
    return Composition.of([(v, 1, draw(st.sampled_from([1, 3, 30]))) for v in variances])


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(small(), st.lists(st.integers(0, 100), min_size=4, max_size=4))
@example(Composition.of([("1e6", 1, 30)]), [0, 10, 40, 80])  # so wide that only the factor parts the bounds
@example(Composition.of([("1/20", 1, 30)]), [50, 97, 99, 100])
def test_bounds_hold_the_certified_value(case, places):
    """The theorems of the bounds share nothing with the sums: a slip in one leaves the other's enclosure."""
    reach = case.rho + 8 * Fraction(math.ceil(case.mu * 100), 100)
    epsilons = [reach * Fraction(p, 100) for p in places]
    for ball, box in zip(
        case.curve(epsilons, engine="ball"), case.curve(epsilons, engine="bounds"), strict=True
    ):
        assert box.lower <= ball.upper
        assert ball.lower <= box.upper
    for sums, box in zip(
        case.trade_off_curve(ALPHAS), case.trade_off_curve(ALPHAS, engine="bounds"), strict=True
    ):
        assert box.lower <= sums.upper
        assert sums.lower <= box.upper


@pytest.mark.parametrize("total", ["1e-12", "1/7", "1", "50", "1700", "1e6", "1e40"])
def test_gaussian_between_which_a_law_lies(total):
    """Arb's erfc of a large inexact number says nothing: the Mills ratio must take over, and hold the right value."""
    total = Fraction(total)
    with mpmath.workdps(300):
        mu = mpmath.sqrt(mpmath.mpf(total.numerator) / total.denominator)
        for places in (-8, -1, 0, 2, 9, 30):
            epsilon = total / 2 + places * Fraction(math.isqrt(math.ceil(total * 10**40)), 10**20)
            e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
            t = (e - mu * mu / 2) / mu
            second = (
                mpmath.exp(-t * t / 2)
                * mpmath.erfc((t + mu) / mpmath.sqrt(2))
                * mpmath.exp((t + mu) ** 2 / 2)
                / 2
            )
            exact = mpmath.erfc(t / mpmath.sqrt(2)) / 2 - second
            low, high = (mpmath.mpf(x.numerator) / x.denominator for x in _gaussian_delta(total, epsilon))
            assert low <= exact <= high
            assert high - low <= abs(exact) * mpmath.mpf(10) ** -20


@pytest.mark.parametrize(
    ("weights", "widest"),
    [({"1e-6": 10**6}, 1e-4), ({"1/1000": 100}, 0.02), ({"1/10": 10}, 0.6), ({100: 1}, 1e-9)],
)
def test_bounds_are_close_where_noise_is_wide_or_absent(weights, widest):
    """Bounds that only say between 0 and 1 would be true and of no use."""
    box = weighted(weights).epsilon("1e-10", engine="bounds")
    assert float(box.width / box.lower) < widest
    assert box.lower <= weighted(weights).epsilon("1e-10").upper
    assert weighted(weights).epsilon("1e-10").lower <= box.upper


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.tuples(powers(-30, 30), st.integers(1, 3), powers(0, 30).map(math.ceil)), min_size=1, max_size=3
    ),
    st.integers(1, 30),
)
@example([(Fraction(1), 1, 10**18)], 10)
@example([(Fraction(1), 1, 10**6)], 10)
@example([(Fraction(1, 7), 1, 10**7)], 10)
@example([(Fraction(1, 20), 1, 10**4), (Fraction(3, 7), 2, 10**4)], 10)
@example([(Fraction(1, 10**5), 1, 1)], 10)
@example([(Fraction(9_999_991), 1, 3), (Fraction(9_999_973), 1, 3)], 5)
def test_every_size_is_answered_in_seconds(coordinates, exponent):
    """Counts of 10**18 raised OverflowError; a million counts of variance 1 did not end in 90 s."""
    start = time.process_time()
    case, delta = Composition.of(coordinates), Fraction(1, 10**exponent)
    box, guess = case.epsilon(delta), case.best_guess()
    curve = case.trade_off_curve(ALPHAS)
    assert time.process_time() - start < SECONDS
    assert 0 <= box.lower <= box.upper <= bun_steinke(case.rho, delta).upper
    assert Fraction(1, 2) <= guess.lower <= guess.upper <= 1
    assert all(0 <= b.lower <= b.upper <= 1 - a for a, b in zip(ALPHAS, curve, strict=True))
    assert all(b.lower <= a.upper for a, b in pairwise(curve))
    assert canonne_kamath_steinke(case.rho, delta).upper >= box.lower


@pytest.mark.parametrize("width", ["1e-12", "1e-3", "10"])
@pytest.mark.parametrize("exponent", [3, 10, 40])
def test_an_epsilon_takes_few_thresholds(width, exponent):
    """Every threshold in balls costs up to a second: a search that widens from nothing takes 140 of them."""
    asked, target = [], Fraction(1, 10**exponent)

    def deltas(points: list[Fraction]) -> list[Enclosure]:
        asked.extend(points)
        values = [Fraction(math.exp(-float(p))) for p in points]
        return [Enclosure(v / (1 + Fraction(width)), v * (1 + Fraction(width))) for v in values]

    box = solve_epsilon(deltas, target, exponent * math.log(10), Fraction(1000), 100)
    assert len(asked) <= 40
    assert float(box.lower) <= exponent * math.log(10) <= float(box.upper)
    assert float(box.width) <= 4 * (math.log1p(float(Fraction(width))) + 1e-14)


@pytest.mark.parametrize("scale", [1, 10**3, 10**6, 10**8])
def test_a_plan_of_any_budget_is_accounted_in_seconds(scale):
    """Budgets of 10**5, 10**6 and 10**8 took 9, 45 and over 400 s after the noise was drawn."""
    shares = [Fraction(k, 471_061_179) * scale for k in (1_173_587, 73_581, 9_087, 811_931, 25_000_003, 470)]
    case = Composition.from_rho([(share / n, n % 3 + 1) for share in shares for n in range(1, 6)], "bounded")
    start = time.process_time()
    name = case.certifying()
    box, guess = case.epsilon("1e-10", engine=name), case.best_guess(engine=name)
    case.trade_off_curve(ALPHAS)
    assert time.process_time() - start < SECONDS
    assert box.upper <= bun_steinke(case.rho, "1e-10").upper
    assert guess.upper <= 1
    again = Composition.from_rho([(share / n, n % 3 + 1) for share in shares for n in range(1, 6)], "bounded")
    assert box == again.epsilon("1e-10", engine=again.certifying())


@pytest.mark.parametrize(
    "coordinates",
    [
        [("1e400", 1, 1)],
        [("1e-400", 1, 1)],
        [(1, 1, 10**400)],
        [("1e299", 1, 10**299), ("1e-200", 10**160, 1)],
        [("1e-10000000000000000000000", 1, 1)],
        [("1e99999999", 1, 1)],
        [(Fraction(10**4000 + 1, 3), 1, 1)],
        [(1 + Fraction(1, 2**3000 + k), 1, 1) for k in (1, 3, 5, 9)],
    ],
)
def test_numbers_that_no_release_needs_are_refused(coordinates):
    """A slip in an exponent must name itself, not end in OverflowError, MemoryError or a day of arithmetic."""
    with fails_with("A040", ConfigError):
        Composition.of(coordinates)


@pytest.mark.parametrize("text", ["1e-100000000", "1e-99999999999999999999", "0." + "0" * 4000 + "1"])
def test_a_delta_without_end_is_refused(text):
    """Reading 1e-100000000 takes a number of 40 MB before anything is computed."""
    with fails_with("A040", ConfigError):
        delta_of(text)


@pytest.mark.parametrize("weights", [{"1/10": 10}, {1: 1}, {"1e-20": 1}, {1000: 3}])
def test_thresholds_beyond_the_floats_are_answered(weights):
    """Deltas and alphas of 1e-2000, epsilons of 1e30: below every float, and still numbers."""
    case = weighted(weights)
    assert case.epsilon("1e-2000").lower >= 0
    assert case.epsilon(1 - Fraction(1, 10**2000)).lower >= 0
    assert case.delta("1e30").upper < Fraction(1, 10**300)
    for alpha in (Fraction(1, 10**2000), 1 - Fraction(1, 10**2000)):
        assert case.trade_off(alpha).upper <= 1 - alpha
        assert case.gaussian(alpha=alpha) in (0.0, 1.0)


def test_a_named_engine_refuses_what_it_cannot_hold():
    """Only engine "auto" may answer by bounds; a named engine says that it cannot."""
    vast = weighted({1: 10**18})
    for name in ("float64", "ball", "fft", "atoms", "atoms-wide", "free", "ball-free", "sieve"):
        with fails_with("A009", ConfigError):
            vast.delta(1, engine=name)


@pytest.mark.parametrize("event", [(Geometric(Fraction(1), 10**12), 1), (PureDP(Fraction(3)), 10**18)])
def test_finite_events_without_end_are_refused(event):
    """A sensitivity or a repetition of 10**12 must not be written out loss by loss."""
    with pytest.raises(ConfigError, match="distinct losses"):
        Mixture([event])


@given(
    st.lists(
        st.tuples(powers(-3, 6), st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=4, unique=True
    ),
    powers(-2, 2),
)
def test_the_law_in_whole_numbers_is_that_in_fractions(
    coordinates: list[tuple[Fraction, int, int]], epsilon: Fraction
) -> None:
    """A total, a lattice or a threshold that is off by anything would be a certified wrong number."""
    law = Composition.of(coordinates).law
    groups = [(g.variance, g.shift) for g in law.groups]
    assert groups == sorted(groups, reverse=True)
    assert law.total == sum((n * k * k / v for v, k, n in coordinates), Fraction(0))
    assert [i * law.spacing for i in law.integers] == [k / v for v, k in groups]
    assert math.gcd(*law.integers) == 1
    index, gap = law.first_above(epsilon - law.half)
    assert gap == index * law.spacing - (epsilon - law.half)
    assert 0 < gap <= law.spacing


def test_a_lattice_finer_than_a_float_is_left_to_other_engines():
    """A ledger of many releases has unequal variances whose lattice no float holds: each charge ended as X001."""
    case = Composition.of([(Fraction(1000 + 37 * i * i + i, 7 + i % 5), 1, 2) for i in range(160)])
    assert float(case.law.spacing) == 0
    epsilons = [Fraction(0), Fraction(1, 2), Fraction(2)]
    for free, bound in zip(case.curve(epsilons), case.curve(epsilons, engine="bounds"), strict=True):
        assert free.method == "free/float64"
        assert bound.lower <= free.lower <= free.upper <= bound.upper
        assert free.upper - free.lower < Fraction(1, 10**9)
    for engine in ("float64", "ball", "fft", "atoms", "atoms-wide", "sieve"):
        with fails_with("A009", ConfigError):
            case.curve(epsilons, engine=engine)
