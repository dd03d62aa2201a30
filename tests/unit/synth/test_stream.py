"""The generator's own random numbers: stable, and distributed as they say."""

import numpy as np
import pytest

from topdown.practice.synth import RepeatableRandom, apportion


def test_first_numbers_are_frozen() -> None:
    """Sample data would change with a library, and every checksum with them."""
    stream = RepeatableRandom(1, "test")
    assert pytest.approx(stream.uniform(3).tolist(), abs=1e-10) == [
        0.17112918500,
        0.45403000784,
        0.67438409278,
    ]


def test_names_and_seeds_separate_streams() -> None:
    """Two parts of the generator would draw the same numbers."""
    first = [RepeatableRandom(seed, name).uniform(1)[0] for seed in (0, 1, 2) for name in ("a", "b", "")]
    assert len(first) == len(set(first))


def test_normals_are_standard() -> None:
    """Spreads in profiles would not mean what they say."""
    z = RepeatableRandom(1, "normal").normal(100_000)
    assert pytest.approx([z.mean(), z.std()], abs=0.015) == [0, 1]
    assert pytest.approx(float((np.abs(z) < 2).mean()), abs=0.004) == 0.9545


def test_choose_follows_weights_and_never_takes_the_impossible() -> None:
    """Shares of labels would be off, or a structural zero be drawn."""
    with np.errstate(divide="ignore"):
        weights = np.log(np.array([[1.0, 0.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0]]))
    row = np.repeat([0, 1], 40_000)
    value = RepeatableRandom(1, "choose").choose(weights, row)
    shares = [np.bincount(value[row == r], minlength=4) / 40_000 for r in (0, 1)]
    assert pytest.approx(shares[0].tolist(), abs=0.01) == [0.25, 0, 0.75, 0]
    assert shares[1].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [(10, [1.0, 1.0, 2.0], [3, 2, 5]), (0, [1.0], [0]), (3, [0.0, 1.0], [0, 3]), (2, [1.0] * 3, [1, 1, 0])],
)
def test_apportion_by_hand(total: int, weights: list[float], parts: list[int]) -> None:
    """People would be lost or invented when they are spread over places."""
    assert parts == apportion(total, np.array(weights)).tolist()
