"""Tilted, sieved trapezoidal rule in float64, with an a-priori bound on every value; and one FFT as its plain twin.

delta(eps) = exp(theta**2 R - theta x0) * B, B a sum of terms that are positive in expectation and of the size
of 1 / (theta stddev): the relative precision is the same at delta = 0.1 and delta = 1e-300. One sum gives
delta directly; nothing is multiplied by exp(eps). The bound is an engineering bound: it assumes that libm and
numpy are right to 8 units in the last place and that numpy sums pairwise (PROOF.md, section 5).

The FFT has the characteristic function at all N nodes, which gives every tilted probability with a small absolute
error; a threshold is then a weighted sum. Error bound: transform and input errors in the 2-norm (PROOF.md, section
7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats
from topdown.errors import ConfigError
from topdown.privacy.accountant.gaussian_loss import OUTWARD, LossDistribution
from topdown.privacy.accountant.quadrature_nodes import (
    TWO_PI,
    Window,
    beyond_last,
    centred_turns,
    lattice_window,
    open_error,
    open_window,
    reach,
    window_error,
)
from topdown.privacy.exact_values import Enclosure, from_floats

_NEGLIGIBLE = 46.0


@dataclass(frozen=True)
class Branches:
    """Branches of one group that are written down, at some nodes: coefficients (shape [j, node])."""

    shift: int
    count: int
    nodes: NDArray[np.int64]
    orders: NDArray[np.int64]
    coefficients: Floats


@dataclass(frozen=True)
class Spectrum:
    """Arrays over n nodes.

    energy: sum m v t**2 / 2; drift: sum m k t; travel: sum m k |t|; size: bound of the modulus, all branches
    written down included; branch_load: sum of m over groups with branches (for the rounding bound); unseen: bound of
    what the branches left out change, in units of `size`.
    """

    law: LossDistribution
    energy: Floats
    drift: Floats
    travel: Floats
    size: Floats
    branch_load: Floats
    branches: tuple[Branches, ...]
    log_norm: float
    unseen: Floats

    @property
    def n_groups(self) -> int:
        """Number of distinct (variance, shift)."""
        return len(self.law.groups)


def spectrum_of(law: LossDistribution, index: NDArray[np.int64], period: Fraction) -> Spectrum:
    """Evaluate the threshold-free part at the nodes 2 pi index / period, index ascending."""
    n = len(index)
    energy, drift, travel, log_size, load = (np.zeros(n) for _ in range(5))
    branches, left_out = [], np.zeros(n)
    for group, weight in zip(law.groups, law.weights, strict=True):
        turns = centred_turns(index, weight / period)
        angle = TWO_PI * turns
        variance = float(group.variance)
        energy += (0.5 * group.count * variance) * angle * angle
        drift += group.count * group.shift * angle
        travel += group.count * group.shift * np.abs(angle)
        most = 1
        while 2 * math.pi**2 * variance * most * (most + 1) < _NEGLIGIBLE:
            most += 1
        # the sum of the branches that are not written down (PROOF.md, lemma 7)
        level = np.maximum(2 * math.pi**2 * variance * (1 - 2 * np.abs(turns)), _NEGLIGIBLE)
        bound: Floats = 2 * np.exp(-level) / -math.expm1(-2 * _NEGLIGIBLE / (most + 1)) * (1 + OUTWARD)
        left_out += group.count * bound
        found = _float_branches(variance, group.shift, group.count, turns, most)
        if found:
            branches.append(found)
            log_size[found.nodes] += group.count * np.log1p(found.coefficients.sum(axis=0))
            load[found.nodes] += group.count
    # sum m ln Th(0), Th(0) = sum_j exp(-2 pi**2 v j**2)
    log_norm = 0.0
    for group in law.groups:
        rate = 2 * math.pi**2 * float(group.variance)
        terms, j = 0.0, 1
        while rate * j * j < 745:
            terms += 2 * math.exp(-rate * j * j)
            j += 1
        log_norm += group.count * math.log1p(terms)
    size = np.exp(log_size - energy - log_norm) * (1 + OUTWARD)
    unseen = np.expm1(left_out) * (1 + OUTWARD)
    return Spectrum(law, energy, drift, travel, size, load, tuple(branches), log_norm, unseen)


def tilted(spectrum: Spectrum, theta: Floats) -> tuple[Floats, Floats | None]:
    """Return (modulus of all branches written down, phase they add or None), shapes [n] or [len(theta), n].

    Powers are taken in logarithms: a norm to the power of many coordinates leaves the range of floats on its own.
    """
    modulus = -spectrum.energy - spectrum.log_norm
    if not spectrum.branches:
        return np.exp(modulus), None
    level = np.tile(modulus, (len(theta), 1))
    phase = np.zeros_like(level)
    for branch in spectrum.branches:
        turns = np.mod(np.outer(theta * branch.shift, branch.orders), 1.0)
        factor = 1.0 + np.exp(-1j * TWO_PI * turns) @ branch.coefficients
        level[:, branch.nodes] += branch.count * np.log(np.maximum(np.abs(factor), 1e-300))
        phase[:, branch.nodes] += branch.count * np.angle(factor)
    return np.exp(level), phase


def _float_branches(variance: float, shift: int, count: int, turns: Floats, most: int) -> Branches | None:
    orders = np.array([j for j in range(-most, most + 1) if j], dtype=np.int64)
    rate = 2 * math.pi**2 * variance
    near = np.nonzero(rate * (1 - 2 * np.abs(turns)) < _NEGLIGIBLE)[0]
    if not len(near):
        return None
    exponent = rate * (orders[:, None] ** 2 - 2.0 * orders[:, None] * turns[None, near])
    return Branches(shift, count, near, orders, np.exp(-exponent))


ROUNDING = 2.0**-53
_NATS = 43.0
_BLOCK = 1_500_000
Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class Sums:
    """exp(log_scale) * value, each with an absolute bound `error` on `value`; shape [thresholds]."""

    log_scale: Floats
    value: Floats
    error: Floats
    log_error: Floats

    def bounds(self) -> tuple[Floats, Floats]:
        """Return (lower, upper) arrays, rounded outward, never below 0."""
        scale = np.exp(self.log_scale)
        slack = self.log_error + 16 * ROUNDING
        lower = (self.value - self.error) * scale * (1 - slack) - 5e-324
        upper = (self.value + self.error) * scale * (1 + slack) + 5e-324
        return np.maximum(lower, 0.0), upper

    def enclosures(self, method: str) -> list[Enclosure]:
        """Return the bounds as enclosures, at most 1."""
        lower, upper = (ends.tolist() for ends in self.bounds())
        return [from_floats(min(a, 1.0), min(b, 1.0), method) for a, b in zip(lower, upper, strict=True)]


class Quadrature:
    """Float64 engine of one law; set-up is done once, thresholds are evaluated in blocks.

    Args:
        law: the composition.
        lattice: sum over the lattice of the loss (True) or use the lattice-free kernel (False, delta only).
    """

    def __init__(self, law: LossDistribution, *, lattice: bool = True) -> None:
        self.law, self.lattice = law, lattice

    @property
    def method(self) -> str:
        """Name of the engine."""
        return "float64" if self.lattice else "free/float64"

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        return self.delta_sums(epsilons).enclosures(self.method)

    def tails(self, indices: Sequence[int]) -> list[Enclosure]:
        """Return the enclosure of P[S >= index * spacing] at each index >= 0."""
        return self._lattice(indices, None).enclosures(self.method)

    @cached_property
    def window(self) -> Window:
        """Nodes of the rule."""
        return (lattice_window if self.lattice else open_window)(self.law, _NATS)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Threshold-free part."""
        return spectrum_of(self.law, self.window.index, self.window.period)

    def delta_sums(self, epsilons: Sequence[Fraction]) -> Sums:
        """Return delta at each epsilon."""
        points = [e - self.law.half for e in epsilons]
        if not self.lattice:
            return _join([self._open_block(points[part]) for part in self._blocks(len(points))])
        first, gap = zip(*map(self.law.first_above, points), strict=True)
        return self._lattice(first, np.array([float(g) for g in gap]))

    def _lattice(self, first: Sequence[int], gap: Floats | None) -> Sums:
        parts = self._blocks(len(first))
        return _join([self._lattice_block(first[p], None if gap is None else gap[p]) for p in parts])

    def _blocks(self, n: int) -> list[slice]:
        step = max(1, _BLOCK // len(self.window.index))
        return [slice(i, i + step) for i in range(0, n, step)]

    def _lattice_block(self, first: Sequence[int], gap: Floats | None) -> Sums:
        window, law, n_points = self.window, self.law, self.window.n_points
        step, per = law.spacing.as_integer_ratio()
        x0 = np.array([i * step / per for i in first])
        theta = np.maximum(x0 / float(law.total), 0.0)
        kernel, size = lattice_kernel(window, window.index, theta, gap)
        turns = turns_of(window.index, [Fraction(i % n_points, n_points) for i in first])
        weight = np.full(len(window.index), 2.0 / n_points)
        weight[0] = 1.0 / n_points
        left_out = np.array([window_error(window, t, x) for t, x in zip(theta, x0, strict=True)])
        left_out += 2 * window.peaks.dropped / n_points * size[:, 0] * (1 + OUTWARD)
        return self._sum(theta, x0, turns, kernel, size, weight, left_out)

    def _open_block(self, points: Sequence[Fraction]) -> Sums:
        window, law = self.window, self.law
        point = np.array([float(t) for t in points])
        total, period = float(law.total), float(window.period)
        least = 1 / (math.sqrt(total) + np.maximum(-point, 0.0))
        theta = np.maximum(point / total, least)
        node = TWO_PI / period * window.index
        first = theta[:, None] + 1j * node
        kernel = 1 / (first * (first + 1))
        size = np.abs(kernel)
        turns = turns_of(window.index, [(t / window.period) % 1 for t in points])
        weight = np.full(len(window.index), 2.0 / period)
        weight[0] = 1.0 / period
        left_out = np.array([open_error(window, t, x) for t, x in zip(theta, point, strict=True)])
        left_out += 2 * window.peaks.dropped / period * size[:, 0] * (1 + OUTWARD)
        left_out += beyond_last(window)
        return self._sum(theta, point, turns, kernel, size, weight, left_out)

    def _sum(
        self,
        theta: Floats,
        origin: Floats,
        turns: Floats,
        kernel: Complexes,
        size: Floats,
        weight: Floats,
        left_out: Floats,
    ) -> Sums:
        spectrum, law = self.spectrum, self.law
        modulus, branch_phase = tilted(spectrum, theta)
        phase = theta[:, None] * spectrum.drift - TWO_PI * turns
        if branch_phase is not None:
            phase += branch_phase
        terms = np.cos(phase) * kernel.real - np.sin(phase) * kernel.imag
        value = (terms * (modulus * weight)).sum(axis=1)
        per_group = 14.0 + 2 * spectrum.n_groups
        load = 90.0 + math.log2(len(weight)) + per_group * spectrum.energy + 12 * spectrum.branch_load
        load = load[None, :] + per_group * theta[:, None] * spectrum.travel
        mass = size * (spectrum.size * weight)
        error = (mass * (ROUNDING * load + spectrum.unseen)).sum(axis=1) * (1 + 1e-6) + left_out
        half = float(law.half)
        log_scale = theta * theta * half - theta * origin
        log_error = (
            4 * ROUNDING * (theta * theta * half + theta * np.abs(origin) + 4 + abs(spectrum.log_norm))
        )
        return Sums(log_scale, value, error, log_error)


def lattice_kernel(
    window: Window, index: NDArray[np.int64], theta: Floats, gap: Floats | None
) -> tuple[Complexes, Floats]:
    """Return the kernel at every node and the size of the parts it is added up from, shape [thresholds, nodes].

    gap: distance from each threshold to the first lattice point above it, for delta; None for tails.

    With z = exp(-theta g - i psi), F = sum_{j < J} z**j and F2 the same at theta + 1, a tail needs F and delta
    needs F - exp(-gap) F2, written without cancellation as
    (z (1 - e**-g) F - z**J (1 - e**(-g J))) / (1 - z e**-g) + (1 - exp(-gap)) F2.
    """
    spacing, terms = float(window.law.spacing), window.terms
    node = TWO_PI * index / window.n_points
    whole = TWO_PI * turns_of(index, [Fraction(terms, window.n_points)])[0]
    low, side, whole_low, whole_side = (
        part for angle in (node, whole) for part in (2 * np.sin(angle / 2) ** 2, np.sin(angle))
    )

    def one_minus(exponent: Floats, low: Floats, side: Floats) -> Complexes:
        decay = np.exp(-exponent)
        out: Complexes = (-np.expm1(-exponent) + decay * low) + 1j * (decay * side)
        return out

    step, full = theta[:, None] * spacing, theta[:, None] * (spacing * terms)
    bottom, top = one_minus(step, low, side), one_minus(full, whole_low, whole_side)
    zero = bottom == 0
    bottom[zero], top[zero] = 1.0, float(terms)
    first = top / bottom
    if gap is None:
        return first, np.abs(first)
    bottom2 = one_minus(step + spacing, low, side)
    near = np.exp(-step) * ((1 - low) - 1j * side) * (-math.expm1(-spacing)) * first / bottom2
    far = np.exp(-full) * ((1 - whole_low) - 1j * whole_side) * (-math.expm1(-spacing * terms)) / bottom2
    edge = -np.expm1(-gap)[:, None] * (one_minus(full + spacing * terms, whole_low, whole_side) / bottom2)
    return near - far + edge, np.abs(near) + np.abs(far) + np.abs(edge)


def turns_of(index: NDArray[np.int64], ratios: list[Fraction]) -> Floats:
    """Return (ratio * index) mod 1 for each ratio, shape [ratios, nodes], reduced exactly."""
    largest = int(index[-1]) if len(index) else 0
    out = np.empty((len(ratios), len(index)))
    for row, ratio in zip(out, ratios, strict=True):
        top, bottom = ratio.numerator, ratio.denominator
        if top * largest < 2**62 and bottom < 2**53:
            row[:] = ((index * top) % bottom) / bottom
        else:
            row[:] = [(n * top) % bottom / bottom for n in index.tolist()]
    return out


def _join(blocks: list[Sums]) -> Sums:
    if len(blocks) == 1:
        return blocks[0]
    return Sums(
        np.concatenate([b.log_scale for b in blocks]),
        np.concatenate([b.value for b in blocks]),
        np.concatenate([b.error for b in blocks]),
        np.concatenate([b.log_error for b in blocks]),
    )


MOST_POINTS = 1 << 23


class LatticeFft:
    """FFT engine of one law."""

    method = "fft/float64"

    def __init__(self, law: LossDistribution) -> None:
        spacing = float(law.spacing)
        upper = reach(law, _NATS)
        terms = math.ceil((upper + float(law.half)) / spacing) + 2
        needed = terms + math.ceil(upper / spacing) + 2
        n_points = 1 << max(4, (needed - 1).bit_length())
        if n_points > MOST_POINTS:
            raise ConfigError(
                f"the lattice has {n_points} points in reach, above {MOST_POINTS}",
                code="A015",
                fix='use engine "auto": it sieves the nodes instead of transforming all of them',
            )
        self.law, self.n_points = law, n_points
        self.window = Window(law, _NATS, n_points * law.spacing, terms, n_points // 2, every=True)
        self.spectrum = spectrum_of(law, self.window.index, self.window.period)

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        rows = [self._one(*self.law.first_above(e - self.law.half)) for e in epsilons]
        return Sums(*(np.array(column) for column in zip(*rows, strict=True))).enclosures(self.method)

    def _one(self, index: int, gap: Fraction) -> tuple[float, float, float, float]:
        law, window, n_points = self.law, self.window, self.n_points
        x0 = float(index * law.spacing)
        theta = max(x0 / float(law.total), 0.0)
        modulus, branch_phase = tilted(self.spectrum, np.array([theta]))
        phase = theta * self.spectrum.drift
        if branch_phase is not None:
            phase, modulus = phase + branch_phase[0], modulus[0]
        values = modulus * np.exp(-1j * phase)  # conjugate: irfft adds exp(+i s x)
        masses = np.fft.irfft(values, n_points)
        steps = np.arange(window.terms) * float(law.spacing)
        kernel = np.exp(-theta * steps) * -np.expm1(-(steps + float(gap)))
        window_index = (index + np.arange(window.terms)) % n_points
        value = float((masses[window_index] * kernel).sum())
        size = self.spectrum.size
        load = 60 + (14 + 2 * self.spectrum.n_groups) * (self.spectrum.energy + theta * self.spectrum.travel)
        load += 12 * self.spectrum.branch_load + self.spectrum.unseen / ROUNDING
        inputs = float(np.linalg.norm(size * load)) * math.sqrt(2 / n_points)
        transform = 12 * math.log2(n_points) * float(np.linalg.norm(size)) * math.sqrt(2 / n_points)
        rounding = ROUNDING * (float(np.linalg.norm(kernel)) * (inputs + transform) + 80 * abs(value))
        half = float(law.half)
        log_scale = theta * theta * half - theta * x0
        log_error = 4 * ROUNDING * (theta * theta * half + theta * abs(x0) + 4 + abs(self.spectrum.log_norm))
        return log_scale, value, rounding + window_error(window, theta, x0), log_error
