"""Noise and choices together: between the noise alone and its product with randomised response, by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from topdown.privacy.accountant import (
    Composition,
    NoiseAndChoices,
    PureLoss,
    canonne_kamath_steinke,
    zcdp_of_pure,
)

F = Fraction


def delta_of_product(variance: float, shift: int, epsilon: float, at: float) -> float:
    """Return delta at an epsilon of one discrete Gaussian count beside randomised response, by its sum."""
    reach = range(-60, 61)
    mass = {x: math.exp(-x * x / (2 * variance)) for x in reach}
    total = sum(mass.values())
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    found = 0.0
    for x in reach:
        p, q = mass[x] / total, mass.get(x - shift, 0.0) / total
        for one, other in ((truth, 1 - truth), (1 - truth, truth)):
            found += max(0.0, p * one - math.exp(at) * q * other)
    return found


@pytest.mark.parametrize("epsilon", [F(1, 10), F(1), F(3)])
@pytest.mark.parametrize("variance", [F(1), F(7, 2)])
def test_the_upper_ends_are_those_of_randomised_response(epsilon, variance):
    """A bound below the product of both would promise more than noise and choices keep."""
    both = NoiseAndChoices(Composition.of([(variance, 1, 1)]), epsilon, epsilon**2 / 2)
    guess = (1 + delta_of_product(float(variance), 1, float(epsilon), 0)) / 2
    assert float(both.best_guess().upper) == pytest.approx(guess, rel=1e-9)
    assert both.best_guess().lower == Composition.of([(variance, 1, 1)]).best_guess().lower
    box = both.epsilon_at("1e-4")
    assert delta_of_product(float(variance), 1, float(epsilon), float(box.upper)) <= 1e-4
    assert box.lower < Composition.of([(variance, 1, 1)]).epsilon("1e-4").upper


def test_many_choices_are_cheaper_as_zcdp():
    """A hundred choices of 1/10 tell far less, at a delta, than the sum of their epsilons says."""
    rho = 100 * zcdp_of_pure(F(11, 10)).upper
    both = NoiseAndChoices(None, F(10), rho)
    assert both.epsilon_at("1e-10").upper == canonne_kamath_steinke(rho, "1e-10").upper < 8
    assert (both.total_rho, both.coordinates, both.epsilon_at("1e-10").lower) == (rho, 0, 0)


def test_pure_noise_and_choices_add_up():
    """In a ledger of epsilon everything holds for every delta."""
    alone = PureLoss.of_geometric([(F(4), 4)])
    both = NoiseAndChoices(alone, F(1, 2), F(0))
    assert (both.epsilon_at("0").lower, both.epsilon_at("0").upper) == (1, F(3, 2))
    assert float(both.best_guess().upper) == pytest.approx(1 / (1 + math.exp(-1.5)))
    assert both.best_guess().lower == alone.best_guess().lower > F(1, 2)
