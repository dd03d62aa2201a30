"""What a change costs, computed anew: from the exact laws of the noise it meets to enclosures of what is stated.

The certificate's engine puts numbers in balls where it can. Here they are computed in float64, with other nodes, so a
fault of one has to meet its match in the other. Where no sum is quick, the bounds of theorems are all there is.

Noise of whole weights: a count that moves by 1 has the loss ln(p(x) / p(x - 1)) with probability p(x); moved down a
lattice, the sum of the losses gives a delta not above the true one, moved up one not below; an infinite loss always
counts. What is charged to a ledger in several kinds is one composition: Gaussian noise by its sums, all else listed, or
on a lattice rounded both ways.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats
from topdown.verify.exact_arithmetic import ROUNDED, Ends, digits_of, exact_text, exp, fraction, tight_formula
from topdown.verify.gaussian_sums import GaussianSum
from topdown.verify.noise_laws import CheckedLaw, law_named

_LEAST, _MOST = 1 << 10, 1 << 12  # steps up to epsilon
_NATS = 8.0  # most nats of one count, beyond what all counts cost, that are told apart
_NEAR = 1e-6  # of a step: a loss this near to the lattice lies on it
FLOAT_SLACK, FLOAT_ZERO = 1e-3, 1e-13  # what float64 may lose, relative and absolute
VAGUE = 1e-2  # how much above a stated delta may be: its window ends where few losses are left, these count in full


def delta_between(
    parts: Sequence[tuple[tuple[str, ...], int]],
    shares: Sequence[Fraction],
    total: Fraction,
    epsilon: Fraction,
) -> tuple[float, float]:
    """Return about (lower, upper) bound of the delta of all counts together at epsilon.

    Args:
        parts: weights of 0, 1, .. of a law, and how many counts move in it.
        shares: epsilon of one count of each over `total`.
        total: epsilon of all counts together, above 0.
        epsilon: where delta is asked for.
    """
    equal = math.lcm(*(share.denominator for share in shares))
    step = float(total) / (equal * math.ceil(_LEAST / equal) if equal <= _MOST else _MOST)
    counts = [(_weights_spread(weights), count) for weights, count in parts]
    found = []
    for up in (False, True):
        sums = _lattice_sum(counts, step, float(total), up=up)
        over = sums.loss > float(epsilon)
        telling = float((sums.mass[over] * -np.expm1(float(epsilon) - sums.loss[over])).sum())
        found.append(min(telling + sums.infinite, 1.0))
    return found[0] * (1 - FLOAT_SLACK) - FLOAT_ZERO, found[1] * (1 + VAGUE) + FLOAT_ZERO


ALPHAS = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80))
EVERY_DELTA, USUAL_DELTA = "0", "1e-10"
_ONE = Fraction(1)


class MovedCounts(NamedTuple):
    """Counts that move in noise of one law: parameter, by how much, how many; delta and weights, if it has them."""

    parameter: Fraction
    shift: int
    n: int
    delta: Fraction = Fraction(0)
    weights: tuple[str, ...] = ()


MOST_EPSILON = 10_000
MOST_LOSSES = 500
"""With more values of a composed loss than this, tests are bounded by epsilon alone."""
_WHOLE = 10**60


@dataclass(frozen=True)
class PureLoss:
    """Epsilon adds up and holds for every delta: two-sided geometric noise, or a change that nothing measures.

    Args:
        total: epsilon.
        counts: how many counts move.
        rho: 0 of a change that nothing measures, else None.
        moved: (scale, counts) that move by one in geometric noise; empty where only epsilon is known.
    """

    total: Fraction
    counts: int
    rho: Fraction | None
    moved: tuple[tuple[Fraction, int], ...] = ()
    delta = None
    stated_at = (EVERY_DELTA,)

    def epsilon(self, delta: str) -> Ends:
        """Return the sum."""
        return Ends(self.total, self.total)

    @property
    def guess(self) -> Ends:
        """Return P[loss > 0] + P[loss = 0] / 2; with many values at most e**epsilon / (1 + e**epsilon)."""
        if self._masses is not None:
            right = sum(mass * ((loss > 0) + (loss >= 0)) for loss, mass in self._masses.items())
            return _rounded_outward(Fraction(right, 2 * _WHOLE))
        bound = _rounded_outward(self._odds / (1 + self._odds))
        return Ends(Fraction(1, 2), bound.upper) if self.counts else bound

    @cached_property
    def powers(self) -> list[Ends]:
        """Return the power of the likelihood-ratio test; with many values what epsilon allows at most."""
        if self._masses is not None:
            return [_rounded_outward(self._power(alpha)) for alpha in ALPHAS]
        bounds = [_rounded_outward(min(self._odds * a, 1 - (1 - a) / self._odds)) for a in ALPHAS]
        if not self.counts:
            return bounds
        return [Ends(alpha, bound.upper) for alpha, bound in zip(ALPHAS, bounds, strict=True)]

    def _power(self, alpha: Fraction) -> Fraction:
        """Return how often the test that takes the largest losses, alpha of them by mistake, is right."""
        masses, alarms, hits = self._masses or {}, Fraction(0), Fraction(0)
        for loss in sorted(masses, reverse=True):
            mistaken, right = Fraction(masses[-loss], _WHOLE), Fraction(masses[loss], _WHOLE)
            if alarms + mistaken >= alpha:
                return hits + (alpha - alarms) * right / mistaken
            alarms, hits = alarms + mistaken, hits + right
        return _ONE

    @cached_property
    def _odds(self) -> Fraction:
        return exp(self.total)

    @cached_property
    def _masses(self) -> dict[Fraction, int] | None:
        """How often the composed loss has each value, over 10^60, one count after the other; None if it has many."""
        if not self.moved or self.total > MOST_EPSILON:
            return None
        masses = {Fraction(0): _WHOLE}
        for scale, n in self.moved:
            if n >= MOST_LOSSES:
                return None
            loss, odds = 1 / scale, exp(1 / scale)
            right = round(odds / (1 + odds) * _WHOLE)
            for _ in range(n):
                after: Counter[Fraction] = Counter()
                for value, mass in masses.items():
                    share = mass * right // _WHOLE
                    after[value + loss] += share
                    after[value - loss] += mass - share
                if len(after) > MOST_LOSSES:
                    return None
                masses = after
        return masses


@dataclass(frozen=True)
class PairLoss:
    """Epsilons and deltas add up: noise of whole weights.

    Args:
        total, delta: sums over all counts, delta at most 1.
        counts: how many counts move.
        parts: weights, counts, and epsilon of one count over `total`; empty where a ledger does not hold the weights.
    """

    total: Fraction
    delta: Fraction
    counts: int
    parts: tuple[tuple[tuple[str, ...], int, Fraction], ...] = ()
    rho = None
    stated_at = ()

    def epsilon(self, delta: str) -> Ends:
        """Return the sum."""
        return Ends(self.total, self.total)

    @property
    def guess(self) -> Ends:
        """Return 1 - (1 - delta) / (1 + e**epsilon)."""
        return _rounded_outward(1 - (1 - self.delta) / (1 + exp(self.total)))

    @cached_property
    def composed_guess(self) -> Ends:
        """Return ends of (1 + delta(0)) / 2 of the composed losses, or of what the sums say if that is less."""
        by_sums = self.guess
        laws, shares = [(weights, n) for weights, n, _ in self.parts], [share for *_, share in self.parts]
        low, high = delta_between(laws, shares, self.total, Fraction(0))
        return Ends(min((1 + Fraction(low)) / 2, by_sums.lower), min((1 + Fraction(high)) / 2, by_sums.upper))

    @cached_property
    def powers(self) -> list[Ends]:
        """Return min(1, delta + e**epsilon alpha, 1 - (1 - delta - alpha) / e**epsilon)."""
        odds = exp(self.total)
        found = [min(self.delta + odds * a, 1 - (1 - self.delta - a) / odds, _ONE) for a in ALPHAS]
        return [_rounded_outward(power) for power in found]


@dataclass(frozen=True, eq=False)
class GaussianLoss:
    """Discrete Gaussian noise on some counts."""

    total: GaussianSum
    delta = None
    stated_at = (USUAL_DELTA,)

    @property
    def rho(self) -> Fraction:
        """Half of the sum of shift**2 / variance."""
        return self.total.rho

    @property
    def counts(self) -> int:
        """How many counts move."""
        return self.total.counts

    def epsilon(self, delta: str) -> Ends:
        """Return epsilon."""
        return _gaussian_epsilon(self, digits_of(delta))

    @cached_property
    def guess(self) -> Ends:
        """Return (1 + total variation) / 2."""
        low, high = self.total.delta(0.0)
        return Ends((1 + Fraction(low)) / 2, min((1 + Fraction(high)) / 2, _ONE))

    @cached_property
    def powers(self) -> list[Ends]:
        """Return 1 - f(alpha)."""
        found = [self.total.power(float(alpha)) for alpha in ALPHAS]
        return [Ends(Fraction(min(low, 1.0)), Fraction(min(high, 1.0))) for low, high in found]

    @property
    def widest(self) -> WidestEnds:
        """What may be said of it where no sum is quick."""
        return WidestEnds(self.rho, self.counts)


@dataclass(frozen=True)
class WidestEnds:
    """The widest ends that may be stated of a composition of Gaussian noise: zCDP bounds them from above."""

    rho: Fraction
    counts: int
    delta = None
    stated_at = (USUAL_DELTA,)

    def epsilon(self, delta: str) -> Ends:
        """Return [0, what rho alone allows]."""
        return Ends(Fraction(0), tight_formula(self.rho, digits_of(delta)))

    @property
    def guess(self) -> Ends:
        """Return [1/2, 1]."""
        return Ends(Fraction(1, 2), _ONE)

    @property
    def powers(self) -> list[Ends]:
        """Return [alpha, 1]."""
        return [Ends(alpha, _ONE) for alpha in ALPHAS]


def loss_of(law: str, moved: Iterable[MovedCounts]) -> ChangeLoss:
    """Return the loss of counts moved in noise of one law, by name."""
    return loss_of_laws(law_named(law).loss_name, ((law, m) for m in moved))


def loss_of_laws(loss_name: str, moved: Iterable[tuple[str, MovedCounts]]) -> ChangeLoss:
    """Return the loss of counts moved in independent noise of several laws, all of one kind of loss."""
    merged: Counter[tuple[str, Fraction, int, Fraction, tuple[str, ...]]] = Counter()
    for law, (parameter, shift, count, delta, weights) in moved:
        merged[law, parameter, shift, delta, weights] += count
    rows = (
        (law_named(law), MovedCounts(parameter, shift, n, delta, weights))
        for (law, parameter, shift, delta, weights), n in sorted(merged.items())
    )
    return _merged_loss(loss_name, tuple(rows))


@lru_cache(maxsize=256)
def _gaussian_epsilon(loss: GaussianLoss, digits: int) -> Ends:
    low, high = loss.total.epsilon(digits)
    return Ends(Fraction(low), Fraction(high))


@lru_cache(maxsize=64)
def _merged_loss(loss_name: str, moved: tuple[tuple[CheckedLaw, MovedCounts], ...]) -> ChangeLoss:
    laws, rows = [law for law, _ in moved], [m for _, m in moved]
    if strange := {law.name for law in laws if law.loss_name != loss_name}:
        raise ValueError(f"noise of {min(strange)} does not add up to {loss_name}")
    counts, composed_as = sum(m.n for m in rows), {law.composed_as for law in laws}
    losses = [law.loss(m.parameter, m.shift) for law, m in zip(laws, rows, strict=True)]
    total = sum((m.n * one for m, one in zip(rows, losses, strict=True)), Fraction(0))
    if loss_name == "epsilon_delta":
        delta, known = sum((m.n * m.delta for m in rows), Fraction(0)), all(m.weights for m in rows)
        parts = ((m.weights, m.n, one / total) for m, one in zip(rows, losses, strict=True)) if known else ()
        return PairLoss(total, min(delta, _ONE), counts, tuple(parts))
    if loss_name == "epsilon":
        two_valued = composed_as == {"geometric"} and all(m.shift == 1 for m in rows)
        return PureLoss(total, counts, None, tuple((m.parameter, m.n) for m in rows) if two_valued else ())
    if not rows:
        return PureLoss(Fraction(0), 0, Fraction(0))
    if composed_as != {"gaussian"}:
        raise ValueError("noise of a law of rho that is not composed")
    return GaussianLoss(GaussianSum([(m.parameter, m.shift, m.n) for m in rows]))


def _rounded_outward(value: Fraction) -> Ends:
    return Ends(value * (1 - ROUNDED), min(value * (1 + ROUNDED), _ONE))


MIXED_METHOD, BOUND_METHOD = "composed exactly", "bound from above, composed"
MOST_VALUES = 1 << 12  # of losses beside Gaussian noise that are listed, not put on a lattice
GRID = 1e-11  # losses nearer than this are one
MIXED_SLACK = Fraction(
    2, 1000
)  # by this part of itself, and of all epsilons, an end may differ from the one found here


@dataclass(frozen=True, eq=False)
class MixedLoss:
    """Noise of several kinds, and mechanisms known by a pure epsilon, which are taken for randomised response.

    Args:
        moved: the noise. responses: (epsilon, e^epsilon) of each mechanism.
    """

    moved: tuple[tuple[CheckedLaw, MovedCounts], ...]
    responses: tuple[tuple[Fraction, Fraction], ...]
    rho = None
    delta = None

    @property
    def counts(self) -> int:
        """How many counts behind noise move."""
        return sum(m.n for _, m in self.moved)

    @property
    def own_delta(self) -> Fraction:
        """Sum of the deltas of all counts, at most 1."""
        return min(sum((m.n * m.delta for _, m in self.moved), Fraction(0)), _ONE)

    @property
    def is_pure(self) -> bool:
        """Whether every part has an epsilon for every delta."""
        return all(law.loss_name == "epsilon" for law, _ in self.moved)

    @property
    def stated_at(self) -> tuple[str, ...]:
        """Where epsilon is stated: 1e-10 and what of delta the laws have; or every delta."""
        if self.is_pure:
            return (EVERY_DELTA,)
        return (exact_text(self.own_delta + Fraction(1, 10**10)),) if self.own_delta else ("1e-10",)

    @property
    def methods(self) -> tuple[str, ...]:
        """What may be said of how its numbers were found."""
        known = not self.responses and all(law.composed_as != "bound" for law, _ in self.moved)
        known &= all(m.weights for law, m in self.moved if law.composed_as == "weights")
        return (MIXED_METHOD, BOUND_METHOD) if known else (BOUND_METHOD,)

    @cached_property
    def beside(self) -> Fraction:
        """Sum of the epsilons of all but Gaussian noise."""
        rows = ((m.n * law.loss(m.parameter, m.shift)) for law, m in self.moved if law.loss_name != "rho")
        return sum(rows, Fraction(0)) + sum((epsilon for epsilon, _ in self.responses), Fraction(0))

    @property
    def slack(self) -> Fraction:
        """How far an end of epsilon may lie from the one found here."""
        return MIXED_SLACK * self.beside + Fraction(1, 10**9)

    def epsilon(self, delta: str) -> Ends:
        """Return the least epsilon whose delta is this one, by losses rounded down and up."""
        if delta == EVERY_DELTA:
            return Ends(self.beside, self.beside)
        target = Fraction(1, 10 ** digits_of(delta)) if delta.startswith("1e") else fraction(delta)
        room = max(float(target - self.own_delta), 1e-300)
        most = float(self.beside) + (self._gaussian.epsilon_below(room) if self._gaussian else 0.0)
        found = []
        for losses in self._others:
            low, high = 0.0, most
            for _ in range(50):
                middle = (low + high) / 2
                low, high = (low, middle) if self._delta(losses, middle) <= target else (middle, high)
            found.append(Fraction(high))
        return Ends(min(found), max(found))

    @cached_property
    def guess(self) -> Ends:
        """Return (1 + delta(0)) / 2, by losses rounded down and up."""
        low, high = (min((1 + Fraction(self._delta(losses, 0.0))) / 2, _ONE) for losses in self._others)
        return Ends(min(low, high), max(low, high))

    @property
    def powers(self) -> list[Ends]:
        """No curve is stated of it."""
        raise ValueError("no curve is stated of a ledger")

    @cached_property
    def _gaussian(self) -> GaussianSum | None:
        rows = [(m.parameter, m.shift, m.n) for law, m in self.moved if law.composed_as == "gaussian"]
        return GaussianSum(rows) if rows else None

    def _delta(self, losses: _Spread, epsilon: float) -> float:
        """Return E[delta of the Gaussian noise at epsilon - loss]; at x < 0 that is 1 - e^x + e^x delta(-x)."""
        at = epsilon - losses.loss
        beyond = np.where(at < 0, -np.expm1(np.minimum(at, 0.0)), 0.0)
        if self._gaussian is not None:
            beyond += np.exp(np.minimum(at, 0.0)) * self._gaussian.deltas(np.abs(at))
        return float((losses.mass * beyond).sum()) + losses.infinite

    @cached_property
    def _others(self) -> tuple[_Spread, _Spread]:
        """All losses but those of Gaussian noise, rounded down and rounded up; the same where few are listed."""
        rows = [(_losses_of(law, m), m.n) for law, m in self.moved if law.composed_as != "gaussian"]
        rows += [(_response(math.log(odds)), 1) for _, odds in self.responses]
        listed: _Spread | None = _Spread(np.zeros(1), np.ones(1), 0.0)
        for one, n in rows:
            for _ in range(n if len(one.loss) * n <= MOST_VALUES else MOST_VALUES):
                listed = _added(listed, one) if listed is not None else None
                if listed is None:
                    break
        if listed is not None:
            return listed, listed
        step = float(self.beside) / _MOST
        down, up = (_lattice_sum(rows, step, float(self.beside), up=up) for up in (False, True))
        return down, up


@dataclass(frozen=True, eq=False)
class _Spread:
    """Losses with their probabilities, and that of an infinite one."""

    loss: Floats
    mass: Floats
    infinite: float


def _losses_of(law: CheckedLaw, m: MovedCounts) -> _Spread:
    """Return the losses of one count that moves."""
    if law.composed_as == "weights" and not m.weights:
        truth, guessed = float(m.delta), _response(float(m.parameter))
        return _Spread(guessed.loss, guessed.mass * (1 - truth), truth)
    if law.composed_as == "weights":
        return _weights_spread(m.weights)
    if law.composed_as == "bound":
        return _response(float(law.loss(m.parameter, m.shift)))
    a, steps = math.exp(-float(1 / m.parameter)), np.arange(m.shift + 1.0)
    mass: Floats = (1 - a) / (1 + a) * a**steps
    mass[0], mass[-1] = 1 / (1 + a), a**m.shift / (1 + a)
    return _Spread((m.shift - 2 * steps) * float(1 / m.parameter), mass, 0.0)


def _weights_spread(weights: Sequence[str]) -> _Spread:
    """Return the losses of one count in noise of a law by its weights; ValueError if it is none."""
    half = [int(w) for w in weights]
    if len(half) < 2 or min(half) < 1:
        raise ValueError("a law has a weight that is 0, or no weights")
    line = np.array([*half[:0:-1], *half], dtype=float) / 2.0**128
    return _Spread(np.log(line[1:] / line[:-1]), line[1:], float(line[0]))


def _response(epsilon: float) -> _Spread:
    right = 1 / (1 + math.exp(-epsilon))
    return _Spread(np.array([epsilon, -epsilon]), np.array([right, 1 - right]), 0.0)


def _added(some: _Spread, one: _Spread) -> _Spread | None:
    """Return the sums of losses, equal ones together; None if there are too many."""
    if len(some.loss) * len(one.loss) > 64 * MOST_VALUES:
        return None
    sums = np.add.outer(some.loss, one.loss).reshape(-1)
    _, first, which = np.unique(np.rint(sums / GRID), return_index=True, return_inverse=True)
    if len(first) > MOST_VALUES:
        return None
    weights = np.multiply.outer(some.mass, one.mass).reshape(-1)
    mass = np.asarray(np.bincount(which.reshape(-1), weights), dtype=np.float64)
    return _Spread(sums[first], mass, 1 - (1 - some.infinite) * (1 - one.infinite))


def _lattice_sum(rows: Sequence[tuple[_Spread, int]], step: float, total: float, *, up: bool) -> _Spread:
    """Return the sums of losses on a lattice, each moved down, far ones to its end, or up, far ones to infinity."""
    size = 1 << (2 * math.ceil((total + 2 * _NATS) / step)).bit_length()
    spectrum: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=complex)
    kept, most = 1.0, (total + _NATS) / step
    for one, n in rows:
        places, mass, infinite = one.loss / step, one.mass, one.infinite
        far = places > most
        infinite += float(mass[far].sum()) if up else 0.0
        places, mass = (places[~far], mass[~far]) if up else (np.minimum(places, most), mass)
        whole = np.ceil(places - _NEAR) if up else np.floor(places + _NEAR)
        line = np.bincount(np.maximum(whole, -most).astype(int) % size, mass, size)
        spectrum *= np.fft.rfft(line) ** n
        kept *= (1 - infinite) ** n
    masses = np.maximum(np.fft.irfft(spectrum, size), 0.0)
    place = np.arange(size)
    return _Spread(step * np.where(place < size // 2, place, place - size), masses, 1 - kept)


ChangeLoss = PureLoss | PairLoss | GaussianLoss | WidestEnds | MixedLoss
"""What can be computed of a change.

