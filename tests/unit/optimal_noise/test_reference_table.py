"""Optimal laws against values computed elsewhere, for several answers, and as the sampler draws them."""

import math
from fractions import Fraction
from itertools import product

import pytest

from topdown.optimal_noise import (
    Absolute,
    NoiseRequest,
    Promise,
    Square,
    baselines,
    epsilon_needed,
    least_tails,
    masses_of,
    optimal_law,
    shared_noise,
)
from topdown.privacy import BitSource
from topdown.privacy.accountant import FiniteLoss, Mixture

# epsilon delta sensitivity | l1: optimum, truncated geometric, its best, discrete Gaussian, delta 0
# | the same for l2 | radius of the truncated geometric, sigma of the discrete Gaussian
TABLE = """
.5 1e-6 1 | 1.918956 1.918963 1.918962 6.416683 1.919035 |
   7.833107 7.833273 7.833268 64.842383 7.835396 | 25 8.0525
.5 1e-6 2 | 3.943283 3.958504 3.958502 12.852097 3.943440 |
   31.762625 31.826059 31.826019 259.625143 31.771811 | 51 16.1129
.5 1e-3 1 | 1.883184 1.895366 1.892917 3.654422 1.919035 |
   7.281605 7.446229 7.429151 21.144404 7.835396 | 12 4.5983
.5 1e-3 2 | 3.871953 3.892784 3.891550 7.350210 3.943440 |
   29.555664 29.761583 29.744268 85.029865 31.771811 | 23 9.2212
.5 .1 1 | 1.025568 1.185056 1.112688 1.209827 1.919035 |
   1.827796 2.407142 2.208435 2.466431 7.835396 | 3 1.5705
.5 .1 2 | 2.145872 2.365157 2.275834 2.471958 3.943440 |
   7.371471 8.820935 8.324769 9.765284 31.771811 | 6 3.1249
1 1e-6 1 | .850902 .850912 .850911 3.359913 .850918 |
   1.841100 1.841239 1.841236 17.899490 1.841347 | 14 4.2308
1 1e-6 2 | 1.863432 1.919006 1.919006 6.736046 1.863464 |
   7.714152 7.834497 7.834494 71.440499 7.715144 | 27 8.4522
1 1e-3 1 | .842984 .847124 .846260 2.005283 .850918 |
   1.773900 1.805657 1.802719 6.483310 1.841347 | 7 2.5462
1 1e-3 2 | 1.847472 1.903553 1.903477 4.096562 1.863464 |
   7.440958 7.565339 7.564799 26.527538 7.715144 | 13 5.1505
1 .1 1 | .588607 .636504 .609079 .824655 .850918 |
   .797632 .906307 .859047 1.236266 1.841347 | 2 1.1119
1 .1 2 | 1.320205 1.392905 1.389223 1.713200 1.863464 |
   3.320910 3.410807 3.397798 4.777343 7.715144 | 4 2.1857
2 1e-6 1 | .275718 .275719 .275719 1.762658 .275721 |
   .362012 .362018 .362017 5.047359 .362031 | 7 2.2466
2 1e-6 2 | .698051 .850916 .850915 3.542072 .698056 |
   1.640555 1.841302 1.841301 19.874380 1.640634 | 15 4.4581
2 1e-3 1 | .274462 .275330 .275090 1.121904 .275721 |
   .356274 .359919 .359525 2.144498 .362031 | 4 1.4644
2 1e-3 2 | .695388 .849342 .849022 2.290727 .698056 |
   1.616622 1.824943 1.823828 8.409478 1.640634 | 8 2.8999
2 .1 1 | .216536 .263086 .237856 .529032 .275721 |
   .220479 .319127 .284436 .609900 .362031 | 2 .7811
2 .1 2 | .567410 .748252 .740675 1.076094 .698056 |
   1.041320 1.288986 1.271462 1.986402 1.640634 | 3 1.4094
"""
ROWS = TABLE.strip().replace("\n   ", " ").splitlines()
LOSSES = [Absolute(), Square()]


def near(value: str) -> object:
    """Return a printed value: within a part in 10^6, and half a unit of its last decimal."""
    return pytest.approx(float(value), rel=1e-6, abs=5.5e-7)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[0].strip())
def test_reference_table(row: str) -> None:
    """A wrong program, ratio or radius would print savings that are not there."""
    given, *by_loss, widths = (part.split() for part in row.split("|"))
    promise = Promise(Fraction(given[0]), Fraction(given[1]))
    for loss, values in zip(LOSSES, by_loss, strict=True):
        ask = NoiseRequest((promise,), int(given[2]), loss)
        law = optimal_law(ask)
        others = {one.name: one for one in baselines(ask)}
        found = [
            law.loss,
            others["truncated geometric"].loss,
            others["truncated geometric, best ratio"].loss,
            others["discrete Gaussian"].loss,
            next(one.loss for name, one in others.items() if name.endswith("delta 0")),
        ]
        assert [near(value) for value in values] == [float(value) for value in found]
        assert law.gap < Fraction(1, 10**9)
        assert law.loss <= min(found[1:4])
        assert others["truncated geometric"].parameter == f"radius {widths[0]}"
        assert others["discrete Gaussian"].parameter == f"sigma {float(widths[1]):.4f}"


