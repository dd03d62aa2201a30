"""The peer of Kuo et al. (2018), and isotonic regression by medians."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsr import tree_of
from pgsr.comparison import KUO, kuo_counts
from pgsr.estimators import Groups, match_groups, median_isotonic

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


@pytest.mark.parametrize("form", KUO.values())
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


def matched_one_by_one(parent, children, n_sizes):
    """Return each child's counts by size: its groups, one after the other, meet the parent's in order of size."""
    above = [(size, v) for size, v, n in parent for _ in range(n)]
    below = sorted((size, c, v) for c, runs in enumerate(children) for size, v, n in runs for _ in range(n))
    out = np.zeros((len(children), n_sizes), dtype=np.int64)
    for (x, v), (y, c, w) in zip(above, below, strict=True):
        out[c, int((x / v + y / w) / (1 / v + 1 / w) + Fraction(1, 2))] += 1
    return out


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=4), min_size=1, max_size=3)
)
def test_runs_are_matched_as_single_groups_would_be(drawn):
    """Runs of equal groups are cut and merged: where no two children tie, each group meets the one of its rank."""
    n, n_sizes = len(drawn), 24
    children = [
        sorted({(n * s + c, Fraction(2), k) for s, k in dict(runs).items()}) for c, runs in enumerate(drawn)
    ]
    total = sum(k for runs in children for _, _, k in runs)
    parent = [(2, Fraction(1), total // 3), (9, Fraction(3), total - total // 3)]
    parent = [run for run in parent if run[2]]

    def groups(runs):
        size, variance, count = zip(*runs, strict=True) if runs else ((), (), ())
        return Groups(np.array(size, np.int64), np.array(variance, float), np.array(count, np.int64))

    found = np.zeros((n, n_sizes), dtype=np.int64)
    for c, own in enumerate(match_groups(groups(parent), [groups(runs) for runs in children], n_sizes)):
        np.add.at(found[c], own.size, own.count)
    assert matched_one_by_one(parent, children, n_sizes).tolist() == found.tolist()
