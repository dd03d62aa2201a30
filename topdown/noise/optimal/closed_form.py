"""Best laws that need no solver: sensitivity 1 with an even loss, and delta 0.

Sensitivity 1. Whatever the law, half-line events force its mean two-sided tails G_j = (P(X >= j) + P(X <= -j)) / 2 to
G_j >= (G_(j-1) - delta) / e^epsilon with G_0 = 1 - G_1, so the least tails are a recurrence; the law with these tails
keeps the promise, so it is best for every even loss that does not fall in |x|, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from topdown.noise.optimal.losses import Loss
from topdown.noise.optimal.verify import Certificate, Multipliers

_GRID_BITS = 256
_TAIL_BITS = 192


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


def multipliers(loss: Loss, forced: Sequence[int], factors: Sequence[Fraction]) -> Certificate:
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


def staircase(factor: Fraction, sensitivity: int, loss: Loss) -> tuple[int, Fraction]:
    """Return (steps r, expected loss) of the best law that keeps (epsilon, 0), for an even loss |x| or x^2.

    p(i) = a q^(floor(|i| / D) + [|i| mod D >= r]) with q = 1 / factor and r = 1 .. D; geometric for D = 1.

    Source: Geng, Kairouz, Oh, Viswanath, "The Staircase Mechanism in Differential Privacy" (2015), discrete form.
    """
    return min(
        ((r, _staircase_loss(1 / factor, sensitivity, r, loss)) for r in range(1, sensitivity + 1)),
        key=lambda found: found[1],
    )


def _staircase_loss(q: Fraction, sensitivity: int, r: int, loss: Loss) -> Fraction:
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


def _quadratic(loss: Loss) -> bool:
    """Tell whether third differences vanish from 0 on, as far as one can see."""
    values = [loss.at(x) for x in range(12)]
    third = [
        d - 3 * c + 3 * b - a for a, b, c, d in zip(values, values[1:], values[2:], values[3:], strict=False)
    ]
    return not any(third)


def gaussian_tail(mu: Fraction, j: int) -> tuple[Fraction, Fraction]:
    """Enclose the least P(X >= j), j >= 1, of one count under Gaussian privacy mu: that of N(0, 1 / mu^2) rounded.

    With a trade-off curve f in the place of a promise, half-line events force G_1 >= f(G_1), G_j >= f(1 - G_(j-1)).
    For mu-GDP this is Phi(-mu (j - 1/2)), and the rounded normal law keeps mu-GDP.

    Args:
        mu: rational > 0.
        j: 1 or more.
    """
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = _TAIL_BITS
    try:
        at = arb(mu.numerator) / mu.denominator * (2 * j - 1) / 2
        ball = (at / arb(2).sqrt()).erfc() / 2
        middle, radius = ball.mid().fmpq(), ball.rad().fmpq()
    finally:
        ctx.prec = before
    low, high = middle - radius, middle + radius
    return Fraction(int(low.p), int(low.q)), Fraction(int(high.p), int(high.q))