def test_delta_towards_zero() -> None:
    """At delta 10^-12 the optimum is that of delta 0: geometric, and a staircase for sensitivity 2."""
    for sensitivity, name in ((1, "geometric, delta 0"), (2, "staircase, delta 0")):
        ask = NoiseRequest((Promise(Fraction(1), Fraction(1, 10**12)),), sensitivity, Absolute())
        limit = next(one.loss for one in baselines(ask) if one.name == name)
        law = optimal_law(ask)
        assert law.loss <= limit
        assert float(law.loss) == pytest.approx(float(limit), rel=1e-9)


def test_other_noise_of_formulas() -> None:
    """Truncated Laplace and analytic Gaussian noise, from the literature: .611962, .577105 and sigma 1.0858777652."""
    values = {}
    for loss in LOSSES:
        found = baselines(NoiseRequest((Promise(Fraction(1), Fraction(1, 5)),), 1, loss))
        values[loss.name] = next(float(one.loss) for one in found if "Laplace" in one.name)
    assert values == {"l1": near(".611962"), "l2": near(".577105")}
    found = baselines(NoiseRequest((Promise(Fraction(1), Fraction(1, 10)),), 1, Square()))
    variance = next(float(one.loss) for one in found if "analytic" in one.name)
    assert variance**0.5 == pytest.approx(1.0858777651918, rel=1e-9)


def pairs(masses: list[Fraction]) -> tuple[tuple[Fraction, Fraction], ...]:
    """(probability, probability of the neighbour) of every value."""
    return tuple(zip([*masses, Fraction(0)], [Fraction(0), *masses], strict=True))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(1, 2), Fraction(1, 10**3)), (Fraction(1), Fraction(1, 10**5))]
)
def test_two_answers_three_ways(epsilon: Fraction, delta: Fraction) -> None:
    """Losses of two answers: every pair of outcomes written out, the accountant's enclosure, and the comparison."""
    masses = list(masses_of(least_tails([(Promise(epsilon, delta).factor, delta)])[0]))
    both = pairs(masses)
    for total in (epsilon, 3 * epsilon / 2, 2 * epsilon):
        growth = math.exp(total)
        direct = math.fsum(
            max(float(p1 * p2) - growth * float(q1 * q2), 0.0) for (p1, q1), (p2, q2) in product(both, both)
        )
        box = Mixture([(FiniteLoss(both), 2)]).delta(total)
        needed = epsilon_needed({float(epsilon): 2}, float(delta), float(total))
        assert direct == pytest.approx(float(box), rel=1e-9, abs=1e-18)
        assert direct * (1 - 1e-9) - 1e-15 <= needed <= direct * 1.02 + 1e-12


def test_one_answer_is_the_law_itself() -> None:
    """The comparison must start from the law that is shown."""
    law = optimal_law(NoiseRequest((Promise(Fraction(1), Fraction(1, 10**6)),), 1, Absolute()))
    assert shared_noise(1.0, 1e-6, 1).variance == pytest.approx(float(law.variance), rel=1e-9)


def test_composition_reverses_it() -> None:
    """Variance over that of Gaussian noise for n answers at (1, 10^-6), computed elsewhere with another tuning."""
    known = {1: 0.10, 2: 0.22, 4: 0.45, 8: 0.90, 16: 1.66, 32: 1.83}
    found = {n: shared_noise(1.0, 1e-6, n).ratio for n in known}
    assert found == pytest.approx(known, rel=0.04)
    assert found[8] < 1 < found[16]


LAW = optimal_law(NoiseRequest((Promise(Fraction(1), Fraction(1, 1000)),), 2, Absolute()))


class Chosen(BitSource):
    """Gives the 128-bit numbers it was made with, and counts bytes."""

    is_release = False

    def __init__(self, numbers: list[int]) -> None:
        self.left = b"".join(number.to_bytes(16, "big") for number in numbers)
        self.n_read = 0

    def read(self, n_bytes: int) -> bytes:
        """Return the next of the numbers."""
        taken, self.left = self.left[:n_bytes], self.left[n_bytes:]
        self.n_read += n_bytes
        return taken


def test_the_ends_of_every_weight() -> None:
    """A number at a cumulative weight belongs to the next value; a number of bytes that depends on it would show."""
    numbers, outcomes, total = [], [], 0
    for k, weight in enumerate(LAW.weights):
        numbers += [total, total + weight - 1]
        outcomes += [LAW.first + k] * 2
        total += weight
    source = Chosen(numbers)
    assert outcomes == [LAW.draw(source) for _ in numbers]
    assert source.n_read == 16 * len(numbers)
