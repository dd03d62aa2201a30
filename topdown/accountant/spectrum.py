"""What does not depend on the threshold: energies, phases and branches of the characteristic function at the nodes.

By Poisson summation the tilted characteristic function of one coordinate is, with t the angle reduced to
(-pi, pi] and theta the tilt,  exp(-v t**2 / 2 + i theta k t) (1 + sum_j c_j exp(-2 pi i j k theta)) / Th(0),
c_j = exp(-2 pi**2 v (j**2 - 2 j tau)), tau = t / 2 pi; the factor Th(theta) / Th(0) cancels against the moment
generating function, so it is never formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.accountant.law import Law
from topdown.accountant.window import TWO_PI, Window, centred_turns

_NEGLIGIBLE = 46.0
Floats = NDArray[np.float64]


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
    """Arrays over the n nodes of a window.

    energy: sum m v t**2 / 2; drift: sum m k t; travel: sum m k |t|; size: bound of the modulus, all branches
    written down included; branch_load: sum of m over groups with branches (for the rounding bound); unseen: bound of
    what the branches left out change, in units of `size`.
    """

    window: Window
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
        return len(self.window.law.groups)


def spectrum_of(window: Window) -> Spectrum:
    """Evaluate the threshold-free part at every node of the window."""
    law, index = window.law, window.index
    n = len(index)
    energy, drift, travel, log_size, load = (np.zeros(n) for _ in range(5))
    branches, left_out = [], np.zeros(n)
    for group, ratio in zip(law.groups, window.ratios, strict=True):
        turns = centred_turns(index, ratio)
        angle = TWO_PI * turns
        variance = float(group.variance)
        energy += (0.5 * group.count * variance) * angle * angle
        drift += group.count * group.shift * angle
        travel += group.count * group.shift * np.abs(angle)
        most = _most_orders(variance)
        left_out += group.count * _left_out(variance, turns, most)
        found = _branches(variance, group.shift, group.count, turns, most)
        if found:
            branches.append(found)
            log_size[found.nodes] += group.count * np.log1p(found.coefficients.sum(axis=0))
            load[found.nodes] += group.count
    log_norm = _log_norm(law)
    size = np.exp(log_size - energy - log_norm) * (1 + 1e-9)
    unseen = np.expm1(left_out) * (1 + 1e-9)
    return Spectrum(window, energy, drift, travel, size, load, tuple(branches), log_norm, unseen)


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


def _most_orders(variance: float) -> int:
    """Return the largest order written down: 2 pi**2 v j (j + 1) reaches the level of what is negligible."""
    most = 1
    while 2 * math.pi**2 * variance * most * (most + 1) < _NEGLIGIBLE:
        most += 1
    return most


def _left_out(variance: float, turns: Floats, most: int) -> Floats:
    """Bound at each node the sum of the branches of one coordinate not written down (PROOF.md, lemma 7)."""
    level = np.maximum(2 * math.pi**2 * variance * (1 - 2 * np.abs(turns)), _NEGLIGIBLE)
    bound: Floats = 2 * np.exp(-level) / -math.expm1(-2 * _NEGLIGIBLE / (most + 1)) * (1 + 1e-9)
    return bound


def _branches(variance: float, shift: int, count: int, turns: Floats, most: int) -> Branches | None:
    orders = np.array([j for j in range(-most, most + 1) if j], dtype=np.int64)
    rate = 2 * math.pi**2 * variance
    near = np.nonzero(rate * (1 - 2 * np.abs(turns)) < _NEGLIGIBLE)[0]
    if not len(near):
        return None
    exponent = rate * (orders[:, None] ** 2 - 2.0 * orders[:, None] * turns[None, near])
    return Branches(shift, count, near, orders, np.exp(-exponent))


def _log_norm(law: Law) -> float:
    """Return sum m ln Th(0), Th(0) = sum_j exp(-2 pi**2 v j**2)."""
    total = 0.0
    for group in law.groups:
        rate = 2 * math.pi**2 * float(group.variance)
        terms, j = 0.0, 1
        while rate * j * j < 745:
            terms += 2 * math.exp(-rate * j * j)
            j += 1
        total += group.count * math.log1p(terms)
    return total
