"""Losses of noise that is not Gaussian: pure epsilon, sums of epsilon and delta, and either beside private choices.

Pure: epsilon adds up, holds for every delta, and bounds every test. For composed two-sided geometric measurements it
is the sum of counts moved over scale, exact (Ghosh, Roughgarden, Sundararajan 2009). Randomised response with these
odds dominates them (Kairouz, Oh, Viswanath 2015, theorem 3.3).

Pairs: each count of noise with finitely many values keeps (epsilon, delta) by its law; for independent counts, also
if each was chosen after the others were seen, the sums hold together (Dwork, Kenthapadi, McSherry, Mironov, Naor
2006). `delta_at` bounds the delta at a smaller epsilon from the exact probabilities of every law, in whole numbers on a
lattice of losses; at 0 it bounds the best guess. Other tests, and guesses where the laws are not known, are bounded by
what follows from the sums (Kairouz, Oh, Viswanath 2015, theorem 2.1).

Noise and choices together: a mechanism that keeps a pure epsilon tells no more than randomised response of it, and no
less than nothing, so what is said lies between the noise alone and noise with responses. Proof: PROOF.md, section 12.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from topdown.errors import ConfigError
from topdown.privacy.accountant import conversions as zcdp
from topdown.privacy.accountant.composition import Composition
from topdown.privacy.accountant.events import ComposedEvent, FiniteLoss, Geometric, Mixture, Repeated
from topdown.privacy.accountant.gaussian_loss import ball_of, ends, precision
from topdown.privacy.exact_values import Enclosure, Threshold, alpha_of, epsilon_of, positive
from topdown.privacy.laws import LAWS, UNIT, Weights

_UNIT_BITS = 192
_UNIT = 1 << _UNIT_BITS
_BALL_BITS = 320
_SPARE = Fraction(8)  # what is moved to infinity beyond counts too much by e^-8 at most
Ball = Any  # flint.arb
Polynomial = Any  # flint.fmpz_poly


@dataclass(frozen=True)
class _Masses:
    """Masses over 2^192 of the losses (first + k) steps, and of the infinite one; none below the true one."""

    first: int
    finite: Polynomial
    infinite: int


def delta_above(
    parts: Iterable[tuple[FiniteLoss, int]], epsilon: Threshold, step: Fraction, spare: Fraction = _SPARE
) -> Fraction:
    """Return a number that the delta of the composition at epsilon is not above, in the direction of the pairs.

    Close where `step` is well below the losses of most outcomes; never below the exact delta, whatever it is.

    Args:
        parts: events, and how often each is composed, independently; counts >= 1.
        epsilon: exact number >= 0.
        step: of the lattice, in nats, > 0. Work grows with (epsilon + spare) / step.
        spare: nats of the window beyond epsilon, > 0; a narrow one makes the bound larger, never too small.

    Returns: exact rational, at most 1.
    Raises: ConfigError (A007) if nothing is composed, for a negative epsilon, a step or spare not above 0.
    """
    return deltas_above(parts, [epsilon], step, spare)[0]


def deltas_above(
    parts: Iterable[tuple[FiniteLoss, int]],
    epsilons: Sequence[Threshold],
    step: Fraction,
    spare: Fraction = _SPARE,
) -> list[Fraction]:
    """Return `delta_above` at each epsilon, one or more; the composition is shared, its window ends beyond the last.

    Args, Raises: as `delta_above`.
    """
    points, width = [epsilon_of(e) for e in epsilons], positive(step, "step")
    reach = math.ceil((max(points) + positive(spare, "spare")) / width)
    total: _Masses | None = None
    with precision(_BALL_BITS) as flint:
        for event, count in parts:
            power = _power_of_masses(flint, _on_lattice(flint, event, width, reach), count, reach)
            total = power if total is None else _product_of_masses(flint, total, power, reach)
        if total is None:
            raise ConfigError("no event spends anything", code="A007", fix="give at least one event")
        return [_delta(flint, total, at, width) for at in points]


def _on_lattice(flint: Any, event: FiniteLoss, step: Fraction, reach: int) -> _Masses:
    """Return the masses of one event, split between neighbouring points of the lattice."""
    masses: dict[int, int] = {}
    infinite = 0
    for p, q in event.outcomes:
        if not p:
            continue
        if not q:
            infinite += _rounded_up(p)
            continue
        for place, mass in _binary_split(flint, p, q, step, reach):
            if place is None:
                infinite += mass
            else:
                masses[place] = masses.get(place, 0) + mass
    first = min(masses, default=0)
    row = [0] * (max(masses, default=0) - first + 1)
    for place, mass in masses.items():
        row[place - first] = mass
    return _Masses(first, flint.fmpz_poly(row), min(infinite, _UNIT))


def _binary_split(
    flint: Any, p: Fraction, q: Fraction, step: Fraction, reach: int
) -> list[tuple[int | None, int]]:
    """Return (point, mass) of an outcome, both probabilities above 0; None is the infinite loss."""
    if p == q:
        return [(0, _rounded_up(p))]
    near = math.floor(_log_ends(p / q) / float(step))
    if near >= reach:
        at_end = ends(ball_of(flint, q) * _power_of_e(flint, reach * step))
        if at_end[1] <= p:  # else it lies on the window's end up to rounding
            return [(reach, _rounded_up(at_end[1])), (None, _rounded_up(p - at_end[0]))]
        return [(None, _rounded_up(p))]
    for low, high in ((near, near + 1), (near - 1, near), (near + 1, near + 2), (near - 2, near + 3)):
        # masses a at low and b at high: a + b = p and a e^-low + b e^-high = q
        grown = ball_of(flint, q) * _power_of_e(flint, low * step)
        share = 1 - _power_of_e(flint, (low - high) * step)
        b = ends((ball_of(flint, p) - grown) / share)
        if b[0] >= 0 and b[1] <= p:
            return [(max(low, -reach), _rounded_up(p - b[0])), (max(high, -reach), _rounded_up(b[1]))]
    return [(None, _rounded_up(p))]  # no side could be decided: an infinite loss is never too small


def _log_ends(ratio: Fraction) -> float:
    """Return the logarithm of a number > 0 of any size, roughly."""
    shift = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    scaled = ratio / Fraction(2) ** shift
    return math.log(float(scaled)) + shift * math.log(2)


def _power_of_e(flint: Any, exponent: Fraction) -> Ball:
    return ball_of(flint, exponent).exp()


def _rounded_up(mass: Fraction) -> int:
    return -(-mass.numerator * _UNIT // mass.denominator)


def _power_of_masses(flint: Any, one: _Masses, count: int, reach: int) -> _Masses:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError(f"count is {count!r}", code="A010", fix="give a whole number of repetitions")
    total: _Masses | None = None
    while True:
        if count & 1:
            total = one if total is None else _product_of_masses(flint, total, one, reach)
        count >>= 1
        if not count:
            return total or one
        one = _product_of_masses(flint, one, one, reach)


def _product_of_masses(flint: Any, one: _Masses, two: _Masses, reach: int) -> _Masses:
    """Compose two: sums of losses, moved up into the window or to infinity."""
    row = [-((-int(c)) >> _UNIT_BITS) for c in (one.finite * two.finite).coeffs()]
    first = one.first + two.first
    infinite = one.infinite + two.infinite - (one.infinite * two.infinite >> _UNIT_BITS)
    if first < -reach:
        below, row = row[: -reach - first], row[-reach - first :]
        row = [sum(below) + (row[0] if row else 0), *row[1:]]
        first = -reach
    if first + len(row) - 1 > reach:
        infinite += sum(row[reach - first + 1 :])
        row = row[: reach - first + 1]
    return _Masses(first, flint.fmpz_poly(row), min(infinite, _UNIT))


def _delta(flint: Any, total: _Masses, epsilon: Fraction, step: Fraction) -> Fraction:
    found = flint.arb(0)
    for k, mass in enumerate(total.finite.coeffs()):
        loss = (total.first + k) * step
        if loss > epsilon:
            found += int(mass) * (1 - _power_of_e(flint, epsilon - loss))
    return min(ends(found)[1] / _UNIT + Fraction(total.infinite, _UNIT), Fraction(1))


PURE_METHOD = "pure epsilon"
_BITS = 160
MOST_EPSILON = Fraction(10_000)
MOST_LOSSES = 500
"""With more values of a composed loss than this, what is said of tests follows from its epsilon alone."""


@dataclass(frozen=True)
class PureLoss:
    """An exact epsilon at least 0, how many counts move, and the law of the release they are measured in.

    What is said of tests is exact where the counts and their noise are known and the composed loss has few values: a
    count moved by one in two-sided geometric noise has the loss 1 / scale or its negative, nothing between. Else it is
    what follows from epsilon, an upper bound wherever counts move.

    Args:
        epsilon: 0 is a change that nothing measures.
        coordinates: how many counts move.
        loss_name: what the release counts, epsilon or rho.
        moved: (scale, counts) that move by one in two-sided geometric noise, each scale once; empty: only epsilon is
            known.
    """

    epsilon: Fraction
    coordinates: int
    loss_name: str = "epsilon"
    moved: tuple[tuple[Fraction, int], ...] = ()

    @classmethod
    def of_geometric(cls, moved: Iterable[tuple[Fraction, int]]) -> PureLoss:
        """Return the loss of (scale, counts) that move by one in two-sided geometric noise."""
        counts: Counter[Fraction] = Counter()
        for scale, n in moved:
            counts[scale] += n
        epsilon = sum((n / scale for scale, n in counts.items()), Fraction(0))
        return cls(epsilon, counts.total(), moved=tuple(sorted((s, n) for s, n in counts.items() if n)))

    @cached_property
    def _exact(self) -> Mixture | None:
        """The composed loss, if it is known and has few values."""
        if not self.moved or self.epsilon > MOST_EPSILON or not _has_few_values(self.moved):
            return None
        events = (Repeated(Geometric(1 / scale), n) for scale, n in self.moved)
        return Mixture(ComposedEvent(tuple(events)))

    @property
    def is_exact(self) -> bool:
        """Whether what is said of tests is exact, and not what follows from epsilon alone."""
        return self._exact is not None

    def best_guess(self) -> Enclosure:
        """Return the chance that the best attacker is right of two equally likely neighbours."""
        if self._exact is not None:
            found = self._exact.bayes_accuracy()
            return Enclosure(found.lower, found.upper, PURE_METHOD)
        bound = pair_bayes_accuracy(self.epsilon, Fraction(0), PURE_METHOD)
        return Enclosure(Fraction(1, 2), bound.upper, PURE_METHOD) if self.coordinates else bound

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha the share of misses that no test goes below."""
        points = [alpha_of(a) for a in alphas]
        if self._exact is not None:
            found = self._exact.trade_off_curve(points)
            return [Enclosure(box.lower, box.upper, PURE_METHOD) for box in found]
        bounds = pair_trade_off_curve(self.epsilon, Fraction(0), points, PURE_METHOD)
        if not self.coordinates:
            return bounds
        return [Enclosure(box.lower, 1 - a, PURE_METHOD) for a, box in zip(points, bounds, strict=True)]


