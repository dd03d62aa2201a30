"""Laws in exact numbers: closed forms, truncated geometric noise, and whole weights over 2^128 that keep every promise.

Closed forms need no solver: sensitivity 1 with an even loss, and delta 0. Truncated geometric noise is a simple
private law to compare with, and to mix in for repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from topdown.errors import InternalError
from topdown.optimal_noise.certified_law import Certificate, Multipliers
from topdown.optimal_noise.noise_request import ErrorLoss, NoiseRequest, Promise
from topdown.privacy.fixed_point import exp_neg

_RATIO_BITS = 64
_WEIGHT_BITS = 160


def worst_excess(weights: Sequence[int], sensitivity: int, factor: Fraction) -> Fraction:
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
    above = exp_neg(Fraction(epsilon, sensitivity), _RATIO_BITS)[1]
    return min(Fraction(above, 1 << _RATIO_BITS), Fraction(1))


def smallest_truncated(
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
        keeps = all(worst_excess(weights, sensitivity, p.factor) <= share * p.delta for p in promises)
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


LAW_BITS = 128
_SPARE_BITS = 40


def whole_weights(masses: Sequence[Fraction], first: int, ask: NoiseRequest) -> tuple[int, tuple[int, ...]]:
    """Return (first value, weights): they add to 2^128 and keep every promise of the ask.

    Args:
        masses: of the values first, first + 1, ..; about a law, and about private.
        first: at most 0, and the last value at least 0.
        ask: what must be kept.

    Raises: InternalError (X051) if delta is too small to be kept by 128-bit weights.
    """
    scale = 1 << (LAW_BITS + _SPARE_BITS)
    near = [int(mass * scale) for mass in masses]
    last = first + len(near) - 1
    if min(near) < 0 or not first <= 0 <= last:
        raise ValueError("Weights are made of masses around 0.")
    ratio = plain_ratio(min(promise.epsilon for promise in ask.promises), ask.sensitivity)
    strict = smallest_truncated(ratio, ask.promises, ask.sensitivity, Fraction(1, 2))
    radius = len(strict) // 2
    left, right = min(first, -radius), max(last, radius)
    share = _share(near, strict, right - left + 1, ask)
    near_total, strict_total = sum(near), sum(strict)
    # floor of 2^128 ((1 - share) near / near_total + share strict / strict_total), in whole numbers
    one = (share.denominator - share.numerator) * strict_total << LAW_BITS
    other = share.numerator * near_total << LAW_BITS
    whole = share.denominator * near_total * strict_total
    weights = []
    for value in range(left, right + 1):
        mixed = one * near[value - first] if first <= value <= last else 0
        mixed += other * strict[value + radius] if -radius <= value <= radius else 0
        weights.append(mixed // whole)
    weights[-left] += (1 << LAW_BITS) - sum(weights)
    held = [k for k, weight in enumerate(weights) if weight]
    return left + held[0], tuple(weights[held[0] : held[-1] + 1])


def _share(near: Sequence[int], strict: Sequence[int], n_values: int, ask: NoiseRequest) -> Fraction:
    """Return how much of the strict law is mixed in: enough for what is exceeded now and by rounding down."""
    share = Fraction(0)
    for promise in ask.promises:
        rounding = Fraction(n_values) * (2 + promise.factor) / (1 << LAW_BITS)
        now, then = (worst_excess(law, ask.sensitivity, promise.factor) for law in (near, strict))
        over, room = max(now - promise.delta, Fraction(0)) + rounding, promise.delta - then
        share = max(share, over / (over + room))
    if share > Fraction(1, 1000):
        raise InternalError(
            "the law cannot be repaired without changing more than a thousandth of it",
            code="X051",
            fix="a larger delta or a smaller epsilon is easier to keep; please report ordinary numbers",
        )
    # a share of 64 bits, rounded up: more of a strict law is never less private
    return Fraction(-(-share.numerator * (1 << 2 * LAW_BITS) // share.denominator), 1 << 2 * LAW_BITS)


_GRID_BITS = 256


def least_tails(limits: Sequence[tuple[Fraction, Fraction]]) -> tuple[list[Fraction], list[int]]:
    """Return the least P(X >= j), j = 1, 2, .. while above 0, and the number of the limit that forces each.

    Each is rounded up to 256 bits behind the point before the next is taken from it: a larger tail keeps the promise.

    Args:
        limits: (factor, delta), all kept at once; factor in the place of e^epsilon, one delta above 0 at least.
    """
    if all(delta == 0 for _, delta in limits):
        raise ValueError("With delta 0 the tails never end.")
    tails: list[Fraction] = []
    forced: list[int] = []
    while True:
        if tails:
            wanted = [(tails[-1] - delta) / factor for factor, delta in limits]
        else:
            wanted = [(1 - delta) / (1 + factor) for factor, delta in limits]
        worst = max(range(len(limits)), key=wanted.__getitem__)
        if wanted[worst] <= 0:
            return tails, forced
        tails.append(-_down(-wanted[worst]))
        forced.append(worst)


def masses_of(tails: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the symmetric law on -n .. n with these P(X >= 1) .. P(X >= n)."""
    steps = [a - b for a, b in zip(tails, (*tails[1:], Fraction(0)), strict=True)]
    middle = 1 - 2 * (tails[0] if tails else Fraction(0))
    return (*reversed(steps), middle, *steps)


