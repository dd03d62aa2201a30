"""Check the weights of a noise law in whole numbers: what delta it needs, and that it is the law that was promised.

For a symmetric law whose answer moves by 1, the worst event has the values x with p(x) > e^epsilon p(x - 1), and the
delta that is needed is the sum of p(x) - e^epsilon p(x - 1) over them; in the other direction it is the same. e^epsilon
is taken from below, so that no delta found here is too small.

The law with the least tails has P(X >= 1) = (1 - delta) / (1 + e^epsilon), and then each tail is the one before less
delta, over e^epsilon, while that is above 0. A law that is more private than charged is not the one promised either.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.publish.verify.privacy.decimals import ROUNDED, exp

UNIT = 1 << 128
LARGEST_EPSILON = 10
SLACK = Fraction(1, 1 << 48)  # of a probability: what is rounded, and mixed in to keep the promise whole


def problem_of(weights: Sequence[str], epsilon: Fraction, delta: Fraction) -> str:
    """Say what is wrong with the law of one count; empty if it keeps (epsilon, delta) and has the least tails.

    Args:
        weights: of 0, 1, 2, .., whole numbers as text.
        epsilon, delta: promise of one count whose answer moves by 1.
    """
    if len(weights) < 2:
        return "has one value, or none"
    if not 0 < epsilon <= LARGEST_EPSILON or not 0 < delta < 1:
        return "has a promise that no law is made for"
    whole = [int(w) for w in weights]
    if min(whole) < 1 or 2 * sum(whole) - whole[0] != UNIT:
        return "has weights that do not add to 2^128, or one that is 0"
    if needed(whole, epsilon) > delta:
        return "does not keep its delta"
    return "" if _has_least_tails(whole, epsilon, delta) else "is another law than its promise gives"


def needed(whole: Sequence[int], epsilon: Fraction) -> Fraction:
    """Return the delta that a symmetric law needs at epsilon for answers that move by 1; at least the true one.

    Args:
        whole: weights of 0, 1, 2, .. over 2^128.
        epsilon: above 0.
    """
    odds = exp(epsilon) * (1 - ROUNDED)
    top, bottom = odds.numerator, odds.denominator
    line = [*whole[:0:-1], *whole]
    excess = sum(max(p * bottom - top * q, 0) for p, q in zip([*line, 0], [0, *line], strict=True))
    return Fraction(excess, bottom * UNIT)


def _has_least_tails(whole: Sequence[int], epsilon: Fraction, delta: Fraction) -> bool:
    odds = exp(epsilon)
    slack, grid = int(SLACK * UNIT), Fraction(1, UNIT * UNIT)
    tail, due = sum(whole[1:]), (1 - delta) / (1 + odds)
    for weight in (*whole[1:], 0):
        if abs(tail - due * UNIT) > slack:
            return False
        tail -= weight
        due = (due - delta) / odds
        due = max(due.numerator * UNIT * UNIT // due.denominator * grid, Fraction(0))
    return True