def _has_few_values(moved: Iterable[tuple[Fraction, int]]) -> bool:
    values = {Fraction(0)}
    for scale, n in moved:
        if n >= MOST_LOSSES:
            return False
        values = {value + (n - 2 * j) / scale for value in values for j in range(n + 1)}
        if len(values) > MOST_LOSSES:
            return False
    return True


def pair_bayes_accuracy(epsilon: Fraction, delta: Fraction, method: str) -> Enclosure:
    """Return 1 - (1 - delta) / (1 + e**epsilon) of whatever keeps a pair (Kairouz, Oh, Viswanath 2015, theorem 2.1).

    Args:
        epsilon: at least 0. delta: 0..1.
    """
    low, high = _odds(epsilon)
    least = 1 - (1 - delta) / (1 + low)
    return Enclosure(least, Fraction(1) if high is None else 1 - (1 - delta) / (1 + high), method)


def pair_trade_off_curve(
    epsilon: Fraction, delta: Fraction, alphas: Iterable[Threshold], method: str
) -> list[Enclosure]:
    """Return max(0, 1 - delta - e**epsilon alpha, e**-epsilon (1 - delta - alpha)) at each: no test misses less.

    Args:
        epsilon: at least 0. delta: 0..1. alphas: shares of false alarms, 0..1.
    """
    low, high = _odds(epsilon)

    def misses(a: Fraction, odds: Fraction) -> Fraction:
        return max(Fraction(0), 1 - delta - odds * a, (1 - delta - a) / odds)

    return [
        Enclosure(Fraction(0) if high is None else misses(a, high), misses(a, low), method)
        for a in map(alpha_of, alphas)
    ]


