"""The peer of Kuo et al. (2018), and isotonic regression by medians."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import tree_of
from pgsr.kuo import FORMS, kuo_counts
from pgsr.medians import median_isotonic

TREE = tree_of([[-1], [0, 0], [0, 0, 1]])


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5))
def test_medians_are_the_nearest_ascending_values(values):
    """No ascending sequence is nearer in absolute error."""
    found = median_isotonic(np.array(values, dtype=float))
    least = min(
        sum(abs(a - b) for a, b in zip(x, values, strict=True))
        for x in combinations_with_replacement(range(-3, 4), len(values))
    )
    assert np.all(np.diff(found) >= 0)
    assert least == pytest.approx(float(np.abs(found - values).sum()))


@pytest.mark.parametrize("form", FORMS)
def test_without_noise_the_peer_returns_the_truth(form):
    """Any slip in sizes, regions or matching shows when the noise is gone."""
    truth = TREE.sums(np.array([[3, 0, 1], [2, 0, 5], [0, 0, 1], [1, 0, 0]], dtype=np.int64))
    found = kuo_counts(TREE, truth, [form] * 3, [1.0] * 3, lambda _, shape: np.zeros(shape, dtype=np.int64))
    assert np.array_equal(truth, found)


@pytest.mark.parametrize("forms", [["cumulative"] * 3, ["sizes"] * 3, ["sizes", "cumulative", "sizes"]])
def test_the_peer_keeps_every_number_of_groups(forms):
    """Totals are public to Kuo et al.: matching must neither lose nor invent a group."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        truth = TREE.sums(rng.integers(0, 4, (6, 3)) * rng.integers(0, 2, (6, 3)))
        found = kuo_counts(TREE, truth, forms, [3.0] * 3, lambda _, shape: rng.integers(-4, 5, shape))
        assert truth.sum(axis=0).tolist() == found.sum(axis=0).tolist()
