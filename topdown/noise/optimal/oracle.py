"""The worst event of a piecewise constant density, by one sweep over two sorted lists of breakpoints.

For a fixed shift the event that is most in excess is closed: where p(x) > e p(x - shift). Between multiples of
the cell width the excess is affine in the shift, so that only differences of partition points matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

Number = TypeVar("Number", float, Fraction)


@dataclass(frozen=True)
class WorstEvent(Generic[Number]):
    """A set of outcomes and a shift: P(X in pieces) - e P(X + shift in pieces) is `excess`.

    Pieces are disjoint, sorted, half-open intervals [start, end) in cell widths.
    """

    shift: int
    pieces: tuple[tuple[int, int], ...]
    excess: Number


def shifts_of(points: Sequence[int], sensitivity: int) -> tuple[int, ...]:
    """List the shifts at which the excess of a density on this partition can be largest.

    All N + 1 points take part: without the right end, events against the last cell are missed.

    Args:
        points: the partition, increasing, in cell widths, N + 1 of them.
        sensitivity: cell widths between neighbouring answers, >= 1.

    """
    differences = {a - b for a in points for b in points}
    allowed = {d for d in differences if 0 < abs(d) <= sensitivity}
    return tuple(sorted(allowed | {sensitivity, -sensitivity}))


def worst_at(
    points: Sequence[int],
    above: Sequence[Number],
    below: Sequence[Number],
    growth: Number,
    shift: int,
) -> WorstEvent[Number]:
    """Find the event in which `above` is most in excess of growth times `below` moved by shift; O(N).

    Args:
        points: the partition, increasing, in cell widths, N + 1 of them.
        above, below: masses of the cells of two laws, N each, >= 0, spread evenly in their cells.
        growth: exp(epsilon), > 0.
        shift: by how much the second law is moved to the right, in cell widths.

    """
    total: Number = growth - growth
    pieces: list[tuple[int, int]] = []
    n_cells, x, own, other = len(above), points[0], 0, 0
    while own < n_cells:
        while other < n_cells and points[other + 1] + shift <= x:
            other += 1
        end, covered = points[own + 1], other < n_cells and points[other] + shift <= x
        if covered:
            end = min(end, points[other + 1] + shift)
        elif other < n_cells:
            end = min(end, points[other] + shift)
        gain = above[own] / (points[own + 1] - points[own])
        if covered:
            gain = gain - growth * below[other] / (points[other + 1] - points[other])
        if gain > 0 or not covered:
            total = total + (end - x) * gain
            if pieces and pieces[-1][1] == x:
                pieces[-1] = (pieces[-1][0], end)
            else:
                pieces.append((x, end))
        x = end
        own += x == points[own + 1]
    return WorstEvent(shift, tuple(pieces), total)


def worst_events(
    points: Sequence[int], masses: Sequence[Number], growth: Number, sensitivity: int, pad: int = 0
) -> list[WorstEvent[Number]]:
    """List the worst event of every shift that matters, the most in excess first; O(N) a shift.

    Args:
        points: the partition, increasing, in cell widths, N + 1 of them.
        masses: of the cells, N, >= 0.
        growth: exp(epsilon), > 0.
        sensitivity: cell widths between neighbouring answers, >= 1.
        pad: cells at either end that events do not range over.

    """
    n = len(masses)
    above = [m if pad <= j < n - pad else growth - growth for j, m in enumerate(masses)]
    start, end = points[pad], points[n - pad]
    found = []
    for shift in shifts_of(points, sensitivity):
        event = worst_at(points, above, masses, growth, shift)
        inner = [(max(a, start), min(b, end)) for a, b in event.pieces]
        found.append(WorstEvent(shift, tuple((a, b) for a, b in inner if a < b), event.excess))
    return sorted(found, key=lambda event: event.excess, reverse=True)
