"""What a mechanism on a sample of records keeps."""

from __future__ import annotations

from fractions import Fraction


def odds_of(rate: Fraction, base: Fraction, neighbours: str) -> Fraction:
    """Return e^epsilon of a one-sided mechanism on a Poisson sample: bounded neighbours are a step up and one down."""
    up, down = 1 + rate * (base - 1), 1 / (1 - rate)
    return up * down if neighbours == "bounded" else max(up, down)
