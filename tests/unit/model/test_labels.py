"""One function says which table refines which; everything about nesting rests on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topdown.model import refines

labels = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), max_size=8)


@given(labels)
def test_refines_is_one_label_for_one_label(pairs: list[tuple[int, int]]) -> None:
    """A table refines another if and only if no label of it meets two of the other."""
    fine, coarse = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))
    expected = len(set(pairs)) == len({pair[0] for pair in pairs})
    assert refines(fine, coarse) is expected


@pytest.mark.parametrize(("fine", "coarse", "expected"), [([0, 1], [0, 0], True), ([0, 0], [0, 1], False)])
def test_direction(fine: list[int], coarse: list[int], expected: bool) -> None:
    """Swapped arguments would let a coarse table pass for a fine one."""
    assert refines(np.array(fine), np.array(coarse)) is expected
