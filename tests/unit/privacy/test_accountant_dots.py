"""Upper bounds of delta on a lattice of losses, against every pair of outcomes written out."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topdown.errors import ConfigError
from topdown.optimal_noise import exp_bounds
from topdown.privacy.accountant import FiniteLoss, Mixture, Repeated, delta_above

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
    joint = [(Fraction(1), Fraction(1))]
    for event, count in parts:
        for _ in range(count):
            joint = [(p * a, q * b) for p, q in joint for a, b in event.outcomes if p * a or q * b]
    growth = exp_bounds(epsilon)[1]
    return sum((max(p - growth * q, Fraction(0)) for p, q in joint), Fraction(0))


@pytest.mark.parametrize("event", [RANDOMISED, REVEALING])
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 2), Fraction(2)])
def test_close_to_the_enclosure_of_the_accountant(event: FiniteLoss, epsilon: Fraction) -> None:
    """A bound that is far above the exact delta would make Gaussian noise look better than it is."""
    box = Mixture(Repeated(event, 6)).delta(epsilon)
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
    with pytest.raises(ConfigError):
        delta_above([(RANDOMISED, 0)], Fraction(1), STEP)
    with pytest.raises(ConfigError):
        delta_above([(RANDOMISED, 1)], Fraction(1), Fraction(0))
    with pytest.raises(ConfigError):
        delta_above([], Fraction(1), STEP)
