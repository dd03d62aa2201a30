"""The exact privacy loss of one composition of discrete Gaussian measurements, and the engines it chooses from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.formats.common import Neighbours
from topdown.privacy.accountant import atoms, conversions
from topdown.privacy.accountant.ball_quadrature import BallQuadrature, PaperSieve
from topdown.privacy.accountant.bounds import Bounds
from topdown.privacy.accountant.float_quadrature import LatticeFft, Quadrature
from topdown.privacy.accountant.gaussian_loss import (
    EngineLimitError,
    LossDistribution,
    ball_exp,
    float_exp,
    is_between,
    loss_distribution,
)
from topdown.privacy.accountant.quadrature_nodes import SMALLEST_PRUNED, parts
from topdown.privacy.accountant.trade_off import TradeOff, trade_off_from_deltas
from topdown.privacy.exact_values import (
    Enclosure,
    Exact,
    Threshold,
    alpha_of,
    delta_of,
    epsilon_of,
    positive,
    rational,
)
from topdown.privacy.relation import Relation

WITH_TAILS = ("float64", "ball")
WIDTH_WANTED = 1e-12
SMALLEST_ALPHA = Fraction(1, 10**280)
_MOST_PEAKS = 200_000
_MOST_POINTS = 2**46  # the sieve counts nodes in whole numbers below 2**50
_SMALLEST_LOG = -640.0
_MOST_STEPS = 250_000
_MOST_CURVE = 600_000
_FLOAT_VARIANCES = (Fraction(1, 10**6), Fraction(10**18))
_FLOAT_TOTALS = (Fraction(1, 10**24), Fraction(10**12))
_FLOAT_COUNT = 10**13


Engine = Quadrature | BallQuadrature | LatticeFft | atoms.Atoms | PaperSieve | Bounds
"""What encloses delta at exact epsilons; `method` is its name, with what is said of its results."""


_MAKERS: dict[str, Callable[[LossDistribution, int], Engine]] = {
    "float64": lambda law, _: Quadrature(law),
    "ball": lambda law, digits: BallQuadrature(law, digits),
    "fft": lambda law, _: LatticeFft(law),
    "atoms": lambda law, _: atoms.Atoms(law),
    "atoms-wide": lambda law, _: atoms.Atoms(law, wide=True),
    "free": lambda law, _: Quadrature(law, lattice=False),
    "ball-free": lambda law, digits: BallQuadrature(law, digits, lattice=False),
    "sieve": lambda law, _: PaperSieve(law),
    "bounds": lambda law, _: Bounds(law),
}
ENGINES = ("auto", *_MAKERS)
_WITHOUT_LATTICE = ("free", "ball-free", "bounds")


def build_engine(name: str, law: LossDistribution, digits: int) -> Engine:
    """Return the engine called `name` for a law; A009 where it does not fit."""
    if name not in _MAKERS:
        raise ConfigError(
            f"no engine is called {name!r}", code="A008", fix=f"choose from {', '.join(ENGINES)}"
        )
    too_fine = name not in _WITHOUT_LATTICE and math.isinf(_lattice_points(law))
    if too_fine or (name != "bounds" and not floats_hold(law)):
        raise EngineLimitError(f"engine {name!r} does not hold numbers of this size", fix='use engine "auto"')
    return _MAKERS[name](law, digits)


def cheapest_engine(law: LossDistribution) -> tuple[str, Quadrature | None]:
    """Return the cheapest suitable engine: lattice quadrature, atoms, lattice-free quadrature, or bounds.

    With its name comes the quadrature that was set up to tell, for "float64" and "free".

    The lattice is usable when the slowest group has few peaks over one period and the sieve leaves few nodes;
    otherwise atoms when they fit; otherwise the lattice-free kernel; otherwise, and outside the range in which the
    rounding of floats is accounted for, bounds that cost the same for every law.
    """
    if not floats_hold(law):
        return "bounds", None
    on_lattice = usable_lattice(law)
    if on_lattice is not None:
        return "float64", on_lattice
    if atoms.atoms_fit(law):
        return "atoms", None
    free = Quadrature(law, lattice=False)
    try:
        _ = free.spectrum
    except EngineLimitError:
        return "bounds", None
    return "free", free


def floats_hold(law: LossDistribution) -> bool:
    """Tell whether every number of the law is where the rounding bounds of the float64 engines were made for."""
    return (
        all(is_between(g.variance, *_FLOAT_VARIANCES) for g in law.groups)
        and is_between(law.total, *_FLOAT_TOTALS)
        and max(g.shift for g in law.groups) * law.coordinates <= _FLOAT_COUNT
    )


def _lattice_points(law: LossDistribution) -> float:
    """Return how many points of its lattice a law covers; infinite where the lattice is too fine for a float."""
    spacing = float(law.spacing)
    return 12 * math.sqrt(float(law.total)) / spacing if spacing else math.inf


def usable_lattice(law: LossDistribution) -> Quadrature | None:
    """Return the quadrature on the lattice with its nodes, None where the sieve over a whole period is not cheap."""
    pruned = [w for w, g in zip(law.integers, law.groups, strict=True) if g.variance >= SMALLEST_PRUNED]
    points = _lattice_points(law)
    if points > _MOST_POINTS or (min(pruned) > _MOST_PEAKS if pruned else points > _MOST_PEAKS):
        return None
    quadrature = Quadrature(law)
    try:
        _ = quadrature.window.peaks
    except EngineLimitError:
        return None
    return quadrature


def float_range(law: LossDistribution, epsilon: Fraction) -> bool:
    """Tell whether delta at this epsilon stays well inside the float64 range."""
    worst = float(epsilon - law.half)
    return worst <= 0 or -worst * worst / (2 * float(law.total)) > _SMALLEST_LOG


def is_quick(engine: Engine) -> bool:
    """Tell whether a ball engine needs no more than a second or so to be set up and asked a few times."""
    if not isinstance(engine, BallQuadrature):
        return True
    try:
        return engine.steps <= _MOST_STEPS
    except EngineLimitError:
        return False


def curve_is_quick(engine: Engine, law: LossDistribution, n_points: int) -> bool:
    """Tell whether the trade-off at so many points takes seconds: each is a search over dozens of thresholds."""
    work = 0.0
    if isinstance(engine, Quadrature):
        work = len(engine.window.index) * parts(law) * (0.1 if engine.lattice else 1.0)
    elif isinstance(engine, atoms.Atoms):
        work = atoms.atom_work(law)
    return n_points * work <= _MOST_CURVE


DIGITS = 17


@dataclass(frozen=True)
class Composition:
    """Composed measurements: every count that moves has its discrete Gaussian noise.

    `Composition.of` takes variances, `Composition.from_rho` budgets under a neighbour relation. Every answer is an
    `Enclosure`; engine "auto" takes the cheapest engine, and goes on to balls (or to atoms in long double) where a
    float64 bound is wider than 1e-12 or the value leaves the range of floats, as long as that takes a second or so.
    What no engine can sum in that time gets certified bounds; `method` says so. `engine="ball"` certifies every
    rounding, to `digits` digits.

    >>> from topdown import Composition
    >>> Composition.from_rho({"1/100": 20}, "bounded").epsilon("1e-6").texts(4)
    ('2.921', '2.922')

    Args:
        law: the law of the loss.
    """

    law: LossDistribution
    _cache: dict[tuple[str, int], Engine] = field(default_factory=dict, init=False, repr=False, compare=False)

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
            checked.append((positive(variance, "variance"), shift, _checked_count(count)))
        return cls(loss_distribution(checked))

    @classmethod
    def from_rho(
        cls, budgets: Mapping[Exact, int] | Iterable[tuple[Exact, int]], neighbours: Neighbours
    ) -> Composition:
        """Return the composition of measurements that cost rho each, in zCDP of the relation `neighbours`.

        A measurement moves `Relation.n_counts` counts by one, so the noise of each is N_Z(0, moved / (2 rho)).

        Args:
            budgets: rho -> how many measurements (or pairs of them); exact numbers, zeros dropped.
            neighbours: name of the relation.

        Raises: TypeError for a float rho, ConfigError for a negative rho, nothing left, another relation.
        """
        moved = Relation.named(neighbours).n_counts
        pairs = budgets.items() if isinstance(budgets, Mapping) else budgets
        checked = [(_checked_budget(rho), _checked_count(count)) for rho, count in pairs]
        return cls(loss_distribution((moved / (2 * rho), 1, moved * count) for rho, count in checked if rho))

    def __add__(self, other: Composition) -> Composition:
        """Return both, measured independently."""
        both = (*self.law.groups, *other.law.groups)
        return Composition(loss_distribution((g.variance, g.shift, g.count) for g in both))

    def scaled(self, factor: Exact) -> Composition:
        """Return the composition with every budget multiplied (every variance divided) by `factor` > 0."""
        by = positive(factor, "factor")
        return Composition(loss_distribution((g.variance / by, g.shift, g.count) for g in self.law.groups))

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
            engine: one of `ENGINES`.
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
        guess = conversions.gaussian_epsilon(self.mu, conversions.log_ratio(target, Fraction(1)))
        ceiling = conversions.bun_steinke(self.rho, target).upper
        bits = 50 + math.ceil(math.log2(10) * digits) if engine.startswith("ball") else 56
        bits += max(0, math.ceil(-math.log2(max(guess, 1e-300))))

        def deltas(points: Sequence[Fraction]) -> list[Enclosure]:
            return self._deltas(points, engine, digits)

        return conversions.solve_epsilon(deltas, target, guess, ceiling, bits)

    def trade_off(self, alpha: Threshold, *, engine: str = "auto", digits: int = DIGITS) -> Enclosure:
        """Return f(alpha): the smallest rate of misses of any test with false-alarm rate alpha."""
        return self.trade_off_curve([alpha], engine=engine, digits=digits)[0]

    def trade_off_curve(
        self, alphas: Iterable[Threshold], *, engine: str = "auto", digits: int = DIGITS
    ) -> list[Enclosure]:
        """Return `trade_off` at each alpha."""
        points = [alpha_of(a) for a in alphas]
        name = self._auto if engine == "auto" else engine
        if name == "bounds" or any(0 < min(a, 1 - a) < SMALLEST_ALPHA for a in points):
            return self._bounds.trade_offs(points)
        if engine != "auto":
            return self._trade_offs(points, name, digits)
        if not curve_is_quick(self._engine(name, digits), self.law, len(points)):
            return self._bounds.trade_offs(points)
        try:
            return self._trade_offs(points, name, digits)
        except EngineLimitError:
            return self._bounds.trade_offs(points)

    def _trade_offs(self, points: list[Fraction], name: str, digits: int) -> list[Enclosure]:
        found = self._engine(name, digits)
        if name not in WITH_TAILS or not isinstance(found, Quadrature | BallQuadrature):
            return trade_off_from_deltas(found.deltas, self.law, points, found.method)
        bits = 80 + 4 * digits
        exp = (lambda x: ball_exp(x, bits)) if name == "ball" else float_exp
        return TradeOff(self.law, found.tails, found.method, exp).at(points)

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
            return conversions.gaussian_delta(self.mu, float(epsilon_of(epsilon)))
        if delta is not None:
            return conversions.gaussian_epsilon(self.mu, conversions.log_ratio(delta_of(delta), Fraction(1)))
        return conversions.gaussian_trade_off(self.mu, float(alpha_of(alpha)))

    def delta_arrays(self, epsilons: Sequence[Fraction]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (lower, upper) float64 arrays of delta, for batches; the chosen engine, never narrowed."""
        found = self._engine(self._auto, DIGITS)
        if isinstance(found, Quadrature):
            return found.delta_sums(epsilons).bounds()
        boxes = found.deltas(epsilons)
        lower, upper = np.array([[float(b.lower), float(b.upper)] for b in boxes]).reshape(-1, 2).T
        return np.maximum(np.nextafter(lower, -np.inf), 0.0), np.nextafter(upper, np.inf)

    def certifying(self) -> str:
        """Return the engine for a certificate: balls, or "auto" when they would take more than a second or so."""
        if self._auto not in ("float64", "free"):
            return "auto"
        name = "ball" if self._auto == "float64" else "ball-free"
        return name if is_quick(self._engine(name, DIGITS)) else "auto"

    @cached_property
    def _cheapest(self) -> tuple[str, Quadrature | None]:
        return cheapest_engine(self.law)

    @property
    def _auto(self) -> str:
        return self._cheapest[0]

    def _engine(self, name: str, digits: int) -> Engine:
        key = (name, digits if name.startswith("ball") else 0)
        if key not in self._cache:
            known = self._cheapest[1] if name == self._auto else None
            self._cache[key] = known or build_engine(name, self.law, digits)
        return self._cache[key]

    @property
    def _bounds(self) -> Bounds:
        return cast("Bounds", self._engine("bounds", 0))

    def _deltas(self, points: Sequence[Fraction], engine: str, digits: int) -> list[Enclosure]:
        if engine != "auto" or self._auto == "bounds":
            return self._engine(self._auto if engine == "auto" else engine, digits).deltas(points)
        near = [p for p in points if float_range(self.law, p)]
        try:
            found = (
                dict(zip(near, self._engine(self._auto, digits).deltas(near), strict=True)) if near else {}
            )
            return [self._narrow(p, digits, found.get(p)) for p in points]
        except EngineLimitError:
            return self._bounds.deltas(points)

    def _narrow(self, point: Fraction, digits: int, box: Enclosure | None) -> Enclosure:
        """Return delta by balls with more digits while it is too wide, or by atoms in long double without lattice."""
        if box and (self._auto == "free" or box.relative_width <= WIDTH_WANTED):
            return box
        if box and self._auto == "atoms":
            return self._engine("atoms-wide", digits).deltas([point])[0]
        name = "ball" if self._auto == "float64" else "ball-free"
        for more in (digits, 3 * digits, 8 * digits):
            engine = self._engine(name, more)
            if not is_quick(engine):
                break
            (box,) = engine.deltas([point])
            if box.relative_width <= WIDTH_WANTED or name == "ball-free":
                break
        return box or self._bounds.deltas([point])[0]


def _checked_budget(rho: object) -> Fraction:
    value = rational(rho, "rho")
    if value < 0:
        raise ConfigError(f"rho is {value}, below 0", code="A002", fix="budgets are numbers above 0")
    return value


def _checked_count(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"count is {count!r}: give how many measurements, a whole number")
    if count < 0:
        raise ConfigError(
            f"count is {count}, below 0", code="A010", fix="give how many measurements have this rho"
        )
    return count
