"""Directed rounding: enclosures contain the true value, for any rational argument."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from topdown.privacy import acceptance_exponent, divide_up, exp_neg, shift_up, tail_sums
from topdown.privacy.laws import (
    DiscreteGaussian,
    NoiseDistribution,
    TwoSidedGeometric,
    cdf_interval,
    pmf_interval,
)

exponents = st.one_of(
    st.builds(Fraction, st.integers(0, 10**6), st.integers(1, 10**6)),
    st.builds(Fraction, st.integers(0, 2000), st.integers(1, 50)),
    st.builds(Fraction, st.integers(1, 100), st.integers(10**12, 10**15)),
)
parameters = st.builds(Fraction, st.integers(1, 2000), st.integers(1, 60))
laws = st.one_of(st.builds(DiscreteGaussian, parameters), st.builds(TwoSidedGeometric, parameters))


def enclosed(lo: int, hi: int, precision: int, value: mpmath.mpf) -> bool:
    return mpmath.ldexp(lo, -precision) <= value <= mpmath.ldexp(hi, -precision)


@settings(max_examples=300, deadline=None)
@given(exponents, st.integers(1, 300))
def test_exp_neg_encloses_exp_tightly(exponent: Fraction, precision: int) -> None:
    """An enclosure that misses exp certifies wrong thresholds; a wide one never certifies any."""
    lo, hi = exp_neg(exponent, precision)
    assert 0 <= lo <= hi <= 1 << precision
    assert hi - lo <= 2
    with mpmath.workprec(precision + 4000):
        assert enclosed(lo, hi, precision, mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator))


def test_exp_neg_at_zero_is_exact_and_below_refused() -> None:
    """The geometric recurrence multiplies by exp(0): any width there would grow with every step."""
    assert exp_neg(Fraction(0), 70) == (1 << 70, 1 << 70)
    with pytest.raises(ValueError, match=">= 0"):
        exp_neg(Fraction(-1, 2), 70)


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**12), st.integers(0, 80))
def test_rounding_up_is_the_ceiling(value: int, divisor: int, n_bits: int) -> None:
    """Rounding the upper end down even once breaks every certificate."""
    assert 0 <= divide_up(value, divisor) * divisor - value < divisor
    assert 0 <= (shift_up(value, n_bits) << n_bits) - value < 1 << n_bits


@pytest.mark.deep
@settings(max_examples=15 * DEPTH, deadline=None)
@given(laws, st.integers(8, 120))
def test_tail_sums_enclose_the_true_tails(law: NoiseDistribution, floor_bits: int) -> None:
    """The tail past the last weight must be inside the bound: dropping it would truncate the law."""
    slope = law.energy(1)
    tails = tail_sums(slope, law.energy(2) - 2 * slope, floor_bits)
    n = len(tails.lo)
    with mpmath.workprec(tails.precision + 200):
        energies = [law.energy(k) for k in range(1, 2 * n + 60)]
        weights = [mpmath.exp(-mpmath.mpf(e.numerator) / e.denominator) for e in energies]
        beyond = mpmath.mpf(0)
        if isinstance(law, TwoSidedGeometric):
            beyond = weights[-1] / (mpmath.exp(mpmath.mpf(slope.numerator) / slope.denominator) - 1)
        total = beyond
        for k in range(len(weights), 0, -1):
            total += weights[k - 1]
            if k in {1, 2, n // 2, n, n + 1} and k >= 1:
                assert enclosed(*tails.at(k), tails.precision, total)


@settings(max_examples=60, deadline=None)
@given(laws, st.integers(-80, 80), st.integers(20, 120))
def test_intervals_nest_as_accuracy_grows(law: NoiseDistribution, k: int, n_bits: int) -> None:
    """Two accuracies that disagree would mean that one of them lost a rounding direction."""
    for interval in (pmf_interval, cdf_interval):
        lo, hi = interval(law, k, n_bits)
        finer_lo, finer_hi = interval(law, k, n_bits + 64)
        assert lo <= finer_hi
        assert finer_lo <= hi
        assert 0 <= hi - lo <= Fraction(4, 2**n_bits)


@settings(max_examples=60, deadline=None)
@given(laws, st.integers(-60, 60))
def test_laws_are_symmetric(law: NoiseDistribution, k: int) -> None:
    """The thresholds of negative outcomes are mirrored: an asymmetry would bias every count."""
    lo, hi = cdf_interval(law, k, 80)
    mirror_lo, mirror_hi = cdf_interval(law, -k - 1, 80)
    assert (lo, hi) == (1 - mirror_hi, 1 - mirror_lo)
    assert pmf_interval(law, k, 80) == pmf_interval(law, -k, 80)


@given(parameters, st.integers(-500, 500), st.integers(1, 100))
def test_accepted_proposals_have_the_gaussian_energy(variance: Fraction, y: int, t: int) -> None:
    """The twin's exact law: proposal energy |y|/t plus acceptance exponent is y^2 / 2v plus a constant."""
    constant = Fraction(variance, 2 * t * t)
    law = DiscreteGaussian(variance)
    assert law.energy(y) + constant == TwoSidedGeometric(t).energy(y) + acceptance_exponent(variance, t, y)
