"""Exact numbers as decimals: the one place where a number is rounded before it is printed.

An end of an interval or a stated loss is rounded away from what it claims (`up`), so that the printed claim is
true; only what claims nothing is rounded to nearest.
"""

from __future__ import annotations

import math
from fractions import Fraction


def significant(value: Fraction, digits: int, *, up: bool) -> str:
    """Return `value` to `digits` significant digits, rounded towards +infinity if `up`, else -infinity.

    Exact integer arithmetic: the printed decimal is a bound, at any magnitude.
    """
    if value == 0:
        return "0"
    exponent = _log10_floor(abs(value.numerator), value.denominator)
    scaled = abs(_scaled(value, digits - 1 - exponent, up))
    if scaled == 10**digits:
        scaled, exponent = scaled // 10, exponent + 1
    text = str(scaled)
    sign = "-" if value < 0 else ""
    if -5 <= exponent < digits:
        whole, part = (
            (text[: exponent + 1], text[exponent + 1 :])
            if exponent >= 0
            else ("0", "0" * (-exponent - 1) + text)
        )
        return sign + (f"{whole}.{part.rstrip('0')}".rstrip("."))
    part = text[1:].rstrip("0")
    return f"{sign}{text[0]}{'.' + part if part else ''}e{exponent}"


def fixed(value: Fraction, digits: int, *, up: bool | None) -> str:
    """Return `value` with `digits` decimals, rounded towards +infinity if `up`, -infinity if not, None to nearest."""
    scaled = _scaled(value, digits, up)
    whole, part = divmod(abs(scaled), 10**digits)
    return f"{'-' if scaled < 0 else ''}{whole}" + (f".{part:0{digits}d}" if digits else "")


def _scaled(value: Fraction, shift: int, up: bool | None) -> int:
    """Return `value` times 10**shift as a whole number."""
    many = value * Fraction(10) ** shift
    return round(many) if up is None else math.ceil(many) if up else math.floor(many)


def _log10_floor(numerator: int, denominator: int) -> int:
    guess = math.floor((numerator.bit_length() - denominator.bit_length()) * math.log10(2)) - 1
    while numerator * 10 ** max(-guess - 1, 0) >= denominator * 10 ** max(guess + 1, 0):
        guess += 1
    return guess
