"""What the accountant takes: events are data, what it does not know it refuses; exact text is outward."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.compositions import weighted
from topdown.errors import ConfigError
from topdown.optimal_noise import exp_bounds
from topdown.privacy import Enclosure, rational, significant, threshold
from topdown.privacy.accountant import (
    Composition,
    DiscreteGaussianEvent,
    FiniteLoss,
    Geometric,
    Mixture,
    PureDP,
    ReleaseEvent,
    delta_above,
)


def brute(loss_tables: list[dict], epsilon: float) -> float:
    """Delta by enumerating every combination of losses (50 digits)."""
    with mpmath.workdps(50):
        total = {mpmath.mpf(0): mpmath.mpf(1)}
        for table in loss_tables:
            wider: dict = {}
            for a, p in total.items():
                for b, q in table.items():
                    wider[a + b] = wider.get(a + b, mpmath.mpf(0)) + p * q
            total = wider
        return float(mpmath.fsum(p * -mpmath.expm1(epsilon - s) for s, p in total.items() if s > epsilon))


def geometric_losses(rate: Fraction, shift: int) -> dict:
    with mpmath.workdps(50):
        a, out = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator), {}
        for x in range(-600, 600):
            loss = mpmath.mpf(rate.numerator * (abs(x - shift) - abs(x))) / rate.denominator
            out[loss] = out.get(loss, mpmath.mpf(0)) + (1 - a) / (1 + a) * a ** abs(x)
        return out


def gaussian_losses(variance: int) -> dict:
    with mpmath.workdps(50):
        weights = {x: mpmath.exp(-mpmath.mpf(x * x) / (2 * variance)) for x in range(-60, 61)}
        norm = mpmath.fsum(weights.values())
        return {(mpmath.mpf(x) + mpmath.mpf(1) / 2) / variance: w / norm for x, w in weights.items()}


def inside(box, value: float) -> bool:
    return float(box.lower) * (1 - 1e-15) <= value <= float(box.upper) * (1 + 1e-15)


@pytest.mark.parametrize("shift", [1, 2, 5])
def test_geometric_losses(shift):
    """The k + 1 losses of a shift by k and their probabilities, against the pmf itself."""
    box = Mixture([(Geometric(Fraction(1, 3), shift), 3)])
    for epsilon in (0.0, 0.7, 1.5):
        assert inside(box.delta(epsilon), brute([geometric_losses(Fraction(1, 3), shift)] * 3, epsilon))


def test_mixture_of_everything_with_a_loss():
    """Geometric, pure-DP and Gaussian events together, against plain enumeration."""
    events = [
        (Geometric(Fraction(1, 2), 2), 1),
        (PureDP(Fraction(2)), 1),
        (DiscreteGaussianEvent(Fraction(3)), 2),
    ]
    response = {mpmath.log(2): mpmath.mpf(2) / 3, -mpmath.log(2): mpmath.mpf(1) / 3}
    tables = [geometric_losses(Fraction(1, 2), 2), response, gaussian_losses(3), gaussian_losses(3)]
    mixture = Mixture(events)
    for epsilon in (0.0, 2.5):
        box = mixture.delta(epsilon)
        assert inside(box, brute(tables, epsilon))
        assert box.relative_width < 1e-11
    target = mixture.delta(2)
    assert (
        Fraction(2) in mixture.epsilon(target.upper) or abs(float(mixture.epsilon(target.upper)) - 2) < 1e-10
    )


def test_gaussian_events_alone_are_a_composition():
    """Two roads to the same law must give overlapping enclosures."""
    mixture = Mixture([(DiscreteGaussianEvent(Fraction(10)), 10)])
    one, two = mixture.delta(3), weighted({"1/10": 10}).delta(3)
    assert one.lower <= two.upper
    assert two.lower <= one.upper


def test_finite_loss_takes_the_worse_direction():
    """An output only one neighbour can give costs delta whichever neighbour it is."""
    event = FiniteLoss(((Fraction(0), Fraction(1, 10)), (Fraction(1), Fraction(9, 10))))
    swapped = FiniteLoss(tuple((q, p) for p, q in event.outcomes))
    for e in (event, swapped):
        box = Mixture([(e, 1)]).delta(1)
        assert Fraction(1, 10) in box
        with pytest.raises(ConfigError, match="no epsilon has this delta"):
            Mixture([(e, 1)]).epsilon("1/20")


def test_unknown_event_is_refused():
    """An event that is skipped is a leak that is not counted."""

    @dataclass(frozen=True)
    class Other:
        rho: Fraction = Fraction(1)

    with pytest.raises(TypeError, match="unknown privacy event"):
        Mixture([(PureDP(Fraction(3)), 1), (Other(), 1)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiscreteGaussianEvent(0.5),  # type: ignore[arg-type]
        lambda: DiscreteGaussianEvent(Fraction(-1)),
        lambda: DiscreteGaussianEvent(Fraction(1), 1.0),  # type: ignore[arg-type]
        lambda: Geometric(Fraction(0)),
        lambda: Geometric(Fraction(1), -1),
        lambda: PureDP(Fraction(1)),
        lambda: FiniteLoss(((Fraction(1, 2), Fraction(1)),)),
        lambda: ReleaseEvent("unbounded", PureDP(Fraction(2))),  # type: ignore[arg-type]
    ],
)
def test_events_check_themselves(make):
    """Each constructor must refuse what its docstring excludes."""
    with pytest.raises((TypeError, ValueError)):
        make()


def test_too_many_losses_are_refused():
    """Incommensurable rates multiply; the refusal must come before the memory is gone."""
    rates = [Geometric(Fraction(1, p)) for p in (101, 103, 107, 109, 113)]
    with pytest.raises(ConfigError, match="distinct losses"):
        Mixture((r, 7) for r in rates)


def test_float_budget_is_refused_with_the_fix():
    """A float rho is not the number its author wrote."""
    with pytest.raises(TypeError, match=r'Fraction\("0.1"\)'):
        Composition.from_rho({0.1: 2}, "bounded")
    with pytest.raises(TypeError, match=r'Fraction\("0.1"\)'):
        Composition.of([(0.1, 1, 2)])


@pytest.mark.parametrize("budgets", [{"-1/2": 1}, {"0": 3}, {}, {"x": 1}, {"1/0": 1}, {"1/2": -1}])
def test_impossible_budgets_are_refused(budgets):
    """Negative, zero-total, unreadable budgets must not give a number."""
    with pytest.raises(ValueError) as caught:
        Composition.from_rho(budgets, "bounded")
    assert isinstance(caught.value, ConfigError)
    assert caught.value.fix


@pytest.mark.parametrize("count", [1.0, True, "3"])
def test_counts_are_whole_numbers(count):
    """A count that is not an int hides a mistake in the order of arguments."""
    with pytest.raises(TypeError, match="whole number"):
        Composition.from_rho({"1/2": count}, "bounded")


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("delta", -1),
        ("delta", float("nan")),
        ("epsilon", 0),
        ("epsilon", 1),
        ("epsilon", 1.5),
        ("trade_off", -0.1),
        ("trade_off", 2),
    ],
)
def test_thresholds_outside_their_range_are_refused(call, value):
    """An epsilon below 0, a delta or alpha that is no probability must not be answered."""
    with pytest.raises(ValueError):
        getattr(weighted({"1/10": 10}), call)(value)


def test_zero_budgets_are_dropped():
    """Bypassed levels have rho 0 and must not become infinite noise or an error."""
    assert Composition.from_rho({"1/10": 10}, "bounded") == Composition.from_rho(
        {"1/10": 10, "0": 5}, "bounded"
    )


def test_rho_is_zcdp_of_the_stated_relation():
    """A replaced record moves two counts of a measurement, an added one moves one: noise differs, rho does not."""
    for relation, moved in (("bounded", 2), ("add_remove", 1)):
        case = Composition.from_rho({"1/10": 3, "1/4": 1}, relation)
        assert Fraction(11, 20) == case.rho
        assert 4 * moved == case.law.coordinates
        assert {Fraction(5) * moved, Fraction(2) * moved} == {g.variance for g in case.law.groups}
    with pytest.raises(ConfigError, match="neighbours"):
        Composition.from_rho({"1/10": 3}, "unbounded")


def test_a_float_threshold_is_the_decimal_it_prints():
    """delta=1e-10 must mean 10**-10, not the nearest binary number."""
    assert Fraction(1, 10**10) == threshold(1e-10, "delta")
    assert Fraction(1, 10) == rational(Decimal("0.1"), "rho")


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (Fraction(1, 3), "0.333", "0.334"),
        (Fraction(-1, 3), "-0.334", "-0.333"),
        (Fraction(2, 3) / 10**40, "6.66e-41", "6.67e-41"),
        (Fraction(9999, 1000), "9.99", "10"),
        (Fraction(123456), "1.23e5", "1.24e5"),
        (Fraction(1, 8), "0.125", "0.125"),
        (Fraction(0), "0", "0"),
        (Fraction(1000), "1e3", "1e3"),
    ],
)
def test_decimal_text_is_outward(value, low, high):
    """A bound printed to nearest would no longer be a bound."""
    assert (low, high) == (significant(value, 3, up=False), significant(value, 3, up=True))


def test_enclosure_refuses_crossed_bounds():
    """An empty interval is an engine's mistake, never an answer."""
    with pytest.raises(ValueError, match="empty enclosure"):
        Enclosure(Fraction(2), Fraction(1))
    box = Enclosure(Fraction(1), Fraction(2))
    assert Fraction(3, 2) in box
    assert 3 not in box


