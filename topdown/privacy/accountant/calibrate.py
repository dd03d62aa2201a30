"""Inverse problems: how much less noise buys the same privacy when it is accounted exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.privacy.accountant.composition import Composition
from topdown.privacy.accountant.conversions import log_ratio
from topdown.privacy.accountant.gaussian_loss import ball_of, ends, precision
from topdown.privacy.exact_values import Enclosure, Exact, Threshold, delta_of, epsilon_of, positive

_STEPS = 60
_WIDTH = Fraction(1, 10**12)


def budget_scale(composition: Composition, epsilon: Enclosure | Threshold, delta: Threshold) -> Enclosure:
    """Return c such that all budgets times c have exact epsilon(delta) = epsilon.

    Certified: at the lower end delta(epsilon) <= delta (so that noise is private enough), at the upper end it is
    above; by continuity a root lies between. That there is one only follows if delta increases with c, which is
    seen in every case tried and not proved on very coarse lattices.

    Args:
        composition: what is measured now (c = 1).
        epsilon: the target, exact or enclosed.
        delta: the delta of the target.

    Returns: c, of a relative width of 10**-12 unless the bounds of the engine are wider.
    """
    target = delta_of(delta)
    if isinstance(epsilon, Enclosure):
        low_target, high_target, middle = epsilon.lower, epsilon.upper, (epsilon.lower + epsilon.upper) / 2
    else:
        low_target = high_target = middle = epsilon_of(epsilon)

    def excess(scale: Fraction) -> float:
        found = composition.scaled(scale).delta(middle)
        return log_ratio((found.lower + found.upper) / 2, target)

    scale, width = _increasing_root(excess, Fraction(1)), _WIDTH
    for _ in range(_STEPS):
        low, high = _to_decimals(scale * (1 - width / 3)), _to_decimals(scale * (1 + width / 3))
        below = composition.scaled(low).delta(low_target)
        above = composition.scaled(high).delta(high_target)
        if below.upper <= target <= above.lower:
            return Enclosure(low, high, above.method)
        width *= 2
    raise ConfigError(
        f"no budget scale could be certified for epsilon {float(middle):.6g} at delta {float(target):.3g}",
        code="A014",
        fix="try another delta: this one sits on a jump of a very coarse lattice",
    )


def _increasing_root(excess: Callable[[Fraction], float], start: Fraction) -> Fraction:
    """Return a root of an increasing function of the scale by bracketing and regula falsi in log scale."""
    low = high = start
    at_low = at_high = excess(start)
    while at_low > 0:
        low /= 2
        at_low = excess(low)
    while at_high < 0:
        high *= 2
        at_high = excess(high)
    for _ in range(_STEPS):
        if at_high == at_low or high - low < Fraction(1, 10**15) * high:
            break
        share = min(max(-at_low / (at_high - at_low), 0.001), 0.999)
        middle = _to_decimals(low + (high - low) * Fraction(share))
        value = excess(middle)
        if abs(value) < 2e-14:
            return middle
        # Illinois: the end that stays counts half, so that both ends move
        if value < 0:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
    return (low + high) / 2


def _to_decimals(value: Fraction) -> Fraction:
    return Fraction(round(value * 10**18), 10**18)


_WIDE = 16  # from here on the two differ by less than a part in 10^130
_BITS = 256


def discrete_gaussian_variance(parameter: Exact) -> Enclosure:
    """Enclose the variance of N_Z(0, parameter).

    It is at most the parameter (Canonne, Kamath, Steinke 2020, corollary 9). Below 16 the sum over |x| <= 100 is
    written out; past it a term of x^2 e^(-x^2 / 2v) is below half of the one before.

    Args:
        parameter: exact, > 0.
    """
    v = positive(parameter, "variance")
    if v >= _WIDE:
        return Enclosure(v * (1 - Fraction(1, 10**130)), v, "parameter")
    with precision(_BITS) as flint:
        terms = [(ball_of(flint, Fraction(-x * x) / (2 * v))).exp() for x in range(102)]
        total = 1 + 2 * sum(terms[1:101], flint.arb(0))
        square = 2 * sum((x * x * terms[x] for x in range(1, 101)), flint.arb(0))
        beyond = 4 * 101 * 101 * ends(terms[101])[1]
        low, high = ends(square)
        least, most = ends(total)
        return Enclosure(low / (most + beyond), min((high + beyond) / least, v), "sum")
