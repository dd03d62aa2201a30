"""The sampler's boundaries (stage borders, memory, refusals, wide and narrow laws), and its slow twin by hand."""

import tracemalloc
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from topdown.errors import InternalError
from topdown.privacy import (
    UNDECIDED,
    AesBits,
    BitSource,
    Sampler,
    SimulationBits,
    acceptance_exponent,
    bernoulli,
    bernoulli_exp,
    certified_thresholds,
    draw_one,
    sampler,
    table_of,
    uniform_below,
)
from topdown.privacy.laws import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric


class ScriptedBits(BitSource):
    """Give the listed byte strings, one a read, and fail on any other read."""

    is_release = False

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)

    def read(self, n_bytes: int) -> bytes:
        """Give the next scripted read."""
        drawn = self.reads.pop(0)
        assert len(drawn) == n_bytes
        return drawn


def scripted_draw(law: NoiseDistribution, prefix: int, *more: int) -> int:
    """Draw one outcome from a 64-bit prefix, then the given bytes; all must be used."""
    later = [bytes([byte]) for byte in more]
    source = ScriptedBits(
        (prefix >> 48).to_bytes(2, "little"), (prefix << 16 & 2**64 - 1).to_bytes(8, "little"), *later
    )
    (outcome,) = Sampler(law, source).draw(1)
    assert source.reads == []
    return int(outcome)


@pytest.mark.parametrize("law", [DiscreteGaussian(4), TwoSidedGeometric(Fraction(17, 10))], ids=str)
def test_outcome_steps_exactly_at_every_threshold(law: NoiseDistribution) -> None:
    """Off by one at a threshold (wrong search side) is invisible in samples: step over each border."""
    exact, wide = certified_thresholds(law, 64), certified_thresholds(law, 72)
    half, extra = len(exact) // 2, (len(wide) - len(exact)) // 2
    for k in range(1 - half, half - 1):
        threshold, last_byte = exact[k + half], wide[k + half + extra] & 255
        if exact[k + half - 1] < threshold - 1:
            assert k == scripted_draw(law, threshold - 1)
        if threshold + 1 < exact[k + half + 1]:
            assert k + 1 == scripted_draw(law, threshold + 1)
        if 0 < last_byte < 255:
            assert k >= scripted_draw(law, threshold, last_byte - 1)
            assert k + 1 <= scripted_draw(law, threshold, last_byte + 1)
        if 0 < last_byte < 255 and exact[k + half - 1] < threshold < exact[k + half + 1]:
            assert k == scripted_draw(law, threshold, last_byte - 1)
            assert k + 1 == scripted_draw(law, threshold, last_byte + 1)


