"""The exact tree optimum against enumeration, cost tables, the flow and the plain exchange check."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import tree_of, tree_optimum
from pgsr.estimators import TreeLeastSquares, descend, relaxed_histograms, split
from pgsr.group_checks import exchange_gain_plain
from tests.helpers.depth import DEPTH
from tests.oracles.exact_programs import full_table_optimum
from tests.oracles.group_sizes import enumerate_model1, split_by_units, table_optimum, units_by_slope


@st.composite
def instances(draw, most_leaves=4, most_sizes=3, most_total=8, reach=12):
    n_levels = draw(st.integers(1, 4))
    levels, width = [[-1]], 1
    for _ in range(n_levels - 1):
        extra = draw(st.integers(0, most_leaves - width))
        parents = sorted([*range(width), *(draw(st.integers(0, width - 1)) for _ in range(extra))])
        levels.append(parents)
        width = len(parents)
    tree = tree_of(levels)
    n_sizes = draw(st.integers(1, most_sizes))
    cell = st.integers(-reach, reach)
    noisy = draw(
        st.lists(
            st.lists(cell, min_size=tree.n_nodes, max_size=tree.n_nodes), min_size=n_sizes, max_size=n_sizes
        )
    )
    weights = draw(st.lists(st.integers(1, 5), min_size=n_levels, max_size=n_levels))
    return tree, np.array(noisy), draw(st.integers(0, most_total)), weights


@given(instances(most_leaves=3, most_sizes=2, most_total=4))
@settings(max_examples=80, deadline=None)
def test_optimum_is_that_of_enumeration(instance):
    """Nothing cheaper exists among all consistent tables."""
    tree, noisy, total, weights = instance
    assert enumerate_model1(tree, noisy, total, weights) == tree_optimum(tree, noisy, total, weights)[1]


@pytest.mark.deep
@given(instances(most_leaves=12, most_sizes=5, most_total=60, reach=30))
@settings(max_examples=75 * DEPTH, deadline=None)
def test_optimum_is_that_of_cost_tables(instance):
    """Deep and wide trees, where pruning, windows and prices all matter."""
    tree, noisy, total, weights = instance
    counts, cost, certificate = tree_optimum(tree, noisy, total, weights)
    found = table_optimum(tree, noisy, total, weights)
    assert found is not None
    assert found[1] == cost
    assert certificate.optimal
    assert np.array_equal(tree.sums(counts[:, tree.n_inner :]), counts)
    assert counts.min() >= 0
    assert total == counts[:, 0].sum()


@given(instances(most_leaves=4, most_sizes=3, most_total=12))
@settings(max_examples=30, deadline=None)
def test_plain_tables_agree(instance):
    """The twin in plain Python, with exact fractional weights."""
    tree, noisy, total, weights = instance
    exact = [Fraction(w, 3) for w in weights]
    tables = full_table_optimum(tree, noisy, total, exact, units=units_by_slope)
    assert tables[1] == tree_optimum(tree, noisy, total, exact)[1]


@given(instances(most_leaves=8, most_sizes=4, most_total=30), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_certificate_rejects_worse_tables(instance, pick):
    """A certificate that accepted any other table of higher cost would prove nothing."""
    tree, noisy, total, _ = instance
    counts, cost, _ = tree_optimum(tree, noisy, total)
    assert exchange_gain_plain(tree.parent, noisy, counts)[0] <= 0
    leaves = counts[:, tree.n_inner :].copy()
    rng = np.random.default_rng(pick)
    start, stop = rng.integers(leaves.size, size=2)
    if leaves.flat[start] == 0:
        return
    leaves.flat[start] -= 1
    leaves.flat[stop] += 1
    other = tree.sums(leaves)
    worse = int(((other - noisy) ** 2).sum()) > cost
    assert worse == (exchange_gain_plain(tree.parent, noisy, other)[0] > 0)


@given(instances(most_leaves=6, most_sizes=4, most_total=20))
@settings(max_examples=60, deadline=None)
def test_relaxation_bounds_the_integer_optimum(instance):
    """M_H^r must be feasible and never dearer than the integers it is rounded to."""
    tree, noisy, total, _ = instance
    x = relaxed_histograms(tree, noisy, total)
    cost = tree_optimum(tree, noisy, total)[1]
    assert x.min() >= -1e-9
    assert total == pytest.approx(x[:, 0].sum(), abs=1e-6)
    assert ((x - noisy) ** 2).sum() <= float(cost) + 1e-6
    leaves = x[:, tree.n_inner :]
    for g in range(tree.n_inner):
        below = leaves[:, tree.leaf_start[g] : tree.leaf_stop[g]].sum(axis=1)
        assert np.allclose(below, x[:, g], atol=1e-6)


@given(instances(most_leaves=6, most_sizes=3))
@settings(max_examples=40, deadline=None)
def test_least_squares_matches_the_normal_equations(instance):
    """Two passes over the tree must equal a dense solve."""
    tree, noisy, _, weights = instance
    w = np.array(weights, dtype=float)[tree.level_of]
    incidence = tree.sums(np.eye(tree.n_leaves, dtype=np.int64)).T.astype(float)
    fitted = TreeLeastSquares(tree, w).fit(noisy.astype(float))
    for row, target in zip(fitted, noisy, strict=True):
        dense = np.linalg.solve(incidence.T * w @ incidence, incidence.T @ (w * target))
        assert np.allclose(incidence @ dense, row, atol=1e-8)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=8), st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_split_is_nearest(target, total):
    """One unit at a time to the cheapest place is optimal; the fast split must cost the same."""
    out = np.empty(len(target), dtype=np.int64)
    split(np.array(target), total, out)
    plain = split_by_units(target, total)
    assert total == out.sum()
    assert out.min() >= 0
    cost, best = (
        sum((x - t) ** 2 for x, t in zip(found, target, strict=True)) for found in (out.tolist(), plain)
    )
    assert best == pytest.approx(cost, rel=1e-9, abs=1e-9)


@given(instances(most_leaves=6, most_sizes=4, most_total=20))
@settings(max_examples=60, deadline=None)
def test_topdown_steps_are_each_optimal(instance):
    """The comparator must be the paper's: every step the nearest integers, given the step above."""
    tree, noisy, total, _ = instance
    counts = descend(tree, noisy, total)

    def cost(found, target):
        return sum((x - t) ** 2 for x, t in zip(found, target, strict=True))

    root = noisy[:, 0].tolist()
    assert cost(counts[:, 0].tolist(), root) == cost(split_by_units(root, total), root)
    for g in range(tree.n_inner):
        below = slice(tree.first_child[g], tree.first_child[g + 1])
        for given_counts, target in zip(counts, noisy[:, below].tolist(), strict=True):
            best = split_by_units(target, int(given_counts[g]))
            assert cost(given_counts[below].tolist(), target) == cost(best, target)
            assert given_counts[below].sum() == given_counts[g]
