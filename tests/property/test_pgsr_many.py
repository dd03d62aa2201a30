"""Thousands of random instances, heavier than the everyday suite."""

from fractions import Fraction

import numpy as np
import pytest

from pgsr import chain_optimum, tree_of, tree_optimum
from pgsr.comparison import Run, compare_runs
from pgsr.synthetic_groups import synthesize
from tests.oracles.group_sizes import chain_by_tables, table_optimum

pytestmark = pytest.mark.slow


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


def test_tracking_loses_nothing_to_histograms_on_the_census_shape():
    """In persons tracking is nearer than M_c^dp at every level at epsilon 1, with L1 within 5 %."""
    made = synthesize("census")
    runs = [Run("M_c^dp"), Run("tracking")]
    base, ours = compare_runs(made.hierarchy.tree, made.counts, [Fraction(1)], runs=runs, repeats=2, seed=5)
    assert all(b >= o for b, o in zip(base.emd, ours.emd, strict=True))
    assert all(o <= 1.05 * b for b, o in zip(base.l1, ours.l1, strict=True))


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
