"""Certified bounds for every composition, at a fixed small cost: wider than the other engines, never wrong.

Above, below and in the middle by theorems alone (PROOF.md, section 9): the law lies between two continuous
Gaussians where its variances are large, below the zCDP conversion and the chance that any noise is not 0, and above
what a symmetric sub-Gaussian loss must have. All in balls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from topdown.privacy.accountant.conversions import quantile
from topdown.privacy.accountant.gaussian_loss import LossDistribution, ball_exp, ball_of, ends, precision
from topdown.privacy.exact_values import Enclosure

_NATS = (6, 14, 28, 50)
_LINES = tuple(Fraction(k, 4) for k in range(-40, 81))
_STEEPEST = Fraction(700)
_FAR = 150
_NOTHING = Fraction(1, 2**16_000)  # above exp(-_FAR**2 / 2)
_FRACTION_FROM, _FRACTION_TERMS = 40, 60
_ZERO, _ONE = Fraction(0), Fraction(1)
Ball = Any  # flint.arb


@dataclass(frozen=True)
class Sandwich:
    """Two squared means of Gaussians and ln c: both hypotheses keep within the factor c (PROOF.md, lemma 8).

    above: None where a variance is too small to be rounded from a Gaussian; below: 0 where none is large enough.
    """

    above: Fraction | None
    below: Fraction
    log_factor: Fraction

    @cached_property
    def factor(self) -> Fraction:
        """An upper bound of c."""
        return ball_exp(self.log_factor, 128)[1]


class Bounds:
    """Bounds of one law; a few milliseconds a threshold, whatever the law."""

    method = "bounds: two Gaussians, zCDP, symmetry"

    def __init__(self, law: LossDistribution) -> None:
        self.law = law

    @cached_property
    def sandwiches(self) -> tuple[Sandwich, ...]:
        """Pairs of Gaussians, from wide apart with a factor near 1 to close with a larger factor."""
        return tuple(_sandwich(self.law, nats) for nats in _NATS)

    @cached_property
    def _loud(self) -> Fraction:
        """An upper bound of the chance that any noise is above 0."""
        with precision(_bits_near(self.law.total, self.law.half)) as flint:
            total = flint.arb(0)
            for g in self.law.groups:
                q = ball_of(flint, -1 / (2 * g.variance)).exp()
                total += g.count * q / -(ball_of(flint, -3 / (2 * g.variance)).expm1())
            return ends(total)[1]

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        return [self._delta(e) for e in epsilons]

    def trade_offs(self, alphas: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of f at each alpha."""
        return [self._trade_off(a) if 0 < a < 1 else Enclosure(1 - a, 1 - a, self.method) for a in alphas]

    def _delta(self, epsilon: Fraction) -> Enclosure:
        law = self.law
        if epsilon > law.half and (epsilon - law.half) ** 2 > _FAR**2 * law.total:
            return Enclosure(_ZERO, _NOTHING, self.method)
        with precision(_bits_near(law.total, epsilon)) as flint:
            lower = [_symmetric(flint, law, epsilon)]
            upper = [_ONE, _zcdp(flint, law.half, epsilon), _quiet(flint, law, epsilon) + self._loud]
        for pair in self.sandwiches:
            if pair.below:
                lower.append(_gaussian_delta(pair.below, epsilon + 2 * pair.log_factor)[0] / pair.factor)
            if pair.above is not None:
                upper.append(_gaussian_delta(pair.above, epsilon - 2 * pair.log_factor)[1] * pair.factor)
        return Enclosure(min(max(lower), max(min(upper), _ZERO)), max(min(upper), _ZERO), self.method)

    @cached_property
    def _lines(self) -> list[tuple[Fraction, Fraction, Fraction]]:
        """(lower and upper bound of e**epsilon, 1 - delta at most) at a few epsilons around the middle of the loss."""
        law = self.law
        spread = Fraction(math.isqrt(math.ceil(law.total * 2**40)), 2**20) + Fraction(1, 2**20)
        epsilons = sorted({min(max(law.half + z * spread, _ZERO), _STEEPEST) for z in _LINES})
        bits = _bits_near(law.total, epsilons[-1])
        return [(*ball_exp(e, bits), 1 - self._delta(e).upper) for e in epsilons]

    def _trade_off(self, alpha: Fraction) -> Enclosure:
        law = self.law
        lower, upper = [_ZERO], [1 - alpha]
        for low, high, room in self._lines:
            lower += [room - high * alpha, (room - alpha) / (high if room > alpha else low)]
        with precision(_bits_near(law.total, law.half)) as flint:
            # a test that lemma 1 holds below alpha misses e**(-y**2 / 2P), y = P - sqrt(2P ln 1/alpha)
            p = ball_of(flint, law.total)
            nats = -ball_of(flint, alpha).log() if 2 * alpha < 1 else -ball_of(flint, alpha - 1).log1p()
            y = ends(p - (2 * p * nats).sqrt())[0]
            upper.append(ends(ball_of(flint, -y * y / (2 * law.total)).exp())[1] if y > 0 else _ONE)
        for pair in self.sandwiches:
            if pair.below:
                upper.append(_gaussian_trade_off(pair.below, alpha / pair.factor)[1] * pair.factor)
            if pair.above is not None and pair.factor * alpha < 1:
                lower.append(_gaussian_trade_off(pair.above, pair.factor * alpha)[0] / pair.factor)
        return Enclosure(min(max(lower), min(upper)), min(upper), self.method)


