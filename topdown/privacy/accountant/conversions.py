"""Between rho, epsilon and delta: zCDP sums and conversions, the mu-GDP closed form, and inversion of delta(epsilon).

zCDP sums are exact and its conversions rounded outward. mu-GDP is the closed form of the continuous Gaussian: a
labelled comparison and never a bound here. The inversion needs nothing but enclosures of delta and bounds epsilon on
both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from topdown.privacy.accountant.gaussian_loss import OUTWARD, ball_of, ends, precision
from topdown.privacy.exact_values import Enclosure, Exact, Threshold, delta_of, positive

_BITS = 160
_LEAST = 1e-160
Ball = Any  # flint.arb


def bun_steinke(rho: Exact, delta: Threshold) -> Enclosure:
    """Return rho + 2 sqrt(rho ln(1 / delta)) (Bun, Steinke 2016, proposition 1.3), enclosed; an upper bound."""
    budget, target = positive(rho, "rho"), delta_of(delta)
    # Decimals, whose steps are rounded correctly, here by less than 1e-50: a release needs this alone, and no balls.
    with localcontext(Context(_bits_of_log(target) // 3, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        log = (Decimal(target.numerator) / target.denominator).ln()
        root = 2 * Fraction((-log * budget.numerator / budget.denominator).sqrt())
    low, high = (budget + root * (1 + Fraction(way, 10**45)) for way in (-1, 1))
    return Enclosure(low, high, "zCDP, Bun-Steinke")


def canonne_kamath_steinke(rho: Exact, delta: Threshold) -> Enclosure:
    """Return the tight zCDP conversion (Canonne, Kamath, Steinke 2020, corollary 13), enclosed.

    epsilon = max(0, min over a > 1 of g(a)), g(a) = a rho + (ln(1/delta) - ln a) / (a - 1) + ln(1 - 1/a).
    (a - 1)**2 g'(a) = (a - 1)**2 rho - ln(1/delta) + ln a increases, so g has one minimum; its place is bracketed
    by certified signs and the minimum by the mean value theorem. The upper end is g at one order: a valid bound.
    """
    budget, target = positive(rho, "rho"), delta_of(delta)
    log_target = (math.log2(target.denominator) - math.log2(target.numerator)) * math.log(2)
    excess = Fraction(_least_order(float(budget), log_target))
    with precision(_bits_of_log(target)) as flint:
        rho_ball, log_ball = ball_of(flint, budget), -ball_of(flint, target).log()

        def slope(x: Ball) -> Ball:
            return rho_ball - (log_ball - x.log1p()) / (x * x)

        pad = Fraction(1, 10**13)
        while pad < 1:
            falls, rises = (ends(slope(ball_of(flint, excess * (1 + way)))) for way in (-pad, pad))
            if falls[1] <= 0 <= rises[0]:
                break
            pad *= 4
        x = ball_of(flint, excess)
        value = (1 + x) * rho_ball + (log_ball - x.log1p()) / x + (x / (1 + x)).log()
        around = x * flint.arb(1, float(pad) * (1 + OUTWARD))
        low, high = ends(value)
        drop = ends(abs(slope(around)) * x)[1] * pad if pad < 1 else high  # not bracketed: delta is all but 1
    return Enclosure(max(low - drop, Fraction(0)), max(high, Fraction(0)), "zCDP, Canonne-Kamath-Steinke")


def _bits_of_log(delta: Fraction) -> int:
    """Return a precision at which the logarithm of a delta near 1 keeps its digits."""
    return _BITS + (delta / (1 - delta)).numerator.bit_length() if 2 * delta > 1 else _BITS


def _least_order(rho: float, log_inverse: float) -> float:
    """Return about the x = a - 1 > 0 at which rho x**2 + ln(1 + x) reaches ln(1/delta)."""
    low, high = _LEAST, 1.0
    while rho * high * high + math.log1p(high) < log_inverse:
        high *= 2
    for _ in range(200):
        middle = math.sqrt(low * high)
        below = rho * middle * middle + math.log1p(middle) < log_inverse
        low, high = (middle, high) if below else (low, middle)
    return high


_NORMAL = NormalDist()


def log_tail(x: float) -> float:
    """Return ln P[N(0, 1) > x]; for large x by the Laplace continued fraction."""
    if x < 30:
        return math.log(0.5 * math.erfc(x / math.sqrt(2)))
    fraction = 0.0
    for k in range(60, 0, -1):
        fraction = k / (x + fraction)
    return -x * x / 2 - 0.5 * math.log(2 * math.pi) - math.log(x + fraction)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return delta(epsilon) of mu-GDP (Dong, Roth, Su 2022, corollary 1)."""
    return math.exp(_log_delta(mu, epsilon))


def gaussian_trade_off(mu: float, alpha: float) -> float:
    """Return f(alpha) = Phi(Phi^-1(1 - alpha) - mu) (Dong, Roth, Su 2022, equation 6)."""
    if alpha in (0.0, 1.0):
        return 1.0 - alpha
    return _NORMAL.cdf(-_NORMAL.inv_cdf(alpha) - mu)


