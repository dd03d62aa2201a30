"""Orders of public items in which every covered record soon meets one that covers it; k centres near private records.

Each record uses the first item of the order that covers it; the cost of an order is how many items are used.
`cover_order` runs the sweep of falling thresholds as one above-threshold run on one sample: every record is newly
covered once, so nothing is split. Source: the paper, section on set cover (open-set model of Gupta et al. 2010).

Centres of a public metric (k-median, k-means): a long private list, a raised count of the records nearest to each, and
a search on these alone. The length of the list comes from a public bound on the number of records, never from the
records. Source: the paper, theorem 1.5 and appendix G, with the public bound in place of the private number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log

import numpy as np
import numpy.typing as npt

from topdown.errors import ConfigError, DataError
from topdown.selection.chance import Chance, Subsampling, least_exponent, root_below
from topdown.selection.incidences import Covering, Incidence, Integers, check_count, check_grid
from topdown.selection.private_greedy import CoverScore, NearestScore, Selection, greedy, repeated_threshold

MOST_RECORDS = 10**12
FAILING = Fraction(1, 20)


def thresholds(items: int, most_records: int, plan: Subsampling) -> list[int]:
    """Return the public thresholds of `cover_order`: rate x most records, halved down to what noise alone may reach.

    At the last one an item that covers nothing new is accepted with probability `FAILING` / items at most.
    """
    check_count(most_records, MOST_RECORDS, "the public bound on the number of records")
    least = max(1, least_exponent(plan.base, items / FAILING))
    found, threshold = [], int(plan.rate * most_records)
    while threshold > least:
        found.append(threshold)
        threshold //= 2
    return [*found, least]


def cover_order(data: Covering, most_records: int, plan: Subsampling, chance: Chance) -> Selection:
    """Order all items by one sweep of falling thresholds; items that none accepts come last, in their own order.

    Args:
        data: which items cover which record.
        most_records: public bound on the number of records; a wrong one costs utility, not privacy.
        plan, chance: as `max_cover`.

    Raises: ConfigError (C193).
    """
    asked = thresholds(data.items, most_records, plan)
    score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)))
    accepted = [item for _, item in repeated_threshold(score, asked, data.items, plan.base, chance)]
    return Selection((*accepted, *(item for item in range(data.items) if item not in accepted)), plan.event)


def cover_order_by_choices(data: Covering, plan: Subsampling, chance: Chance) -> Selection:
    """Order all items by as many private choices: simpler, needs no bound, covers later.

    Args: as `cover_order`.
    """
    score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)))
    return Selection(greedy(score, data.items, data.items, plan.base, chance), plan.event)


def partial_cover(
    data: Covering, share: Fraction, most_records: int, plan: Subsampling, chance: Chance
) -> Selection:
    """Choose items, in order, that cover about a share of the records of the sample.

    One sample and one base in three equal parts: a raised count of the records, the order, and the test where to stop.

    Args:
        data, plan, chance: as `cover_order`.
        share: rational, between 0 and 1.
        most_records: public bound on the number of records.

    Raises: ConfigError (C193).
    """
    check_share(share, "the share")
    check_count(most_records, MOST_RECORDS, "the public bound on the number of records")
    flags = chance.keep(data.n_records, plan.rate)
    part = root_below(plan.base, 3)
    wanted = Wanted(share, most_records, least_exponent(part, data.items / FAILING))
    return Selection(first_part(data.sampled(flags), int(flags.sum()), wanted, part, chance), plan.event)


@dataclass(frozen=True)
class Wanted:
    """When a partial cover stops: at `share` of a raised count of records, and `slack` more, all public."""

    share: Fraction
    most_records: int
    slack: int


def first_part(
    sample: Incidence, n_sampled: int, wanted: Wanted, part: Fraction, chance: Chance
) -> tuple[int, ...]:
    """Return the first items of an order that cover what is wanted of a sample; one-sided with part^3."""
    raised = chance.raised(n_sampled, part, wanted.most_records)
    order = greedy(CoverScore(sample), sample.items, sample.items, part, chance)
    target = ceil(wanted.share * raised) + wanted.slack
    walked = CoverScore(sample)
    for n_items, item in enumerate(order, 1):
        walked.take(item)
        if chance.accept(part, target - walked.covered):
            return order[:n_items]
    return order


def check_share(value: object, name: str) -> None:
    """Refuse what is no exact number strictly between 0 and 1 (C193)."""
    if not isinstance(value, Fraction) or not 0 < value < 1:
        text = f"{name} is {value!r}, not a Fraction between 0 and 1"
        raise ConfigError(text, code="C193", fix="give e.g. Fraction(9, 10)")


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
