"""Losses of real noise in exact rationals: means over cells and infima over intervals, tails included."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import final


@final
@dataclass(frozen=True)
class RealSquare:
    """The loss x^2."""

    name: str = "square"

    def at(self, x: Fraction) -> Fraction:
        """Return the loss at x."""
        return x * x

    def mean(self, lo: Fraction, hi: Fraction) -> Fraction:
        """Return the mean loss of a point that is uniform on [lo, hi], lo < hi."""
        return (lo * lo + lo * hi + hi * hi) / 3

    def infimum(self, lo: Fraction | None, hi: Fraction | None) -> Fraction:
        """Return the least loss on [lo, hi]; None is an end at infinity."""
        if (lo is None or lo <= 0) and (hi is None or hi >= 0):
            return Fraction(0)
        return min(x * x for x in (lo, hi) if x is not None)


@final
@dataclass(frozen=True)
class PiecewiseLinear:
    """A continuous loss that is linear between knots and grows, or stays, beyond them.

    Args:
        knots: (x, loss at x), x increasing, losses >= 0; at least one.
        left, right: slopes beyond the first and the last knot; left <= 0 <= right.
        name: in words, for screens and documents.

    Raises:
        ValueError: knots not increasing, a negative loss, or a loss that falls without end.

    """

    knots: tuple[tuple[Fraction, Fraction], ...]
    left: Fraction
    right: Fraction
    name: str = "piecewise linear"

    def __post_init__(self) -> None:
        if not self.knots or any(a[0] >= b[0] for a, b in pairwise(self.knots)):
            raise ValueError("the knots of a loss are not increasing. Fix: give each x once, from the left.")
        if any(y < 0 for _, y in self.knots) or self.left > 0 or self.right < 0:
            raise ValueError("a loss is negative or falls without end. Fix: losses >= 0, left <= 0 <= right.")

    def at(self, x: Fraction) -> Fraction:
        """Return the loss at x."""
        first, last = self.knots[0], self.knots[-1]
        if x <= first[0]:
            return first[1] + (x - first[0]) * self.left
        if x >= last[0]:
            return last[1] + (x - last[0]) * self.right
        (a, f), (b, g) = next((p, q) for p, q in pairwise(self.knots) if p[0] <= x <= q[0])
        return f + (g - f) * (x - a) / (b - a)

    def mean(self, lo: Fraction, hi: Fraction) -> Fraction:
        """Return the mean loss of a point that is uniform on [lo, hi], lo < hi."""
        ends = [lo, *(x for x, _ in self.knots if lo < x < hi), hi]
        return sum(((b - a) * (self.at(a) + self.at(b)) / 2 for a, b in pairwise(ends)), Fraction(0)) / (
            hi - lo
        )

    def infimum(self, lo: Fraction | None, hi: Fraction | None) -> Fraction:
        """Return the least loss on [lo, hi]; None is an end at infinity."""
        inside = [y for x, y in self.knots if (lo is None or lo <= x) and (hi is None or x <= hi)]
        return min([*inside, *(self.at(x) for x in (lo, hi) if x is not None)])


RealLoss = RealSquare | PiecewiseLinear

ABSOLUTE = PiecewiseLinear(((Fraction(0), Fraction(0)),), Fraction(-1), Fraction(1), "absolute")
SQUARE = RealSquare()
