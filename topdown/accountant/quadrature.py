"""Tilted, sieved trapezoidal rule in float64, with an a-priori bound on every value.

delta(eps) = exp(theta**2 R - theta x0) * B, B a sum of terms that are positive in expectation and of the size
of 1 / (theta stddev): the relative precision is the same at delta = 0.1 and delta = 1e-300. One sum gives
delta directly; nothing is multiplied by exp(eps). The bound is an engineering bound: it assumes that libm and
numpy are right to 8 units in the last place and that numpy sums pairwise (PROOF.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.accountant.law import Law
from topdown.accountant.spectrum import Floats, Spectrum, spectrum_of, tilted
from topdown.accountant.window import (
    TWO_PI,
    Window,
    beyond_last,
    lattice_window,
    open_error,
    open_window,
    window_error,
)

_UNIT = 2.0**-53
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
        slack = self.log_error + 16 * _UNIT
        lower = (self.value - self.error) * scale * (1 - slack) - 5e-324
        upper = (self.value + self.error) * scale * (1 + slack) + 5e-324
        return np.maximum(lower, 0.0), upper


class Quadrature:
    """Float64 engine of one law; set-up is done once, thresholds are evaluated in blocks.

    Args:
        law: the composition.
        lattice: sum over the lattice of the loss (True) or use the lattice-free kernel (False, delta only).
        nats: ln(1 / tolerance) of what the window leaves out; another value gives other nodes.
        limit: most nodes, if less than the window allows; EngineLimitError above.
    """

    def __init__(
        self, law: Law, *, lattice: bool = True, nats: float = _NATS, limit: int | None = None
    ) -> None:
        self.law = law
        self.lattice = lattice
        self.nats, self.limit = nats, limit

    @cached_property
    def window(self) -> Window:
        """Nodes of the rule."""
        make = lattice_window if self.lattice else open_window
        found = make(self.law, self.nats)
        return found if self.limit is None else replace(found, limit=min(self.limit, found.limit))

    @cached_property
    def spectrum(self) -> Spectrum:
        """Threshold-free part."""
        return spectrum_of(self.window)

    def delta_sums(self, epsilons: Sequence[Fraction]) -> Sums:
        """Return delta at each epsilon."""
        points = [e - self.law.half for e in epsilons]
        if not self.lattice:
            return self._run(points, self._open_block)
        first, gap = zip(*map(self.law.first_above, points), strict=True)
        return self._lattice(first, np.array([float(g) for g in gap]))

    def tail_sums(self, indices: Sequence[int]) -> Sums:
        """Return P[S >= index * spacing] for indices >= 0."""
        return self._lattice(indices, None)

    def _lattice(self, first: Sequence[int], gap: Floats | None) -> Sums:
        step = max(1, _BLOCK // len(self.window.index))
        blocks = [
            self._lattice_block(first[i : i + step], None if gap is None else gap[i : i + step])
            for i in range(0, len(first), step)
        ]
        return _join(blocks)

    def _run(self, points: list[Fraction], block: Callable[[Sequence[Fraction]], Sums]) -> Sums:
        step = max(1, _BLOCK // len(self.window.index))
        return _join([block(points[i : i + step]) for i in range(0, len(points), step)])

    def _lattice_block(self, first: Sequence[int], gap: Floats | None) -> Sums:
        window, law = self.window, self.law
        n_points, spacing = window.n_points, float(law.spacing)
        x0 = np.array([float(i * law.spacing) for i in first])
        theta = np.maximum(x0 / float(law.total), 0.0)
        node = TWO_PI * window.index / n_points
        whole = TWO_PI * _turns(window.index, [Fraction(window.terms, n_points)])[0]
        sine = (2 * np.sin(node / 2) ** 2, np.sin(node), 2 * np.sin(whole / 2) ** 2, np.sin(whole))
        kernel, size = _kernel(theta, spacing, window.terms, sine, gap)
        turns = _turns(window.index, [Fraction(i % n_points, n_points) for i in first])
        weight = np.full(len(window.index), 2.0 / n_points)
        weight[0] = 1.0 / n_points
        left_out = np.array([window_error(window, t, x) for t, x in zip(theta, x0, strict=True)])
        left_out += 2 * window.peaks.dropped / n_points * size[:, 0] * (1 + 1e-9)
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
        turns = _turns(window.index, [(t / window.period) % 1 for t in points])
        weight = np.full(len(window.index), 2.0 / period)
        weight[0] = 1.0 / period
        left_out = np.array([open_error(window, t, x) for t, x in zip(theta, point, strict=True)])
        left_out += 2 * window.peaks.dropped / period * size[:, 0] * (1 + 1e-9)
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
        error = (mass * (_UNIT * load + spectrum.unseen)).sum(axis=1) * (1 + 1e-6) + left_out
        half = float(law.half)
        log_scale = theta * theta * half - theta * origin
        log_error = 4 * _UNIT * (theta * theta * half + theta * np.abs(origin) + 4 + abs(spectrum.log_norm))
        return Sums(log_scale, value, error, log_error)


def _kernel(
    theta: Floats, spacing: float, terms: int, sine: tuple[Floats, ...], gap: Floats | None
) -> tuple[Complexes, Floats]:
    """Return the kernel at every node and the size of the parts it is added up from, shape [thresholds, nodes].

    With z = exp(-theta g - i psi), F = sum_{j < J} z**j and F2 the same at theta + 1, a tail needs F and delta
    needs F - exp(-gap) F2, written without cancellation as
    (z (1 - e**-g) F - z**J (1 - e**(-g J))) / (1 - z e**-g) + (1 - exp(-gap)) F2.
    """
    low, side, whole_low, whole_side = sine

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


def _turns(index: NDArray[np.int64], ratios: list[Fraction]) -> Floats:
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
