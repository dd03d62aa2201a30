"""The law of the whole privacy loss of discrete Gaussian noise, summed by code of verify's own.

One count with noise N_Z(0, v) that a change moves by s has the loss (2 x s + s^2) / (2 v) where the noise is x; losses
of independent counts add up. Where few sums are possible they are all listed. Elsewhere each loss is shared between the
two nearest points of a lattice so that its probability under both neighbours is kept ("connect the dots", Doroshenko,
Ghazi, Kamath, Kumar, Manurangsi 2022), and what lattices twice and four times as wide find tells how far off that is:
six digits are right, where a certificate has more. Laws are tilted by e^(t loss) before they are transformed, so that
small deltas keep their digits. Losses that spread little beside the others are added up first, on a shorter part of
the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Group = tuple[Fraction, int, int]  # variance, shift, number of counts
MOST_SUMS, MOST_VALUES = 1 << 20, 1 << 11  # of losses that are listed, in all and on one side of a group
MOST_VARIANCE, MOST_COUNTS = 10**6, 10**8  # beyond, a group is as good as continuous
IMPOSSIBLE = 1e-130
POINTS = 1 << 17  # of the finest lattice
# Where half the step moves a number about a fourth as far, an error of second order with a part of first order is
# within an eighth of the last move, once a third of it is taken off.
ORDER_TWO = 3.63, 4.37
SHORTER, LEAST_POINTS = 4, 1 << 10  # a ring of a fourth of the points holds a fourth of the deviation
WIDE, FAR = 12.0, 23.0  # deviations either side of the mean that the lattice holds, or a list does
# Tilted by BETWEEN deviations, a law keeps ten digits of delta at 0, if that is near, and at twice as many deviations.
BETWEEN, MOST_RHO_BETWEEN = 3.5, 8
LEAST_VARIANCE, SMALL_VARIANCE, MANY = Fraction(1, 16), 4, 10_000  # beyond which a curve may be one of bounds
MOST_STEPS = 10**5  # of the lattice of all losses in their deviation; else a small variance is slow, too
NODES = 1 << 18  # of continuous noise
EXACT, NEAR, NEAR_POWER = 1e-10, 1.5e-6, 3e-5  # relative: what a list may lose, a lattice, and a power on one


@dataclass(frozen=True, eq=False)
class _Losses:
    """Losses in increasing order, and the probability of each under one neighbour and under the other."""

    loss: Floats
    here: Floats
    there: Floats

    def delta(self, epsilon: float) -> float:
        """Return the sum of P(l) (1 - e^(epsilon - l)) over losses above epsilon."""
        k = int(np.searchsorted(self.loss, epsilon, side="right"))
        return float((self.here[k:] * -np.expm1(epsilon - self.loss[k:])).sum())

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon, at least 0, whose delta is at most this one."""
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = int(np.searchsorted(self.loss, 0.0, side="right")), len(self.loss) - 1
        while low < high:  # the first loss whose delta is small enough
            middle = (low + high) // 2
            low, high = (low, middle) if self.delta(float(self.loss[middle])) <= delta else (middle + 1, high)
        end = float(self.loss[low])
        mass, odds = self.here[low:], np.exp(end - self.loss[low:])
        return max(end + math.log((float(mass.sum()) - delta) / float((mass * odds).sum())), 0.0)

    def power(self, alpha: float) -> float:
        """Return the power of the best test that raises false alarms at this rate."""
        alarms, hits = (np.concatenate(([0.0], np.cumsum(p[::-1]))) for p in (self.there, self.here))
        return float(np.interp(alpha, alarms, hits))


