"""The shares that make the worst of all deviations, each relative to what is wished, as small as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from topdown.solve.tree.lattice import Floats
from topdown.tune.uniform import Uniform

EXPONENTS = (20, 100)  # of smooth stand-ins for the largest ratio, one search after the other
LEAST = -20.0  # logarithm of a share
STEPS = 600
ENOUGH = 1e-6  # relative change of the objective at which the search ends


@dataclass(frozen=True, eq=False)
class Wishes:
    """What shares are to serve.

    Args:
        deviations: (n_levels, n_tables), that a ratio is taken to; 0 where a table does not count.
        worthless: per level, bool (n_queries,), queries that get nothing, because their answers are exact.
        least: per level, (n_queries,), parts of the level's share that queries get in any case.
    """

    deviations: Floats
    worthless: tuple[NDArray[np.bool_], ...]
    least: tuple[Floats, ...]


def best_shares(model: Uniform, start: Sequence[Floats], wishes: Wishes) -> list[Floats]:
    """Return shares of the whole budget, per level one a query, that minimise the largest ratio.

    Powers in place of the largest, L-BFGS on logarithms of shares; the same on every run.

    Args:
        model: deviations by shares.
        start: shares to begin with, positive but where worthless.
        wishes: what is wished.

    Cost: about 300 sweeps; ten seconds for Rhode Island.
    """
    cuts = np.cumsum([len(part) for part in start])[:-1]
    live = wishes.deviations > 0
    if not live.any():
        return list(start)
    worthless = np.concatenate(wishes.worthless)
    begin = np.clip(np.log(np.where(worthless, 1.0, np.concatenate(start))), LEAST, 0.0)

    def free(logs: Floats) -> Floats:
        found = np.where(worthless, 0.0, np.exp(logs))
        return np.asarray(found / found.sum())

    def objective(logs: Floats, exponent: int) -> tuple[float, Floats]:
        ratios = np.zeros_like(wishes.deviations)

        def weigh(deviations: Floats) -> Floats:
            ratios[live] = deviations[live] / wishes.deviations[live]
            powers = (ratios / ratios.max()) ** exponent
            return np.asarray(np.where(live, powers / powers.sum() / np.where(live, deviations, 1.0), 0.0))

        parts = free(logs)
        _, slopes = model.with_gradient(_with_least(parts, cuts, wishes), weigh)
        smooth = np.log(ratios.max()) + np.log(((ratios / ratios.max()) ** exponent).sum()) / exponent
        by_part = np.concatenate(
            [
                (1 - least.sum()) * slope + least @ slope
                for slope, least in zip(slopes, wishes.least, strict=True)
            ]
        )
        return float(smooth), parts * (by_part - parts @ by_part)

    logs = begin
    for exponent in EXPONENTS:
        logs = minimize(
            objective,
            logs,
            args=(exponent,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(LEAST, 0.0)] * len(begin),
            options={"maxiter": STEPS, "maxfun": STEPS, "ftol": ENOUGH, "maxcor": 20},
        ).x
    return _with_least(free(logs), cuts, wishes)


def _with_least(parts: Floats, cuts: NDArray[np.int64], wishes: Wishes) -> list[Floats]:
    """Return shares per level in which some queries have their least part of the level's."""
    return [
        (1 - least.sum()) * part + least * part.sum()
        for part, least in zip(np.split(parts, cuts), wishes.least, strict=True)
    ]
