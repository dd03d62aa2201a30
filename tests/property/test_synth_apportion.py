"""Largest remainders: nobody lost, nobody a whole person away from the share."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topdown.practice.synth import apportion


@given(
    total=st.integers(0, 10**7),
    weights=st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=60).filter(
        lambda w: sum(w) > 1e-3
    ),
)
def test_parts_sum_and_stay_close(total: int, weights: list[float]) -> None:
    """A made-up census would have another number of people than asked for."""
    given_weights = np.array(weights)
    parts = apportion(total, given_weights)
    assert total == int(parts.sum())
    assert (parts >= 0).all()
    assert np.abs(parts - total * given_weights / given_weights.sum()).max() <= 1 + 1e-6
