"""Against methods that share nothing with the engines: plain convolution, Poisson summation, tail bounds."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest

from tests.helpers.compositions import weighted
from topdown.privacy.accountant import Quadrature

DIGITS = 60


def convolved(rhos: list[tuple[Fraction, int]]):
    """Return {S: probability} by direct convolution of the pmfs on Z (60 digits)."""
    law = {Fraction(0): mpmath.mpf(1)}
    for rho, count in rhos:
        reach = math.ceil(math.sqrt(2 * DIGITS * 2.4 / float(rho)))
        weights = {
            x: mpmath.exp(-mpmath.mpf(rho.numerator) * x * x / (2 * rho.denominator))
            for x in range(-reach, reach + 1)
        }
        norm = mpmath.fsum(weights.values())
        for _ in range(count):
            wider: dict[Fraction, mpmath.mpf] = {}
            for s, p in law.items():
                for x, w in weights.items():
                    wider[s + rho * x] = wider.get(s + rho * x, mpmath.mpf(0)) + p * w / norm
            law = wider
    return law


def tail(law, point: Fraction):
    return mpmath.fsum(p for s, p in law.items() if s > point)


@pytest.mark.parametrize(
    "rhos",
    [
        [(Fraction(1), 1)],
        [(Fraction(1, 2), 3)],
        [(Fraction(2, 3), 1), (Fraction(1, 2), 2)],
        [(Fraction(3), 1), (Fraction(1), 1)],
    ],
)
def test_delta_is_the_difference_of_two_convolved_tails(rhos):
    """Delta = P[S > eps - R] - e**eps P[S > eps + R] from the definition, on and off the lattice."""
    with mpmath.workdps(DIGITS):
        law = convolved(rhos)
        half = sum(r * n for r, n in rhos) / 2
        case = weighted(rhos)
        for epsilon in (Fraction(0), Fraction(1, 3), half, Fraction(5, 2), half + Fraction(3)):
            grow = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
            exact = tail(law, epsilon - half) - grow * tail(law, epsilon + half)
            box = case.delta(epsilon)
            assert float(box.lower) * (1 - 1e-15) <= float(exact) <= float(box.upper) * (1 + 1e-15)


def test_trade_off_is_the_neyman_pearson_curve():
    """F from the definition, randomised at the atom, at alphas on and between atoms."""
    rhos = [(Fraction(1, 2), 3)]
    with mpmath.workdps(DIGITS):
        law, total = convolved(rhos), Fraction(3, 2)
        case = weighted(rhos)
        points = sorted(law)
        for alpha in (Fraction(1, 1000), Fraction(1, 7), Fraction(1, 2), Fraction(4, 5), Fraction(999, 1000)):
            level = mpmath.mpf(alpha.numerator) / alpha.denominator
            z = next(s for s in points if tail(law, s) <= level)
            ratio = mpmath.exp(mpmath.mpf((z - total / 2).numerator) / (z - total / 2).denominator)
            f = 1 - tail(law, z - total) - (level - tail(law, z)) * ratio
            box = case.trade_off(alpha)
            assert float(box.lower) * (1 - 1e-15) <= float(f) <= float(box.upper) * (1 + 1e-15)


def test_point_masses_follow_the_poisson_dual():
    """P[X1 + X2 = s] = exp(-s**2/4) sum_l (-1)**(l s) exp(-pi**2 l**2) / (sqrt(4 pi) Th(0)**2) for two N_Z(0, 1)."""
    theta = sum(math.exp(-2 * math.pi**2 * j * j) for j in range(-4, 5))
    tails = Quadrature(weighted({1: 2}).law).tails(list(range(8)))
    for s, (here, following) in enumerate(pairwise(tails)):
        dual = sum((-1) ** (s * k) * math.exp(-(math.pi**2) * k * k) for k in range(-4, 5))
        mass = math.exp(-s * s / 4) * dual / (math.sqrt(4 * math.pi) * theta**2)
        assert (
            float(here.lower - following.upper) - 1e-16 <= mass <= float(here.upper - following.lower) + 1e-16
        )


def test_tails_are_sub_gaussian():
    """P[S >= t] <= exp(-t**2 / 2P): an engine above it counts mass that is not there."""
    case = weighted({"1/3": 2, "2/5": 3})
    spacing, total = case.law.spacing, float(case.law.total)
    indices = list(range(1, int(30 / spacing), 17))
    for index, box in zip(indices, Quadrature(case.law).tails(indices), strict=True):
        assert float(box.lower) <= math.exp(-((index * float(spacing)) ** 2) / (2 * total)) * (1 + 1e-12)


def test_gaussian_comparison_is_close_and_not_a_bound():
    """mu-GDP must err on both sides, else calling it a comparison and not a bound would be idle."""
    coarse = weighted({1: 1})
    ratios = [
        float(coarse.delta(e)) / coarse.gaussian(epsilon=float(Fraction(e)))
        for e in ("1/10", "1/2", "5/4", "9/2")
    ]
    assert min(ratios) < 0.99 < 1.01 < max(ratios)
    fine = weighted({"1/1000": 100})
    assert math.isclose(float(fine.epsilon("1e-5")), fine.gaussian(delta=1e-5), rel_tol=1e-3)


def test_other_accountant_brackets_us():
    """dp-accounting's pessimistic and optimistic estimates must bracket epsilon."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed; it is an optional reference")
    from dp_accounting.pld import privacy_loss_distribution as pld

    both = [
        pld.from_discrete_gaussian_mechanism(math.sqrt(10), pessimistic_estimate=p).self_compose(10)
        for p in (False, True)
    ]
    low, high = (p.get_epsilon_for_delta(1e-6) for p in both)
    assert low - 1e-9 <= float(weighted({"1/10": 10}).epsilon("1e-6")) <= high + 1e-9
