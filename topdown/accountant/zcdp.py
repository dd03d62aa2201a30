"""zCDP and pure-DP bookkeeping: exact sums, conversions rounded outward."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Exact, Threshold, delta_of, positive, rational
from topdown.errors import ConfigError

_BITS = 160
_LEAST = 1e-160
Ball = Any  # flint.arb


def compose(rhos: Iterable[Exact]) -> Fraction:
    """Return the sum of zCDP budgets (Bun, Steinke 2016, lemma 1.7): exact."""
    total = sum((rational(r, "rho") for r in rhos), Fraction(0))
    if total < 0:
        raise ConfigError(
            f"the budgets add to {total}, below 0", code="A002", fix="budgets are numbers above 0"
        )
    return total


def of_gaussian(variance: Exact, sensitivity_squared: Exact) -> Fraction:
    """Return rho of discrete Gaussian noise: sensitivity**2 / (2 variance) (Canonne, Kamath, Steinke 2020, thm 4)."""
    return rational(sensitivity_squared, "squared sensitivity") / (2 * positive(variance, "variance"))


def of_pure(exp_epsilon: Exact) -> Enclosure:
    """Return rho = epsilon tanh(epsilon / 2) of an epsilon-DP mechanism known by its exact e**epsilon.

    Below the usual epsilon**2 / 2 (Bun, Steinke 2016, proposition 1.4), and exact for randomised response, which
    dominates: its Renyi divergence is (ln cosh(epsilon (a - 1/2)) - ln cosh(epsilon / 2)) / (a - 1), ln cosh(sqrt w)
    is concave in w, and w = (a - 1/2)**2 gives a rho at most (PROOF.md, lemma 6). tanh(epsilon / 2) is rational.
    """
    from topdown.accountant.certified import ball_of, ends, precision

    odds = rational(exp_epsilon, "e**epsilon")
    if odds < 1:
        raise ConfigError(
            f"e**epsilon is {odds}, below 1", code="A011", fix="give e**epsilon, e.g. 3 for epsilon = ln 3"
        )
    with precision(_BITS) as flint:
        low, high = ends(ball_of(flint, odds).log())
    factor = (odds - 1) / (odds + 1)
    return Enclosure(max(low, Fraction(0)) * factor, high * factor, "pure to zCDP")


def compose_pure(exp_epsilons: Iterable[Exact]) -> Fraction:
    """Return e**(sum of epsilons) of composed pure-DP events: the exact product."""
    return math.prod((positive(e, "e**epsilon") for e in exp_epsilons), start=Fraction(1))


def bun_steinke(rho: Exact, delta: Threshold) -> Enclosure:
    """Return rho + 2 sqrt(rho ln(1 / delta)) (Bun, Steinke 2016, proposition 1.3), enclosed; an upper bound."""
    from topdown.accountant.certified import ball_of, ends, precision

    budget, target = positive(rho, "rho"), delta_of(delta)
    with precision(_bits(target)) as flint:
        ball = ball_of(flint, budget)
        low, high = ends(ball + 2 * (-ball * ball_of(flint, target).log()).sqrt())
    return Enclosure(low, high, "zCDP, Bun-Steinke")


def canonne_kamath_steinke(rho: Exact, delta: Threshold) -> Enclosure:
    """Return the tight zCDP conversion (Canonne, Kamath, Steinke 2020, corollary 13), enclosed.

    epsilon = max(0, min over a > 1 of g(a)), g(a) = a rho + (ln(1/delta) - ln a) / (a - 1) + ln(1 - 1/a).
    (a - 1)**2 g'(a) = (a - 1)**2 rho - ln(1/delta) + ln a increases, so g has one minimum; its place is bracketed
    by certified signs and the minimum by the mean value theorem. The upper end is g at one order: a valid bound.
    """
    from topdown.accountant.certified import ball_of, ends, precision

    budget, target = positive(rho, "rho"), delta_of(delta)
    log_target = (math.log2(target.denominator) - math.log2(target.numerator)) * math.log(2)
    excess = Fraction(_least(float(budget), log_target))
    with precision(_bits(target)) as flint:
        rho_ball, log_ball = ball_of(flint, budget), -ball_of(flint, target).log()

        def slope(x: Ball) -> Ball:
            return rho_ball - (log_ball - x.log1p()) / (x * x)

        pad = Fraction(1, 10**13)
        while pad < 1 and not (
            ends(slope(ball_of(flint, excess * (1 - pad))))[1]
            <= 0
            <= ends(slope(ball_of(flint, excess * (1 + pad))))[0]
        ):
            pad *= 4
        x = ball_of(flint, excess)
        value = (1 + x) * rho_ball + (log_ball - x.log1p()) / x + (x / (1 + x)).log()
        around = x * flint.arb(1, float(pad) * (1 + 1e-9))
        low, high = ends(value)
        drop = ends(abs(slope(around)) * x)[1] * pad if pad < 1 else high  # not bracketed: delta is all but 1
    return Enclosure(max(low - drop, Fraction(0)), max(high, Fraction(0)), "zCDP, Canonne-Kamath-Steinke")


def _bits(delta: Fraction) -> int:
    """Return a precision at which the logarithm of a delta near 1 keeps its digits."""
    return _BITS + (delta / (1 - delta)).numerator.bit_length() if 2 * delta > 1 else _BITS


def _least(rho: float, log_inverse: float) -> float:
    """Return about the x = a - 1 > 0 at which rho x**2 + ln(1 + x) reaches ln(1/delta)."""
    low, high = _LEAST, 1.0
    while rho * high * high + math.log1p(high) < log_inverse:
        high *= 2
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (
            (middle, high) if rho * middle * middle + math.log1p(middle) < log_inverse else (low, middle)
        )
    return high
