"""Two exact numbers with the answer between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from topdown.decimals import significant


@dataclass(frozen=True)
class Enclosure:
    """A closed interval that contains the exact value.

    `method` names the engine; what it assumes is stated in PROOF.md. Bounds are exact rationals, so values far
    below the smallest float are kept as they are.
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
