"""Rational bounds of e^epsilon: the lower one to check a guarantee with, the upper one to prove a bound."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from topdown.noise.fixed import divide_up, exp_neg

_BITS = 64


@lru_cache(maxsize=64)
def growth_bounds(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Return rationals a <= e^epsilon <= b, 2^-63 apart at most, with denominators of 2^64.

    Args:
        epsilon: any rational >= 0.

    Raises:
        ValueError: a negative epsilon.

    """
    if epsilon < 0:
        raise ValueError(f"epsilon is {epsilon}. Fix: a number that is not negative.")
    precision = 2 * _BITS + 4 * (int(epsilon) + 1)
    lo, hi = exp_neg(epsilon, precision)
    unit = 1 << _BITS
    return (
        Fraction((unit << precision) // hi, unit),
        Fraction(divide_up(unit << precision, lo), unit),
    )
