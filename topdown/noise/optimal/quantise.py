"""A law near the optimum as whole weights over 2^128 that keep every promise exactly.

What the rounding, or a solver's floats, exceed of delta is repaired by mixing in a little of a law that needs half of
it: H is convex, so a share v / (v + delta - delta_q) of a law q brings delta + v down to delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.errors import InternalError
from topdown.noise.optimal.ask import Ask
from topdown.noise.optimal.truncated import excess, plain_ratio, smallest

BITS = 128
_SPARE_BITS = 40


def whole_weights(masses: Sequence[Fraction], first: int, ask: Ask) -> tuple[int, tuple[int, ...]]:
    """Return (first value, weights): they add to 2^128 and keep every promise of the ask.

    Args:
        masses: of the values first, first + 1, ..; about a law, and about private.
        first: at most 0, and the last value at least 0.
        ask: what must be kept.

    Raises: InternalError (X051) if delta is too small to be kept by 128-bit weights.
    """
    scale = 1 << (BITS + _SPARE_BITS)
    near = [int(mass * scale) for mass in masses]
    last = first + len(near) - 1
    if min(near) < 0 or not first <= 0 <= last:
        raise ValueError("Weights are made of masses around 0.")
    ratio = plain_ratio(min(promise.epsilon for promise in ask.promises), ask.sensitivity)
    strict = smallest(ratio, ask.promises, ask.sensitivity, Fraction(1, 2))
    radius = len(strict) // 2
    left, right = min(first, -radius), max(last, radius)
    share = _share(near, strict, right - left + 1, ask)
    near_total, strict_total = sum(near), sum(strict)
    # floor of 2^128 ((1 - share) near / near_total + share strict / strict_total), in whole numbers
    one = (share.denominator - share.numerator) * strict_total << BITS
    other = share.numerator * near_total << BITS
    whole = share.denominator * near_total * strict_total
    weights = []
    for value in range(left, right + 1):
        mixed = one * near[value - first] if first <= value <= last else 0
        mixed += other * strict[value + radius] if -radius <= value <= radius else 0
        weights.append(mixed // whole)
    weights[-left] += (1 << BITS) - sum(weights)
    return _trimmed(left, weights)


def _share(near: Sequence[int], strict: Sequence[int], n_values: int, ask: Ask) -> Fraction:
    """Return how much of the strict law is mixed in: enough for what is exceeded now and by rounding down."""
    share = Fraction(0)
    for promise in ask.promises:
        rounding = Fraction(n_values) * (2 + promise.factor) / (1 << BITS)
        over = max(excess(near, ask.sensitivity, promise.factor) - promise.delta, Fraction(0)) + rounding
        room = promise.delta - excess(strict, ask.sensitivity, promise.factor)
        share = max(share, over / (over + room))
    if share > Fraction(1, 1000):
        raise InternalError(
            "the law cannot be repaired without changing more than a thousandth of it",
            code="X051",
            fix="a larger delta or a smaller epsilon is easier to keep; please report ordinary numbers",
        )
    # a share of 64 bits, rounded up: more of a strict law is never less private
    return Fraction(-(-share.numerator * (1 << 2 * BITS) // share.denominator), 1 << 2 * BITS)


def _trimmed(first: int, weights: list[int]) -> tuple[int, tuple[int, ...]]:
    """Leave out values of weight 0 at both ends."""
    held = [k for k, weight in enumerate(weights) if weight]
    return first + held[0], tuple(weights[held[0] : held[-1] + 1])
