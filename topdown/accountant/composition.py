"""The exact privacy loss of one composition of discrete Gaussian measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from topdown.accountant import engines, gaussian, inversion, zcdp
from topdown.accountant.bounds import Bounds
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.event import Neighbours
from topdown.accountant.exact import Exact, Threshold, alpha_of, delta_of, epsilon_of, positive, rational
from topdown.accountant.law import EngineLimitError, Law, law_of
from topdown.accountant.tradeoff import TradeOff, ball_exp, float_exp
from topdown.errors import ConfigError

DIGITS = 17


@dataclass(frozen=True)
class Composition:
    """Composed measurements: every count that moves has its discrete Gaussian noise.

    `Composition.of` takes variances, `Composition.from_rho` budgets under a neighbour relation. Every answer is an
    `Enclosure`; engine "auto" takes the cheapest engine, and goes on to balls (or to atoms in long double) where a
    float64 bound is wider than 1e-12 or the value leaves the range of floats, as long as that takes a second or so.
    What no engine can sum in that time gets certified bounds; `method` says so. `engine="ball"` certifies every
    rounding, to `digits` digits.

    Args:
        law: the law of the loss.
    """

    law: Law
    _cache: dict[tuple[str, int], engines.Engine] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        return f"Composition({sum(group.count for group in self.law.groups):,} noisy counts that one record moves)"

    @classmethod
    def of(cls, coordinates: Iterable[tuple[Exact, int, int]]) -> Composition:
        """Return the composition of (variance, shift, count): `count` counts with N_Z(0, variance) moved by `shift`.

        Raises: TypeError for a float variance, ConfigError for a variance not above 0 or nothing moved.
        """
        checked = []
        for variance, shift, count in coordinates:
            if isinstance(shift, bool) or not isinstance(shift, int):
                raise TypeError(f"shift is {shift!r}: give a whole number")
            checked.append((positive(variance, "variance"), shift, _count(count)))
        return cls(law_of(checked))

    @classmethod
    def from_rho(
        cls, budgets: Mapping[Exact, int] | Iterable[tuple[Exact, int]], neighbours: Neighbours
    ) -> Composition:
        """Return the composition of measurements that cost rho each, in zCDP of the relation `neighbours`.

        A measurement moves `counts_moved(neighbours)` counts by one, so the noise of each is N_Z(0, moved / (2 rho)).

        Args:
            budgets: rho -> how many measurements (or pairs of them); exact numbers, zeros dropped.
            neighbours: "bounded" (a record replaced) or "add_remove".

        Raises: TypeError for a float rho, ConfigError for a negative rho, nothing left, another relation.
        """
        moved = counts_moved(neighbours)
        pairs = budgets.items() if isinstance(budgets, Mapping) else budgets
        checked = [(_budget(rho), _count(count)) for rho, count in pairs]
        return cls(law_of((moved / (2 * rho), 1, moved * count) for rho, count in checked if rho))

    def __add__(self, other: Composition) -> Composition:
        """Return both, measured independently."""
        both = (*self.law.groups, *other.law.groups)
        return Composition(law_of((g.variance, g.shift, g.count) for g in both))

    def scaled(self, factor: Exact) -> Composition:
        """Return the composition with every budget multiplied (every variance divided) by `factor` > 0."""
        by = positive(factor, "factor")
        return Composition(law_of((g.variance / by, g.shift, g.count) for g in self.law.groups))

    @property
    def rho(self) -> Fraction:
        """Budget in zCDP of the relation that moves these counts: half of sum shift**2 / variance."""
        return self.law.half

    @property
    def mu(self) -> float:
        """Parameter of the Gaussian comparison, sqrt(2 rho), for display."""
        return math.sqrt(float(self.law.total))

    def delta(self, epsilon: Threshold, *, engine: str = "auto", digits: int = DIGITS) -> Enclosure:
        """Return the exact delta at `epsilon`: E[(1 - exp(epsilon - L))+], L the privacy loss.

        Args:
            epsilon: exact number, or a float read as the decimal it prints as; at least 0.
            engine: one of `engines.ENGINES`.
            digits: relative precision of the ball engines.

        Returns: enclosure, relative width at most 1e-12 unless its `method` cannot reach that in about a second.
        """
        return self.curve([epsilon], engine=engine, digits=digits)[0]

    def curve(
        self, epsilons: Iterable[Threshold], *, engine: str = "auto", digits: int = DIGITS
    ) -> list[Enclosure]:
        """Return `delta` at each epsilon; thresholds share the set-up."""
        points = [epsilon_of(e) for e in epsilons]
        return self._deltas(points, engine, digits) if points else []

    def epsilon(self, delta: Threshold, *, engine: str = "auto", digits: int = DIGITS) -> Enclosure:
        """Return the exact epsilon at `delta`, the smallest with delta(epsilon) <= delta."""
        target = delta_of(delta)
        guess = gaussian.gaussian_epsilon(self.mu, inversion.log_ratio(target, Fraction(1)))
        ceiling = zcdp.bun_steinke(self.rho, target).upper
        bits = 50 + math.ceil(math.log2(10) * digits) if engine.startswith("ball") else 56
        bits += max(0, math.ceil(-math.log2(max(guess, 1e-300))))

        def deltas(points: Sequence[Fraction]) -> list[Enclosure]:
            return self._deltas(points, engine, digits)

        return inversion.solve(deltas, target, guess, ceiling, bits)

    def trade_off(self, alpha: Threshold, *, engine: str = "auto", digits: int = DIGITS) -> Enclosure:
        """Return f(alpha): the smallest rate of misses of any test with false-alarm rate alpha."""
        return self.trade_off_curve([alpha], engine=engine, digits=digits)[0]

    def trade_off_curve(
        self, alphas: Iterable[Threshold], *, engine: str = "auto", digits: int = DIGITS
    ) -> list[Enclosure]:
        """Return `trade_off` at each alpha."""
        points = [alpha_of(a) for a in alphas]
        name = self._auto if engine == "auto" else engine
        if name == "bounds" or any(0 < min(a, 1 - a) < engines.SMALLEST_ALPHA for a in points):
            return self._bounds.trade_offs(points)
        if engine != "auto":
            return self._trade_offs(points, name, digits)
        if not engines.curve_is_quick(self._engine(name, digits), self.law, len(points)):
            return self._bounds.trade_offs(points)
        try:
            return self._trade_offs(points, name, digits)
        except EngineLimitError:
            return self._bounds.trade_offs(points)

    def _trade_offs(self, points: list[Fraction], name: str, digits: int) -> list[Enclosure]:
        found = self._engine(name, digits)
        if name not in engines.WITH_TAILS:
            from topdown.accountant.dual import trade_off_from_deltas

            return trade_off_from_deltas(found.deltas, self.law, points, found.method)
        tails = cast(engines.TailEngine, found).tails
        bits = 80 + 4 * digits
        exp = (lambda x: ball_exp(x, bits)) if name == "ball" else float_exp
        return TradeOff(self.law, tails, found.method, exp).at(points)

    def best_guess(self, *, engine: str = "auto", digits: int = DIGITS) -> Enclosure:
        """Return the probability that the best attacker names the right one of two equally likely neighbours.

        1 - min over alpha of (alpha + f(alpha)) / 2 = (1 + delta(0)) / 2: delta(0) is the total variation distance.
        """
        at_zero = self.delta(0, engine=engine, digits=digits)
        return Enclosure((1 + at_zero.lower) / 2, (1 + at_zero.upper) / 2, at_zero.method)

    def gaussian(
        self, *, epsilon: float | None = None, delta: float | None = None, alpha: float | None = None
    ) -> float:
        """Return the mu-GDP closed form (delta, epsilon or f): a comparison with errors of both signs, no bound."""
        if sum(x is not None for x in (epsilon, delta, alpha)) != 1:
            raise TypeError("give exactly one of epsilon, delta, alpha")
        if epsilon is not None:
            return gaussian.gaussian_delta(self.mu, float(epsilon_of(epsilon)))
        if delta is not None:
            return gaussian.gaussian_epsilon(self.mu, inversion.log_ratio(delta_of(delta), Fraction(1)))
        return gaussian.gaussian_trade_off(self.mu, float(alpha_of(alpha)))

    def delta_arrays(self, epsilons: Sequence[Fraction]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (lower, upper) float64 arrays of delta, for batches; the chosen engine, never narrowed."""
        found = self._engine(self._auto, DIGITS)
        if isinstance(found, engines.Float64):
            return found.quadrature.delta_sums(epsilons).bounds()
        return engines.outward(found.deltas(epsilons))

    def certifying(self) -> str:
        """Return the engine for a certificate: balls, or "auto" when they would take more than a second or so."""
        if self._auto not in ("float64", "free"):
            return "auto"
        name = "ball" if self._auto == "float64" else "ball-free"
        return name if engines.quick(self._engine(name, DIGITS)) else "auto"

    @cached_property
    def _auto(self) -> str:
        return engines.choose(self.law)

    @cached_property
    def _on_lattice(self) -> bool:
        return engines.lattice_usable(self.law)

    def _engine(self, name: str, digits: int) -> engines.Engine:
        key = (name, digits if name.startswith("ball") else 0)
        if key not in self._cache:
            self._cache[key] = engines.build(name, self.law, digits)
        return self._cache[key]

    @property
    def _bounds(self) -> Bounds:
        return cast("Bounds", self._engine("bounds", 0))

    def _deltas(self, points: Sequence[Fraction], engine: str, digits: int) -> list[Enclosure]:
        if engine != "auto" or self._auto == "bounds":
            return self._engine(self._auto if engine == "auto" else engine, digits).deltas(points)
        near = [p for p in points if engines.float_range(self.law, p)]
        try:
            found = (
                dict(zip(near, self._engine(self._auto, digits).deltas(near), strict=True)) if near else {}
            )
            return [self._narrow(p, digits, found.get(p)) for p in points]
        except EngineLimitError:
            return self._bounds.deltas(points)

    def _narrow(self, point: Fraction, digits: int, box: Enclosure | None) -> Enclosure:
        """Return delta by balls with more digits while it is too wide, or by atoms in long double without lattice."""
        if box and (self._auto == "free" or box.relative_width <= engines.WIDTH_WANTED):
            return box
        if box and self._auto == "atoms" and not self._on_lattice:
            return self._engine("atoms-wide", digits).deltas([point])[0]
        name = "ball" if self._on_lattice else "ball-free"
        for more in (digits, 3 * digits, 8 * digits):
            engine = self._engine(name, more)
            if not engines.quick(engine):
                break
            (box,) = engine.deltas([point])
            if box.relative_width <= engines.WIDTH_WANTED or name == "ball-free":
                break
        return box or self._bounds.deltas([point])[0]


def counts_moved(neighbours: Neighbours) -> int:
    """Return how many counts of a measurement a neighbour moves: 2 replaced (left and entered), 1 added or removed."""
    if neighbours not in ("bounded", "add_remove"):
        raise ConfigError(f"neighbours is {neighbours!r}", code="A013", fix='write "bounded" or "add_remove"')
    return 2 if neighbours == "bounded" else 1


def _budget(rho: object) -> Fraction:
    value = rational(rho, "rho")
    if value < 0:
        raise ConfigError(f"rho is {value}, below 0", code="A002", fix="budgets are numbers above 0")
    return value


def _count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"count is {count!r}: give how many measurements, a whole number")
    if count < 0:
        raise ConfigError(
            f"count is {count}, below 0", code="A010", fix="give how many measurements have this rho"
        )
    return count
