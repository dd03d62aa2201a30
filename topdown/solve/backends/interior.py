"""Our own interior-point method: slower than ADMM, but neither scales nor corners of the constraints hold it up.

Mehrotra's predictor and corrector (1992). Dependent equalities and limits without room between them do not matter,
see `conditions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from topdown.solve.backends.conditions import Conditions

Floats = NDArray[np.float64]
MAX_STEPS = 100
REFINEMENTS = 4
DONE = 1e-15  # of the scaled problem; rarely reached: without progress in PATIENCE steps there is no more to gain
PATIENCE = 6


@dataclass(frozen=True, eq=False)
class _System:
    """The data, scaled: min 1/2 x'Px + q'x with Ax = b, Gx + s = h, s >= 0."""

    p: sparse.csc_array
    q: Floats
    a: sparse.csc_array
    b: Floats
    g: sparse.csc_array
    h: Floats


def interior_point(
    quadratic: sparse.csc_array,
    linear: Floats,
    equal: sparse.csc_array,
    equal_to: Floats,
    below: sparse.csc_array,
    limit: Floats,
) -> tuple[Floats, Floats, Floats, int]:
    """Return x, the multipliers of Ax = b and Gx <= h, and the steps taken: the best iterate, however good.

    Args:
        quadratic, linear, equal, equal_to, below, limit: P, q, A, b, G, h.
    """
    persons = max(1.0, float(np.abs(limit).max(initial=0.0)), float(np.abs(equal_to).max(initial=0.0)))
    weight = max(float(np.abs(quadratic.diagonal()).max(initial=0.0)), 1e-300)
    cost = max(1.0, float(np.abs(linear).max(initial=0.0)) / (weight * persons)) * weight
    one = _System(
        quadratic / cost, linear / (cost * persons), equal, equal_to / persons, below, limit / persons
    )
    x, y, z, steps = _run(one)
    return x * persons, y * (cost * persons), z * (cost * persons), steps


def _run(one: _System) -> tuple[Floats, Floats, Floats, int]:
    n, k, m = len(one.q), len(one.b), len(one.h)
    x, y = np.zeros(n), np.zeros(k)
    s, z = np.maximum(one.h, 1.0), np.ones(m)
    best: tuple[float, Floats, Floats, Floats, int] = (np.inf, x, y, z, 0)
    since = 0
    for step in range(MAX_STEPS):
        dual = one.p @ x + one.q + one.a.T @ y + one.g.T @ z
        equal, below = one.a @ x - one.b, one.g @ x + s - one.h
        mu = float(s @ z) / max(m, 1)
        worst = max(mu, *(float(np.abs(r).max(initial=0.0)) for r in (dual, equal, below)))
        since += 1
        if worst < best[0]:
            best, since = (worst, x, y, z, step), 0
        if worst <= DONE or since >= PATIENCE or not np.isfinite(worst):
            break
        ratio = s / z
        try:
            system = Conditions(one.p, one.a, one.g, ratio)
        except RuntimeError:  # singular to working precision: nothing better will come
            break
        right = np.concatenate([-dual, -equal, s - below])
        dx, dy, dz = np.split(system.solve(right, REFINEMENTS), [n, n + k])
        ds = -s - ratio * dz
        most = min(_reach(s, ds), _reach(z, dz))
        centre = float((s + most * ds) @ (z + most * dz)) / max(m, 1)
        push = (centre / mu) ** 3 * mu - ds * dz
        right = np.concatenate([-dual, -equal, s - below - push / z])
        dx, dy, dz = np.split(system.solve(right, REFINEMENTS), [n, n + k])
        ds = (push - s * z) / z - ratio * dz
        most = 0.995 * min(_reach(s, ds), _reach(z, dz))
        x, y, s, z = x + most * dx, y + most * dy, s + most * ds, z + most * dz
    return best[1:]


def _reach(value: Floats, change: Floats) -> float:
    """Return the longest step, at most 1, that keeps values positive."""
    down = change < 0
    return min(1.0, float((-value[down] / change[down]).min(initial=1.0)))
