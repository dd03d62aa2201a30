"""Choose the periodic window of the trapezoidal rule, its nodes, and bound what they leave out.

Nodes are those where the characteristic function is not negligible (the joint sieve). Without a usable common lattice
some groups still share one (the queries of a few levels): their product is periodic in s, so its sum over the nodes
of one period, once bounded, bounds every later period (PROOF.md, lemma 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.privacy.accountant.gaussian_loss import (
    OUTWARD,
    CoordinateGroup,
    EngineLimitError,
    LossDistribution,
    common_spacing,
)

_BRANCH = 16
_TURN = 1 << 64
_CHUNK = 1 << 13
_MOST_WORK = 25_000_000
SMALLEST_PRUNED = Fraction(1, 8)


@dataclass(frozen=True)
class Peaks:
    """Nodes kept in 1..last, ascending (shape [n]), and upper bounds of sum exp(-E) over those dropped and kept."""

    index: NDArray[np.int64]
    dropped: float
    kept: float


def find_peaks(
    law: LossDistribution,
    ratios: tuple[Fraction, ...],
    last: int,
    cutoff: float,
    limit: int,
    *,
    cells: bool = False,
) -> Peaks:
    """Return every node 1..last with E <= cutoff.

    With `cells` the bounds hold for the whole interval from a node to the next, not for the node alone.

    Args:
        law: the composition.
        ratios: turns per node of each group (weight / window), exact.
        last: largest node; EngineLimitError from 2**50 on.
        cutoff: sieve level in nats.
        limit: most intervals or nodes held at once; EngineLimitError above.

    Cost: a few vector operations per level of log16(last), on (intervals, groups) arrays; EngineLimitError also
    above _MOST_WORK entries of these, about a second.
    """
    if last >= 1 << 50:
        raise EngineLimitError(f"this engine would need {last:.1e} nodes", fix='use engine "auto"')
    use = [i for i, g in enumerate(law.groups) if g.variance >= SMALLEST_PRUNED]
    order = sorted(use, key=lambda i: law.integers[i])
    groups = [law.groups[i] for i in order]
    parts_of_turn = [ratios[i].as_integer_ratio() for i in order]
    fixed = np.array([top % bottom * _TURN // bottom for top, bottom in parts_of_turn], dtype=np.uint64)
    turns = np.array([float(ratios[i]) for i in order])
    variance = np.array([float(g.variance) for g in groups])
    count = np.array([float(g.count) for g in groups])
    slack = last * 2.0**-64 + 2.0**-50  # fixed-point phase and its conversion to float64
    length = _BRANCH ** max(1, math.ceil(math.log(last + 1, _BRANCH) - 1e-12))
    while length < last + 1:
        length *= _BRANCH
    starts = np.zeros(1, dtype=np.int64)
    offsets = np.arange(_BRANCH, dtype=np.int64)
    dropped = mass = 0.0
    work, chunk = 0, max(1, _CHUNK // (1 + len(groups)))
    while length > 1:
        length //= _BRANCH
        steps = length - (not cells)
        used = int(np.searchsorted(turns * steps, 1.0))  # a group that turns once or more bounds nothing
        kept, n_kept = [], 0
        for begin in range(0, len(starts), chunk):
            child = (starts[begin : begin + chunk, None] + offsets * length).ravel()
            child = child[child <= last]
            energy = _lowest_energy(
                child, steps, fixed[:used], turns[:used], variance[:used], count[:used], slack
            )
            keep = energy <= cutoff
            if length == 1:
                mass += float(np.exp(-energy[keep]).sum())
            dropped += float(length * np.exp(-energy[~keep]).sum())
            kept.append(child[keep])
            work += len(child) * (1 + used)
            n_kept += len(kept[-1])
            if n_kept > limit or work > _MOST_WORK:
                raise EngineLimitError(
                    f"this engine would need over {limit:,} nodes or a second to find them",
                    fix='use engine "auto" or "atoms"',
                )
        starts = np.concatenate(kept)
    return Peaks(starts[starts > 0], dropped * (1 + 1e-6), mass * (1 + 1e-6))


def _lowest_energy(
    start: NDArray[np.int64],
    steps: int,
    fixed: NDArray[np.uint64],
    turns: NDArray[np.float64],
    variance: NDArray[np.float64],
    count: NDArray[np.float64],
    slack: float,
) -> NDArray[np.float64]:
    """Return a lower bound of E over start .. start + steps, shape [len(start)]."""
    if not len(fixed):
        return np.zeros(len(start))
    # uint64 products wrap modulo 2**64, which is modulo one turn
    begin = (start.astype(np.uint64)[:, None] * fixed[None, :]).astype(np.float64) * 2.0**-64
    span = turns * steps
    distance = np.minimum(begin, 1.0 - (begin + span)) - slack
    angle = (2 * math.pi) * np.clip(distance, 0.0, 0.5)
    energy: NDArray[np.float64] = (_energy_at(angle, variance) * count).sum(axis=1) * (1 - OUTWARD)
    return energy


def _energy_at(angle: NDArray[np.float64], variance: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return -ln of the bound of one coordinate's modulus (PROOF.md, lemma 2)."""
    wrapped = np.log1p(2.02 * np.exp((-2 * math.pi) * variance * (math.pi - angle)))
    return np.maximum(0.5 * variance * angle * angle - wrapped, 0.0)


