"""Deltas of composed noise of whole weights, between two sums in float64: losses of counts moved down or up a lattice.

A count that moves by 1 has the loss ln(p(x) / p(x - 1)) with probability p(x). Moved down, the sum of the losses gives
a delta not above the true one, moved up one not below; an infinite loss always counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Part = tuple[tuple[str, ...], int]  # weights of 0, 1, .. of a law, and how many counts move in it
_LEAST, _MOST = 1 << 10, 1 << 12  # steps up to epsilon
_NATS = 8.0  # most nats of one count that are told apart
_NEAR = 1e-6  # of a step: a loss this near to the lattice lies on it
SLACK, NOTHING = 1e-3, 1e-13  # what float64 may lose, relative and absolute
VAGUE = 1e-2  # how much above a stated delta may be: its window ends where few losses are left, these count in full


def delta_between(
    parts: Sequence[Part], shares: Sequence[Fraction], total: Fraction, epsilon: Fraction
) -> tuple[float, float]:
    """Return about (lower, upper) bound of the delta of all counts together at epsilon.

    Args:
        parts: laws and counts.
        shares: epsilon of one count of each over `total`.
        total: epsilon of all counts together, above 0.
        epsilon: where delta is asked for.
    """
    equal = math.lcm(*(share.denominator for share in shares))
    step = float(total) / (equal * math.ceil(_LEAST / equal) if equal <= _MOST else _MOST)
    size = 1 << (2 * math.ceil((float(total) + 2 * _NATS) / step)).bit_length()
    found = []
    for up in (False, True):
        spectrum: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=complex)
        kept = 1.0
        for weights, count in parts:
            row, infinite = _row(weights, step, size, up=up)
            spectrum *= np.fft.rfft(row) ** count
            kept *= (1 - infinite) ** count
        masses = np.fft.irfft(spectrum, size)[: size // 2]
        losses = np.arange(size // 2) * step
        over = losses > float(epsilon)
        telling = float((masses[over] * -np.expm1(float(epsilon) - losses[over])).sum())
        found.append(min(max(telling, 0.0) + 1 - kept, 1.0))
    return found[0] * (1 - SLACK) - NOTHING, found[1] * (1 + VAGUE) + NOTHING


def _row(weights: Sequence[str], step: float, size: int, *, up: bool) -> tuple[Floats, float]:
    """Return the masses of the losses of one count round a circle, and that of the infinite loss."""
    half = [int(w) for w in weights]
    if len(half) < 2 or min(half) < 1:
        raise ValueError("a law has a weight that is 0, or no weights")
    line = np.array([*half[:0:-1], *half], dtype=float) / 2.0**128
    row, infinite = np.zeros(size), float(line[0])
    places = np.log(line[1:] / line[:-1]) / step
    most = _NATS / step
    if up:
        infinite += float(line[1:][places > most].sum())
        places, own = np.maximum(places[places <= most], -most), line[1:][places <= most]
        whole = np.ceil(places - _NEAR)
    else:
        own, whole = line[1:], np.floor(np.clip(places, -most, most) + _NEAR)
    np.add.at(row, whole.astype(int) % size, own)
    return row, infinite
