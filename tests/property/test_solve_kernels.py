"""Compiled kernels against their plain reference."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import solver_twins as reference
from topdown.solve import (
    gram,
    has_negative_cycle,
    leave_gap,
    occurring,
    project_segments,
    worst_violation,
)


@given(st.integers(0, 10_000))
@settings(max_examples=300, deadline=None)
def test_gram_equals_the_sum_of_query_matrices(seed: int) -> None:
    """A wrong label comparison would weigh queries wrongly at every node."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, size=(rng.integers(1, 5), rng.integers(1, 9)))
    weights = rng.uniform(0.01, 3, size=len(labels))
    found = gram(labels, weights)
    assert type(found) is np.ndarray  # what C sees would take no lists of rows, and no arithmetic
    np.testing.assert_allclose(found, reference.gram(labels, weights), rtol=1e-13)


@given(st.integers(0, 100_000))
@settings(max_examples=500, deadline=None)
def test_projection_equals_the_sorted_search(seed: int) -> None:
    """A wrong threshold would break parent sums or nonnegativity at every iterate."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=rng.integers(1, 6))
    pointers = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    v = rng.normal(size=pointers[-1]) * 10.0 ** rng.integers(-3, 6)
    allowed = rng.random(pointers[-1]) < 0.8
    sums = np.where(rng.random(len(sizes)) < 0.2, -1.0, rng.integers(0, 50, size=len(sizes)).astype(float))
    out = np.full(pointers[-1], np.nan)
    project_segments(v, pointers, sums, allowed, out)
    for i, total in enumerate(sums):
        part = slice(pointers[i], pointers[i + 1])
        expected = reference.project(v[part], total, allowed[part])
        np.testing.assert_allclose(out[part], expected, atol=1e-9 * max(1.0, np.abs(v[part]).max()))


def test_a_costly_flow_is_not_called_optimal() -> None:
    """If the residual check missed a negative cycle, a bad rounding would be certified."""
    tails, heads = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3])
    capacities, costs = np.ones(4, dtype=np.int64), np.array([5, 1, 0, 0])
    dear, cheap = np.array([1, 0, 1, 0]), np.array([0, 1, 0, 1])
    assert has_negative_cycle(tails, heads, capacities, costs, dear, 4)
    assert not has_negative_cycle(tails, heads, capacities, costs, cheap, 4)


@given(st.lists(st.integers(0, 40), max_size=60))
def test_codes_are_counted_as_sorting_would(codes: list[int]) -> None:
    """Nodes of flow networks are numbered by it: a wrong place would send records to another area."""
    here = np.array(codes, dtype=np.int64)
    present, place = occurring(here)
    found, number = np.unique(here, return_inverse=True)
    np.testing.assert_array_equal(present, found)
    np.testing.assert_array_equal(place, number)


@given(st.integers(0, 100_000))
@settings(max_examples=300, deadline=None)
def test_the_optimality_check_adds_up_as_its_twin(seed: int) -> None:
    """What a certificate says of a split's distance from its optimum comes from these two loops."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=rng.integers(1, 6))
    pointers = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    n = int(pointers[-1])
    z = np.where(rng.random(n) < 0.5, rng.normal(1.0, 1.0, n), 0.0)
    allowed, d = rng.random(n) < 0.8, rng.normal(size=n)
    sums = np.where(rng.random(len(sizes)) < 0.2, -1.0, rng.integers(0, 5, size=len(sizes)).astype(float))
    worst = worst_violation(z, allowed, pointers, sums)
    np.testing.assert_allclose(worst, reference.worst_violation(z, allowed, pointers, sums), atol=1e-12)
    expected = reference.remaining_gap(z, allowed, pointers, sums, d)
    leave_gap(z, allowed, pointers, sums, d)
    np.testing.assert_allclose(d, expected, atol=1e-12)


def test_entries_that_are_no_numbers_are_no_optimum() -> None:
    """A solver that overflowed would be called exact if comparisons with what is no number passed."""
    z, allowed = np.array([1.0, np.nan]), np.ones(2, dtype=bool)
    pointers, sums = np.array([0, 2]), np.array([1.0])
    assert not worst_violation(z, allowed, pointers, sums) <= 1e-5
    d = np.array([0.0, np.nan])
    leave_gap(np.array([1.0, 0.0]), allowed, pointers, sums, d)
    assert np.isnan(d[1])
