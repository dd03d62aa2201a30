"""What an error of the noise costs: exact losses on the integers, and what is known of them far away.

A loss is 0 or more, and does not fall on the way from `settled` outwards on either side. So a finite window decides
what happens on all integers: `beyond` is the least loss outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from topdown.errors import ConfigError

_DIGITS = 60


class Loss(Protocol):
    """The cost of an integer error, exact."""

    @property
    def name(self) -> str:
        """What it is called, as it is written on the command line."""

    @property
    def even(self) -> bool:
        """Whether x and -x cost the same."""

    @property
    def settled(self) -> int:
        """The radius from which on the loss does not fall outwards."""

    def at(self, error: int) -> Fraction:
        """Return the loss of one error."""


@dataclass(frozen=True)
class Absolute:
    """The absolute error |x|."""

    name = "l1"
    even = True
    settled = 0

    def at(self, error: int) -> Fraction:
        """Return |error|."""
        return Fraction(abs(error))


@dataclass(frozen=True)
class Square:
    """The squared error x^2."""

    name = "l2"
    even = True
    settled = 0

    def at(self, error: int) -> Fraction:
        """Return error^2."""
        return Fraction(error * error)


@dataclass(frozen=True)
class Pinball:
    """A loss of `over` a unit above the truth and `under` a unit below it.

    Args:
        over, under: rationals > 0.

    Raises: ConfigError for others.
    """

    over: Fraction
    under: Fraction
    settled = 0

    def __post_init__(self) -> None:
        for slope in (self.over, self.under):
            _exact(slope)
            if slope <= 0:
                raise ConfigError(
                    f"a slope of the pinball loss is {slope}", code="C150", fix="give two numbers above 0"
                )

    @property
    def name(self) -> str:
        """Return pinball:over:under."""
        return f"pinball:{self.over}:{self.under}"

    @property
    def even(self) -> bool:
        """Whether both slopes are equal."""
        return self.over == self.under

    def at(self, error: int) -> Fraction:
        """Return over * error, or under * -error below zero."""
        return self.over * error if error > 0 else self.under * -error


@dataclass(frozen=True)
class TableLoss:
    """A loss by its values on -n .. n; past either end it goes on with a slope of 0 or more.

    Args:
        values: 2 n + 1 rationals >= 0, for -n .. n.
        left, right: slopes per unit past -n and past n, >= 0.

    Raises: ConfigError for an even number of values, or a number below 0.
    """

    values: tuple[Fraction, ...]
    left: Fraction = Fraction(0)
    right: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for number in (*self.values, self.left, self.right):
            _exact(number)
        if len(self.values) % 2 == 0 or min(*self.values, self.left, self.right) < 0:
            raise ConfigError(
                "a loss by table needs an odd number of values, and no number below 0",
                code="C150",
                fix="give the loss of -n .. n, and the slopes past both ends",
            )

    @property
    def name(self) -> str:
        """Return table:v,v,v:left:right."""
        return f"table:{','.join(map(str, self.values))}:{self.left}:{self.right}"

    @property
    def settled(self) -> int:
        """Return the radius of the values given."""
        return len(self.values) // 2

    @property
    def even(self) -> bool:
        """Whether values and slopes are the same on both sides."""
        return self.values == self.values[::-1] and self.left == self.right

    def at(self, error: int) -> Fraction:
        """Return the value given, or that of the end and the slope for each unit past it."""
        n = self.settled
        if error > n:
            return self.values[-1] + self.right * (error - n)
        if error < -n:
            return self.values[0] + self.left * (-n - error)
        return self.values[error + n]


def beyond(loss: Loss, radius: int) -> Fraction:
    """Return the least loss of an error past `radius` on either side; radius >= loss.settled."""
    if radius < loss.settled:
        raise ValueError(f"The loss settles at {loss.settled}, past {radius}.")
    return min(loss.at(radius + 1), loss.at(-radius - 1))


def costs(loss: Loss, radius: int) -> tuple[Fraction, ...]:
    """Return the loss of -radius .. radius."""
    return tuple(loss.at(error) for error in range(-radius, radius + 1))


def parse_loss(text: str) -> Loss:
    """Read l1, l2, pinball:OVER:UNDER or table:V,V,V:LEFT:RIGHT, as `name` of a loss writes it.

    Raises: ConfigError (C150).
    """
    kind, *parts = text.split(":")
    try:
        if kind in ("l1", "l2") and not parts:
            return Absolute() if kind == "l1" else Square()
        if kind == "pinball" and len(parts) == 2:
            return Pinball(_number(parts[0]), _number(parts[1]))
        if kind == "table" and 1 <= len(parts) <= 3:
            return TableLoss(tuple(map(_number, parts[0].split(","))), *map(_number, parts[1:]))
    except (ValueError, ZeroDivisionError) as error:
        if isinstance(error, ConfigError):
            raise
    raise ConfigError(
        f"there is no loss {text[:60]!r}", code="C150", fix="write l1, l2, pinball:2:1 or table:1,0,1:0:0"
    )


def _number(text: str) -> Fraction:
    if len(text) > _DIGITS or "e" in text.lower():
        raise ValueError("A number of a loss is short, and written without an exponent.")
    return Fraction(text)


def _exact(number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int | Fraction):
        raise TypeError(
            f"A loss is made of exact numbers, not {number!r}. Fix: Fraction(numerator, denominator)."
        )
