"""delta of a record that moves from any path of a release to any other, for all pairs of paths on one grid of nodes.

The characteristic function of a pair is the product of those of its two paths. With one period for all pairs both are
read at the same nodes: each path is evaluated once, a pair is a product and a sum. The nodes of a pair are among those
of either path alone, for the other factor is at most 1 (PROOF.md, lemma 10). Pairs of two paths with very many nodes
are sieved one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats
from topdown.privacy.accountant.composition import Composition, floats_hold
from topdown.privacy.accountant.float_quadrature import (
    ROUNDING,
    Complexes,
    Spectrum,
    lattice_kernel,
    scaled_sums,
    spectrum_of,
    tilted,
    turns_of,
)
from topdown.privacy.accountant.gaussian_loss import EngineLimitError, LossDistribution, common_spacing
from topdown.privacy.accountant.quadrature_nodes import (
    NODE_LIMIT,
    TWO_PI,
    Peaks,
    Window,
    find_peaks,
    node_energies,
    reach,
    window_error,
)

_NATS = 43.0
_MOST_SHARED = 40_000  # nodes of one path that its pairs look through
_LARGE_PAIR = 6_000  # nodes of a pair that stands alone, so that thresholds are many at a time elsewhere
_MOST_TERMS = 1_500_000  # thresholds times nodes held at once
Nodes = NDArray[np.int64]


class PathPairs:
    """delta of every unordered pair of paths, a path with itself included: float64 with the bounds of that engine.

    Args:
        laws: of each path, the loss of moving one count of each of its measurements.
    """

    def __init__(self, laws: Sequence[LossDistribution]) -> None:
        self.laws = tuple(laws)
        self.pairs = tuple(combinations_with_replacement(range(len(self.laws)), 2))

    def composition(self, number: int) -> Composition:
        """Return the composition of the pair `pairs[number]`."""
        one, two = self.pairs[number]
        return Composition(self.laws[one]) + Composition(self.laws[two])

    def deltas(self, epsilons: Sequence[Fraction]) -> tuple[Floats, Floats]:
        """Return (lower, upper) bounds of delta, shape [pairs, epsilons]."""
        lower, upper = (np.empty((len(self.pairs), len(epsilons))) for _ in range(2))
        for number, alone in self._elsewhere.items():
            lower[number], upper[number] = alone.delta_arrays(epsilons)
        tilts, factors = np.zeros(0), dict[int, Complexes]()
        for lattice in self._lattices:
            index, before = lattice.index, tilts
            first, gap = lattice.first_above(epsilons)
            tilts, chosen = _tilts(lattice.window.law, first)
            if not np.array_equal(tilts, before):  # lattices with equal totals follow each other
                factors = {}
            for path in {path for member in lattice.members for path in member.paths} - factors.keys():
                spectrum = self._spectra[path]
                modulus, branch_phase = tilted(spectrum, tilts)
                phase = tilts[:, None] * spectrum.drift
                factors[path] = _polar(modulus, phase if branch_phase is None else phase + branch_phase)
            kernels = _Kernels.of(lattice.window, index, tilts)
            step = max(1, _MOST_TERMS // len(index))
            for begin in range(0, len(epsilons), step):
                block = slice(begin, begin + step)
                part = lattice.thresholds(kernels, first[block], gap[block], chosen[block])
                for member in lattice.members:
                    low, high = member.bounds(part, kernels, *(factors[path] for path in member.paths))
                    lower[member.number, block], upper[member.number, block] = low, high
        return lower, upper

    @cached_property
    def _grid(self) -> _Grid | None:
        """The grid, None where no period little longer than the sums need is a multiple of every spacing."""
        if not all(floats_hold(law) for law in self.laws):
            return None
        spacings = [law.spacing for law in self.laws]
        step = 1 / reduce(common_spacing, (1 / s for s in spacings))
        total = 2 * max(law.total for law in self.laws)
        wanted = 2 * math.sqrt(2 * float(total) * _NATS) + float(total / 2 + 5 * max(spacings))
        period = math.ceil(wanted / float(step)) * step
        if period > 2 * wanted:
            return None
        finest = reduce(common_spacing, spacings)
        return _Grid(period, finest, _NATS + 0.5 * math.log(float(period / finest) / 2 + 1))

    @cached_property
    def _nodes(self) -> dict[int, _PairNodes]:
        """Nodes of every pair that has its place on the grid."""
        return {} if self._grid is None else dict(self._grid.pair_nodes(self))

    @cached_property
    def _elsewhere(self) -> dict[int, Composition]:
        """Compositions of the other pairs."""
        return {n: self.composition(n) for n in range(len(self.pairs)) if n not in self._nodes}

    @cached_property
    def _path_nodes(self) -> dict[int, Nodes]:
        """Nodes at which each path is evaluated, ascending."""
        wanted: dict[int, list[Nodes]] = {}
        for number, nodes in self._nodes.items():
            for path in self.pairs[number]:
                wanted.setdefault(path, []).append(nodes.index)
        return {path: np.unique(np.concatenate(each)) for path, each in wanted.items()}

    @cached_property
    def _spectra(self) -> dict[int, Spectrum]:
        return {
            path: spectrum_of(self.laws[path], index, grid.period)
            for grid in (self._grid,)
            if grid
            for path, index in self._path_nodes.items()
        }

    @cached_property
    def _lattices(self) -> list[_Lattice]:
        """The pairs on the grid by total and spacing, each large one alone."""
        classes: dict[tuple[Fraction, Fraction, int], list[int]] = {}
        for number, nodes in self._nodes.items():
            one, two = (self.laws[i] for i in self.pairs[number])
            alone = number + 1 if len(nodes.index) > _LARGE_PAIR else 0
            key = one.total + two.total, common_spacing(one.spacing, two.spacing), alone
            classes.setdefault(key, []).append(number)
        return [self._lattice(classes[key]) for key in sorted(classes)]

    def _lattice(self, numbers: list[int]) -> _Lattice:
        law = self.composition(numbers[0]).law
        n_points = self._nodes[numbers[0]].n_points
        terms = math.ceil((reach(law, _NATS) + float(law.half)) / float(law.spacing)) + 1
        window = Window(law, _NATS, n_points * law.spacing, terms, n_points // 2)
        index = np.unique(np.concatenate([self._nodes[n].index for n in numbers]))
        return _Lattice(window, index, tuple(self._member(n, index) for n in numbers))

    def _member(self, number: int, index: Nodes) -> _Member:
        paths, nodes = self.pairs[number], self._nodes[number]
        here, there = (np.searchsorted(self._path_nodes[path], nodes.index) for path in paths)
        one, two = (self._spectra[path] for path in paths)
        per_group = 14.0 + 2 * (one.n_groups + two.n_groups)
        load = 180.0 + math.log2(len(nodes.index)) + per_group * (one.energy[here] + two.energy[there])
        load += 12 * (one.branch_load[here] + two.branch_load[there])
        left, right = one.unseen[here], two.unseen[there]
        mass = one.size[here] * two.size[there] * _weights(nodes.index, nodes.n_points)
        return _Member(
            number,
            paths,
            (here, there, np.searchsorted(index, nodes.index)),
            mass * (ROUNDING * load + left + right + left * right),
            mass * (ROUNDING * per_group * (one.travel[here] + two.travel[there])),
            2 * nodes.dropped / nodes.n_points,
            float(self.laws[paths[0]].half + self.laws[paths[1]].half),
            one.log_norm + two.log_norm,
        )


@dataclass(frozen=True)
class _PairNodes:
    """Nodes of one pair, 0 first; its lattice points in a period; bound of the modulus summed over other nodes."""

    index: Nodes
    n_points: int
    dropped: float


@dataclass(frozen=True)
class _Grid:
    """Nodes 2 pi n / period; `finest` is the spacing of everything, `cutoff` the level of the sieve in nats."""

    period: Fraction
    finest: Fraction
    cutoff: float

    def points(self, spacing: Fraction) -> int:
        """Return how many points of a lattice one period has."""
        return int(self.period / spacing)

    def peaks(self, law: LossDistribution, limit: int) -> Peaks | None:
        """Return the nodes of a law, up to half of its points; None where they are too many."""
        ratios = tuple(w / self.period for w in law.weights)
        try:
            return find_peaks(law, ratios, self.points(law.spacing) // 2, self.cutoff, limit)
        except EngineLimitError:
            return None

    def copies(self, law: LossDistribution, peaks: Peaks) -> Nodes:
        """Return the peaks of a law and their mirror images in every period up to half of the finest lattice."""
        n_points, last = self.points(law.spacing), self.points(self.finest) // 2
        period = np.concatenate([[0], peaks.index, n_points - peaks.index])
        index = np.unique(period + n_points * np.arange(last // n_points + 1)[:, None])
        return index[index <= last]

    def pair_nodes(self, pairs: PathPairs) -> Iterator[tuple[int, _PairNodes]]:
        """Give (number, nodes) of each pair, but for those that have too many nodes."""
        laws = pairs.laws
        limits = [_MOST_SHARED // (self.points(self.finest) // self.points(law.spacing)) for law in laws]
        own = [self.peaks(law, limit) for law, limit in zip(laws, limits, strict=True)]
        many = 2 * _MOST_SHARED
        size = [
            many if p is None else len(p.index) * _MOST_SHARED // limit
            for p, limit in zip(own, limits, strict=True)
        ]
        partners: dict[int, list[int]] = {}
        for number, pair in enumerate(pairs.pairs):
            partners.setdefault(min(pair, key=lambda path: size[path]), []).append(number)
        for path, numbers in partners.items():
            peaks = own[path]
            if peaks is None:
                yield from self._large_pairs(pairs, numbers)
                continue
            copies = self.copies(laws[path], peaks)
            others = [sum(pairs.pairs[n]) - path for n in numbers]
            own_energy, *energies = node_energies(
                [laws[path], *(laws[i] for i in others)], self.period, copies
            )
            for number, other, energy in zip(numbers, others, energies, strict=True):
                n_points = self.points(common_spacing(laws[path].spacing, laws[other].spacing))
                last = int(np.searchsorted(copies, n_points // 2, side="right"))
                kept = np.nonzero(own_energy[:last] + energy[:last] <= self.cutoff)[0]
                # the nodes of a pair lie in so many periods of the path, each with the mirror images of its nodes
                n_periods = -(-n_points // (2 * self.points(laws[path].spacing)))
                dropped = 2 * n_periods * peaks.dropped + (last - len(kept)) * math.exp(-self.cutoff)
                yield number, _PairNodes(copies[kept], n_points, dropped * (1 + 1e-6))

    def _large_pairs(self, pairs: PathPairs, numbers: list[int]) -> Iterator[tuple[int, _PairNodes]]:
        for number in numbers:
            law = pairs.composition(number).law
            peaks = self.peaks(law, NODE_LIMIT)
            if peaks is not None:
                index = np.concatenate([np.zeros(1, np.int64), peaks.index])
                yield number, _PairNodes(index, self.points(law.spacing), peaks.dropped)


@dataclass(frozen=True)
class _Kernels:
    """The kernel for the tilts, shape [tilts, nodes]: `near` + (1 - exp(-gap)) * `edge`, and the size of both."""

    tilts: Floats
    near: Complexes
    edge: Complexes
    near_size: Floats
    edge_size: Floats

    @classmethod
    def of(cls, window: Window, index: Nodes, tilts: Floats) -> _Kernels:
        near, near_size = lattice_kernel(window, index, tilts, np.zeros(len(tilts)))
        edge, edge_size = lattice_kernel(window, index, tilts + 1, None)
        return cls(tilts, near, edge, near_size, edge_size)


@dataclass(frozen=True)
class _Thresholds:
    """A few thresholds of one lattice.

    tilt: index of its tilt, and theta its value; origin: first lattice point above; gap: 1 - exp(-distance to it);
    kernel: with exp(-i s x0) and the weight of the node, shape [thresholds, nodes]; left_out: truncation and aliasing.
    """

    tilt: Nodes
    theta: Floats
    origin: Floats
    gap: Floats
    kernel: Complexes
    left_out: Floats


@dataclass(frozen=True)
class _Lattice:
    """All pairs with one spacing and one total, the window of their sums and the nodes that any of them has."""

    window: Window
    index: Nodes
    members: tuple[_Member, ...]

    def first_above(self, epsilons: Sequence[Fraction]) -> tuple[list[int], list[Fraction]]:
        """Return the first lattice point above each threshold: its index, and its distance from the threshold."""
        law = self.window.law
        found = [law.first_above(e - law.half) for e in epsilons]
        return [index for index, _ in found], [gap for _, gap in found]

    def thresholds(
        self, kernels: _Kernels, first: Sequence[int], gaps: Sequence[Fraction], tilt: Nodes
    ) -> _Thresholds:
        """Return what all members need at thresholds with these first lattice points, gaps and tilts."""
        window, n_points, theta = self.window, self.window.n_points, kernels.tilts[tilt]
        step, per = window.law.spacing.as_integer_ratio()
        origin = np.array([i * step / per for i in first])
        gap = -np.expm1([-float(g) for g in gaps])
        turns = turns_of(self.index, [Fraction(i % n_points, n_points) for i in first])
        kernel = _polar(_weights(self.index, n_points), -TWO_PI * turns)
        kernel *= kernels.near[tilt] + gap[:, None] * kernels.edge[tilt]
        left_out = np.array([window_error(window, t, x) for t, x in zip(theta, origin, strict=True)])
        return _Thresholds(tilt, theta, origin, gap, kernel, left_out)


@dataclass(frozen=True)
class _Member:
    """One pair on the grid.

    places: its nodes in the arrays of both paths and of its lattice; fixed, tilting: its rounding bound at each node,
    in units of the kernel, without and with theta; dropped: bound of what other nodes add, in units of the kernel.
    """

    number: int
    paths: tuple[int, int]
    places: tuple[Nodes, Nodes, Nodes]
    fixed: Floats
    tilting: Floats
    dropped: float
    half: float
    log_norm: float

    def bounds(
        self, thresholds: _Thresholds, kernels: _Kernels, one: Complexes, two: Complexes
    ) -> tuple[Floats, Floats]:
        """Return (lower, upper) bounds of delta at each threshold; one, two: the factors of both paths."""
        here, there, place = self.places
        tilt, theta, gap = thresholds.tilt, thresholds.theta, thresholds.gap
        terms = (one.take(here, axis=1) * two.take(there, axis=1))[tilt]
        terms *= thresholds.kernel.take(place, axis=1)
        value = np.ascontiguousarray(terms.real).sum(axis=1)
        error = thresholds.left_out
        for scale, size in ((1.0, kernels.near_size), (gap, kernels.edge_size)):
            part = size.take(place, axis=1)
            each = (part @ self.fixed)[tilt] + theta * (part @ self.tilting)[tilt]
            error = error + scale * (each + self.dropped * size[tilt, 0]) * (1 + 1e-6)
        return scaled_sums(value, error, theta, thresholds.origin, self.half, self.log_norm).bounds()


def _tilts(law: LossDistribution, first: Sequence[int]) -> tuple[Floats, Nodes]:
    """Return a few tilts, and for every first lattice point the one that suits it.

    Any tilt gives the exact value. One that is off its best by half of 1 / stddev costs a factor exp(1/8) of the
    precision, and one of 0 a factor of up to 40 but where the point is far below 0.
    """
    stddev = math.sqrt(float(law.total))
    points = np.array([float(i * law.spacing) for i in first])
    halves = np.floor(np.maximum(points, 0.0) / stddev) + 0.5
    multiples, chosen = np.unique(np.where(points < -2 * stddev, 0.0, halves), return_inverse=True)
    return multiples / stddev, chosen


def _polar(modulus: Floats, phase: Floats) -> Complexes:
    """Return modulus * exp(i phase)."""
    out = np.empty(phase.shape, dtype=np.complex128)
    np.cos(phase, out=out.real)
    np.sin(phase, out=out.imag)
    out *= modulus
    return out


def _weights(index: Nodes, n_points: int) -> Floats:
    """Return the weight of each node: once 0 and, of an even number of points, the middle; others with their mirror."""
    return np.where((index == 0) | (2 * index == n_points), 1.0, 2.0) / n_points