def closed_form_multipliers(
    loss: ErrorLoss, forced: Sequence[int], factors: Sequence[Fraction]
) -> Certificate:
    """Return the multipliers that prove the tails least for an even loss: one on each half-line event.

    The event of tail j is {i <= 1 - j} for shift 1. Its multiplier is (w_j + that of j + 1) / e^epsilon, where
    w_j = c(j) - c(j - 1); for j = 1 it is divided by 1 + e^epsilon.

    Args:
        loss: even, not falling in |x|.
        forced: which limit forces each tail.
        factors: e^epsilon of each limit, or more.
    """
    on_event: list[Fraction] = []
    for j in range(len(forced), 0, -1):
        gain = loss.at(j) - loss.at(j - 1) + (on_event[-1] if on_event else 0)
        factor = factors[forced[j - 1]]
        on_event.append(_down(gain / (factor if j > 1 else 1 + factor)))
    on_event.reverse()
    found: dict[tuple[int, int], Multipliers] = {}
    for number in range(len(factors)):
        own = (m if forced[j] == number else Fraction(0) for j, m in enumerate(on_event))
        sums = list(accumulate(own)) or [Fraction(0)]  # at place -j
        one = Multipliers(1 - len(sums), sums[-1], tuple(reversed(sums)))
        found[number, 1] = found[number, -1] = one
    return found


def _down(number: Fraction) -> Fraction:
    """Return the number rounded down to 256 bits behind the point."""
    return Fraction((number.numerator << _GRID_BITS) // number.denominator, 1 << _GRID_BITS)


def staircase(factor: Fraction, sensitivity: int, loss: ErrorLoss) -> tuple[int, Fraction]:
    """Return (steps r, expected loss) of the best law that keeps (epsilon, 0), for an even loss |x| or x^2.

    p(i) = a q^(floor(|i| / D) + [|i| mod D >= r]) with q = 1 / factor and r = 1 .. D; geometric for D = 1.

    Source: Geng, Kairouz, Oh, Viswanath, "The Staircase Mechanism in Differential Privacy" (2015), discrete form.
    """
    losses = {r: _staircase_loss(1 / factor, sensitivity, r, loss) for r in range(1, sensitivity + 1)}
    return min(losses.items(), key=lambda found: found[1])


def _staircase_loss(q: Fraction, sensitivity: int, r: int, loss: ErrorLoss) -> Fraction:
    """Return the expected loss for r, from sums of q^k, k q^k and k^2 q^k: loss.at must be of degree 2 at most."""
    if not (loss.even and _quadratic(loss)):
        raise ValueError("The staircase is known to be best for |x| and x^2 only.")
    first = 1 / (1 - q)
    moments = (first, q * first * first, q * (1 + q) * first * first * first)
    total = Fraction(0)
    for place in range(sensitivity):
        step = Fraction(1) if place < r else q
        # c(D k + place) is a polynomial of degree 2 in k
        c0, c1, c2 = (loss.at(place + k * sensitivity) for k in range(3))
        square = (c2 - 2 * c1 + c0) / 2
        linear = c1 - c0 - square
        total += step * (c0 * moments[0] + linear * moments[1] + square * moments[2])
    weight = (1 - q) / (2 * r + 2 * q * (sensitivity - r) - (1 - q))
    return 2 * weight * total - weight * loss.at(0)


def _quadratic(loss: ErrorLoss) -> bool:
    """Tell whether third differences vanish from 0 on, as far as one can see."""
    values = [loss.at(x) for x in range(12)]
    for _ in range(3):
        values = [b - a for a, b in pairwise(values)]
    return not any(values)