def _bits_near(total: Fraction, epsilon: Fraction) -> int:
    """Return a working precision at which exponents near epsilon keep 64 bits after the point."""
    return 128 + 2 * abs(_log2(total)) + 2 * max(0, _log2(max(epsilon, total)))


def _sandwich(law: LossDistribution, nats: int) -> Sandwich:
    """Return the Gaussians that are within a factor e**-nats of 1 after smoothing by as little as that takes."""
    width = Fraction((nats + math.log(4 * law.coordinates)) / (2 * math.pi**2)).limit_denominator(2**20)
    with precision(128) as flint:
        q = (-2 * flint.arb.pi() ** 2 * ball_of(flint, width)).exp()
        ripple = 2 * q / (1 - q**3)
        log_factor = ends(2 * law.coordinates * ripple.atanh())[1]
    above = _ZERO
    for g in law.groups:
        if g.variance <= width:
            return Sandwich(None, _below(law, width), log_factor)
        above += g.count * g.shift**2 / (g.variance - width)
    return Sandwich(above, _below(law, width), log_factor)


def _below(law: LossDistribution, width: Fraction) -> Fraction:
    """Return P of the Gaussians with variance v + s, v s / (v + s) = width, without coordinates of small variance."""
    wide = [g for g in law.groups if g.variance >= 2 * width]
    sums = [g.variance + g.variance * width / (g.variance - width) for g in wide]
    return sum((g.count * g.shift**2 / both for g, both in zip(wide, sums, strict=True)), _ZERO)


def _normal(flint: Any, x: Ball) -> Ball:
    """Return P[N(0, 1) <= x]."""
    return (-x / flint.arb(2).sqrt()).erfc() / 2