def test_gaussian_comparison_takes_one_argument():
    """Two thresholds at once would silently ignore one."""
    with pytest.raises(TypeError, match="exactly one"):
        weighted({1: 1}).gaussian(epsilon=1.0, delta=0.1)


STEP = Fraction(1, 64)
RANDOMISED = FiniteLoss(((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
REVEALING = FiniteLoss(
    (
        (Fraction(1, 100), Fraction(0)),
        (Fraction(39, 100), Fraction(60, 100)),
        (Fraction(60, 100), Fraction(39, 100)),
        (Fraction(0), Fraction(1, 100)),
    )
)


@st.composite
def pairs(draw: st.DrawFn) -> FiniteLoss:
    """Draw a pair of laws on up to five outcomes, zeros on either side included."""
    n = draw(st.integers(2, 5))
    sides = []
    for _ in range(2):
        masses = draw(st.lists(st.integers(0, 50), min_size=n, max_size=n).filter(any))
        sides.append([Fraction(m, sum(masses)) for m in masses])
    return FiniteLoss(tuple(zip(*sides, strict=True)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(pairs(), st.integers(1, 2)), min_size=1, max_size=3),
    st.fractions(0, 3, max_denominator=50),
    st.fractions(Fraction(1, 40), Fraction(1, 4), max_denominator=100),
)
def test_never_below_the_exact_delta(
    parts: list[tuple[FiniteLoss, int]], epsilon: Fraction, step: Fraction
) -> None:
    """A bound below the delta of all outcomes written out would promise what is not kept; any lattice, any pair."""
    assert direct(parts, epsilon) <= delta_above(parts, epsilon, step)


def direct(parts: list[tuple[FiniteLoss, int]], epsilon: Fraction) -> Fraction:
    """Sum (p - e^epsilon p')+ over all joint outcomes, with e^epsilon from above: at most the exact delta."""
    growth = exp_bounds(epsilon)[1]
    return sum((max(p - growth * q, Fraction(0)) for p, q in joint_outcomes(parts)), Fraction(0))


def joint_outcomes(parts: list[tuple[FiniteLoss, int]]) -> list[tuple[Fraction, Fraction]]:
    """Write out all joint outcomes with their two probabilities."""
    joint = [(Fraction(1), Fraction(1))]
    for event, count in parts:
        for _ in range(count):
            joint = [(p * a, q * b) for p, q in joint for a, b in event.outcomes if p * a or q * b]
    return joint


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(pairs(), st.integers(1, 2)), min_size=1, max_size=2),
    st.fractions(0, 1, max_denominator=50),
)
def test_trade_off_contains_that_of_the_best_test(
    parts: list[tuple[FiniteLoss, int]], alpha: Fraction
) -> None:
    """The lemma of Neyman and Pearson gives it as a fraction; an end rounded inwards would leave it out."""
    left, misses = alpha, Fraction(1)
    for p, q in sorted(joint_outcomes(parts), key=lambda o: (not o[1], o[1] and o[0] / o[1]), reverse=True):
        share = Fraction(1) if q <= left else left / q
        left, misses = left - share * q, misses - share * p
    (box,) = Mixture(parts).trade_off_curve([alpha])
    assert box.lower <= misses <= box.upper


@pytest.mark.parametrize("event", [RANDOMISED, REVEALING])
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 2), Fraction(2)])
def test_close_to_the_enclosure_of_the_accountant(event: FiniteLoss, epsilon: Fraction) -> None:
    """A bound that is far above the exact delta would make Gaussian noise look better than it is."""
    box = Mixture([(event, 6)]).delta(epsilon)
    found = delta_above([(event, 6)], epsilon, STEP)
    assert box.lower <= found <= box.upper * Fraction(1005, 1000)


