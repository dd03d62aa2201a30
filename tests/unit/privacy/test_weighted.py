"""Laws of whole weights: drawn exactly, by tables that are sums of the weights."""

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

from topdown.plan import optimal_weights, parse_weights
from topdown.privacy import AesBits, BitSource, Sampler, certified_thresholds, draw_one, locate, table_of
from topdown.privacy.laws import WeightedInteger, cdf_interval, pmf_interval

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
    assert (mass, mass) == pmf_interval(LAW, -2, 10)
    assert (total, total) == cdf_interval(LAW, 2, 10)


def test_two_draws_of_a_wide_law_use_its_table() -> None:
    """A law without a table would be drawn 10^4 times slower, one value after the other."""
    wide = WeightedInteger(parse_weights(optimal_weights(Fraction(1, 40), Fraction(1, 10**8))))
    assert len(table_of(wide).thresholds) == 2 * (len(wide.weights) - 1)
    drawn = Sampler(wide, AesBits()).draw(100_000)
    assert abs(int(np.abs(drawn).max())) < len(wide.weights)
