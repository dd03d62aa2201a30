"""Exact numbers in: what is no exact number is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from topdown.errors import ConfigError

Exact = int | Fraction | str | Decimal
Threshold = Exact | float


def rational(value: object, name: str) -> Fraction:
    """Return `value` as a Fraction; refuse floats, whose decimal text is not what they store.

    Raises: TypeError for a float or another type, ConfigError for text that is not a number.
    """
    if isinstance(value, bool) or not isinstance(value, int | Fraction | str | Decimal):
        hint = f'Fraction("{value!r}")' if isinstance(value, float) else 'Fraction("11/10000")'
        raise TypeError(f"{name} is {value!r}, a {type(value).__name__}: give an exact number, e.g. {hint}")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError) as err:
        raise ConfigError(
            f"{name} is {value!r}, not a number", code="A001", fix="write 11/10000 or 0.0011"
        ) from err


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
    """Return epsilon as a Fraction >= 0."""
    number = threshold(value, "epsilon")
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
