"""Exact numbers in: what is no exact number is refused."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from topdown.errors import ConfigError

MOST_DIGITS = 3000
LARGEST = Fraction(10**300)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)\s*$")
Exact = int | Fraction | str | Decimal
Threshold = Exact | float


def rational(value: object, name: str) -> Fraction:
    """Return `value` as a Fraction; refuse floats, whose decimal text is not what they store.

    Raises: TypeError for a float or another type, ConfigError for text that is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | Fraction | str | Decimal):
        hint = f'Fraction("{value!r}")' if isinstance(value, float) else 'Fraction("11/10000")'
        raise TypeError(f"{name} is {value!r}, a {type(value).__name__}: give an exact number, e.g. {hint}")
    if _digits(value) > MOST_DIGITS:
        raise ConfigError(
            f"{name} has over {MOST_DIGITS:,} digits", code="A040", fix="look for a slip in its exponent"
        )
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError) as err:
        raise ConfigError(
            f"{name} is {value!r}, not a number", code="A001", fix="write 11/10000 or 0.0011"
        ) from err


def _digits(value: int | Fraction | str | Decimal) -> int:
    """Return about how many digits the number has when it is written out; nothing is written out to tell."""
    if isinstance(value, str):
        exponent = _EXPONENT.search(value)
        if exponent and len(exponent[1]) > len(str(MOST_DIGITS)) + 1:
            return MOST_DIGITS + 1
        return len(value) + (abs(int(exponent[1])) if exponent else 0)
    if isinstance(value, Decimal):
        return len(value.as_tuple().digits) + abs(value.adjusted()) if value.is_finite() else 0
    return max(value.numerator.bit_length(), value.denominator.bit_length()) * 3 // 10


def positive(value: object, name: str) -> Fraction:
    """Return `value` as a Fraction > 0."""
    number = rational(value, name)
    if number <= 0:
        raise ConfigError(
            f"{name} is {number}, not above 0", code="A002", fix=f"leave out what has no {name}"
        )
    return number


def threshold(value: object, name: str) -> Fraction:
    """Return a point of evaluation as a Fraction; a float counts as the shortest decimal that prints it.

    So 1e-10 means 1/10**10, as its reader wrote it, and not the nearest binary number.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(
                f"{name} is {value}, not a finite number", code="A003", fix="give a finite number"
            )
        return Fraction(repr(float(value)))
    return rational(value, name)


def epsilon_of(value: object) -> Fraction:
    """Return epsilon as a Fraction >= 0, at most 10**300."""
    number = threshold(value, "epsilon")
    if number > LARGEST:
        raise ConfigError("epsilon is above 10**300", code="A040", fix="look for a slip in its exponent")
    if number < 0:
        raise ConfigError(f"epsilon is {number}, below 0", code="A004", fix="give epsilon >= 0")
    return number


def delta_of(value: object) -> Fraction:
    """Return delta as a Fraction strictly between 0 and 1."""
    number = threshold(value, "delta")
    if not 0 < number < 1:
        raise ConfigError(f"delta is {number}, outside (0, 1)", code="A005", fix="give e.g. delta = 1e-10")
    return number


def alpha_of(value: object) -> Fraction:
    """Return a false-alarm probability as a Fraction in [0, 1]."""
    number = threshold(value, "alpha")
    if not 0 <= number <= 1:
        raise ConfigError(f"alpha is {number}, outside [0, 1]", code="A006", fix="give a probability")
    return number
