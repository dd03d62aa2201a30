"""What a change costs, computed anew: from the exact laws of the noise it meets to enclosures of what is stated.

The certificate's engine puts numbers in balls where it can. Here they are computed in float64, with other nodes, so a
fault of one has to meet its match in the other. Where no sum is quick, the bounds of theorems are all there is.

Noise of whole weights: a count that moves by 1 has the loss ln(p(x) / p(x - 1)) with probability p(x); moved down a
lattice, the sum of the losses gives a delta not above the true one, moved up one not below; an infinite loss always
counts. Choices are between the noise alone and the noise with randomised response.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats
from topdown.verify.exact_arithmetic import ROUNDED, Ends, digits_of, exp, tight_formula
from topdown.verify.gaussian_sums import GaussianSum
from topdown.verify.noise_laws import CheckedLaw, law_named

WeightsAndCount = tuple[tuple[str, ...], int]  # weights of 0, 1, .. of a law, and how many counts move in it
_LEAST, _MOST = 1 << 10, 1 << 12  # steps up to epsilon
_NATS = 8.0  # most nats of one count that are told apart
_NEAR = 1e-6  # of a step: a loss this near to the lattice lies on it
FLOAT_SLACK, FLOAT_ZERO = 1e-3, 1e-13  # what float64 may lose, relative and absolute
VAGUE = 1e-2  # how much above a stated delta may be: its window ends where few losses are left, these count in full


def delta_between(
    parts: Sequence[WeightsAndCount], shares: Sequence[Fraction], total: Fraction, epsilon: Fraction
) -> tuple[float, float]:
    """Return about (lower, upper) bound of the delta of all counts together at epsilon.

    Args:
        parts: laws and counts.
        shares: epsilon of one count of each over `total`.
        total: epsilon of all counts together, above 0.
        epsilon: where delta is asked for.
    """
    equal = math.lcm(*(share.denominator for share in shares))
    step = float(total) / (equal * math.ceil(_LEAST / equal) if equal <= _MOST else _MOST)
    size = 1 << (2 * math.ceil((float(total) + 2 * _NATS) / step)).bit_length()
    found = []
    for up in (False, True):
        spectrum: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=complex)
        kept = 1.0
        for weights, count in parts:
            row, infinite = _loss_masses(weights, step, size, up=up)
            spectrum *= np.fft.rfft(row) ** count
            kept *= (1 - infinite) ** count
        masses = np.fft.irfft(spectrum, size)[: size // 2]
        losses = np.arange(size // 2) * step
        over = losses > float(epsilon)
        telling = float((masses[over] * -np.expm1(float(epsilon) - losses[over])).sum())
        found.append(min(max(telling, 0.0) + 1 - kept, 1.0))
    return found[0] * (1 - FLOAT_SLACK) - FLOAT_ZERO, found[1] * (1 + VAGUE) + FLOAT_ZERO


def _loss_masses(weights: Sequence[str], step: float, size: int, *, up: bool) -> tuple[Floats, float]:
    """Return the masses of the losses of one count round a circle, and that of the infinite loss."""
    half = [int(w) for w in weights]
    if len(half) < 2 or min(half) < 1:
        raise ValueError("a law has a weight that is 0, or no weights")
    line = np.array([*half[:0:-1], *half], dtype=float) / 2.0**128
    row, infinite = np.zeros(size), float(line[0])
    places = np.log(line[1:] / line[:-1]) / step
    most = _NATS / step
    if up:
        infinite += float(line[1:][places > most].sum())
        places, own = np.maximum(places[places <= most], -most), line[1:][places <= most]
        whole = np.ceil(places - _NEAR)
    else:
        own, whole = line[1:], np.floor(np.clip(places, -most, most) + _NEAR)
    np.add.at(row, whole.astype(int) % size, own)
    return row, infinite


ALPHAS = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80))
EVERY_DELTA = "0"
_ONE = Fraction(1)


class MovedCounts(NamedTuple):
    """Counts that move in noise of one law: parameter, by how much, how many; delta and weights, if it has them."""

    parameter: Fraction
    shift: int
    n: int
    delta: Fraction = Fraction(0)
    weights: tuple[str, ...] = ()


class ChangeLoss(Protocol):
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

    def epsilon(self, delta: str) -> Ends:
        """Enclose epsilon at a delta such as 1e-10, or at 0: for every delta."""

    @property
    def guess(self) -> Ends:
        """Ends of the chance of the best guess between two equally likely answers."""

    @property
    def powers(self) -> list[Ends]:
        """Ends of the power of the best test at each of ALPHAS."""


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
    """Return the loss of counts moved in independent noise of several laws, all of one kind of loss.

    Args:
        loss_name: rho, epsilon or epsilon_delta.
        moved: name of the law, and the counts.
    """
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


CHOICE_METHOD = "noise and choices: between noise alone and randomised response"
CHOICE_SLACK = Fraction(1, 10**4)  # by this part of itself an end may differ from the one found here


@dataclass(frozen=True, eq=False)
class WithChoices:
    """The loss of noise, and of choices of a pure epsilon in all; `rho` is None in a ledger of epsilon."""

    noise: ChangeLoss
    pure: Fraction
    rho: Fraction | None

    @property
    def counts(self) -> int:
        """How many counts behind noise move."""
        return self.noise.counts

    @property
    def delta(self) -> None:
        """No ledger of pairs books choices."""

    @property
    def powers(self) -> list[Ends]:
        """No curve is stated of it."""
        raise ValueError("no curve is stated of a ledger")

    def epsilon(self, delta: str) -> Ends:
        """Return [noise alone, noise and choices], the upper end by sums of epsilon or of rho."""
        box = self.noise.epsilon(delta)
        high = box.upper + self.pure
        if self.rho is not None:
            high = min(high, tight_formula(self.rho, digits_of(delta)))
        return Ends(box.lower, max(high, box.lower), CHOICE_METHOD)

    @property
    def guess(self) -> Ends:
        """Return [noise alone, (r + delta(epsilon)) / (1 + r)], r = e**epsilon of the choices."""
        alone = self.noise.guess
        if isinstance(self.noise, PureLoss):
            odds = exp(self.noise.total + self.pure)
            return Ends(alone.lower, min(odds / (1 + odds) * (1 + ROUNDED), Fraction(1)), CHOICE_METHOD)
        odds, high = exp(self.pure), Fraction(1)
        if isinstance(self.noise, GaussianLoss):
            _, delta = self.noise.total.delta(float(self.pure))
            high = (odds + Fraction(delta)) / (1 + odds) * (1 + ROUNDED)
        return Ends(alone.lower, max(alone.lower, min(high, Fraction(1))), CHOICE_METHOD)


def with_choices(noise: ChangeLoss, choices: Sequence[tuple[Fraction, Fraction]]) -> ChangeLoss:
    """Return the loss of noise together with the (epsilon, rho) of choices; that of the noise if there are none."""
    if not choices:
        return noise
    rho = None if noise.rho is None else noise.rho + sum((rho for _, rho in choices), Fraction(0))
    return WithChoices(noise, sum((epsilon for epsilon, _ in choices), Fraction(0)), rho)


def ends_agree(low: Fraction, high: Fraction, mine: Ends) -> bool:
    """Tell whether stated ends are those found here, but for rounding outward and what other engines leave open."""
    near = CHOICE_SLACK * mine.upper + Fraction(1, 10**12)
    return mine.lower - near <= low <= mine.lower + near and mine.upper - near <= high <= mine.upper + near
