"""Laws refuse inexact parameters, and their probabilities enclose the true ones."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from topdown.privacy.laws import DiscreteGaussian, TwoSidedGeometric, cdf_interval, law_tails, pmf_interval

LAWS = [DiscreteGaussian, TwoSidedGeometric]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "value", [2.0, True, "2", None, Decimal(2), np.float64(2), np.int64(2), 2j], ids=repr
)
def test_inexact_parameter_raises_type_error_with_the_fix(law: type, value: object) -> None:
    """A float parameter would move the law away from the one the accountant charges for."""
    with pytest.raises(TypeError, match=r"exact (variance|scale).*Fix: .*Fraction"):
        law(value)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("value", [0, -1, Fraction(-1, 3)])
def test_nonpositive_parameter_raises_value_error(law: type, value: object) -> None:
    """Zero noise would publish the true answers."""
    with pytest.raises(ValueError, match="> 0"):
        law(value)


@pytest.mark.parametrize("law", LAWS)
def test_laws_are_values(law: type) -> None:
    """Tables are cached per law: equal laws must be equal keys, and no field may change after the check."""
    assert law(2) == law(Fraction(4, 2))
    assert hash(law(2)) == hash(law(Fraction(2)))
    assert law(2) != law(3)
    field = "variance" if law is DiscreteGaussian else "scale"
    with pytest.raises(AttributeError):
        setattr(law(2), field, 2.0)


def test_laws_of_one_parameter_differ() -> None:
    """A shared cache entry would draw Laplace noise for a Gaussian measurement."""
    assert DiscreteGaussian(2) != TwoSidedGeometric(2)


def test_hand_computed_probabilities() -> None:
    """Variance 1/2 is exp(-x^2) and scale 1 is exp(-|x|): a factor of two in the exponent would show."""
    with mpmath.workdps(40):
        for k in range(-4, 5):
            gauss = mpmath.exp(-k * k) / mpmath.jtheta(3, 0, mpmath.exp(-1))
            lo, hi = pmf_interval(DiscreteGaussian(Fraction(1, 2)), k, 100)
            assert abs(mpmath.mpf(lo.numerator) / lo.denominator - gauss) < mpmath.mpf(2) ** -95
            assert lo < hi < lo + Fraction(1, 2**95)
            geometric = mpmath.exp(-abs(k)) * mpmath.tanh(mpmath.mpf(1) / 2)
            lo, hi = pmf_interval(TwoSidedGeometric(1), k, 100)
            assert abs(mpmath.mpf(lo.numerator) / lo.denominator - geometric) < mpmath.mpf(2) ** -95
            assert lo < hi < lo + Fraction(1, 2**95)


@pytest.mark.parametrize(
    "law", [DiscreteGaussian(Fraction(22, 7)), TwoSidedGeometric(Fraction(5, 3))], ids=str
)
def test_probabilities_sum_to_one_and_match_the_cdf(law: DiscreteGaussian | TwoSidedGeometric) -> None:
    """A cdf that is not the running sum of the pmf would break every threshold at once."""
    n_bits = 80
    width = Fraction(1, 2 ** (n_bits - 10))
    lows = highs = Fraction(0)
    for k in range(-150, 151):
        lo, hi = pmf_interval(law, k, n_bits)
        lows, highs = lows + lo, highs + hi
        cdf_lo, cdf_hi = cdf_interval(law, k, n_bits)
        assert lows - width <= cdf_hi
        assert cdf_lo <= highs + width
        assert 0 <= cdf_hi - cdf_lo <= width
    assert lows <= 1 <= highs + width
    assert highs - lows <= width


def test_far_tail_is_positive_but_below_the_accuracy() -> None:
    """The support is all integers: no outcome may get an interval that excludes its true probability."""
    law = DiscreteGaussian(4)
    lo, hi = cdf_interval(law, -1000, 64)
    assert 0 <= lo < hi < Fraction(1, 2**64)
    lo, hi = cdf_interval(law, 1000, 64)
    assert 1 - Fraction(1, 2**64) < lo < hi <= 1
    lo, hi = pmf_interval(law, 1000, 64)
    assert 0 == lo < hi < Fraction(1, 2**64)


@pytest.mark.parametrize("law", [DiscreteGaussian(2500), TwoSidedGeometric(10)], ids=str)
def test_half_width_bounds_the_tail(law: DiscreteGaussian | TwoSidedGeometric) -> None:
    """A half-width too small would send a law past the table cap into a table."""
    _, hi = cdf_interval(law, -law.half_width(64), 80)
    assert hi < Fraction(1, 2**64)
    assert law_tails(law, 66) is law_tails(law, 66)