_MOST_PEAKS = 1500
_CUTOFF = 30.0
_LIMIT = 400_000


@dataclass(frozen=True)
class BlockBound:
    """The sum of |phi| over any `nodes` - 1 consecutive nodes is at most `mass`."""

    mass: float
    nodes: int


def pruned_weights(law: LossDistribution) -> list[tuple[Fraction, CoordinateGroup]]:
    """Return (weight, group), ascending, of the groups whose decay the sieve uses."""
    usable = [(w, g) for w, g in zip(law.weights, law.groups, strict=True) if g.variance >= SMALLEST_PRUNED]
    return sorted(usable, key=lambda pair: pair[0])


def block_bound(law: LossDistribution, period: Fraction) -> BlockBound:
    """Bound the sum of |phi|, of the loss's characteristic function, over blocks of consecutive nodes.

    |phi| of the law is at most that of some of its groups. Groups whose weights have a common spacing have a periodic
    one, so that a bound over one period holds for every block as long. Where no such groups are known: |phi| <= 1.
    """
    trivial = BlockBound(1.0, 2)
    part = _best_part(law)
    if part is None:
        return trivial
    length = float(period) / float(part.spacing)
    ratios = tuple(w / period for w in part.weights)
    cells = math.ceil(length)
    try:
        found = find_peaks(part, ratios, cells, _CUTOFF, _LIMIT, cells=True)
    except EngineLimitError:
        return trivial
    # cells + 1 intervals cover one period; a grid of the same step has one node in each, whatever its offset
    return BlockBound(found.dropped + found.kept + 1, cells)


def _best_part(law: LossDistribution) -> LossDistribution | None:
    """Return the commensurable subset of groups with the smallest estimated mean modulus (greedy from each group)."""
    usable = pruned_weights(law)
    best: tuple[float, list[CoordinateGroup]] | None = None
    for seed, (first, group) in enumerate(usable):
        spacing, slowest, chosen = first, first, [group]
        for weight, other in usable[:seed] + usable[seed + 1 :]:
            finer = common_spacing(spacing, weight)
            if min(slowest, weight) / finer <= _MOST_PEAKS:
                spacing, slowest = finer, min(slowest, weight)
                chosen.append(other)
        mean = float(spacing) / math.sqrt(2 * math.pi * float(LossDistribution(tuple(chosen)).total))
        if best is None or mean < best[0]:
            best = (mean, chosen)
    return LossDistribution(tuple(best[1])) if best else None


NODE_LIMIT = 150_000
_BRANCH_NATS = 46.0
_MOST_PARTS = 3_000_000
OPEN_PEAKS = 8_000
REMAINDER_NATS = 33.0
TWO_PI = 2 * math.pi


@dataclass(frozen=True)
class Window:
    """Nodes s_n = 2 pi n / period, n = 0..last, of which `peaks` are evaluated.

    On the lattice the period is N g with N odd, and last = (N - 1) / 2 covers it entirely. Without lattice
    (`terms` = 0) the nodes go on for ever and `blocks` bounds |phi| over n > last.

    Args:
        law: the composition.
        nats: ln(1 / tolerance) of truncation and aliasing.
        period: length of the window, a multiple of the spacing on the lattice.
        terms: J, lattice points summed above the threshold; 0 for the lattice-free kernel.
        last: largest node.
        every: whether all nodes are evaluated, not only those that the sieve leaves.
    """

    law: LossDistribution
    nats: float
    period: Fraction
    terms: int
    last: int
    limit: int = NODE_LIMIT
    blocks: BlockBound | None = None
    every: bool = False

    @cached_property
    def ratios(self) -> tuple[Fraction, ...]:
        """Turns per node, one for each group."""
        return tuple(w / self.period for w in self.law.weights)

    @cached_property
    def peaks(self) -> Peaks:
        """The nodes that the sieve leaves, or all."""
        if self.every:
            return Peaks(np.arange(1, self.last + 1), 0.0, 0.0)
        open_nats = min(self.nats, REMAINDER_NATS) + 5
        cutoff = self.nats + 0.5 * math.log(self.last + 1) if self.terms else open_nats
        return find_peaks(self.law, self.ratios, self.last, cutoff, self.limit)

    @cached_property
    def lengths(self) -> tuple[float, float, float]:
        """Variance proxy, spacing and period, rounded."""
        return float(self.law.total), float(self.law.spacing), float(self.period)

    @cached_property
    def n_points(self) -> int:
        """N, lattice points in one period (0 without lattice)."""
        return int(self.period / self.law.spacing) if self.terms else 0

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """Nodes to evaluate, 0 first."""
        return np.concatenate([np.zeros(1, dtype=np.int64), self.peaks.index])


