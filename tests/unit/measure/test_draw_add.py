"""True counts on top of noise: in 32 bits where no sum can leave them, in 64 bits beside them."""

import numpy as np
import pytest

from topdown.errors import InternalError
from topdown.measure import add_counts, add_in_64_bits

MOST = 2**31 - 1


@pytest.mark.parametrize("most", [9, MOST // 60, MOST])
def test_both_ways_add_the_same(most):
    """An answer that loses one of its people in the fast way is wrong in every release."""
    random = np.random.default_rng(most)
    for _ in range(50):
        block = random.integers(-most, most // 3, (4, 3)).astype(np.int32)
        row, answer = random.integers(0, 4, 30), random.integers(0, 3, 30).astype(np.int32)
        count = random.integers(0, most // 60 + 1, 30)
        exact = block.astype(object)
        for at in zip(row, answer, count, strict=True):
            exact[at[0], at[1]] += int(at[2])
        slow = block.copy()
        add_in_64_bits(slow.reshape(-1), row * 3 + answer, count)
        add_counts(block, row, answer, count)
        assert (exact.tolist(), exact.tolist()) == (block.tolist(), slow.tolist())


@pytest.mark.parametrize(("noise", "counts"), [(MOST, [1]), (MOST - 2, [1, 1, 1]), (0, [2**31])])
def test_a_sum_that_leaves_32_bits_is_refused(noise, counts):
    """A sum that wraps would be published as a number of another sign."""
    block = np.full((1, 2), noise, dtype=np.int32)
    place = np.ones(len(counts), dtype=np.int64)
    with pytest.raises(InternalError) as refused:
        add_counts(block, 0 * place, place.astype(np.int32), np.array(counts))
    assert refused.value.code == "X020"
    assert block.tolist() == [[noise, noise]]


def test_a_sum_that_just_fits_is_kept():
    """The bound is for all counts together; one answer may need less than they add up to."""
    block = np.array([[MOST - 2, 0]], dtype=np.int32)
    add_counts(block, np.zeros(2, dtype=np.int64), np.array([0, 1], dtype=np.int32), np.array([2, 7]))
    assert block.tolist() == [[MOST, 7]]


def test_nothing_to_add_changes_nothing():
    """Nodes without records have noise all the same."""
    block, none = np.array([[3, -4]], dtype=np.int32), np.zeros(0, dtype=np.int64)
    add_counts(block, none, none.astype(np.int32), none)
    assert block.tolist() == [[3, -4]]
