"""Every threshold and every lookup cell lies where an independent computation says it must.

The second computation shares nothing with the package: mpmath at 80 digits, each weight from its own
exponential, and the Gaussian normaliser from the theta function's functional equation
sum exp(-k^2 / 2v) = sqrt(2 pi v) sum exp(-2 pi^2 v j^2).
"""

import json
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import mpmath
import numpy as np
import pytest

from topdown.errors import InternalError
from topdown.privacy import (
    UNDECIDED,
    TailSums,
    certified_thresholds,
    has_table,
    locate,
    table_of,
)
from topdown.privacy import sampler as thresholds
from topdown.privacy.laws import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric

# 2020 redistricting settings of the United States: level share (over 4099) and distinct query shares
RHO = Fraction(293764, 114921)
SHARES = {
    "US": (104, ["26/4097", "52/4097", "130/4097", "26/241", "189/241"]),
    "State": (1440, ["6/4097", "12/4097", "2/241", "230/4097", "3773/4097"]),
    "County": (447, ["10/4097", "28/4097", "101/4097", "754/4097", "3126/4097"]),
    "Tract": (687, ["5/4102", "4/2051", "10/2051", "67/4102", "241/2051", "1567/4102", "1933/4102"]),
    "Block_Group": (1256, ["3/4099", "9/4099", "24/4099", "1055/4099", "1288/4099", "1705/4099"]),
    "Block": (165, ["5/4097", "9/4097", "21/4097", "71/4097", "3945/4097"]),
}
VARIANCES = [
    1 / (RHO * Fraction(level, 4099) * Fraction(query))
    for level, queries in SHARES.values()
    for query in queries
]
LAWS: list[NoiseDistribution] = [
    *map(DiscreteGaussian, VARIANCES),
    *map(DiscreteGaussian, [Fraction(1, 50), Fraction(1, 1000), Fraction(1, 3), 1, 4, 100, 2500, 10**6]),
    *map(TwoSidedGeometric, [Fraction(1, 50), Fraction(1, 2), Fraction(17, 10), 2, 10, 250]),
]
FINGERPRINT_4 = "4c1527d13b1460e621e124a5c1c96bf67c1e4603026b61b22a19a10e93444b26"  # of DiscreteGaussian(4)
MARGIN = mpmath.mpf(10) ** -60  # 80 digits, sums of at most 10^5 terms below 1: the error is below 10^-74


