"""Find the quadrature nodes where the characteristic function is not negligible (the joint sieve).

A node n has, for group g, the angle 2 pi r_g n (mod 2 pi). |phi| at that node is at most exp(-E),
E = sum_g m_g max(0, v_g t**2 / 2 - log(1 + 2.02 exp(-2 pi v_g (pi - t)))), t the distance to 2 pi Z
(PROOF.md, lemma 2). Intervals of nodes are split 16 ways; one whose lower bound of E exceeds the cutoff is
dropped and (nodes) * exp(-E) joins `dropped`, so the bound of what is thrown away costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from topdown.accountant.law import EngineLimitError, Law

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
    law: Law, ratios: tuple[Fraction, ...], last: int, cutoff: float, limit: int, *, cells: bool = False
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
    order = sorted(use, key=lambda i: law.weights[i])
    groups = [law.groups[i] for i in order]
    fixed = np.array([math.floor((ratios[i] % 1) * _TURN) for i in order], dtype=np.uint64)
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
    wrapped = np.log1p(2.02 * np.exp((-2 * math.pi) * variance * (math.pi - angle)))
    each = np.maximum(0.5 * variance * angle * angle - wrapped, 0.0)
    energy: NDArray[np.float64] = (each * count).sum(axis=1) * (1 - 1e-9)
    return energy
