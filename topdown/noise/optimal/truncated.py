"""Truncated geometric noise in whole weights: a simple private law to compare with, and to mix in for repair."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.noise.fixed import exp_neg
from topdown.noise.optimal.ask import Promise

_RATIO_BITS = 64
_WEIGHT_BITS = 160


def excess(weights: Sequence[int], sensitivity: int, factor: Fraction) -> Fraction:
    """Return the largest sum over i of (p(i) - factor p(i - s))+, s = 1 .. sensitivity, both ways."""
    top, bottom = factor.numerator, factor.denominator
    worst = 0
    back = weights[::-1]
    for line in (weights,) if weights == back else (weights, back):
        for shift in range(1, sensitivity + 1):
            shifted = (*[0] * shift, *line)
            over = [w * bottom - top * v for w, v in zip(line, shifted, strict=False)]
            worst = max(worst, sum(e for e in over if e > 0))
    return Fraction(worst, bottom * sum(weights))


def geometric_weights(ratio: Fraction, radius: int) -> tuple[int, ...]:
    """Return whole weights of ratio^|i|, i = -radius .. radius; 0 < ratio <= 1.

    Each is rounded down to 160 bits behind the point, which is part of the law.
    """
    side, power = [1 << _WEIGHT_BITS], 1 << _WEIGHT_BITS
    for _ in range(radius):
        power = power * ratio.numerator // ratio.denominator
        side.append(power)
    return (*reversed(side[1:]), *side)


def plain_ratio(epsilon: Fraction, sensitivity: int) -> Fraction:
    """Return a rational of 64 bits at or just above e^(-epsilon / sensitivity)."""
    return min(
        Fraction(exp_neg(Fraction(epsilon, sensitivity), _RATIO_BITS)[1], 1 << _RATIO_BITS), Fraction(1)
    )


def smallest(
    ratio: Fraction, promises: Sequence[Promise], sensitivity: int, share: Fraction
) -> tuple[int, ...]:
    """Return the truncated geometric law of least radius that needs at most `share` of every delta.

    Args:
        ratio: at least e^(-epsilon / sensitivity) of every promise, so that a wider law needs less.
        promises, sensitivity: of the query.
        share: 0 .. 1.
    """

    def private(radius: int) -> tuple[int, ...] | None:
        weights = geometric_weights(ratio, radius)
        keeps = all(excess(weights, sensitivity, p.factor) <= share * p.delta for p in promises)
        return weights if keeps else None

    radius = sensitivity
    while (found := private(radius)) is None:
        radius *= 2
    low, high = radius // 2, radius
    while high - low > 1:
        middle = (low + high) // 2
        weights = private(middle)
        if weights is None:
            low = middle
        else:
            high, found = middle, weights
    return found