class GaussianSum:
    """The privacy loss of counts with discrete Gaussian noise that a change moves.

    Args:
        groups: variance, shift and number of counts; equal ones may be given together.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = tuple((v, abs(s), n) for v, s, n in groups if s and n)
        self.rho = sum((Fraction(n * s * s) / (2 * v) for v, s, n in self._groups), Fraction(0))
        self.counts = sum(n for _, _, n in self._groups)
        self._listed = _list_sums(self._groups)

    @property
    def is_slow(self) -> bool:
        """Whether exact sums may take so long that only theorems can be quoted for a curve."""
        if self._listed is not None:
            return False
        least, step = min(v for v, _, _ in self._groups), Fraction(0)
        for v, s, _ in self._groups:  # the greatest number that all losses are multiples of
            one = s / v
            bottom = math.lcm(step.denominator, one.denominator)
            step = Fraction(math.gcd(int(step * bottom), int(one * bottom)), bottom)
        uneven = 2 * self.rho > (MOST_STEPS * step) ** 2
        return least <= LEAST_VARIANCE or (least <= SMALL_VARIANCE and uneven) or self.counts > MANY

    def epsilon(self, digits: int) -> tuple[float, float]:
        """Return ends of epsilon at delta 10^-digits."""
        return self._ends("epsilon", 10.0**-digits, self._tilt(math.sqrt(2 * digits * math.log(10))))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return ends of delta at an epsilon of at least 0."""
        rho = float(self.rho)
        return self._ends("delta", epsilon, self._tilt(max(epsilon - rho, 0.0) / math.sqrt(2 * rho)))

    def deltas(self, epsilons: Floats) -> Floats:
        """Return delta at many epsilons of at least 0, to about 10^-13 of 1: for sums with other losses."""
        losses = self._listed or _on_lattice(self._groups, 0.0, POINTS)
        above = losses.loss > 0
        loss, here = losses.loss[above], losses.here[above]
        sums = [np.append(np.cumsum(p[::-1])[::-1], 0.0) for p in (here, here * np.exp(-loss))]
        k = np.searchsorted(loss, epsilons, side="right")
        found: Floats = np.maximum(sums[0][k] - np.exp(np.minimum(epsilons, 700.0)) * sums[1][k], 0.0)
        return found

    def epsilon_below(self, delta: float) -> float:
        """Return an epsilon that is large enough at a delta: rho + 2 sqrt(rho ln(1 / delta))."""
        rho = float(self.rho)
        return rho + 2 * math.sqrt(rho * -math.log(delta))

    def power(self, alpha: float) -> tuple[float, float]:
        """Return ends of the power of the best test at a rate of false alarms."""
        return self._ends("power", alpha, 0.0, NEAR_POWER)

    def _tilt(self, deviations: float) -> float:
        """Return the tilt for what losses so many deviations above the mean decide; one for all that are not far."""
        if deviations <= 2 * BETWEEN and self.rho <= MOST_RHO_BETWEEN:
            deviations = BETWEEN
        return deviations / math.sqrt(float(2 * self.rho))

    def _ends(self, name: str, argument: float, tilt: float, near: float = NEAR) -> tuple[float, float]:
        if self._listed is not None:
            found: float = getattr(self._listed, name)(argument)
            return found * (1 - EXACT), found * (1 + EXACT)
        return _lattice_ends(self._groups, name, argument, tilt, near)


@lru_cache(maxsize=4096)  # a release's statements are checked before its charge and again when it is written
def _lattice_ends(
    groups: tuple[Group, ...], name: str, argument: float, tilt: float, near: float
) -> tuple[float, float]:
    """Return ends of a number of `_Losses`, from lattices of which each is twice as fine as the one before."""

    def found(points: int) -> float:
        return float(getattr(_on_lattice(groups, tilt, points), name)(argument))

    # What a lattice adds grows with the square of its step, and with the step itself where sums have an atom at a kink.
    wider, wide, fine = (found(POINTS >> k) for k in (3, 2, 1))
    low, high = sorted(ratio * (wide - fine) for ratio in ORDER_TWO)
    if low < wider - wide < high:
        best, off = fine - (wide - fine) / 3, abs(wide - fine) / 8
    else:
        wide, fine = fine, found(POINTS)  # the finest, and no order is supposed
        best, off = fine - (wide - fine) * 2 / 3, abs(wide - fine) / 2
    off += near * abs(fine)
    return max(best - off, 0.0), best + off


