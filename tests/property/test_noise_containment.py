"""The map from bits to outcome: the bit string read always lies inside the outcome's cdf interval."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topdown.privacy import BitSource, Sampler, SimulationBits, certified_thresholds
from topdown.privacy.laws import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, cdf_interval

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
    _, below = cdf_interval(law, outcome - 1, N_BITS)
    above, _ = cdf_interval(law, outcome, N_BITS)
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
