"""k centres of a public metric near private records: k-median and k-means.

A long private list of centres, a raised count of the records nearest to each, and a search on these alone. The length
of the list comes from a public bound on the number of records, never from the records.

Source: the paper, theorem 1.5 and appendix G, with the public bound in place of the private number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
import numpy.typing as npt

from topdown.errors import ConfigError, DataError
from topdown.selection.chance import Chance
from topdown.selection.incidences import Integers, check_count, check_grid
from topdown.selection.orders import MOST_RECORDS
from topdown.selection.private_greedy import NearestScore, Selection, greedy
from topdown.selection.sampling_rate import Subsampling, root_below


@dataclass(frozen=True)
class Metric:
    """Public distances between points, in whole steps; `grid` steps are the longest distance that counts.

    Args:
        steps: whole numbers 0 .. grid, shape (points, points), symmetric, 0 from a point to itself.
        grid: 1 .. 10,000 for k-median, up to 100 for k-means.

    Raises: ConfigError (C192).
    """

    steps: Integers
    grid: int

    def __post_init__(self) -> None:
        check_grid(self.grid)
        steps = self.steps
        square = steps.ndim == 2 and steps.shape[0] == steps.shape[1] > 0
        if not square or not np.issubdtype(steps.dtype, np.integer):
            raise ConfigError(
                "distances are no square table of whole numbers", code="C192", fix="give one row a point"
            )
        if steps.min() < 0 or steps.max() > self.grid or steps.diagonal().any() or (steps != steps.T).any():
            raise ConfigError(
                "distances are below 0, above the grid, not symmetric, or not 0 from a point to itself",
                code="C192",
                fix="scale the longest distance to the grid",
            )

    @property
    def points(self) -> int:
        """Return the number of points, which is public."""
        return len(self.steps)

    def costs(self, power: int) -> tuple[Integers, int]:
        """Return distance^power in whole units, and the most it can be."""
        most = self.grid**power
        check_grid(most)
        return self.steps.astype(np.int64) ** power, most


@dataclass(frozen=True)
class Clustering:
    """What is sought: k centres for records of which there are at most `most_records`.

    Args:
        k: 1 .. points, public.
        most_records: public bound; a wrong one costs utility, not privacy.
        power: 1 for k-median, 2 for k-means.
    """

    k: int
    most_records: int
    power: int = 1

    def __post_init__(self) -> None:
        check_count(self.most_records, MOST_RECORDS, "the public bound on the number of records")
        check_count(self.power, 2, "the power")


def centres(
    records: Integers, metric: Metric, sought: Clustering, plan: Subsampling, chance: Chance
) -> Selection:
    """Choose k points with a small sum over records of the distance, or its square, to the nearest.

    Args:
        records: the point of each record, 0 .. points - 1.
        metric, sought: public.
        plan, chance: as `max_cover`.

    Raises: ConfigError (C192, C193), DataError (D060).
    """
    check_count(sought.k, metric.points, "k")
    if len(records) and (records.min() < 0 or records.max() >= metric.points):
        raise DataError(
            "a record is at a point that there is not", code="D060", fix="number the points from 0"
        )
    kept = records[chance.keep(len(records), plan.rate)]
    counts = np.bincount(kept, minlength=metric.points).astype(np.int64)
    near, raised = weighted(counts, metric, sought, plan.base, chance)
    costs, _ = metric.costs(sought.power)
    return Selection(local_search(costs, near, raised, sought.k), plan.event)


def weighted(
    counts: Integers, metric: Metric, sought: Clustering, base: Fraction, chance: Chance
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a long list of centres, and a raised count of the records nearest to each. One-sided with the base."""
    half = root_below(base, 2)
    costs, most = metric.costs(sought.power)
    rounds = max(1, -int(-2 * sought.k * log(sought.most_records) // 1))
    if rounds >= metric.points:
        near = tuple(range(metric.points))
    else:
        near = greedy(NearestScore(most - costs, counts, most), metric.points, rounds, half, chance)
    nearest = np.argmin(costs[:, list(near)], axis=1)  # the first of those as near
    held = np.zeros(len(near), dtype=np.int64)
    np.add.at(held, nearest, counts)
    return near, tuple(chance.raised(int(n), half, sought.most_records) for n in held)


def local_search(costs: Integers, near: tuple[int, ...], weights: tuple[int, ...], k: int) -> tuple[int, ...]:
    """Return k points, sorted, found by greedy and single swaps on weighted points; no record is read."""
    rows = costs[list(near)]
    heavy = np.array(weights, dtype=np.float64)
    chosen: list[int] = []
    for _ in range(k):
        free = [p for p in range(rows.shape[1]) if p not in chosen]
        chosen.append(min(free, key=lambda p: _cost(rows, heavy, [*chosen, p])))
    cost, better = _cost(rows, heavy, chosen), True
    while better:
        better = False
        for place in range(k):
            for point in range(rows.shape[1]):
                if point not in chosen:
                    swapped = [*chosen[:place], point, *chosen[place + 1 :]]
                    tried = _cost(rows, heavy, swapped)
                    if tried < cost * 0.999:
                        chosen, cost, better = swapped, tried, True
    return tuple(sorted(chosen))


def _cost(rows: Integers, weights: npt.NDArray[np.float64], chosen: list[int]) -> float:
    return float(weights @ rows[:, chosen].min(axis=1))
