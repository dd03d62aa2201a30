"""What is asked of the noise of one query: the promises it must keep, how far one record moves it, what errors cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.noise.fixed import exp_neg
from topdown.noise.optimal.losses import Loss

LARGEST_EPSILON = Fraction(10)
SMALLEST_DELTA = Fraction(1, 10**12)
LARGEST_SENSITIVITY = 1000
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
class Ask:
    """Noise for a query with whole-number answers.

    Args:
        promises: at least one; all are kept at once.
        sensitivity: how far one record moves the answer at most, 1 .. 1000.
        loss: what an error costs.

    Raises: ConfigError (C153), TypeError.
    """

    promises: tuple[Promise, ...]
    sensitivity: int
    loss: Loss

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