def as_mpf(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def upper_tails(law: NoiseDistribution, n_tails: int) -> list[mpmath.mpf]:
    """P(X >= k) for k = 1 .. n_tails, to 60 digits."""
    if isinstance(law, TwoSidedGeometric):
        alpha = mpmath.exp(-1 / as_mpf(law.scale))
        return [mpmath.exp(-k / as_mpf(law.scale)) / (1 + alpha) for k in range(1, n_tails + 1)]
    variance = as_mpf(law.variance)
    dual, j = mpmath.mpf(1), 1
    while (term := mpmath.exp(-2 * mpmath.pi**2 * variance * j * j)) > mpmath.mpf(10) ** -85:
        dual, j = dual + 2 * term, j + 1
    total = mpmath.sqrt(2 * mpmath.pi * variance) * dual
    tails = [(1 - 1 / total) / 2]
    for k in range(1, n_tails):
        tails.append(tails[-1] - mpmath.exp(-k * k / (2 * variance)) / total)
    return tails


def reference_thresholds(law: NoiseDistribution, n_tails: int, n_bits: int) -> list[int]:
    """floor(2^n_bits F(k)) for k = -n_tails .. n_tails - 1; fails if the margin straddles an integer."""
    with mpmath.workdps(80):
        scale = mpmath.mpf(2) ** n_bits
        floors = []
        for tail in upper_tails(law, n_tails):
            floor = int(mpmath.floor(scale * max(tail - MARGIN, mpmath.mpf(0))))
            assert floor == int(mpmath.floor(scale * (tail + MARGIN)))
            floors.append(floor)
    return [*reversed(floors), *(2**n_bits - 1 - floor for floor in floors)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_thresholds_and_cells_agree_with_mpmath(law: NoiseDistribution) -> None:
    """One wrong threshold or lookup cell is a wrong noise law that no affordable sample would show."""
    table = table_of(law)
    half = len(table.thresholds) // 2
    assert reference_thresholds(law, half, 64) == [int(t) for t in table.thresholds]

    cells = np.arange(2**16, dtype=np.uint64)
    first, last = cells << np.uint64(48), (cells << np.uint64(48)) + np.uint64(2**48 - 1)
    decided = table.lookup != UNDECIDED
    index = (
        table.lookup[decided] + half
    )  # thresholds[index] belongs to the outcome, [index - 1] to the one below
    assert np.all(table.thresholds[index - 1] < first[decided])
    assert np.all(last[decided] < table.thresholds[index])
    holding = np.unique(table.thresholds >> np.uint64(48))
    assert np.array_equal(holding, cells[~decided])


def test_all_production_variances_are_covered() -> None:
    """A variance left out of the list would be the one with the wrong threshold."""
    path = Path(__file__).parents[4] / "shared" / "reference" / "das_strategies_exact.json"
    if not path.exists():
        pytest.skip("the exact 2020 strategies are not beside this checkout; the hard copy stands alone")
    product = json.loads(path.read_text())["products"]["PL94_US"]
    expected = {
        1 / (Fraction(product["rho"]) * Fraction(share) * Fraction(query))
        for level, share in product["level_share"].items()
        for query in product["query_share"][level]
    }
    assert expected == set(VARIANCES)


@pytest.mark.parametrize("n_bits", [1, 2, 9, 64, 72, 80, 128])
def test_thresholds_nest_across_widths(n_bits: int) -> None:
    """Later stages use wider thresholds: their leading bits must be the ones already compared with."""
    law = DiscreteGaussian(Fraction(22, 7))
    narrow, wide = certified_thresholds(law, n_bits), certified_thresholds(law, n_bits + 8)
    extra = (len(wide) - len(narrow)) // 2
    assert list(narrow) == [t >> 8 for t in wide[extra : len(wide) - extra]]
    assert (0, 2**n_bits - 1) == (narrow[0], narrow[-1])
    assert all(t >> 8 == 0 for t in wide[:extra])


def test_locate_covers_every_prefix_exactly() -> None:
    """At 9 bits all 512 prefixes can be listed: undecided ones are the thresholds and nothing else."""
    law = TwoSidedGeometric(2)
    exact = reference_thresholds(law, 30, 9)
    for prefix in range(512):
        below = [k for k, threshold in zip(range(-30, 30), exact, strict=True) if threshold <= prefix]
        expected = None if prefix in exact else max(below) + 1
        assert expected == locate(law, prefix, 9)


def test_a_threshold_that_cannot_be_certified_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guessing the last bit of a threshold would change the law by an amount nobody accounts for."""
    monkeypatch.setattr(thresholds, "_upper_tail_floors", lambda *args: None)
    with pytest.raises(InternalError, match="could not be certified"):
        certified_thresholds(DiscreteGaussian(Fraction(123456, 7)), 64)


def test_precision_is_raised_until_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one spare bit the first try fails somewhere; the retry must give the same thresholds."""
    law = DiscreteGaussian(Fraction(2500, 7))
    expected = certified_thresholds(law, 64)
    tries = []
    inner = thresholds._upper_tail_floors
    monkeypatch.setattr(thresholds, "_SPARE_BITS", 1)

    def recording(law: NoiseDistribution, n_bits: int, floor_bits: int) -> list[int] | None:
        floors = inner(law, n_bits, floor_bits)
        tries.append(floors is not None)
        return floors

    monkeypatch.setattr(thresholds, "_upper_tail_floors", recording)
    certified_thresholds.cache_clear()
    assert expected == certified_thresholds(law, 64)
    assert sorted(set(tries)) == [False, True]


@pytest.mark.parametrize(
    ("lo", "hi", "floors"),
    [
        ((2, 0), (2, 0), None),  # 4 P(X >= 1) is exactly 1: its mirror image is not 4 - 1 - 1
        ((1, 0), (2, 0), None),  # somewhere in [1/2, 4/3]
        ((3, 0), (3, 0), [1, 0]),  # exactly 6/5
    ],
)
def test_only_a_strict_enclosure_certifies(
    lo: tuple[int, ...], hi: tuple[int, ...], floors: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an exact dyadic the mirrored threshold is off by one, although both floors agree."""
    monkeypatch.setattr(DiscreteGaussian, "tails", lambda law, floor_bits: TailSums(2, lo, hi, 0))
    assert floors == thresholds._upper_tail_floors(DiscreteGaussian(1), 2, 34)


def test_tables_are_shared_and_read_only() -> None:
    """A caller that could write into a cached table would change the noise of every later measurement."""
    table = table_of(DiscreteGaussian(4))
    assert table is table_of(DiscreteGaussian(Fraction(8, 2)))
    for array in (table.lookup, table.thresholds):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("widths", [(0, 48), (17, 48), (16, 0), (16, 49)])
def test_impossible_widths_are_refused(widths: tuple[int, int]) -> None:
    """A width past the bits drawn would compare against zeros that are not random."""
    with pytest.raises(ValueError, match="Widths"):
        table_of(DiscreteGaussian(4), widths)


def test_a_table_does_not_drift_between_versions() -> None:
    """Equal bits would be other noise than before; a law too wide for a table has none."""
    digest = sha256(b"topdown.noise.thresholds 1 DiscreteGaussian 4/1 64\n")
    digest.update(table_of(DiscreteGaussian(4)).thresholds.astype(">u8").tobytes())
    assert digest.hexdigest() == FINGERPRINT_4
    assert not has_table(DiscreteGaussian(10**12))