def gaussian_epsilon(mu: float, log_delta: float) -> float:
    """Return epsilon with mu-GDP delta(epsilon) = exp(log_delta), by bisection; 0 if delta(0) is smaller."""
    if _log_delta(mu, 0.0) <= log_delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * log_delta) + 1e-300
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_delta(mu, middle) > log_delta else (low, middle)
    return (low + high) / 2


def quantile(probability: float) -> float:
    """Return Phi^-1(probability), at the nearest float inside (0, 1)."""
    return _NORMAL.inv_cdf(min(max(probability, 5e-324), 1 - 2.0**-53))


def _log_delta(mu: float, epsilon: float) -> float:
    first = log_tail(epsilon / mu - mu / 2)
    second = epsilon + log_tail(epsilon / mu + mu / 2)
    difference = second - first
    return first + math.log(-math.expm1(difference)) if difference < -1e-16 else first - 36.0


Deltas = Callable[[Sequence[Fraction]], list[Enclosure]]
_BISECT = 25  # Newton steps before bisection
_REFINED = 5  # bisections of an end where the enclosures are wide
_WIDE = 0.5  # relative width from which an enclosure says nothing about the slope


def log_ratio(value: Fraction, target: Fraction) -> float:
    """Return ln(value / target) for positive exact numbers of any size."""
    ratio = value / target
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    return (math.log2(ratio.numerator) - math.log2(ratio.denominator)) * math.log(2)


def solve_epsilon(deltas: Deltas, target: Fraction, guess: float, ceiling: Fraction, bits: int) -> Enclosure:
    """Return an enclosure of the smallest epsilon >= 0 with delta(epsilon) <= target.

    Certified by delta(lower) >= target >= delta(upper), read from the enclosures: delta decreases in epsilon.

    Args:
        deltas: enclosures of delta at given epsilons.
        target: delta.
        guess: start of the search.
        ceiling: an epsilon known to be large enough (zCDP bound).
        bits: resolution of epsilon, 2**-bits.
    """
    (start,) = deltas([Fraction(0)])
    if start.upper <= target:
        return Enclosure(Fraction(0), Fraction(0), start.method)
    low, high = Fraction(0), ceiling
    x = _to_grid(Fraction(max(min(guess, float(ceiling)), 0.0)), bits)
    before: tuple[Fraction, float] | None = None
    slope, spread = -1.0, 0.0
    for turn in range(_BISECT + bits + 1100):
        (found,) = deltas([x])
        if found.lower >= target:
            low = max(low, x)
        elif found.upper <= target:
            high = min(high, x)
        middle = (found.lower + found.upper) / 2
        value = log_ratio(middle, target) if middle > 0 else -math.inf
        spread = float(found.width / middle) if middle > 0 else math.inf
        undecided = found.lower < target < found.upper
        if undecided or high - low <= Fraction(2, 1 << bits):
            break
        if before and before[0] != x and value != before[1]:
            slope = (value - before[1]) / float(x - before[0])
        before = (x, value)
        step = -value / slope if slope < 0 else math.inf
        if turn > _BISECT or spread > _WIDE or not math.isfinite(step):
            x = _to_grid((low + high) / 2, bits)
            continue
        if abs(step) <= max(spread / abs(slope), 2.0**-bits):
            break
        x = x + Fraction(step) if low < x + Fraction(step) < high else (low + high) / 2
        x = _to_grid(x, bits)

    def above(point: Fraction) -> bool:
        return deltas([point])[0].lower >= target

    def below(point: Fraction) -> bool:
        return deltas([point])[0].upper <= target

    least = Fraction(1, 1 << bits)
    width = max(_to_grid(Fraction(2 * min(spread, 1.0) / max(-slope, 1e-3)), bits), least)
    return Enclosure(
        _certain_end(above, x, low, -width, least), _certain_end(below, x, high, width, least), found.method
    )


def _certain_end(
    good: Callable[[Fraction], bool], x: Fraction, far: Fraction, step: Fraction, least: Fraction
) -> Fraction:
    """Return a good point beyond x, little farther than the nearest; `far` is known to be good.

    Args:
        good: whether the enclosure decides at a point.
        x: where the search starts; far: a good point on the side of `step`.
        step: first signed distance tried; least: smallest distance tried.
    """
    side = 1 if step > 0 else -1
    while (x + step - far) * side < 0 and not good(x + step):
        step *= 2
    if (x + step - far) * side < 0:
        far = x + step
        while abs(step) > least and good(x + step / 2):
            step /= 2
            far = x + step
    near = x + (far - x) / 2
    for _ in range(_REFINED if abs(far - x) > abs(x) / 2**30 else 0):
        middle = (near + far) / 2
        near, far = (near, middle) if good(middle) else (middle, far)
    return far


def _to_grid(value: Fraction, bits: int) -> Fraction:
    return Fraction(round(value * (1 << bits)), 1 << bits)
