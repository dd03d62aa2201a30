"""Chains and isotonic rows against tables, rationals and big integers."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import chain_optimum, cumulative_estimate, tree_of
from pgsr.estimators import exceeds, isotonic_rows, isotonic_rows_real
from tests.oracles.group_sizes import chain_by_tables, enumerate_model2, isotonic_by_minmax


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_chain_is_that_of_tables(data):
    """Ties, weights, bounds and the pinned end in every combination."""
    n = data.draw(st.integers(1, 9))
    y = data.draw(st.lists(st.integers(-15, 20), min_size=n, max_size=n))
    tied = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    weights = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    total, last = data.draw(st.integers(0, 14)), data.draw(st.booleans())
    values, cost = chain_optimum(y, tied, total, weights, last=last)
    assert chain_by_tables(y, tied, total, weights, last=last) == cost
    assert all(a == b if tie else a <= b for a, b, tie in zip(values, values[1:], tied, strict=False))
    assert 0 <= values.min() <= values.max() <= total
    assert not last or total == values[-1]


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=12), st.integers(0, 25))
@settings(max_examples=200, deadline=None)
def test_isotonic_rows_match_the_max_min_formula(y, total):
    """Integer pooling and its rounding against rationals; the float kernel on the same row."""
    row = np.array([y])
    out, real = np.empty_like(row), np.empty(row.shape)
    isotonic_rows(row, total, out)
    isotonic_rows_real(row.astype(float), np.zeros(1), np.full(1, float(total)), real)
    assert isotonic_by_minmax(y, 0, total) == out[0].tolist()
    assert np.all(np.abs(real - out) <= 0.5 + 1e-9)


@given(
    st.integers(-(2**55), 2**55), st.integers(1, 2**40), st.integers(-(2**55), 2**55), st.integers(1, 2**40)
)
@settings(max_examples=300, deadline=None)
def test_means_are_compared_exactly(a, b, c, d):
    """Products of these numbers overflow 64 bits; a wrong comparison pools the wrong blocks."""
    assert (Fraction(a, b) >= Fraction(c, d)) == exceeds(a, b, c, d)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_cumulative_estimates_are_valid_and_bounded_by_the_optimum(data):
    """Consistency, validity and faithfulness of M_c^dp and tracking, and no cost below the optimum."""
    levels = data.draw(st.sampled_from([[[-1], [0, 0]], [[-1], [0]], [[-1], [0, 0], [0, 1]], [[-1]]]))
    tree, n_sizes = tree_of(levels), data.draw(st.integers(1, 3))
    cells = st.lists(st.integers(-6, 10), min_size=tree.n_nodes, max_size=tree.n_nodes)
    noisy = np.array(data.draw(st.lists(cells, min_size=n_sizes, max_size=n_sizes)))
    total = data.draw(st.integers(0, 4))
    best = enumerate_model2(tree, noisy, total)
    for options in ({"method": "M_c^dp"}, {}, {"rounds": 1}, {"admm": 20}, {"tail": True}):
        found = cumulative_estimate(tree, noisy, total, **options)
        assert found.consistent
        assert found.counts.min() >= 0
        assert total == found.counts[:, 0].sum()
        if not options.get("tail"):
            assert found.cost >= best


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_tail_counts_are_the_mirror_image(data):
    """Tail answers must give the mirrored result of cumulative answers."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    cells = st.lists(st.integers(-6, 12), min_size=6, max_size=6)
    noisy = np.array(data.draw(st.lists(cells, min_size=3, max_size=3)))
    up = cumulative_estimate(tree, noisy[::-1], 7)
    assert np.array_equal(up.counts[::-1], cumulative_estimate(tree, noisy, 7, tail=True).counts)