def test_losses_on_the_lattice_are_exact() -> None:
    """Losses of 0 and without end need no rounding: the bound is the exact delta but for its last bits."""
    event = FiniteLoss(
        ((Fraction(1, 10), Fraction(0)), (Fraction(9, 10), Fraction(9, 10)), (Fraction(0), Fraction(1, 10)))
    )
    exact = 1 - Fraction(9, 10) ** 3
    found = delta_above([(event, 3)], Fraction(1), STEP)
    assert exact <= found < exact + Fraction(1, 2**150)


def test_nothing_is_lost_at_the_ends() -> None:
    """Losses far beyond the window count as ones without end, never as none."""
    tiny = Fraction(1, 10**30)
    event = FiniteLoss(((1 - tiny, tiny), (tiny, 1 - tiny)))
    assert 1 - 4 * tiny <= delta_above([(event, 1)], Fraction(1), STEP) <= 1


def test_a_narrow_window_only_adds() -> None:
    """What leaves the window must count as infinite: dropped, it would promise what is not kept."""
    wide, narrow = (
        delta_above([(RANDOMISED, 6)], Fraction(1), STEP, spare) for spare in (Fraction(8), Fraction(1, 4))
    )
    assert wide < narrow <= 1


def test_what_cannot_be_composed_is_refused() -> None:
    """A step of 0 would divide by 0, a count of 0 would leave an event out."""
    for events, step in (([(RANDOMISED, 0)], STEP), ([(RANDOMISED, 1)], Fraction(0)), ([], STEP)):
        with pytest.raises(ConfigError):
            delta_above(events, Fraction(1), step)
