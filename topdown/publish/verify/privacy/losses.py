"""What a change costs, computed anew: from the exact laws of the noise it meets to enclosures of what is stated.

The certificate's engine puts numbers in balls where it can. Here they are computed in float64, with other nodes, so a
fault of one has to meet its match in the other. Where no sum is quick, the bounds of theorems are all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

from topdown.accountant.composition import Composition
from topdown.accountant.enclosure import Enclosure
from topdown.errors import ConfigError
from topdown.publish.verify.privacy.decimals import ROUNDED, digits_of, exp

ALPHAS = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80))
EVERY_DELTA = "0"
ENGINES = ("second", "auto")  # not the certificate's; where that is too wide, the usual choice
NO_ENGINE = "A009"
WIDE = 1e-7
_ONE = Fraction(1)


class Moved(NamedTuple):
    """Counts that move in noise of one law: its parameter, by how much, how many; delta of each, where it has one."""

    parameter: Fraction
    shift: int
    n: int
    delta: Fraction = Fraction(0)


class Loss(Protocol):
    """What can be computed of a change.

    `rho`: exact, None unless noise is Gaussian; `counts`: how many counts move; `delta`: exact, None unless losses
    are pairs.
    """

    @property
    def rho(self) -> Fraction | None:
        """See above."""

    @property
    def counts(self) -> int:
        """See above."""

    @property
    def delta(self) -> Fraction | None:
        """See above."""

    def epsilon(self, delta: str) -> Enclosure:
        """Enclose epsilon at a delta such as 1e-10, or at 0: for every delta."""

    @property
    def guess(self) -> Enclosure:
        """Enclosure of the chance of the best guess between two equally likely answers."""

    @property
    def powers(self) -> list[Enclosure]:
        """Enclosures of the power of the best test at each of ALPHAS."""


@dataclass(frozen=True)
class Pure:
    """Epsilon adds up and holds for every delta: two-sided geometric noise, or a change that nothing measures."""

    total: Fraction
    counts: int
    rho: Fraction | None
    delta = None

    def epsilon(self, delta: str) -> Enclosure:
        """Return the sum."""
        return Enclosure(self.total, self.total)

    @property
    def guess(self) -> Enclosure:
        """Return e**epsilon / (1 + e**epsilon)."""
        return _around(self._odds / (1 + self._odds))

    @cached_property
    def powers(self) -> list[Enclosure]:
        """Return min(e**epsilon alpha, 1 - (1 - alpha) / e**epsilon)."""
        return [_around(min(self._odds * a, 1 - (1 - a) / self._odds)) for a in ALPHAS]

    @cached_property
    def _odds(self) -> Fraction:
        return exp(self.total)


@dataclass(frozen=True)
class Pair:
    """Epsilons and deltas add up: noise of whole weights."""

    total: Fraction
    delta: Fraction
    counts: int
    rho = None

    def epsilon(self, delta: str) -> Enclosure:
        """Return the sum."""
        return Enclosure(self.total, self.total)

    @property
    def guess(self) -> Enclosure:
        """Return 1 - (1 - delta) / (1 + e**epsilon)."""
        return _around(1 - (1 - self.delta) / (1 + exp(self.total)))

    @cached_property
    def powers(self) -> list[Enclosure]:
        """Return min(1, delta + e**epsilon alpha, 1 - (1 - delta - alpha) / e**epsilon)."""
        odds = exp(self.total)
        found = [min(self.delta + odds * a, 1 - (1 - self.delta - a) / odds, _ONE) for a in ALPHAS]
        return [_around(power) for power in found]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Discrete Gaussian noise on some counts, summed by the first of some engines that can."""

    composition: Composition
    engines: tuple[str, ...] = ENGINES
    delta = None

    @property
    def rho(self) -> Fraction:
        """Half of the sum of shift**2 / variance."""
        return self.composition.rho

    @property
    def counts(self) -> int:
        """How many counts move."""
        return self.composition.law.coordinates

    def epsilon(self, delta: str) -> Enclosure:
        """Return the exact epsilon."""
        return _epsilon(self, digits_of(delta))

    @cached_property
    def guess(self) -> Enclosure:
        """Return (1 + total variation) / 2."""
        return self.first(lambda engine: [self.composition.best_guess(engine=engine)])[0]

    @cached_property
    def powers(self) -> list[Enclosure]:
        """Return 1 - f(alpha)."""
        return self.first(self._powers)

    def _powers(self, engine: str) -> list[Enclosure]:
        found = self.composition.trade_off_curve(ALPHAS, engine=engine)
        return [Enclosure(1 - f.upper, 1 - f.lower, f.method) for f in found]

    @cached_property
    def bounds(self) -> Gaussian:
        """The same, by theorems that hold for every composition, with wide ends."""
        return Gaussian(self.composition, ("bounds",))

    def first(self, found: Callable[[str], list[Enclosure]]) -> list[Enclosure]:
        """Return what the first engine says that can and is narrow."""
        for engine in self.engines[:-1]:
            try:
                boxes = found(engine)
            except ConfigError as error:
                if error.code != NO_ENGINE:
                    raise
                continue
            if all(box.relative_width <= WIDE for box in boxes):
                return boxes
        return found(self.engines[-1])


def loss_of(law: str, moved: Iterable[Moved]) -> Loss:
    """Return the loss of counts moved in noise of one law: discrete_gaussian, two_sided_geometric, optimal_integer."""
    merged: Counter[tuple[Fraction, int, Fraction]] = Counter()
    for parameter, shift, count, delta in moved:
        merged[parameter, shift, delta] += count
    rows = (Moved(parameter, shift, n, delta) for (parameter, shift, delta), n in sorted(merged.items()))
    return _loss_of(law, tuple(rows))


@lru_cache(maxsize=256)
def _epsilon(loss: Gaussian, digits: int) -> Enclosure:
    delta = Fraction(1, 10**digits)
    return loss.first(lambda engine: [loss.composition.epsilon(delta, engine=engine)])[0]


@lru_cache(maxsize=64)
def _loss_of(law: str, moved: tuple[Moved, ...]) -> Loss:
    counts = sum(m.n for m in moved)
    if law == "optimal_integer":
        delta = sum((m.n * m.delta for m in moved), Fraction(0))
        return Pair(sum((m.n * m.parameter for m in moved), Fraction(0)), min(delta, _ONE), counts)
    if law == "two_sided_geometric":
        return Pure(sum((m.shift * m.n / m.parameter for m in moved), Fraction(0)), counts, None)
    if not moved:
        return Pure(Fraction(0), 0, Fraction(0))
    return Gaussian(Composition.of((m.parameter, m.shift, m.n) for m in moved))


def _around(value: Fraction) -> Enclosure:
    return Enclosure(value * (1 - ROUNDED), min(value * (1 + ROUNDED), _ONE))
