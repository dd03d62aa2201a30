"""What laws that depend on the answer are compared with: a constant answer, and one law, clamped or remapped.

The loss is |x| or x^2. Everything is exact: answers and noise are both spread evenly in cells of one width, so
their sum falls in one of two cells with probability one half each, and leaves the answer with a triangular density.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.noise.optimal.cells import LatticeLaw
from topdown.noise.optimal.real_loss import RealLoss, RealSquare

Shares = Sequence[Fraction]


def constant_loss(shares: Shares, width: Fraction, loss: RealLoss) -> Fraction:
    """Return the loss of the best constant answer among multiples of half a width."""
    n = len(shares)
    answers = [Fraction(j, 2) * width for j in range(2 * n + 1)]
    return min(
        sum((w * loss.mean(y - (k + 1) * width, y - k * width) for k, w in enumerate(shares)), Fraction(0))
        for y in answers
    )


def additive_loss(law: LatticeLaw, width: Fraction, loss: RealLoss) -> Fraction:
    """Return the loss of the noise as it is."""
    return sum((p * loss.mean(i * width, (i + 1) * width) for i, p in law.items()), Fraction(0))


def clamped_loss(law: LatticeLaw, shares: Shares, width: Fraction, loss: RealLoss) -> Fraction:
    """Return the loss where answer + noise is moved to the interval."""
    total = Fraction(0)
    for k, share in enumerate(shares):
        for i, p in law.items():
            # the error is the noise, or the way to the end of the interval if that is nearer
            step, room = (i, len(shares) - 1 - k) if i >= 0 else (-1 - i, k)
            near = min(step, room)
            if step == room:
                total += share * p * _at_moments(loss, near * width, width, Fraction(1, 3), Fraction(1, 6))
            else:
                total += share * p * loss.mean(near * width, (near + 1) * width)
    return total


def remapped_loss(law: LatticeLaw, shares: Shares, width: Fraction, loss: RealLoss) -> Fraction:
    """Return the loss where each cell of answer + noise is answered by the multiple of the width that costs least."""
    cells: dict[int, list[tuple[Fraction, int, bool]]] = {}
    for k, share in enumerate(shares):
        for i, p in law.items():
            cells.setdefault(k + i, []).append((share * p / 2, k, False))
            cells.setdefault(k + i + 1, []).append((share * p / 2, k, True))
    total = Fraction(0)
    for likely in cells.values():
        total += min(
            sum((p * _from_end(loss, y, k, high, width) for p, k, high in likely), Fraction(0))
            for y in range(len(shares) + 1)
        )
    return total


def _from_end(loss: RealLoss, y: int, k: int, high: bool, width: Fraction) -> Fraction:
    """Return the mean loss of answering y widths for an answer in cell k that leans to one of its ends."""
    low, leans_away = (k - y, high) if y <= k else (y - k - 1, not high)
    first, second = (Fraction(2, 3), Fraction(1, 2)) if leans_away else (Fraction(1, 3), Fraction(1, 6))
    return _at_moments(loss, low * width, width, first, second)


def _at_moments(
    loss: RealLoss, start: Fraction, width: Fraction, first: Fraction, second: Fraction
) -> Fraction:
    """Return the mean loss at start + width U, start >= 0, from E U and E U^2."""
    if isinstance(loss, RealSquare):
        return start * start + 2 * start * width * first + width * width * second
    return loss.at(start + width * first)