@lru_cache(maxsize=64)
def _odds(epsilon: Fraction) -> tuple[Fraction, Fraction | None]:
    """Return ends of e**epsilon; the upper one is None, without end, where epsilon is beyond any use."""
    if not epsilon:
        return Fraction(1), Fraction(1)
    with precision(_BITS) as flint:
        low, high = ends(ball_of(flint, min(epsilon, MOST_EPSILON)).exp())
    return low, high if epsilon <= MOST_EPSILON else None


PAIR_METHOD = "sums of epsilon and delta"
COMPOSED_METHOD = "sums of epsilon and delta, guesses by composed losses"
_NATS = (Fraction(2), Fraction(8))  # of the window beyond epsilon: at least, and at most
_STEPS = (1 << 10, 1 << 12)  # of the lattice up to epsilon: at least, and at most for equal parts


@dataclass(frozen=True)
class MovedCounts:
    """Counts that move by one in noise of one law.

    Args:
        weights: of the law's values 0, 1, .., over 2^128; it is symmetric.
        epsilon, delta: promise of one count.
        count: how many.
    """

    weights: Weights
    epsilon: Fraction
    delta: Fraction
    count: int


@dataclass(frozen=True)
class PairLoss:
    """Counts that move in noise of whole weights; none is a change that nothing measures."""

    moved: tuple[MovedCounts, ...]

    @property
    def coordinates(self) -> int:
        """How many counts move."""
        return sum(m.count for m in self.moved)

    @cached_property
    def epsilon(self) -> Fraction:
        """Sum of the epsilons of all counts."""
        return sum((m.count * m.epsilon for m in self.moved), Fraction(0))

    @cached_property
    def delta(self) -> Fraction:
        """Sum of the deltas of all counts, at most 1."""
        return min(sum((m.count * m.delta for m in self.moved), Fraction(0)), Fraction(1))

    def best_guess(self) -> Enclosure:
        """Return a bound of how often an attacker is right of two equally likely neighbours.

        It is (1 + delta(0)) / 2 of the composed losses where the laws are known and that is less than by the sums.
        """
        by_sums = self.guess_by_sums()
        if not self.moved or not all(m.weights for m in self.moved):
            return by_sums
        composed = (1 + self.delta_at(Fraction(0))) / 2
        if composed >= by_sums.upper:
            return by_sums
        return Enclosure(Fraction(1, 2), composed, COMPOSED_METHOD)

    def guess_by_sums(self) -> Enclosure:
        """Return the most an attacker can be right of two equally likely neighbours, by the sums alone."""
        return pair_bayes_accuracy(self.epsilon, self.delta, PAIR_METHOD)

    def trade_off_curve(self, alphas: Iterable[Threshold]) -> list[Enclosure]:
        """Return at each alpha a share of misses that no test goes below, by the sums."""
        return pair_trade_off_curve(self.epsilon, self.delta, alphas, PAIR_METHOD)

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """Return a delta that all counts together keep at an epsilon, from their composed losses; never too small.

        Args:
            epsilon: exact, at least 0.
        """
        return self.deltas_at((epsilon,))[0]

    def deltas_at(self, epsilons: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        """Return `delta_at` each epsilon; losses are composed once."""
        if not self.moved or not self.delta:
            return (Fraction(0),) * len(epsilons)
        return _deltas(self.moved, epsilons, self._step, min(_NATS[1], _NATS[0] + 2 * self.epsilon))

    @property
    def _step(self) -> Fraction:
        """Return a step of the lattice that divides the epsilon of every count where that needs few steps."""
        shares = [m.epsilon / self.epsilon for m in self.moved]
        equal = math.lcm(*(share.denominator for share in shares))
        n = equal * math.ceil(_STEPS[0] / equal) if equal <= _STEPS[1] else _STEPS[1]
        return self.epsilon / n


@lru_cache(maxsize=64)
def _deltas(
    moved: tuple[MovedCounts, ...], epsilons: tuple[Fraction, ...], step: Fraction, spare: Fraction
) -> tuple[Fraction, ...]:
    counts: Counter[Weights] = Counter()
    for m in moved:
        counts[m.weights] += m.count
    parts = [(_outcomes(weights), count) for weights, count in counts.items()]
    return tuple(deltas_above(parts, epsilons, step, spare))


@lru_cache(maxsize=64)  # rows of one statement share their laws
def _outcomes(weights: Weights) -> FiniteLoss:
    """Return the probabilities of every value for two neighbours whose answers are 1 apart; the same both ways."""
    every = (*weights[:0:-1], *weights)
    return FiniteLoss(
        tuple((Fraction(p, UNIT), Fraction(q, UNIT)) for p, q in zip((*every, 0), (0, *every), strict=True))
    )


CHOICES_METHOD = "noise and choices: between noise alone and randomised response"


@dataclass(frozen=True)
class NoiseAndChoices:
    """Noise, if any was drawn, and the choices beside it.

    Args:
        noise: what was measured; None if nothing was.
        epsilon: sum of the choices' epsilons, exact.
        rho: sum of the choices' zCDP, exact; 0 in a ledger of epsilon.
    """

    noise: Composition | PureLoss | None
    epsilon: Fraction
    rho: Fraction

    @property
    def total_rho(self) -> Fraction:
        """Loss of everything as zCDP, exact."""
        return self.rho + (self.noise.rho if isinstance(self.noise, Composition) else 0)

    @property
    def coordinates(self) -> int:
        """How many counts behind noise move."""
        if isinstance(self.noise, Composition):
            return self.noise.law.coordinates
        return self.noise.coordinates if self.noise else 0

    def epsilon_at(self, delta: Threshold, engine: str = "auto") -> Enclosure:
        """Return ends of epsilon at a delta; pure noise holds for every delta.

        The upper end is the noise's epsilon plus the choices', or what all of it implies as zCDP, if that is less.
        """
        if isinstance(self.noise, PureLoss):
            return Enclosure(self.noise.epsilon, self.noise.epsilon + self.epsilon, CHOICES_METHOD)
        none = Enclosure(Fraction(0), Fraction(0))
        box = none if self.noise is None else self.noise.epsilon(delta, engine=engine)
        high = box.upper + self.epsilon
        if self.rho:
            high = min(high, zcdp.canonne_kamath_steinke(self.total_rho, delta).upper)
        return Enclosure(box.lower, max(high, box.lower), CHOICES_METHOD)

    def best_guess(self, engine: str = "auto") -> Enclosure:
        """Return ends of the chance of the best guess between two equally likely neighbours.

        With r = e^epsilon and the noise's delta(epsilon): at most (r + delta(epsilon)) / (1 + r).
        """
        if not isinstance(self.noise, Composition):
            pure = self.noise or PureLoss(Fraction(0), 0)
            return Enclosure(pure.best_guess().lower, self._pure(pure.epsilon).upper, CHOICES_METHOD)
        alone = self.noise.best_guess(engine=engine)
        odds = self._pure(Fraction(0))  # r / (1 + r)
        more = self.noise.delta(self.epsilon, engine=engine).upper * (1 - odds.lower)
        return Enclosure(alone.lower, max(alone.lower, min(odds.upper + more, Fraction(1))), CHOICES_METHOD)

    def _pure(self, more: Fraction) -> Enclosure:
        return PureLoss(self.epsilon + more, 0).best_guess()


ComposedLoss = Composition | PureLoss | PairLoss


@dataclass(frozen=True)
class NoisyCounts:
    """Counts that a change moves in noise of one law.

    Args:
        law: by name.
        parameter: of the law, exact.
        count: how many counts move.
        shift: by how much each moves.
        delta, weights: of one count, for a law that has them; a ledger knows no weights.
    """

    law: str
    parameter: Fraction
    count: int
    shift: int = 1
    delta: Fraction = Fraction(0)
    weights: Weights = ()


def compose_noise(moved: Iterable[NoisyCounts], loss_name: str) -> ComposedLoss:
    """Return the loss of counts moved in independent noise: exact where the laws say which engine is, else a bound.

    Args:
        moved: the counts; none is a change that nothing measures.
        loss_name: what the plan or the ledger counts: rho, epsilon or epsilon_delta.

    Raises:
        ValueError: noise whose loss is of another name, or a law of rho that no engine composes.
    """
    rows = list(moved)
    laws = [LAWS[m.law] for m in rows]
    if strange := {law.loss_name for law in laws} - {loss_name}:
        raise ValueError(f"noise that costs {min(strange)} does not add up to {loss_name}")
    losses = [law.loss_of_one(m.parameter, m.shift) for law, m in zip(laws, rows, strict=True)]
    if loss_name == "epsilon_delta":
        return PairLoss(
            tuple(MovedCounts(m.weights, one, m.delta, m.count) for m, one in zip(rows, losses, strict=True))
        )
    if not rows:
        return PureLoss(Fraction(0), 0, loss_name)
    engines = {law.composed_as for law in laws}
    if engines == {"gaussian"}:
        return Composition.of((m.parameter, m.shift, m.count) for m in rows)
    if loss_name != "epsilon":
        raise ValueError(f"no engine composes the noise of {', '.join(sorted({m.law for m in rows}))}")
    if engines == {"geometric"} and all(m.shift == 1 for m in rows):
        return PureLoss.of_geometric((m.parameter, m.count) for m in rows)
    epsilon = sum((m.count * one for m, one in zip(rows, losses, strict=True)), Fraction(0))
    return PureLoss(epsilon, sum(m.count for m in rows))
