"""Several answers that share a promise: the losses of n answers against direct convolution, and where Gaussian wins."""

import math
from fractions import Fraction
from itertools import product

import pytest

from topdown.optimal_noise import (
    Absolute,
    NoiseRequest,
    Promise,
    epsilon_needed,
    least_tails,
    masses_of,
    optimal_law,
    shared_noise,
)
from topdown.privacy.accountant import FiniteLoss, Mixture, Repeated


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
        box = Mixture(Repeated(FiniteLoss(both), 2)).delta(total)
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
