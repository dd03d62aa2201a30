"""Trees and chains of group sizes against enumeration, cost tables, flows and rationals; thousands where slow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import chain_optimum, cumulative_estimate, tree_of, tree_optimum
from pgsr.comparison import Run, compare_runs
from pgsr.estimators import (
    TreeLeastSquares,
    descend,
    estimate,
    exceeds,
    isotonic_rows,
    isotonic_rows_real,
    mechanism_named,
    relaxed_histograms,
    split,
)
from pgsr.group_checks import exchange_gain_plain
from pgsr.synthetic_groups import synthesize
from tests.helpers.depth import DEPTH
from tests.oracles.exact_programs import full_table_optimum
from tests.oracles.group_sizes import (
    chain_by_tables,
    enumerate_model1,
    enumerate_model2,
    isotonic_by_minmax,
    split_by_units,
    table_optimum,
    units_by_slope,
)


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
    for options in ({"method": "M_c^dp"}, {}, {"rounds": 1}, {"admm": 20}):
        found = cumulative_estimate(tree, noisy, total, **options)
        assert found.consistent
        assert found.counts.min() >= 0
        assert total == found.counts[:, 0].sum()
        assert found.cost >= best


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_tail_counts_are_the_mirror_image(data):
    """Tail answers must give the mirrored result of cumulative answers."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    cells = st.lists(st.integers(-6, 12), min_size=6, max_size=6)
    noisy = np.array(data.draw(st.lists(cells, min_size=3, max_size=3)))
    tracking = mechanism_named("tracking")
    up = estimate(tracking, tree, np.ascontiguousarray(noisy[::-1]), 7, "cumulative")
    assert np.array_equal(up.counts[::-1], estimate(tracking, tree, noisy, 7, "tail").counts)


def random_tree(rng):
    levels, width = [[-1]], 1
    for _ in range(rng.integers(0, 5)):
        width += int(rng.integers(0, 6))
        parents = np.sort(
            np.concatenate([np.arange(len(levels[-1])), rng.integers(0, len(levels[-1]), width)])
        )
        levels.append(parents[: max(width, len(levels[-1]))].tolist())
        levels[-1] = sorted([*range(len(levels[-2])), *levels[-1][len(levels[-2]) :]])
        width = len(levels[-1])
    return tree_of(levels)


@pytest.mark.slow
def test_three_thousand_trees():
    """Rare failures of pruning, window or price only show in numbers."""
    rng = np.random.default_rng(3)
    for _ in range(3000):
        tree = random_tree(rng)
        noisy = rng.integers(-20, 40, size=(int(rng.integers(1, 6)), tree.n_nodes))
        total, weights = int(rng.integers(0, 80)), rng.integers(1, 8, tree.n_levels).tolist()
        found = table_optimum(tree, noisy, total, weights)
        assert found is not None
        assert found[1] == tree_optimum(tree, noisy, total, weights)[1]


@pytest.mark.slow
def test_twenty_thousand_chains():
    """The exact pooling against the table program, in every combination of ties, weights and bounds."""
    rng = np.random.default_rng(4)
    for _ in range(20_000):
        n, total, last = int(rng.integers(1, 9)), int(rng.integers(0, 15)), bool(rng.integers(2))
        y, tied = rng.integers(-10, 20, n).tolist(), (rng.random(n) < 0.4).tolist()
        weights = rng.integers(1, 5, n).tolist()
        assert (
            chain_by_tables(y, tied, total, weights, last=last)
            == chain_optimum(y, tied, total, weights, last=last)[1]
        )


@pytest.mark.slow
def test_tracking_loses_nothing_to_histograms_on_the_census_shape():
    """In persons tracking is nearer than M_c^dp at every level at epsilon 1, with L1 within 5 %."""
    made = synthesize("census")
    runs = [Run("M_c^dp"), Run("tracking")]
    base, ours = compare_runs(made.hierarchy.tree, made.counts, [Fraction(1)], runs=runs, repeats=2, seed=5)
    assert all(b >= o for b, o in zip(base.emd, ours.emd, strict=True))
    assert all(o <= 1.05 * b for b, o in zip(base.l1, ours.l1, strict=True))


@pytest.mark.slow
def test_shrinkage_to_the_parent_gains_on_the_census_shape():
    """At epsilon 1/10 counties gain at least a tenth over tracking, and no level loses more than a tenth."""
    made = synthesize("census")
    runs = [Run("tracking"), Run("posterior", public=True)]
    base, ours = compare_runs(
        made.hierarchy.tree, made.counts, [Fraction(1, 10)], runs=runs, repeats=2, seed=5
    )
    assert ours.l1[-1] <= 0.9 * base.l1[-1]
    assert ours.emd[-1] <= 0.9 * base.emd[-1]
    assert all(o <= 1.1 * b for b, o in zip(base.emd, ours.emd, strict=True))