def _list_sums(groups: Sequence[Group]) -> _Losses | None:
    """Return every sum of losses but those that are next to impossible; None if there are too many."""
    if any(_reach(group) > MOST_VALUES for group in groups):
        return None
    loss, here, there = np.zeros(1), np.ones(1), np.ones(1)
    for v, s, n in groups:
        reach = _reach((v, s, n))
        if len(loss) * (2 * reach + 1) > MOST_SUMS:
            return None
        one = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / float(2 * v))
        total, values = np.ones(1), one / one.sum()
        for _ in range(n):
            total = np.convolve(total, values)
            middle = len(total) // 2
            total = total[max(middle - reach, 0) : middle + reach + 1]
        at = np.arange(-(len(total) // 2), len(total) // 2 + 1)
        own = (2.0 * s * at + n * s * s) / float(2 * v)
        loss = np.add.outer(loss, own).reshape(-1)
        here = np.multiply.outer(here, total).reshape(-1)
        there = np.multiply.outer(there, np.append(total[n * s :], np.zeros(n * s))).reshape(-1)
        kept = np.maximum(here, there) > IMPOSSIBLE
        loss, here, there = loss[kept], here[kept], there[kept]
    order = np.argsort(loss, kind="stable")
    return _Losses(loss[order], here[order], there[order])


def _reach(group: Group) -> int:
    """Return how far the noise of a group of counts is listed, either side."""
    v, s, n = group
    return math.ceil(FAR * math.sqrt(float(n * v))) + 2 + n * s


@dataclass(frozen=True, eq=False)
class _Ring:
    """The tilted law of a sum on a lattice that goes round: point i is loss (first + i) x step.

    Args:
        first: number of the first point.
        mass: probability of every point.
        log_mean: ln E[e^(tilt loss)].
        mean: of the tilted losses.
    """

    first: int
    mass: Floats
    log_mean: float
    mean: float


@lru_cache(maxsize=4)  # all powers of a loss ask for the same ones
def _on_lattice(groups: tuple[Group, ...], tilt: float, points: int) -> _Losses:
    """Return the law on a lattice of so many points around the losses that the tilt makes likely.

    Only without a tilt is the probability under the other neighbour right everywhere.
    """
    step = 2.0 ** math.ceil(math.log2(2 * WIDE * math.sqrt(_square(groups)) / points))
    here = _masses(groups, tilt, step, points)
    if tilt:
        return _Losses(*here, here[1])
    there = _masses(groups, -1.0, step, points)
    first = min(here[0][0], there[0][0])
    size = round((max(here[0][-1], there[0][-1]) - first) / step) + 1
    both = np.zeros((2, size))
    for row, (loss, mass) in zip(both, (here, there), strict=True):
        start = round((loss[0] - first) / step)
        row[start : start + points] = mass
    return _Losses(first + step * np.arange(size), *both)


def _masses(groups: tuple[Group, ...], tilt: float, step: float, points: int) -> tuple[Floats, Floats]:
    """Return points of the lattice and P(loss), or P(loss) e^(-loss) for tilt -1; right where the tilt puts them."""
    smooth = sum((Fraction(n * s * s) / v for v, s, n in groups if _is_smooth(v, n)), Fraction(0))
    each = [(v, s, n) for v, s, n in groups if not _is_smooth(v, n)]
    ring = _added_up(each + ([(1 / smooth, 0, 1)] if smooth else []), tilt, step, points)
    loss: Floats = step * (ring.first + np.arange(points, dtype=np.float64))
    if tilt in (0.0, -1.0):
        return loss, ring.mass
    with np.errstate(over="ignore", invalid="ignore"):
        return loss, np.where(ring.mass > 0, ring.mass * np.exp(ring.log_mean - tilt * loss), 0.0)


def _added_up(groups: Sequence[Group], tilt: float, step: float, points: int) -> _Ring:
    """Return the law of a sum whose deviation is at most a `WIDE`th of half the ring.

    Those that spread least are added up first, on a ring of fewer points that is as wide for their deviation.
    """
    ordered = sorted(groups, key=lambda group: _square([group]))
    spectrum, log_mean, middle = np.ones(points // 2 + 1, dtype=complex), 0.0, 0.0
    narrow, room = 0, (step * points / (2 * WIDE * SHORTER)) ** 2
    if points // SHORTER >= LEAST_POINTS:
        while narrow < len(ordered) and _square(ordered[: narrow + 1]) <= room:
            narrow += 1
    if narrow:
        short = _added_up(ordered[:narrow], tilt, step, points // SHORTER)
        line = np.zeros(points)
        line[(short.first + np.arange(len(short.mass))) % points] = short.mass
        spectrum, log_mean, middle = np.fft.rfft(line), short.log_mean, short.mean
    for variance, shift, n in ordered[narrow:]:
        line, log, mean = _one_count(variance, shift, tilt, step, points)
        spectrum *= _power(np.fft.rfft(line), n)
        log_mean += n * log
        middle += n * mean
    first = round(middle / step) - points // 2
    mass = np.maximum(np.roll(np.fft.irfft(spectrum, points), -(first % points)), 0.0)
    return _Ring(first, mass, log_mean, middle)


def _square(groups: Sequence[Group]) -> float:
    """Return the square of the deviation of the losses; shift 0: see `_one_count`."""
    return sum(n * (s * s or 1) / float(v) for v, s, n in groups)


def _is_smooth(variance: Fraction, count: int) -> bool:
    return variance > MOST_VARIANCE or count > MOST_COUNTS


def _one_count(
    variance: Fraction, shift: int, tilt: float, step: float, points: int
) -> tuple[Floats, float, float]:
    """Return one count's tilted law on the ring, from loss 0 on, ln E[e^(tilt loss)], and the tilted mean.

    shift 0: continuous noise of all counts together, whose losses have the variance 1 / `variance`.
    """
    if shift:
        v, shifted = float(variance), tilt * shift
        reach = math.ceil((WIDE + 2) * math.sqrt(v)) + 2
        near = np.arange(-reach, reach + 1.0)
        noise = np.rint(shifted) + near
        mass = np.exp(-((noise - shifted) ** 2) / (2 * v))
        log = math.log(float(mass.sum() / np.exp(-near * near / (2 * v)).sum()))
        log += (tilt + tilt * tilt) * shift * shift / (2 * v)
        loss = (2 * noise * shift + shift * shift) / (2 * v)
    else:
        total, near = float(1 / variance), np.linspace(-WIDE - 2, WIDE + 2, NODES + 1)
        mass, log = np.exp(-near * near / 2), (tilt + tilt * tilt) * total / 2
        loss = total / 2 + tilt * total + math.sqrt(total) * near
    mass /= mass.sum()
    low = np.floor(loss / step)
    below, at = low * step - loss, low.astype(np.int64) % points
    # of the upper point, so that both neighbours keep their probability
    share = np.expm1(below) / math.expm1(-step)
    line = np.zeros(points)
    np.add.at(line, at, mass * (1 - share) * np.exp(tilt * below))
    np.add.at(line, (at + 1) % points, mass * share * np.exp(tilt * (below + step)))
    return line, log, float((mass * loss).sum())


def _power(base: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    out = base
    for bit in f"{n:b}"[1:]:
        out = out * out
        out = out * base if bit == "1" else out
    return out


def continuous_epsilon(rho: Fraction, digits: int) -> float:
    """Return epsilon at delta 10^-digits of continuous Gaussian noise of this rho, above 0.

    Dong, Roth, Su 2022, corollary 1.
    """
    mu, target = math.sqrt(float(2 * rho)), -digits * math.log(10)

    def log_delta(epsilon: float) -> float:
        first, second = _log_tail(epsilon / mu - mu / 2), epsilon + _log_tail(epsilon / mu + mu / 2)
        return first + math.log(-math.expm1(min(second - first, -1e-16)))

    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * target) + 1e-300
    if log_delta(low) <= target:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle) > target else (low, middle)
    return (low + high) / 2


def _log_tail(x: float) -> float:
    """Return ln P[N(0, 1) > x]: of large x by the asymptotic series."""
    if x < 30:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6
    return -x * x / 2 - math.log(x * math.sqrt(2 * math.pi)) + math.log(series)