def reach(law: LossDistribution, nats: float) -> float:
    """Return U with P[S > U] below exp(-nats) by sub-Gaussianity (PROOF.md, lemma 1)."""
    return math.sqrt(2 * float(law.total) * nats)


def parts(law: LossDistribution) -> int:
    """Return how many terms one node has: one a group, and its branches where they are not negligible everywhere."""
    rates = [2 * math.pi**2 * float(g.variance) for g in law.groups]
    return len(rates) + sum(2 * math.ceil(math.sqrt(_BRANCH_NATS / r)) for r in rates if r < 2 * _BRANCH_NATS)


def node_limit(law: LossDistribution) -> int:
    """Return how many nodes are evaluated at most: fewer where a node has many groups or many branches."""
    return min(NODE_LIMIT, _MOST_PARTS // parts(law))


def lattice_window(law: LossDistribution, nats: float) -> Window:
    """Return the window of the lattice engine; thresholds down to -R fit."""
    upper = reach(law, nats) + float(law.half)
    spacing = float(law.spacing)
    terms = max(math.ceil(upper / spacing), 1) + 1
    n_points = (terms + max(math.ceil(reach(law, nats) / spacing), 1) + 2) | 1
    return Window(law, nats, n_points * law.spacing, terms, (n_points - 1) // 2, node_limit(law))


def open_window(law: LossDistribution, nats: float) -> Window:
    """Return the window of the lattice-free engine.

    The period is long enough for its kernel; the last node is where the remainder falls to exp(-REMAINDER_NATS), or
    where the slowest group has had OPEN_PEAKS peaks.
    """
    scale = math.sqrt(float(law.total)) + float(law.half)
    period = Fraction(math.ceil(max(2 * reach(law, nats), reach(law, nats) + nats * scale) * 64), 64)
    blocks = block_bound(law, period)
    slowest = float(min((w for w, _ in pruned_weights(law)), default=Fraction(1)))
    wanted = blocks.mass / (math.pi * blocks.nodes) * math.exp(min(nats, REMAINDER_NATS))
    last = min(max(wanted, 40 * math.sqrt(nats / float(law.total))), OPEN_PEAKS * TWO_PI / slowest)
    return Window(law, nats, period, 0, math.ceil(last * float(period) / TWO_PI), node_limit(law), blocks)


def beyond_last(window: Window) -> float:
    """Bound (2 / W) sum over n > last of |phi| / s_n**2: block sums of a periodic part of |phi| (PROOF.md, lemma 5)."""
    period, blocks = float(window.period), window.blocks
    if blocks is None:
        return 0.0
    start = TWO_PI * (window.last + 1) / period
    length = TWO_PI / period * (blocks.nodes - 1)
    return 2 / period * blocks.mass * (1 / start**2 + 1 / (length * start)) * (1 + OUTWARD)


def centred_turns(index: NDArray[np.int64], ratio: Fraction) -> NDArray[np.float64]:
    """Return ratio * index modulo 1 in (-1/2, 1/2], reduced exactly before the only rounding."""
    top, bottom = ratio.numerator % ratio.denominator, ratio.denominator
    largest = int(index[-1]) if len(index) else 0
    if top * largest < 2**62 and bottom < 2**53:
        rest = (index * top) % bottom
        rest = np.where(2 * rest > bottom, rest - bottom, rest)
        return rest.astype(np.float64) / bottom
    out = np.empty(len(index))
    for i, n in enumerate(index.tolist()):
        whole = (n * top) % bottom
        out[i] = (whole - bottom if 2 * whole > bottom else whole) / bottom
    return out


def subgaussian(y: float, total: float) -> float:
    """Return exp(-y**2 / 2P) rounded up, 1 for y <= 0."""
    return math.exp(-y * y / (2 * total) * (1 - 1e-12)) * (1 + 1e-12) if y > 0 else 1.0


def window_error(window: Window, theta: float, first: float) -> float:
    """Bound truncation + aliasing of a lattice sum from the point `first`, in units of exp(theta**2 R - theta x0).

    Lost: points from first + J g on. Counted twice: points one period or more away (PROOF.md, lemma 3).
    """
    total, spacing, period = window.lengths
    centre, span = theta * total, window.terms * spacing
    lost = subgaussian(first + span - centre, total)
    above = subgaussian(first + period - centre, total)
    below = subgaussian(centre - first - span + spacing + period, total)
    return lost + above + below


def open_error(window: Window, theta: float, point: float) -> float:
    """Bound aliasing of the lattice-free sum at threshold `point`, in units of exp(theta**2 R - theta t0).

    PROOF.md, lemma 4: images from below weigh at most exp(-theta k W) against exp(theta**2 R - theta t0); images
    from above are the sub-Gaussian tail beyond one period.
    """
    total, period = float(window.law.total), float(window.period)
    scale = math.exp(min(theta * point - theta * theta * total / 2 - theta * period, 700.0)) * (1 + OUTWARD)
    below = scale / -math.expm1(-theta * period)
    return below + subgaussian(point + period - theta * total, total)
