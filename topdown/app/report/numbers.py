"""Numbers of a report: each with the file and place of the release that it was read from, rounded to the safe side.

A claim is never rounded in its own favour: a privacy loss, an attacker's chance and an error are rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from html import escape
from typing import Any, Literal

Form = Literal["whole", "up1", "up2", "up4", "percent", "text"]
"""How a number is written: whole with commas; rounded up to 1, 2 or 4 digits; per cent with one digit; as it stands."""
_DIGITS = {"up1": 1, "up2": 2, "up4": 4}


def written(value: object, form: Form) -> str:
    """Write a number in a form.

    Args:
        value: an integer, an exact fraction such as "7/8", or a decimal as text; a float only where a file holds one.
        form: see `Form`.

    >>> written("16.21939", "up2"), written(1052567, "whole"), written("7/8", "percent")
    ('16.22', '1,052,567', '87.5 %')
    """
    if form == "text":
        return str(value)
    exact = Fraction(str(value))
    if form == "whole":
        if exact.denominator != 1:
            raise ValueError(f"{value} is no whole number")
        return f"{exact.numerator:,}"
    if form == "percent":
        return f"{_decimal(100 * exact, 1, ROUND_HALF_EVEN):,} %"
    return f"{_decimal(exact, _DIGITS[form], ROUND_CEILING):,}"


def _decimal(value: Fraction, digits: int, rounding: str) -> Decimal:
    scaled = value * 10**digits
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    up = rest > 0 and (rounding == ROUND_CEILING or 2 * rest > scaled.denominator)
    return Decimal(whole + up).scaleb(-digits)


def found(documents: Mapping[str, Any], source: str) -> Any:
    """Return what stands at a place, `certificate.json#/privacy/loss`.

    Raises:
        LookupError: there is no such place.
    """
    name, _, pointer = source.partition("#/")
    value = documents[name]
    for key in pointer.split("/"):
        value = (
            value[int(key)] if isinstance(value, list) else value[key.replace("~1", "/").replace("~0", "~")]
        )
    return value


@dataclass(frozen=True)
class Numbers:
    """The documents of a release, and how their numbers are written into a page.

    Args:
        documents: file name to its parsed content.
    """

    documents: Mapping[str, Any]

    def at(self, source: str) -> Any:
        """Return what stands at a place; see `found`."""
        return found(self.documents, source)

    def has(self, source: str) -> bool:
        """Tell whether there is such a place."""
        try:
            self.at(source)
        except (LookupError, TypeError, ValueError):
            return False
        return True

    def number(self, source: str, form: Form) -> str:
        """Return a number as HTML that names its place and its form, so that `check_report` can derive it anew."""
        value = self.at(source)
        return (
            f'<data value="{escape(str(value))}" data-source="{escape(source)}" data-form="{form}">'
            f"{escape(written(value, form))}</data>"
        )
