"""Directed rounding: enclosures contain the true value, and any bits land in their outcome's interval."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from topdown.privacy import (
    BitSource,
    Sampler,
    SimulationBits,
    acceptance_exponent,
    certified_thresholds,
    divide_up,
    exp_neg,
    shift_up,
    tail_sums,
)
from topdown.privacy.laws import (
    DiscreteGaussian,
    NoiseDistribution,
    TwoSidedGeometric,
)

N_BITS = 200  # accuracy of the interval the bit strings are compared with

parameters = st.builds(Fraction, st.integers(1, 400), st.integers(1, 40))
laws = st.one_of(st.builds(DiscreteGaussian, parameters), st.builds(TwoSidedGeometric, parameters))
all_widths = st.tuples(st.integers(1, 16), st.integers(1, 48))


class RecordedBits(BitSource):
    """Pass another source on and remember the reads."""

    is_release = False

    def __init__(self, source: BitSource) -> None:
        self.source = source
        self.reads: list[bytes] = []

    def read(self, n_bytes: int) -> bytes:
        """Pass on and remember."""
        self.reads.append(self.source.read(n_bytes))
        return self.reads[-1]


class GivenBits(BitSource):
    """Give the bytes chosen by the property test, then a fixed stream."""

    is_release = False

    def __init__(self, chosen: bytes) -> None:
        self.chosen, self.after = chosen, SimulationBits(0)

    def read(self, n_bytes: int) -> bytes:
        """Give the chosen bytes first."""
        drawn, self.chosen = self.chosen[:n_bytes], self.chosen[n_bytes:]
        return drawn + self.after.read(n_bytes - len(drawn))


def bit_string(reads: list[bytes], widths: tuple[int, int]) -> tuple[int, int]:
    """Rebuild (prefix, number of bits) of one draw from its reads, as PROOF.md section 1 defines it."""
    first, second = widths
    prefix, n_bits = int.from_bytes(reads[0], "little") >> (16 - first), first
    if len(reads) > 1:
        prefix, n_bits = (
            prefix << second | int.from_bytes(reads[1], "little") >> (64 - second),
            n_bits + second,
        )
    for more in reads[2:]:
        prefix, n_bits = prefix << 8 | more[0], n_bits + 8
    return prefix, n_bits


def contained(law: NoiseDistribution, outcome: int, prefix: int, n_bits: int) -> bool:
    """Whether [prefix, prefix + 1) / 2^n_bits is inside [F(outcome - 1), F(outcome)]."""
    _, below = law.cdf(outcome - 1, N_BITS)
    above, _ = law.cdf(outcome, N_BITS)
    return below <= Fraction(prefix, 2**n_bits) and Fraction(prefix + 1, 2**n_bits) <= above


def one_draw(law: NoiseDistribution, source: BitSource, widths: tuple[int, int]) -> tuple[int, list[bytes]]:
    recorded = RecordedBits(source)
    (outcome,) = Sampler(law, recorded, widths=widths).draw(1)
    return int(outcome), recorded.reads


@settings(max_examples=150, deadline=None)
@given(laws, all_widths, st.binary(max_size=14))
def test_any_bits_land_in_their_interval(
    law: NoiseDistribution, widths: tuple[int, int], chosen: bytes
) -> None:
    """A wrong map from bits to outcome for any law, width or bit pattern is a wrong law."""
    outcome, reads = one_draw(law, GivenBits(chosen), widths)
    assert contained(law, outcome, *bit_string(reads, widths))


@pytest.mark.parametrize(
    "law",
    [DiscreteGaussian(Fraction(1, 3)), *map(DiscreteGaussian, [4, 100, 2500]), TwoSidedGeometric(20)],
    ids=str,
)
def test_shrunk_widths_force_the_last_stage(law: NoiseDistribution) -> None:
    """The last stage, reached by one real draw in 10^16, must be exact too: 3 + 6 bits reach it often."""
    widths, source = (3, 6), SimulationBits(31)
    last_stage = 0
    for _ in range(3000):
        outcome, reads = one_draw(law, source, widths)
        last_stage += len(reads) > 2
        assert contained(law, outcome, *bit_string(reads, widths))
    undecided_prefixes = len(set(certified_thresholds(law, sum(widths))))
    assert last_stage > 0.6 * 3000 * undecided_prefixes / 512 > 10


@settings(max_examples=25, deadline=None)
@given(laws, st.integers(0, 2**32))
def test_outcome_is_monotone_in_the_bits(law: NoiseDistribution, seed: int) -> None:
    """Inversion orders outcomes like uniforms: a swapped pair means a misplaced threshold."""
    rng = np.random.default_rng(seed)
    cells = np.sort(rng.integers(0, 2**16, 500)).astype("<u2").tobytes()
    drawn = Sampler(law, GivenBits(cells), widths=(16, 48)).draw(500)
    same_cell = np.diff(np.frombuffer(cells, "<u2")) == 0
    assert np.all((np.diff(drawn) >= 0) | same_cell)


exponents = st.one_of(
    st.builds(Fraction, st.integers(0, 10**6), st.integers(1, 10**6)),
    st.builds(Fraction, st.integers(0, 2000), st.integers(1, 50)),
    st.builds(Fraction, st.integers(1, 100), st.integers(10**12, 10**15)),
)
law_parameters = st.builds(Fraction, st.integers(1, 2000), st.integers(1, 60))


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
    for interval in (law.pmf, law.cdf):
        lo, hi = interval(k, n_bits)
        finer_lo, finer_hi = interval(k, n_bits + 64)
        assert lo <= finer_hi
        assert finer_lo <= hi
        assert 0 <= hi - lo <= Fraction(4, 2**n_bits)


@settings(max_examples=60, deadline=None)
@given(laws, st.integers(-60, 60))
def test_laws_are_symmetric(law: NoiseDistribution, k: int) -> None:
    """The thresholds of negative outcomes are mirrored: an asymmetry would bias every count."""
    lo, hi = law.cdf(k, 80)
    mirror_lo, mirror_hi = law.cdf(-k - 1, 80)
    assert (lo, hi) == (1 - mirror_hi, 1 - mirror_lo)
    assert law.pmf(k, 80) == law.pmf(-k, 80)


@given(law_parameters, st.integers(-500, 500), st.integers(1, 100))
def test_accepted_proposals_have_the_gaussian_energy(variance: Fraction, y: int, t: int) -> None:
    """The twin's exact law: proposal energy |y|/t plus acceptance exponent is y^2 / 2v plus a constant."""
    constant = Fraction(variance, 2 * t * t)
    law = DiscreteGaussian(variance)
    assert law.energy(y) + constant == TwoSidedGeometric(t).energy(y) + acceptance_exponent(variance, t, y)