`stated_at`: deltas at which a ledger states epsilon; `rho`: exact, None unless noise is Gaussian; `counts`: how many
counts move; `delta`: exact, None unless losses are pairs; `guess`: ends of the chance of the best guess between two
equally likely answers; `powers`: ends of the power of the best test at each of ALPHAS.
"""


def composed_loss(
    moved: Iterable[tuple[str, MovedCounts]], responses: Sequence[tuple[Fraction, Fraction]]
) -> ChangeLoss:
    """Return the loss of everything: noise of any laws, and the (epsilon, e^epsilon) of other mechanisms."""
    rows = [(law_named(law), m) for law, m in moved]
    kinds = {law.loss_name for law, _ in rows}
    if not responses and len(kinds) == 1 and "epsilon_delta" not in kinds:
        return loss_of_laws(min(kinds), ((law.name, m) for law, m in rows))
    return MixedLoss(tuple(rows), tuple(responses))


def mixed_end_agrees(stated: tuple[Fraction, Fraction], mine: Ends, slack: Fraction, *, narrow: bool) -> bool:
    """Tell whether the stated upper end is not below the true value, nor far above, and a lower one not above it."""
    low, high = stated
    near = MIXED_SLACK * mine.upper + slack
    if narrow and high - low > Fraction(1, 10**6) * high + Fraction(1, 10**12):
        return False
    return low <= mine.upper + near and mine.lower * (1 - MIXED_SLACK) <= high <= mine.upper + near
