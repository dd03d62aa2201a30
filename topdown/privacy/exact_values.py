"""Exact numbers: read without rounding, enclosed between two others, printed with the rounding that keeps a claim true.

What is no exact number is refused. An end of an interval or a stated loss is rounded away from what it claims (`up`),
so that the printed claim holds; only what claims nothing is rounded to nearest. No other file rounds a number before
it is printed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.formats.caps import typed_number

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
        if isinstance(value, str):
            text = value.strip()
            return -typed_number(text[1:]) if text.startswith("-") else typed_number(text)
        return Fraction(value)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{name} is {value!r}, not a number", code="A001", fix=str(error)) from None


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


def significant(value: Fraction, digits: int, *, up: bool) -> str:
    """Return `value` to `digits` significant digits, rounded towards +infinity if `up`, else -infinity.

    Exact: the printed decimal is a bound, at any magnitude.
    """
    rounding = Context(digits, ROUND_CEILING if up else ROUND_FLOOR)
    near = rounding.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(rounding)
    if -5 <= near.adjusted() < digits:
        return f"{near:f}"
    first, *part = map(str, near.as_tuple().digits)
    sign, point = "-" * (near < 0), "." * bool(part)
    return f"{sign}{first}{point}{''.join(part)}e{near.adjusted()}"


def fixed(value: Fraction, digits: int, *, up: bool | None) -> str:
    """Return `value` with `digits` decimals, rounded towards +infinity if `up`, -infinity if not, None to nearest."""
    scaled = _scaled(value, digits, up)
    whole, part = divmod(abs(scaled), 10**digits)
    return f"{'-' if scaled < 0 else ''}{whole}" + (f".{part:0{digits}d}" if digits else "")


def _scaled(value: Fraction, shift: int, up: bool | None) -> int:
    """Return `value` times 10**shift as a whole number."""
    many = value * Fraction(10) ** shift
    return round(many) if up is None else math.ceil(many) if up else math.floor(many)


@dataclass(frozen=True)
class Enclosure:
    """A closed interval that contains the exact value.

    `method` names the engine; what it assumes is stated in PROOF.md. Bounds are exact rationals, so values far
    below the smallest float are kept as they are.

    >>> from topdown import account
    >>> found = account(gaussian=[100]).epsilon("1e-6")
    >>> found.lower <= found.upper, found.texts(3)
    (True, ('0.396', '0.397'))
    """

    lower: Fraction
    upper: Fraction
    method: str = ""

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError(f"empty enclosure: lower {self.lower} above upper {self.upper}")

    def __contains__(self, value: Fraction | int) -> bool:
        """Tell whether an exact number lies between the bounds."""
        return self.lower <= value <= self.upper

    def __float__(self) -> float:
        """Return the midpoint as a float, for display and plots only."""
        return float((self.lower + self.upper) / 2)

    def __repr__(self) -> str:
        return f"Enclosure({self}, {self.method!r})" if self.method else f"Enclosure({self})"

    def __str__(self) -> str:
        low, high = self.texts(18)
        return f"[{low}, {high}]"

    @property
    def width(self) -> Fraction:
        """Upper minus lower."""
        return self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """Width over the lower bound; inf when the lower bound is 0 and the upper is not."""
        if self.width == 0:
            return 0.0
        return float(self.width / self.lower) if self.lower > 0 else math.inf

    @property
    def log10(self) -> float:
        """Decimal logarithm of the midpoint, for values too small for a float."""
        middle = (self.lower + self.upper) / 2
        return (math.log2(middle.numerator) - math.log2(middle.denominator)) * math.log10(2)

    def texts(self, digits: int = 18) -> tuple[str, str]:
        """Return (low, high) as decimal strings rounded outward."""
        return significant(self.lower, digits, up=False), significant(self.upper, digits, up=True)


def from_floats(lower: float, upper: float, method: str) -> Enclosure:
    """Return the enclosure with these float bounds."""
    return Enclosure(Fraction(lower), Fraction(upper), method)
