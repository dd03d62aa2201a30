"""What is asked of the noise of one query: the promises it must keep, how far one record moves it, what errors cost.

Losses of errors are exact on the integers, with what is known of them far away.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from topdown.errors import ConfigError
from topdown.privacy.fixed_point import exp_neg

_DIGITS = 60


class ErrorLoss(Protocol):
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


def parse_loss(text: str) -> ErrorLoss:
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


LARGEST_EPSILON = Fraction(10)
SMALLEST_DELTA = Fraction(1, 10**12)
LARGEST_DELTA = Fraction(1, 1000)  # above, the best noise would release exact answers
LARGEST_SENSITIVITY = 1000


def refuse_large_delta(
    delta: Fraction, *, is_allowed: bool = False, how: str = "", key: tuple[str, ...] = ()
) -> None:
    """Refuse a delta at which the best noise would release exact answers (ConfigError C154).

    Args:
        is_allowed: whether somebody allowed one above 1/1000; 1 and more is never allowed.
        how: one is allowed, for the fix; it cannot be if empty. key: of the file that states it.
    """
    if delta >= 1 or (delta > LARGEST_DELTA and not is_allowed):
        raise ConfigError(
            f"delta is {delta}, above {LARGEST_DELTA}: the best noise would release exact answers",
            code="C154",
            fix="give a smaller delta" + (f", or allow it: {how}" if how and delta < 1 else ""),
            key=key,
        )


_FACTOR_BITS = 64
_SPARE_BITS = 96


@dataclass(frozen=True)
class Promise:
    """(epsilon, delta): an event is at most e^epsilon times as likely, plus delta, for either of two neighbours.

    Args:
        epsilon: rational, 0 .. 10.
        delta: rational, 10^-12 .. 1, below 1.

    Raises: ConfigError (C151, C152) for others, TypeError for floats.
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        numbers: tuple[object, object] = (self.epsilon, self.delta)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | Fraction):
                raise TypeError(
                    f"A promise is made of exact numbers, not {number!r}. Fix: Fraction(1, 1000)."
                )
        if not 0 <= self.epsilon <= LARGEST_EPSILON:
            raise ConfigError(
                f"epsilon is {self.epsilon}, outside 0 .. {LARGEST_EPSILON}",
                code="C151",
                fix="give one up to 10: above, noise of one query promises next to nothing",
            )
        if self.delta <= 0:
            raise ConfigError(
                f"delta is {self.delta}, and no noise of finitely many values keeps delta 0",
                code="C152",
                fix="give a delta above 0, e.g. 1/1000000; for delta 0 use geometric noise",
            )
        if not SMALLEST_DELTA <= self.delta < 1:
            raise ConfigError(
                f"delta is {self.delta}, outside 10^-12 .. 1: the exact answer would do, or the window is too wide",
                code="C152",
                fix="give a delta such as 1/1000000",
            )

    @property
    def factor(self) -> Fraction:
        """Return a rational of 64 bits at most e^epsilon: laws that keep it keep the promise."""
        return factor_below(self.epsilon)


@dataclass(frozen=True)
class NoiseRequest:
    """Noise for a query with whole-number answers.

    Args:
        promises: at least one; all are kept at once.
        sensitivity: how far one record moves the answer at most, 1 .. 1000.
        loss: what an error costs.

    Raises: ConfigError (C153), TypeError.
    """

    promises: tuple[Promise, ...]
    sensitivity: int
    loss: ErrorLoss

    def __post_init__(self) -> None:
        moved: object = self.sensitivity
        if isinstance(moved, bool) or not isinstance(moved, int):
            raise TypeError(
                f"The sensitivity is a whole number, not {self.sensitivity!r}. Fix: 1 for a count."
            )
        if not 1 <= self.sensitivity <= LARGEST_SENSITIVITY:
            raise ConfigError(
                f"the sensitivity is {self.sensitivity}, outside 1 .. {LARGEST_SENSITIVITY}",
                code="C153",
                fix="give how far one record moves the answer: 1 for a count",
            )
        if not self.promises:
            raise ValueError("Noise without a promise is not private.")

    @property
    def limits(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Return (factor, delta) of every promise."""
        return tuple((promise.factor, promise.delta) for promise in self.promises)


def factor_below(epsilon: Fraction) -> Fraction:
    """Return the largest number of 64 significant bits that is certainly at most e^epsilon, epsilon >= 0."""
    precision = _SPARE_BITS + 2 * int(epsilon)
    above = exp_neg(Fraction(epsilon), precision)[1]
    scaled = (1 << 2 * precision) // above
    cut = max(scaled.bit_length() - _FACTOR_BITS, 0)
    return Fraction(scaled >> cut << cut, 1 << precision)
