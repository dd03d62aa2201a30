"""Verify's own sums of discrete Gaussian noise against the accountant's, which share no line with them."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import repeats
from topdown.privacy.accountant import Composition
from topdown.verify import MovedCounts, loss_of

VARIANCES = st.fractions(Fraction(1, 2), 3000, max_denominator=100)
GROUPS = st.lists(st.tuples(VARIANCES, st.integers(1, 2), st.integers(1, 60)), min_size=1, max_size=5)
NARROW = 1e-9  # what the accountant encloses more widely says nothing of verify
NEAR = Fraction(1, 10**5)


@pytest.mark.deep
@given(GROUPS, st.sampled_from([2, 5, 10]))
@settings(max_examples=repeats(12, 60), deadline=None)
def test_sums_of_noise_hold_the_true_loss_and_are_narrow(
    groups: list[tuple[Fraction, int, int]], digits: int
) -> None:
    """A verifier whose sums were off would refuse true certificates, one whose sums were wide accept false ones."""
    own = loss_of("discrete_gaussian", [MovedCounts(*group) for group in groups])
    other = Composition.of(groups)
    pairs = [
        (own.epsilon(f"1e-{digits}"), other.epsilon(Fraction(1, 10**digits))),
        (own.guess, other.best_guess()),
    ]
    for found, true in pairs:
        if true.relative_width <= NARROW:
            assert found.lower <= true.upper
            assert true.lower <= found.upper
            assert found.upper - found.lower <= NEAR * true.upper
