"""Privacy events: what was done to the data, as frozen values without behaviour. An accountant interprets them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from topdown.accountant.exact import positive, rational
from topdown.errors import ConfigError

Neighbours = Literal["bounded", "add_remove"]


@dataclass(frozen=True)
class DiscreteGaussianEvent:
    """Noise N_Z(0, variance), pmf ~ exp(-x**2 / (2 variance)), on one integer that moves by `sensitivity`.

    Canonne, Kamath, Steinke 2020, definition 1. Sensitivity is the absolute change of that integer.
    """

    variance: Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        positive(self.variance, "variance")
        _whole(self.sensitivity)


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric noise, pmf ~ exp(-rate |x|), on one integer that moves by `sensitivity`.

    Ghosh, Roughgarden, Sundararajan 2009. Its losses are rate (k - 2j), j = 0..k.
    """

    rate: Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        positive(self.rate, "rate")
        _whole(self.sensitivity)


@dataclass(frozen=True)
class PureDP:
    """Any epsilon-DP mechanism, known by the exact e**epsilon only; randomised response with these odds dominates it.

    Kairouz, Oh, Viswanath 2015, theorem 3.3.
    """

    exp_epsilon: Fraction

    def __post_init__(self) -> None:
        if rational(self.exp_epsilon, "e**epsilon") <= 1:
            raise ConfigError(
                f"e**epsilon is {self.exp_epsilon}", code="A011", fix="give e**epsilon above 1, e.g. 3"
            )


@dataclass(frozen=True)
class FiniteLoss:
    """A mechanism with finitely many outputs at its worst pair of neighbours: (probability, probability) of each.

    For optimal integer noise: noise pmf and the same pmf shifted. Exact; both columns add to 1.
    """

    outcomes: tuple[tuple[Fraction, Fraction], ...]

    def __post_init__(self) -> None:
        for side in (0, 1):
            column = [rational(o[side], "probability") for o in self.outcomes]
            if any(p < 0 for p in column) or sum(column) != 1:
                raise ConfigError(
                    "probabilities must be >= 0 and add to 1 exactly", code="A016", fix="use Fractions"
                )


@dataclass(frozen=True)
class ZCDP:
    """A mechanism known by its zCDP budget only: it has a zCDP bound and no exact loss."""

    rho: Fraction

    def __post_init__(self) -> None:
        positive(self.rho, "rho")


@dataclass(frozen=True)
class Repeated:
    """The same event `count` times, independently."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0:
            raise ConfigError(
                f"count is {self.count!r}", code="A010", fix="give a whole number of repetitions"
            )


@dataclass(frozen=True)
class ComposedEvent:
    """Several events on the same records: queries of a level, levels of a product, products of a release."""

    events: tuple[Event, ...]


Event = DiscreteGaussianEvent | Geometric | PureDP | FiniteLoss | ZCDP | Repeated | ComposedEvent
Simple = DiscreteGaussianEvent | Geometric | PureDP | FiniteLoss | ZCDP


@dataclass(frozen=True)
class ReleaseEvent:
    """An event with the neighbour relation under which its sensitivities hold."""

    neighbours: Neighbours
    event: Event

    def __post_init__(self) -> None:
        if self.neighbours not in ("bounded", "add_remove"):
            raise ConfigError(
                f"neighbours is {self.neighbours!r}", code="A013", fix='write "bounded" or "add_remove"'
            )


def flatten(event: Event, count: int = 1) -> list[tuple[Simple, int]]:
    """Return (simple event, how often); an unknown event is refused, never skipped."""
    match event:
        case ComposedEvent(events):
            return [pair for e in events for pair in flatten(e, count)]
        case Repeated(inner, times):
            return flatten(inner, count * times)
        case DiscreteGaussianEvent() | Geometric() | PureDP() | FiniteLoss() | ZCDP():
            return [(event, count)] if count else []
        case _:
            raise TypeError(
                f"unknown privacy event {event!r}: account for it with one of the classes of event.py"
            )


def _whole(sensitivity: object) -> None:
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int):
        raise TypeError(f"sensitivity is {sensitivity!r}: give a whole number")
    if sensitivity < 0:
        raise ConfigError(
            f"sensitivity is {sensitivity}, below 0", code="A017", fix="give its absolute value"
        )
