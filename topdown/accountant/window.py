"""Choose the periodic window of the trapezoidal rule, its nodes, and what they leave out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topdown.accountant.law import Law
from topdown.accountant.peaks import Peaks, find_peaks
from topdown.accountant.remainder import Blocks, block_of, pruned_weights

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
    """

    law: Law
    nats: float
    period: Fraction
    terms: int
    last: int
    limit: int = NODE_LIMIT
    blocks: Blocks | None = None

    @cached_property
    def ratios(self) -> tuple[Fraction, ...]:
        """Turns per node, one for each group."""
        return tuple(w / self.period for w in self.law.weights)

    @cached_property
    def peaks(self) -> Peaks:
        """The nodes that the sieve leaves."""
        open_nats = min(self.nats, REMAINDER_NATS) + 5
        cutoff = self.nats + 0.5 * math.log(self.last + 1) if self.terms else open_nats
        return find_peaks(self.law, self.ratios, self.last, cutoff, self.limit)

    @cached_property
    def n_points(self) -> int:
        """N, lattice points in one period (0 without lattice)."""
        return int(self.period / self.law.spacing) if self.terms else 0

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """Nodes to evaluate, 0 first."""
        return np.concatenate([np.zeros(1, dtype=np.int64), self.peaks.index])


def reach(law: Law, nats: float) -> float:
    """Return U with P[S > U] below exp(-nats) by sub-Gaussianity (PROOF.md, lemma 1)."""
    return math.sqrt(2 * float(law.total) * nats)


def parts(law: Law) -> int:
    """Return how many terms one node has: one a group, and its branches where they are not negligible everywhere."""
    rates = [2 * math.pi**2 * float(g.variance) for g in law.groups]
    return len(rates) + sum(2 * math.ceil(math.sqrt(_BRANCH_NATS / r)) for r in rates if r < 2 * _BRANCH_NATS)


def node_limit(law: Law) -> int:
    """Return how many nodes are evaluated at most: fewer where a node has many groups or many branches."""
    return min(NODE_LIMIT, _MOST_PARTS // parts(law))


def lattice_window(law: Law, nats: float) -> Window:
    """Return the window of the lattice engine; thresholds down to -R fit."""
    upper = reach(law, nats) + float(law.half)
    spacing = float(law.spacing)
    terms = max(math.ceil(upper / spacing), 1) + 1
    n_points = (terms + max(math.ceil(reach(law, nats) / spacing), 1) + 2) | 1
    return Window(law, nats, n_points * law.spacing, terms, (n_points - 1) // 2, node_limit(law))


def open_window(law: Law, nats: float) -> Window:
    """Return the window of the lattice-free engine.

    The period is long enough for its kernel; the last node is where the remainder falls to exp(-REMAINDER_NATS), or
    where the slowest group has had OPEN_PEAKS peaks.
    """
    scale = math.sqrt(float(law.total)) + float(law.half)
    period = Fraction(math.ceil(max(2 * reach(law, nats), reach(law, nats) + nats * scale) * 64), 64)
    blocks = block_of(law, period)
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
    return 2 / period * blocks.mass * (1 / start**2 + 1 / (length * start)) * (1 + 1e-9)


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
    total, spacing, period = float(window.law.total), float(window.law.spacing), float(window.period)
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
    scale = math.exp(min(theta * point - theta * theta * total / 2 - theta * period, 700.0)) * (1 + 1e-9)
    below = scale / -math.expm1(-theta * period)
    return below + subgaussian(point + period - theta * total, total)
