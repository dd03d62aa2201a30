"""Read stated decimals exactly, and compute the few closed forms that are stated, to 60 digits."""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal
from fractions import Fraction

NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,400})?(e-?[0-9]{1,3})?")
DELTA = re.compile(r"1e-([1-9][0-9]?)")
_WIDE = Context(prec=60)
ROUNDED = Fraction(1, 10**40)  # relative; what 60 digits lose in a few steps is far below


def number(text: object) -> Fraction:
    """Read a nonnegative decimal, such as 16.2 or 9.1e-7, exactly; ValueError for anything else."""
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not a decimal number")
    return Fraction(Decimal(text))


def pair(stated: object) -> tuple[Fraction, Fraction]:
    """Read [low, high]; ValueError unless both are decimals and low is not above high."""
    if not isinstance(stated, list) or len(stated) != 2:
        raise ValueError("it is no pair [low, high]")
    low, high = number(stated[0]), number(stated[1])
    if low > high:
        raise ValueError("its low end lies above its high end")
    return low, high


def digits_of(delta: str) -> int:
    """Return n of "1e-n"; ValueError for another way to write it, or n above 99."""
    found = DELTA.fullmatch(delta)
    if found is None:
        raise ValueError(f"{delta[:40]!r} is no delta such as 1e-10")
    return int(found[1])


def exp(value: Fraction) -> Fraction:
    """Return e**value to 60 digits."""
    return Fraction(_WIDE.exp(_decimal(value)))


def root(value: Fraction) -> Fraction:
    """Return the square root to 60 digits."""
    return Fraction(_WIDE.sqrt(_decimal(value)))


def log(value: Fraction) -> Fraction:
    """Return the natural logarithm to 60 digits."""
    return Fraction(_WIDE.ln(_decimal(value)))


def usual_formula(rho: Fraction, digits: int) -> Fraction:
    """Return rho + 2 sqrt(rho ln(1/delta)) at delta 1e-digits (Bun, Steinke 2016, proposition 1.3)."""
    return rho + 2 * root(rho * digits * log(Fraction(10)))


def tight_formula(rho: Fraction, digits: int) -> Fraction:
    """Return the least epsilon that rho alone allows (Canonne, Kamath, Steinke 2020, corollary 13).

    The order 1 + x at which rho x**2 + ln(1 + x) = ln(1/delta) gives the minimum of
    (1 + x) rho + (ln(1/delta) - ln(1 + x)) / x + ln(x / (1 + x)); there an x right to 15 digits costs nothing.
    """
    below, above = 0.0, 1.0
    target, wide = digits * math.log(10), float(rho)
    while wide * above * above + math.log1p(above) < target:
        above *= 2
    for _ in range(100):
        middle = (below + above) / 2
        small = wide * middle * middle + math.log1p(middle) < target
        below, above = (middle, above) if small else (below, middle)
    x = Fraction(above)
    found = (1 + x) * rho + (digits * log(Fraction(10)) - log(1 + x)) / x + log(x) - log(1 + x)
    return max(found, Fraction(0))


def _decimal(value: Fraction) -> Decimal:
    return _WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))
