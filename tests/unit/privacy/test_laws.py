"""Laws refuse inexact parameters, their probabilities enclose the true ones, and whole weights are drawn exactly."""

from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from topdown.plan import optimal_weights, parse_weights
from topdown.privacy import AesBits, BitSource, Sampler, certified_thresholds, draw_one, locate, table_of
from topdown.privacy.laws import (
    DiscreteGaussian,
    TwoSidedGeometric,
    WeightedInteger,
    law_of_mechanism,
    law_tails,
)

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
            lo, hi = DiscreteGaussian(Fraction(1, 2)).pmf(k, 100)
            assert abs(mpmath.mpf(lo.numerator) / lo.denominator - gauss) < mpmath.mpf(2) ** -95
            assert lo < hi < lo + Fraction(1, 2**95)
            geometric = mpmath.exp(-abs(k)) * mpmath.tanh(mpmath.mpf(1) / 2)
            lo, hi = TwoSidedGeometric(1).pmf(k, 100)
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
        lo, hi = law.pmf(k, n_bits)
        lows, highs = lows + lo, highs + hi
        cdf_lo, cdf_hi = law.cdf(k, n_bits)
        assert lows - width <= cdf_hi
        assert cdf_lo <= highs + width
        assert 0 <= cdf_hi - cdf_lo <= width
    assert lows <= 1 <= highs + width
    assert highs - lows <= width


@pytest.mark.parametrize("variance", [Fraction(1, 250), Fraction(1, 9), 1, Fraction(15, 2), 8, 100])
def test_own_variance_of_gaussian_noise_is_that_of_what_is_drawn(variance: int | Fraction) -> None:
    """Screens would state sigma for noise that is 0 nearly always: at 1/250 a million million times too much."""
    with mpmath.workdps(60):
        slope = mpmath.mpf(1) / (
            2 * mpmath.mpf(Fraction(variance).numerator) / Fraction(variance).denominator
        )
        weights = [mpmath.exp(-x * x * slope) for x in range(-200, 201)]
        true = mpmath.fsum(w * x * x for x, w in zip(range(-200, 201), weights, strict=True)) / mpmath.fsum(
            weights
        )
        own = law_of_mechanism("discrete_gaussian").own_variance(Fraction(variance), ())
        assert mpmath.almosteq(mpmath.mpf(own.numerator) / own.denominator, true, rel_eps=1e-15)


def test_far_tail_is_positive_but_below_the_accuracy() -> None:
    """The support is all integers: no outcome may get an interval that excludes its true probability."""
    law = DiscreteGaussian(4)
    lo, hi = law.cdf(-1000, 64)
    assert 0 <= lo < hi < Fraction(1, 2**64)
    lo, hi = law.cdf(1000, 64)
    assert 1 - Fraction(1, 2**64) < lo < hi <= 1
    lo, hi = law.pmf(1000, 64)
    assert 0 == lo < hi < Fraction(1, 2**64)


@pytest.mark.parametrize("law", [DiscreteGaussian(2500), TwoSidedGeometric(10)], ids=str)
def test_half_width_bounds_the_tail(law: DiscreteGaussian | TwoSidedGeometric) -> None:
    """A half-width too small would send a law past the table cap into a table."""
    _, hi = law.cdf(-law.half_width(64), 80)
    assert hi < Fraction(1, 2**64)
    assert law_tails(law, 66) is law_tails(law, 66)


UNIT = 1 << 128
LAW = WeightedInteger(parse_weights(optimal_weights(Fraction(1, 2), Fraction(1, 1000))))
EVEN = WeightedInteger((UNIT // 2, UNIT // 8, UNIT // 8))


class Given(BitSource):
    """Gives bytes that a test chose."""

    def __init__(self, given: bytes) -> None:
        self._given = given

    @property
    def is_release(self) -> bool:
        """Never."""
        return False

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        out, self._given = self._given[:n_bytes], self._given[n_bytes:]
        assert len(out) == n_bytes
        return out


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ((UNIT,), ValueError),
        ((UNIT // 2, UNIT // 4 - 1), ValueError),
        ((UNIT, 0), ValueError),
        ((UNIT + 2, -1), ValueError),
        ((float(UNIT // 2), UNIT // 4), TypeError),
    ],
)
def test_what_is_no_law_is_refused(weights, error) -> None:
    """Weights that do not add up would be drawn as another law than was checked."""
    with pytest.raises(error):
        WeightedInteger(weights)


@pytest.mark.parametrize("n_bits", [4, 16, 64, 128, 136])
def test_thresholds_are_the_floors_of_exact_sums(n_bits: int) -> None:
    """A threshold one off would move probability between two values."""
    values = range(1 - len(LAW.weights), len(LAW.weights) - 1)
    expected = [
        (sum(LAW.mass(x) for x in range(1 - len(LAW.weights), k + 1)) << n_bits) // UNIT for k in values
    ]
    assert expected == list(certified_thresholds(LAW, n_bits))


@pytest.mark.parametrize("law", [LAW, EVEN], ids=["best", "even"])
def test_every_number_leads_to_the_value_it_belongs_to(law: WeightedInteger) -> None:
    """At both sides of every sum the outcome changes by exactly one value, on every stage."""
    last = len(law.weights) - 1
    for k, total in zip(range(-last, last), law.sums, strict=True):
        for u in (total - 1, total):
            expected = bisect_right(law.sums, u) - last
            assert expected == (k if u < total else k + 1)
            assert expected == locate(law, u, 128)
            bits = u.to_bytes(16, "big")
            assert expected == draw_one(law, Given(bits))
            first = int.from_bytes(bits[:2], "big").to_bytes(2, "little")
            second = (int.from_bytes(bits[2:8], "big") << 16).to_bytes(8, "little")
            assert expected == Sampler(law, Given(first + second + bits[8:])).draw(1)[0]


def test_an_undecided_prefix_is_never_decided_too_early() -> None:
    """A prefix that two values share must ask for more bits, or one of them loses probability."""
    for n_bits in (8, 64, 120):
        for threshold in set(certified_thresholds(LAW, n_bits)):
            assert locate(LAW, threshold, n_bits) is None


def test_probabilities_are_the_weights() -> None:
    """The intervals that tests of the sampler rely on are exact here."""
    mass, total = Fraction(LAW.weights[2], UNIT), Fraction(sum(LAW.weights[:3]) + sum(LAW.weights[1:]), UNIT)
    assert (mass, mass) == LAW.pmf(-2, 10)
    assert (total, total) == LAW.cdf(2, 10)


def test_two_draws_of_a_wide_law_use_its_table() -> None:
    """A law without a table would be drawn 10^4 times slower, one value after the other."""
    wide = WeightedInteger(parse_weights(optimal_weights(Fraction(1, 40), Fraction(1, 10**8))))
    assert len(table_of(wide).thresholds) == 2 * (len(wide.weights) - 1)
    drawn = Sampler(wide, AesBits()).draw(100_000)
    assert abs(int(np.abs(drawn).max())) < len(wide.weights)
