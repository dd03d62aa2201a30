"""Exact atoms: few mechanisms, isolated atoms, or weights without a usable common lattice.

Every group's tilted law is written out (convolutions of positive numbers, so each atom is right to a relative
error); the atoms of all groups are combined outright, or in two halves that meet in the middle. Thresholds are
exact, so delta just below an isolated atom keeps its relative precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.privacy.accountant.float_quadrature import ROUNDING, Sums
from topdown.privacy.accountant.gaussian_loss import (
    OUTWARD,
    CoordinateGroup,
    EngineLimitError,
    LossDistribution,
)
from topdown.privacy.exact_values import Enclosure

_NATS = 48.0
DIRECT_ATOMS = 1_000_000
MOST_WORK = 1_000_000
_LARGEST_EXPONENT = 340.0
_TRIMMED = 1e-40
_KEPT = 6
Floats = NDArray[np.floating[Any]]
Real = np.floating[Any]


def estimated_atoms(law: LossDistribution) -> float:
    """Return about how many atoms the composition has within reach of float64 precision."""
    return math.prod(_range(g) for g in law.groups)


def atom_work(law: LossDistribution) -> float:
    """Return about how many atoms one new tilt costs: those held at once, and the products of equal coordinates."""
    sizes = [_range(g) for g in law.groups]
    held = max(math.prod(sizes[i] for i in part) for part in _halves(sizes))
    if math.prod(sizes) <= DIRECT_ATOMS:
        held = math.prod(sizes)
    return held + sum(s * s for s, g in zip(sizes, law.groups, strict=True) if g.count > 1) / 20


def atoms_fit(law: LossDistribution) -> bool:
    """Tell whether the atoms (directly or in two halves) fit in memory, time and 64-bit lattice indices."""
    if law.total / law.spacing >= 2**60:
        return False
    largest = sum(w * _range(g) for w, g in zip(law.integers, law.groups, strict=True))
    return largest < 2**60 and atom_work(law) <= MOST_WORK


@dataclass(frozen=True)
class _Half:
    """The sorted half: lattice indices, reference index, suffix sums at theta and theta + 1, span in loss."""

    index: Ints
    middle: int
    plain: Floats
    second: Floats
    span: float


@dataclass(frozen=True)
class _Atoms:
    """Tilted atoms of a law: all of them in `left`, or two halves; cut mass and relative error."""

    left: tuple[Ints, Floats]
    right: _Half | None
    lost: float
    relative: float


class Atoms:
    """Atom engine of one law, with a relative bound.

    Args:
        law: the composition.
        wide: compute in the platform's long double (80 bits on x86) instead of float64; slower, 2000 times finer.
    """

    def __init__(self, law: LossDistribution, *, wide: bool = False) -> None:
        if not atoms_fit(law):
            raise EngineLimitError(
                f"about {estimated_atoms(law):.1e} atoms are too many to write out", fix='use engine "auto"'
            )
        self.law = law
        self.real: type[Real] = np.longdouble if wide else np.float64
        self.method = "atoms/long double" if wide else "atoms/float64"
        self._cache: dict[float, _Atoms] = {}

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        rows = [self._one(e - self.law.half) for e in epsilons]
        return Sums(*(np.array(column) for column in zip(*rows, strict=True))).enclosures(self.method)

    def _one(self, point: Fraction) -> tuple[float, float, float, float]:
        law = self.law
        index, gap = law.first_above(point)
        x0 = float(index * law.spacing)
        # a quarter of 1 / stddev, so that near thresholds share their atoms
        step = 2.0 ** math.floor(math.log2(0.25 / math.sqrt(float(self.law.total))))
        theta = round(max(x0 / float(law.total), 0.0) / step) * step
        if theta not in self._cache:
            while len(self._cache) >= _KEPT:
                del self._cache[next(iter(self._cache))]
            self._cache[theta] = _atoms_at(self.law, theta, self.real)
        atoms = self._cache[theta]
        args = (index, _real(gap, self.real), _real(law.spacing, self.real), theta)
        value, spread = _direct(atoms.left, *args) if atoms.right is None else _meet(atoms, *args)
        # the kernel is at most exp(theta * 0) = 1 on what was cut off, and the cut mass is below `lost`
        error = value * atoms.relative + spread + atoms.lost
        half = float(law.half)
        log_scale = theta * theta * half - theta * x0
        return log_scale, value, error, 4 * ROUNDING * (theta * theta * half + theta * abs(x0) + 4)


def _atoms_at(law: LossDistribution, theta: float, real: type[Real]) -> _Atoms:
    parts = [_group_atoms(g, w, theta, real) for g, w in zip(law.groups, law.integers, strict=True)]
    sizes = [len(p[0]) for p in parts]
    lost = sum(p[2] for p in parts)
    relative = sum(p[3] for p in parts) + (120 + sum(sizes)) * _unit(real)
    if math.prod(sizes) <= DIRECT_ATOMS:
        return _Atoms(_combine(parts), None, lost, relative)
    left, right = _halves(sizes)
    index, weight = _combine([parts[i] for i in right])
    order = np.argsort(index, kind="stable")
    index, weight = index[order], weight[order]
    middle = int(np.average(index, weights=weight.astype(float)))
    offset = (index - middle).astype(real) * _real(law.spacing, real)
    if (theta + 1) * float(np.abs(offset).max()) > _LARGEST_EXPONENT:
        raise EngineLimitError("the atoms span too many orders of magnitude", fix='use engine "ball"')
    plain = _suffix(weight * np.exp(-theta * offset))
    second = _suffix(weight * np.exp(-(theta + 1) * offset))
    half = _Half(index, middle, plain, second, float(np.abs(offset).max()))
    return _Atoms(_combine([parts[i] for i in left]), half, lost, relative)


def _real(value: Fraction, real: type[Real]) -> Real:
    """Return a rational in the working type: the nearest double and what it leaves, added."""
    near = float(value)
    return real(near) + real(float(value - Fraction(near)))


def _unit(real: type[Real]) -> float:
    """Return half the spacing of the working type at 1."""
    return float(np.finfo(real).eps) / 2


def _range(group: CoordinateGroup) -> float:
    return 2 * math.sqrt(2 * _NATS * group.count * float(group.variance)) + 2


def _halves(sizes: Sequence[float]) -> tuple[list[int], list[int]]:
    """Split group numbers so that the two products of sizes are balanced (greedy, largest first)."""
    left: list[int] = []
    right: list[int] = []
    products = [1.0, 1.0]
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        side = 0 if products[0] <= products[1] else 1
        (left, right)[side].append(i)
        products[side] *= sizes[i]
    return left, right


def _group_atoms(
    group: CoordinateGroup, weight: int, theta: float, real: type[Real]
) -> tuple[Ints, Floats, float, float]:
    """Return (lattice indices, tilted weights, cut mass bound, relative error) of one group.

    Weights are exp(-(x - theta k)**2 / 2v) / sum exp(-x**2 / 2v), convolved `count` times.
    """
    centre, variance = theta * group.shift, float(group.variance)
    exact = _real(group.variance, real)
    nats = _NATS + math.log(group.count)
    radius = math.sqrt(2 * variance * nats) + 1
    low, high = math.floor(centre - radius), math.ceil(centre + radius)
    x = np.arange(low, high + 1)
    wide = np.arange(-math.ceil(radius) - 1, math.ceil(radius) + 2)
    norm = np.exp(-(wide.astype(real) ** 2) / (2 * exact)).sum()
    distance = x.astype(real) - real(centre)
    single = np.exp(-distance * distance / (2 * exact)) / norm
    start, values, steps, trimmed = low, single, 0, 0.0
    total_start, total, rest = 0, np.ones(1, dtype=real), group.count
    while rest:
        if rest & 1:
            steps, trimmed = steps + len(values), trimmed + (len(total) + len(values)) * _TRIMMED
            total_start, total = _trim(total_start + start, np.convolve(total, values))
        rest >>= 1
        if rest:
            steps, trimmed = steps + 2 * len(values), trimmed + group.count * 2 * len(values) * _TRIMMED
            start, values = _trim(2 * start, np.convolve(values, values))
    index = (np.arange(len(total), dtype=np.int64) + total_start) * weight
    # P[|X - theta k| > radius] in these units is at most 2 sqrt(pi v / 2) exp(-nats)
    lost = group.count * 4 * math.exp(-nats) * (1 + math.sqrt(variance)) + 2 * trimmed
    operations = 4 * nats + 16 + 12 * abs(centre) / math.sqrt(variance)
    return index, total, lost, (group.count * operations + steps) * _unit(real)


def _trim(start: int, values: Floats) -> tuple[int, Floats]:
    """Cut both ends below _TRIMMED (and with them the subnormal numbers that make convolutions slow)."""
    keep = np.nonzero(values >= _TRIMMED)[0]
    first, last = int(keep[0]), int(keep[-1])
    return start + first, values[first : last + 1]


def _combine(parts: Sequence[tuple[Ints, Floats, float, float]]) -> tuple[Ints, Floats]:
    index, weight = np.zeros(1, dtype=np.int64), np.ones(1, dtype=parts[0][1].dtype)
    for other_index, other, *_ in parts:
        index = (index[:, None] + other_index).ravel()
        weight = (weight[:, None] * other).ravel()
    return index, weight


def _direct(
    atoms: tuple[Ints, Floats], first: int, gap: Real, spacing: Real, theta: float
) -> tuple[float, float]:
    """Return (sum, rounding bound of its exponents) over all atoms from the lattice index `first` on."""
    index, weight = atoms
    above = index >= first
    if not above.any():
        return 0.0, 0.0
    steps = (index[above] - first).astype(weight.dtype) * spacing
    terms = weight[above] * np.exp(-theta * steps) * -np.expm1(-(steps + gap))
    return float(terms.sum()), 4 * _unit(weight.dtype.type) * float((theta * steps * terms).sum())


def _meet(atoms: _Atoms, first: int, gap: Real, spacing: Real, theta: float) -> tuple[float, float]:
    """Return (sum, rounding bound) over pairs of atoms from two halves, by suffix sums of the sorted half."""
    (index, weight), half = atoms.left, atoms.right
    if half is None:
        raise ValueError("the atoms were not split in halves")
    place = np.searchsorted(half.index, first - index)
    level = (index - first + half.middle).astype(weight.dtype) * spacing
    exponents = (theta + 1) * (half.span + float(np.abs(level).max()))
    if exponents > 2 * _LARGEST_EXPONENT:
        raise EngineLimitError("the atoms span too many orders of magnitude", fix='use engine "ball"')
    big = weight * np.exp(-theta * level) * half.plain[place]
    small = weight * np.exp(-(theta + 1) * level - gap) * half.second[place]
    rounding = _unit(weight.dtype.type) * (2 * exponents + 1300 + len(half.index) / 500)
    return float((big - small).sum()), rounding * float((big + small).sum()) * (1 + OUTWARD)


def _suffix(values: Floats) -> Floats:
    """Return suffix sums with a final 0, in blocks of 1024 so that errors grow with n / 1024."""
    n = len(values)
    padded = np.zeros(-(-n // 1024) * 1024, dtype=values.dtype)
    padded[:n] = values
    blocks = padded.reshape(-1, 1024)[::-1, ::-1]
    inside = np.cumsum(blocks, axis=1)
    before = np.concatenate([np.zeros(1, dtype=values.dtype), np.cumsum(inside[:, -1])[:-1]])
    suffix = (inside + before[:, None])[::-1, ::-1].ravel()[:n]
    return np.concatenate([suffix, np.zeros(1, dtype=values.dtype)])
