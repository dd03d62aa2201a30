"""Optimal noise for any wish: private by a count of its own, best by its proof, and the same after a round trip."""

from fractions import Fraction

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from topdown.app import law_document, law_of
from topdown.optimal_noise import (
    Absolute,
    NoiseRequest,
    Pinball,
    Promise,
    Square,
    TableLoss,
    exp_bounds,
    optimal_law,
    parse_loss,
    plain_ratio,
    smallest_truncated,
)

SLOPES = st.integers(1, 9).map(Fraction)
TABLES = st.integers(0, 2).flatmap(
    lambda n: st.lists(st.integers(0, 5).map(Fraction), min_size=2 * n + 1, max_size=2 * n + 1)
)
LOSSES = st.one_of(
    st.just(Absolute()),
    st.just(Square()),
    st.builds(Pinball, SLOPES, SLOPES),
    st.builds(lambda values, left, right: TableLoss(tuple(values), left, right), TABLES, SLOPES, SLOPES),
)
WISHES = st.builds(
    lambda tenths, digits, mantissa, sensitivity, loss: NoiseRequest(
        (Promise(Fraction(tenths, 10), Fraction(mantissa, 10**digits)),), sensitivity, loss
    ),
    st.integers(3, 50),
    st.integers(2, 7),
    st.integers(1, 9),
    st.integers(1, 3),
    LOSSES,
)


@settings(max_examples=25, deadline=None)
@given(WISHES)
def test_any_wish_is_kept_and_proved(ask: NoiseRequest) -> None:
    """A wish for which the law breaks its promise, or is not shown best, is one that a user will make."""
    law = optimal_law(ask)
    (promise,) = ask.promises
    factor = exp_bounds(promise.epsilon)[0]
    values = range(law.first - ask.sensitivity, law.last + ask.sensitivity + 1)
    for shift in range(-ask.sensitivity, ask.sensitivity + 1):
        needed = sum(max(law.mass(x) - factor * law.mass(x - shift), Fraction(0)) for x in values)
        assert needed <= promise.delta
    assert sum(map(law.mass, values)) == 1
    assert law.bound <= law.loss == sum(law.mass(x) * ask.loss.at(x) for x in values)
    assert law.gap <= Fraction(1, 10**6)
    assert law_of(msgspec.to_builtins(law_document(law))) == law
    assert parse_loss(ask.loss.name) == ask.loss


@settings(max_examples=15, deadline=None)
@given(WISHES, st.integers(0, 10), st.integers(1, 20))
def test_no_private_law_is_below_the_bound(ask: NoiseRequest, flatter: int, share: int) -> None:
    """A bound that some private law undercuts is a false proof."""
    plain = plain_ratio(ask.promises[0].epsilon, ask.sensitivity)
    weights = smallest_truncated(
        plain + (1 - plain) * flatter / 20, ask.promises, ask.sensitivity, Fraction(share, 20)
    )
    radius = len(weights) // 2
    loss = sum(w * ask.loss.at(k - radius) for k, w in enumerate(weights)) / sum(weights)
    assert optimal_law(ask).bound <= loss
