"""Exact draws: each fast one against its slow twin, both against the stated law."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from topdown.privacy import BitSource, SimulationBits
from topdown.selection import (
    Chance,
    LazyUniform,
    RealChance,
    bernoulli_power,
    choice_law,
    exponential_choice,
    first_success,
    poisson_sample,
    power_enclosure,
    rational_enclosure,
)

N = 4000
LEAST = 1e-6
BASE = Fraction(7, 5)


class FewBits(BitSource):
    """Bytes that are written down, then zeros."""

    is_release = False

    def __init__(self, given: bytes) -> None:
        self.left = given

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        taken, self.left = self.left[:n_bytes], self.left[n_bytes:]
        return taken.ljust(n_bytes, b"\0")


def p_value(draws: list[object], law: dict[object, Fraction]) -> float:
    """Return the chi-square p-value of draws against an exact law."""
    seen = Counter(draws)
    assert set(seen) <= set(law)
    return float(chisquare([seen[o] for o in law], [float(p) * len(draws) for p in law.values()]).pvalue)


DECISIONS: dict[str, Callable[[Chance], object]] = {
    "choose": lambda c: c.choose([3, 0, 1, 3], BASE),
    "accept": lambda c: c.accept(BASE, 3),
    "coin": lambda c: c.coin(Fraction(2, 7)),
    "raised": lambda c: c.raised(2, BASE, 6),
    "first": lambda c: c.first_accepted(5, BASE, 4),
    "keep": lambda c: tuple(c.keep(3, Fraction(1, 3)).tolist()),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_have_the_law_that_is_audited(name: str) -> None:
    """The auditor proves the promise of other probabilities than those that are drawn."""
    decide, chance = DECISIONS[name], RealChance(SimulationBits(5, (name,)))
    law = choice_law(decide)
    assert sum(law.values()) == 1
    assert p_value([decide(chance) for _ in range(N)], law) > LEAST


@pytest.mark.parametrize(
    ("fast", "slow"),
    [
        (
            lambda b: bernoulli_power(BASE, 4, b),
            lambda b: all(RealChance(b).coin(1 / BASE) for _ in range(4)),
        ),
        (
            lambda b: tuple(poisson_sample(2, Fraction(2, 7), b).tolist()),
            lambda b: tuple(RealChance(b).coin(Fraction(2, 7)) for _ in range(2)),
        ),
    ],
)
def test_fast_draws_are_like_their_twins(fast: Callable, slow: Callable) -> None:
    """A twin with another law would show which of the two is wrong."""
    bits = SimulationBits(9)
    one, other = (Counter(d(bits) for _ in range(N)) for d in (fast, slow))
    for outcome in set(one) | set(other):
        assert abs(one[outcome] - other[outcome]) < 6 * (N / 2) ** 0.5


@settings(max_examples=100, deadline=None)
@given(st.fractions(0, 1, max_denominator=10**9), st.integers(0, 2000), st.sampled_from([64, 128, 192]))
def test_powers_are_enclosed(number: Fraction, exponent: int, n_bits: int) -> None:
    """An enclosure that misses its number decides some draws the wrong way."""
    low, high = power_enclosure(rational_enclosure(number), exponent)(n_bits)
    exact = number**exponent * (1 << n_bits)
    assert low <= exact <= high
    assert high - low <= 4


def test_a_lazy_uniform_goes_on_until_it_is_decided() -> None:
    """A draw that stops at 64 bits has the law of a rounded threshold."""
    third = power_enclosure(rational_enclosure(Fraction(1, 3)), 1)
    prefix = ((1 << 64) // 3).to_bytes(8, "big")
    second = ((1 << 128) // 3) & ((1 << 64) - 1)
    below, above = ((second + d) % (1 << 64) for d in (-1, 1))
    assert LazyUniform(FewBits(prefix + below.to_bytes(8, "big"))).below(third)
    assert not LazyUniform(FewBits(prefix + above.to_bytes(8, "big"))).below(third)


def test_keeping_decides_ties_of_64_bits_by_the_rest() -> None:
    """A rate of 1/3 cut to 64 bits is another rate than the plan's."""
    tie = ((1 << 64) // 3).to_bytes(8, "little")
    assert poisson_sample(1, Fraction(1, 3), FewBits(tie + b"\0"))[0]
    assert not poisson_sample(1, Fraction(1, 3), FewBits(tie + b"\x40"))[0]


def test_far_choices_cost_little() -> None:
    """A gap of a million records must not take a million coins, nor a million digits."""
    assert exponential_choice([10**9, 0, 0], Fraction(3), SimulationBits(1)) == 0
    assert not RealChance(SimulationBits(1)).accept(Fraction(1001, 1000), 10**9)
    assert RealChance(SimulationBits(1)).accept(Fraction(2), -5)
    assert RealChance(SimulationBits(1)).first_accepted(10**9, Fraction(3), 10**6) == 10**9


def test_equal_seeds_give_equal_draws_and_no_records_give_none() -> None:
    """A simulation that cannot be repeated cannot be examined; an empty data set takes the same path."""
    one, other = (poisson_sample(1000, Fraction(1, 5), SimulationBits(4)) for _ in range(2))
    assert np.array_equal(one, other)
    assert 0 < one.sum() < 1000
    assert len(poisson_sample(0, Fraction(1, 5), SimulationBits(4))) == 0
    assert first_success(0, BASE, 3, SimulationBits(4)) == 0