def test_last_stage_goes_on_until_decided() -> None:
    """A last stage that stopped early would have to guess between two outcomes."""
    law = DiscreteGaussian(4)
    exact = [certified_thresholds(law, n) for n in (64, 72, 80, 88)]
    at = [t[len(t) // 2 + 1] for t in exact]  # floor(2^n F(1))
    followed = [at[1] & 255, at[2] & 255]
    assert scripted_draw(law, at[0], *followed, (at[3] & 255) - 1) == 1
    assert scripted_draw(law, at[0], *followed, (at[3] & 255) + 1) == 2


@pytest.mark.parametrize(("prefix", "sign"), [(0, -1), (2**64 - 1, 1)])
def test_extreme_prefixes_reach_past_the_table(prefix: int, sign: int) -> None:
    """A table that clamped its ends would truncate the law, which costs privacy (delta > 0)."""
    law = DiscreteGaussian(4)
    half = len(table_of(law).thresholds) // 2
    more = [0 if sign < 0 else 255] * 8
    source = ScriptedBits(
        (prefix >> 48).to_bytes(2, "little"),
        (prefix << 16 & 2**64 - 1).to_bytes(8, "little"),
        *(bytes([byte]) for byte in more),
        bytes([128]),
    )
    (outcome,) = Sampler(law, source).draw(1)
    assert sign * outcome > half


def test_first_stage_reads_two_bytes_a_draw() -> None:
    """Fresh bits for each draw and no more than needed: reuse would correlate noise, waste costs speed."""
    law = DiscreteGaussian(4)
    lookup = table_of(law).lookup
    cells = np.flatnonzero(lookup != UNDECIDED)[::997].astype("<u2")
    drawn = Sampler(law, ScriptedBits(cells.tobytes())).draw(cells.size)
    assert lookup[cells].tolist() == drawn.tolist()


def test_undecided_draws_keep_their_places() -> None:
    """A later stage that wrote to the wrong position would pair noise with the wrong cell."""
    law = DiscreteGaussian(4)
    lookup = table_of(law).lookup
    undecided = int(np.flatnonzero(lookup == UNDECIDED)[3])
    cells = np.array([32768 - 3000, undecided, 40000, undecided, 20000], dtype="<u2")
    lows = np.array([0, 2**64 - 1], dtype="<u8")
    drawn = Sampler(law, ScriptedBits(cells.tobytes(), lows.tobytes())).draw(5)
    assert lookup[cells[[0, 2, 4]]].tolist() == drawn[[0, 2, 4]].tolist()
    assert [lookup[undecided - 1], lookup[undecided + 1]] == drawn[[1, 3]].tolist()


def test_draw_into_fills_any_contiguous_shape_like_draw() -> None:
    """The in-place path is the one releases use: it must be the same sampler, chunk borders included."""
    n = 3 * sampler._CHUNK + 17
    law = DiscreteGaussian(Fraction(795, 7))
    drawn = Sampler(law, SimulationBits(5)).draw(n)
    out = np.full(n, UNDECIDED, dtype=np.int32)
    Sampler(law, SimulationBits(5)).draw_into(out)
    assert np.array_equal(drawn, out)
    assert np.int32 == drawn.dtype
    square = np.full((4, 5), UNDECIDED, dtype=np.int32)
    Sampler(law, SimulationBits(5)).draw_into(square)
    assert drawn[:20].tolist() == square.ravel().tolist()


def test_memory_of_draw_into_is_bounded() -> None:
    """A temporary of the output's size would end a national release out of memory."""
    drawing, out = Sampler(DiscreteGaussian(2500), AesBits()), np.zeros(4_000_000, dtype=np.int32)
    drawing.draw_into(out[:100])
    tracemalloc.start()
    drawing.draw_into(out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "out",
    [
        np.empty(4, dtype=np.int64),
        np.empty(4, dtype=np.uint32),
        np.empty(4, dtype=float),
        np.empty(8, dtype=np.int32)[::2],
        np.empty((3, 4), dtype=np.int32).T,
        [0, 0],
    ],
    ids=["int64", "uint32", "float", "strided", "transposed", "list"],
)
def test_other_outputs_are_refused(out: object) -> None:
    """A silent copy would leave the caller's array without noise: the true answers would be released."""
    with pytest.raises(TypeError, match="C-contiguous int32"):
        Sampler(DiscreteGaussian(4), AesBits()).draw_into(out)  # type: ignore[arg-type]


def test_read_only_output_is_refused() -> None:
    """A write that fails must be heard."""
    out = np.zeros(4, dtype=np.int32)
    out.flags.writeable = False
    for law in (DiscreteGaussian(4), DiscreteGaussian(10**12)):
        with pytest.raises(ValueError, match=r"read-only|not writeable"):
            Sampler(law, AesBits()).draw_into(out)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda: Sampler(DiscreteGaussian(4), AesBits()).draw(2.0), TypeError, None),
        (lambda: Sampler(DiscreteGaussian(4), AesBits()).draw("2"), TypeError, None),
        (lambda: Sampler(DiscreteGaussian(4), AesBits()).draw(None), TypeError, None),
        (lambda: Sampler(DiscreteGaussian(4), AesBits()).draw(-1), ValueError, "negative"),
        (lambda: Sampler(Fraction(4), AesBits()), TypeError, "needs a law"),
        (lambda: Sampler(DiscreteGaussian(4), 2020), TypeError, "needs a bit source"),
    ],
)
def test_wrong_arguments_are_refused(
    use: Callable[[], object], error: type[Exception], words: str | None
) -> None:
    """A rounded count leaves cells without noise; a variance as a law, or a seed as a source, must get nowhere."""
    with pytest.raises(error, match=words):
        use()


