"""Error statistics of sparse tables against dense NumPy on the same numbers."""

import numpy as np
import pytest

from topdown.measure import QUANTILES, ErrorStatistics, subtract_truth, summed_total_variation
from topdown.model import Histogram


def sparse(dense: np.ndarray) -> Histogram:
    node, cell = np.nonzero(dense)
    return Histogram.build(*dense.shape, node, cell, dense[node, cell])


@pytest.mark.parametrize("seed", range(40))
def test_sparse_equals_dense(seed: int) -> None:
    """Zeros that are not stored would be forgotten in an average, a quantile or a distance."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 7)))
    a, b = (rng.poisson(rng.choice([0.2, 3.0]), shape) for _ in range(2))
    errors, cut = ErrorStatistics(), int(rng.integers(0, shape[0] + 1))
    for part in (slice(0, cut), slice(cut, shape[0])):
        errors.add(subtract_truth(sparse(a[part]), sparse(b[part])).count, a[part].size)
    got = errors.summary()
    error = (a - b).reshape(-1)
    size = np.sort(np.abs(error))
    expected = [np.abs(error).mean(), np.sqrt((error**2).mean()), error.mean(), np.abs(error).sum()]
    assert pytest.approx(expected) == [got["mae"], got["rmse"], got["bias"], got["l1"]]
    quantiles = {str(q): int(np.quantile(size, q / 100, method="inverted_cdf")) for q in QUANTILES}
    assert quantiles | {"max": int(size[-1])} == got["quantiles"]
    distances = []
    for left, right in zip(a, b, strict=True):
        if left.sum() and right.sum():
            distances.append(float(np.abs(left / left.sum() - right / right.sum()).sum() / 2))
        elif left.sum() or right.sum():
            distances.append(1.0)
    assert (pytest.approx(sum(distances)), len(distances)) == summed_total_variation(sparse(a), sparse(b))


def test_squares_do_not_overflow() -> None:
    """A nation's error would wrap around in 64-bit integers."""
    errors = ErrorStatistics()
    errors.add(np.array([3_000_000_000, -3_000_000_000] * 9), 18)
    assert pytest.approx(errors.summary()["rmse"]) == 3e9


def test_nothing_compared() -> None:
    """A level without nodes of a kind would divide by zero."""
    empty = ErrorStatistics().summary()
    assert (empty["mae"], empty["quantiles"]["max"]) == (0, 0)  # type: ignore[index]
