"""The variance of discrete Gaussian noise, against sums of exact powers."""

import math
from fractions import Fraction

import pytest

from topdown.privacy.accountant import discrete_gaussian_variance


@pytest.mark.parametrize("parameter", ["1/20", "1/3", "1", "5", "15", "16", "300"])
def test_encloses_the_sum(parameter: str) -> None:
    """Noise of a small parameter varies far less than that: it would be shown worse than it is."""
    v = float(Fraction(parameter))
    weights = {x: math.exp(-x * x / (2 * v)) for x in range(-400, 401)}
    direct = math.fsum(x * x * w for x, w in weights.items()) / math.fsum(weights.values())
    box = discrete_gaussian_variance(parameter)
    assert direct == pytest.approx(float(box), rel=1e-13)
    assert box.relative_width < 1e-50
    assert box.upper <= Fraction(parameter)