def _gaussian_delta(total: Fraction, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of delta of the continuous Gaussian with mu**2 = total, at any real epsilon.

    Phi(-t) - e**eps Phi(-t - mu) with t = (eps - mu**2 / 2) / mu; the second term is the density at t times the Mills
    ratio at t + mu, so nothing large is multiplied by anything small.
    """
    away = epsilon - total / 2
    if away * away > _FAR**2 * total:  # both tails are below exp(-_FAR**2 / 2)
        return (_ZERO, _NOTHING) if away > 0 else (1 - 2 * _NOTHING if epsilon >= 0 else _ZERO, _ONE)
    with precision(_bits_near(total, _ZERO)) as flint:
        mu = ball_of(flint, total).sqrt()
        t = ball_of(flint, away) / mu
        density = (-t * t / 2).exp() / (2 * flint.arb.pi()).sqrt()
        return ends(_normal(flint, -t) - density * _mills(flint, t + mu))


def _mills(flint: Any, x: Ball) -> Ball:
    """Return P[N(0, 1) > x] over the density at x; for large x between two convergents of Laplace's fraction."""
    if x < _FRACTION_FROM:
        return _normal(flint, -x) * (x * x / 2).exp() * (2 * flint.arb.pi()).sqrt()
    one, two = flint.arb(0), flint.arb(0)
    for k in range(_FRACTION_TERMS, 0, -1):
        one, two = k / (x + one), k / (x + two) if k < _FRACTION_TERMS else two
    return (1 / (x + one)).union(1 / (x + two))


def _gaussian_trade_off(total: Fraction, alpha: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of the Gaussian trade-off function: the threshold is bracketed by certified tails."""
    middle = -quantile(float(alpha))
    pad = 1e-12 * max(1.0, abs(middle))
    with precision(_bits_near(total, total)) as flint:
        mu = ball_of(flint, total).sqrt()
        if ends(mu)[0] > _FAR + 40:  # alphas down to 1e-300 have thresholds below 40
            return _ZERO, _NOTHING if alpha * 10**300 > 1 else 1 - alpha
        for _ in range(30):
            low, high = ball_of(flint, Fraction(middle - pad)), ball_of(flint, Fraction(middle + pad))
            if ends(_normal(flint, -high))[1] <= alpha <= ends(_normal(flint, -low))[0]:
                return ends(_normal(flint, low - mu))[0], ends(_normal(flint, high - mu))[1]
            pad *= 4
    return _ZERO, 1 - alpha


def _zcdp(flint: Any, rho: Fraction, epsilon: Fraction) -> Fraction:
    """Bound delta by zCDP: e**((a-1)(a rho - eps)) (1 - 1/a)**a / (a - 1) at one order a (CKS 2020, corollary 13)."""
    loss, place = ball_of(flint, rho), ball_of(flint, epsilon)

    def is_low(x: Ball) -> bool:
        return bool((2 * x + 1) * loss - place - (1 + 1 / x).log() < 0)

    least, most = -1100, 1100  # powers of two around the best order less 1; any order gives a bound
    while most - least > 2:
        middle = (least + most) // 2
        least, most = (middle, most) if is_low(flint.arb(2) ** middle) else (least, middle)
    low, high = flint.arb(2) ** least, flint.arb(2) ** most
    for _ in range(28):
        mean = (low + high) / 2
        low, high = (mean, high) if is_low(mean) else (low, mean)
    x = high
    exponent = x * ((x + 1) * loss - place) + x * x.log() - (x + 1) * (1 + x).log()
    return ends(exponent.exp())[1] if exponent < 0 else _ONE


def _quiet(flint: Any, law: LossDistribution, epsilon: Fraction) -> Fraction:
    """Bound delta by 1 - e**(epsilon - R), but for the chance that any noise is above 0."""
    return ends(-(ball_of(flint, epsilon - law.half).expm1()))[1] if epsilon < law.half else _ZERO


def _symmetric(flint: Any, law: LossDistribution, epsilon: Fraction) -> Fraction:
    """Bound delta from below: P[S >= -y] is at least 1/2 at y = 0, 1 - e**(-y**2 / 2P) beyond (lemma 1)."""
    gap = law.half - epsilon
    if gap <= 0:
        return _ZERO
    found = [ends(-(ball_of(flint, -gap).expm1()) / 2)[0]]
    # about the y at which y**2 / 2P = gap - y
    p = ball_of(flint, law.total)
    y = ends((p * p + 2 * p * ball_of(flint, gap)).sqrt() - p)[0]
    if 0 < y < gap:
        mass = -(ball_of(flint, -y * y / (2 * law.total)).expm1())
        found.append(ends(mass * -(ball_of(flint, y - gap).expm1()))[0])
    return max(found)


def _log2(value: Fraction) -> int:
    return value.numerator.bit_length() - value.denominator.bit_length()
