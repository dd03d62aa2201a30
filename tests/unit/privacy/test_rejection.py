"""The slow twin, piece by piece, against probabilities worked out by hand."""

from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath
import pytest

from topdown.privacy import (
    AesBits,
    BitSource,
    acceptance_exponent,
    bernoulli,
    bernoulli_exp,
    draw_one,
    uniform_below,
)
from topdown.privacy.laws import DiscreteGaussian, TwoSidedGeometric


class ExhaustedError(Exception):
    """The listed bytes are used up."""


class ListedBits(BitSource):
    """Give the listed bytes in order."""

    is_release = False

    def __init__(self, listed: bytes) -> None:
        self.listed, self.used = listed, 0

    def read(self, n_bytes: int) -> bytes:
        """Give the next listed bytes, or stop the draw."""
        if self.used + n_bytes > len(self.listed):
            raise ExhaustedError
        self.used += n_bytes
        return self.listed[self.used - n_bytes : self.used]


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 200, 256])
def test_uniform_below_is_exactly_uniform(bound: int) -> None:
    """A modulo bias of one part in 256 is hard to see in samples: all first bytes are listed instead."""
    counts: Counter[int] = Counter()
    for byte in range(256):
        try:
            counts[uniform_below(bound, ListedBits(bytes([byte])))] += 1
        except ExhaustedError:
            continue
    assert set(range(bound)) == set(counts)
    assert len(set(counts.values())) == 1


def test_uniform_below_reads_no_more_bytes_than_needed() -> None:
    """A bound past one byte must use all its bits."""
    assert uniform_below(301, ListedBits((300 << 7).to_bytes(2, "big"))) == 300
    assert uniform_below(1, ListedBits(b"")) == 0


def test_bernoulli_has_the_exact_share() -> None:
    """P(True) must be the fraction itself: 3 of 4 equal parts."""
    assert sum(bernoulli(Fraction(3, 4), ListedBits(bytes([byte]))) for byte in range(256)) == 192
    assert not bernoulli(Fraction(0), ListedBits(b"\0"))
    assert bernoulli(Fraction(1), ListedBits(b""))


def test_bernoulli_exp_encloses_exp_by_exhaustion() -> None:
    """All 2-byte beginnings at gamma = 1/2: the decided ones must bracket exp(-1/2) and leave little open."""
    accepted = open_ = 0
    for pair in product(range(0, 256, 4), repeat=2):
        try:
            accepted += bernoulli_exp(Fraction(1, 2), ListedBits(bytes(pair)))
        except ExhaustedError:
            open_ += 1
    assert accepted <= mpmath.exp(mpmath.mpf(-1) / 2) * 64**2 <= accepted + open_
    assert open_ < 64**2 * 0.3


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(3)])
def test_bernoulli_exp_frequency(gamma: Fraction) -> None:
    """Exponents above 1 are drawn one unit at a time; 20,000 draws within 6 standard errors (1e-8)."""
    source, n = AesBits(), 20_000
    share = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)
    drawn = sum(bernoulli_exp(gamma, source) for _ in range(n))
    assert abs(drawn - n * share) <= 6 * mpmath.sqrt(n * share * (1 - share)) + 3


@pytest.mark.parametrize(
    "law", [DiscreteGaussian(Fraction(1, 50)), TwoSidedGeometric(Fraction(1, 50))], ids=str
)
def test_tiny_parameters_give_zero(law: DiscreteGaussian | TwoSidedGeometric) -> None:
    """At 1/50 a nonzero draw has probability below 3e-11: one would mean a wrong scale."""
    source = AesBits()
    assert {0} == {draw_one(law, source) for _ in range(300)}


def test_acceptance_exponent_by_hand() -> None:
    """Variance 4, t = 3, y = 1: (1 - 4/3)^2 / 8 = 1/72."""
    assert Fraction(1, 72) == acceptance_exponent(Fraction(4), 3, 1)
    assert Fraction(1, 72) == acceptance_exponent(Fraction(4), 3, -1)
    assert Fraction(2, 9) == acceptance_exponent(Fraction(4), 3, 0)