def test_failing_source_returns_nothing() -> None:
    """A failure half way must not hand back an array of which a part has no noise."""

    class Failing(BitSource):
        is_release = True

        def __init__(self) -> None:
            self.left = 3

        def read(self, n_bytes: int) -> bytes:
            self.left -= 1
            if not self.left:
                raise InternalError("no bits")
            return bytes([77]) * n_bytes

    with pytest.raises(InternalError):
        Sampler(DiscreteGaussian(4), Failing()).draw(10 * sampler._CHUNK)


def test_huge_variance_goes_by_rejection() -> None:
    """A law wider than any table must be drawn whole: mean and spread of 4,000 draws."""
    drawing = Sampler(DiscreteGaussian(10**12), AesBits())
    assert drawing._table is None
    drawn = drawing.draw(4000).astype(object)
    # 6 standard errors each: probability of a false alarm below 1e-8
    assert abs(sum(drawn)) < 6 * 10**6 * 64
    mean_square = Fraction(sum(x * x for x in drawn), 4000 * 10**12)
    assert abs(mean_square - 1) < 6 * Fraction(224, 10_000)


@pytest.mark.parametrize("law", [DiscreteGaussian(2**54 + 1), TwoSidedGeometric(2**24 + 1)], ids=str)
def test_laws_past_int32_are_refused(law: NoiseDistribution) -> None:
    """Beyond this width outcomes outside int32 are likely enough for the guard to shape the law."""
    with pytest.raises(ValueError, match="too wide for 32-bit"):
        Sampler(law, AesBits())


@pytest.mark.parametrize("law", [DiscreteGaussian(2**54), TwoSidedGeometric(2**24)], ids=str)
def test_widest_laws_are_drawn(law: NoiseDistribution) -> None:
    """A limit off by one would refuse what the documentation promises."""
    assert len(set(Sampler(law, AesBits()).draw(20).tolist())) > 10


@pytest.mark.parametrize("outcome", [2**31, -(2**31), -(2**31) - 1])
def test_outcome_outside_int32_raises(outcome: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapped or clamped outcome would be a different, bounded law."""
    monkeypatch.setattr(sampler, "draw_one", lambda law, bits: outcome)
    with pytest.raises(OverflowError, match="32 bits"):
        Sampler(DiscreteGaussian(10**12), AesBits()).draw(1)
    monkeypatch.setattr(sampler, "draw_one", lambda law, bits: 2**31 - 1)
    assert Sampler(DiscreteGaussian(10**12), AesBits()).draw(1).tolist() == [2**31 - 1]


def test_last_stage_outcome_outside_int32_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard must also hold where an outcome comes from the far tail of a table law."""
    monkeypatch.setattr(sampler, "locate", lambda law, prefix, n_bits: 2**31)
    with pytest.raises(OverflowError, match="32 bits"):
        scripted_draw(DiscreteGaussian(4), 0, 0)


def test_source_that_answers_short_is_refused() -> None:
    """A foreign source that ran dry would leave the rest of the array without noise."""

    class Short(BitSource):
        is_release = True

        def read(self, n_bytes: int) -> bytes:
            return bytes([77]) * (n_bytes - 2)

    with pytest.raises(ValueError, match="output array"):
        Sampler(DiscreteGaussian(4), Short()).draw(10)


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
    """Exponents above 1 are drawn one unit at a time; 5,000 draws within 6 standard errors (1e-8)."""
    source, n = AesBits(), 5_000
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
