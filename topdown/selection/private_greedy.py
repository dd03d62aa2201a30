"""The private greedy: which k of m public items serve the most private records. Pure DP, one sample, one charge.

Gains of items over a sample (covered records, covered several times, nearest item) and the two engines on it, the
repeated exponential mechanism and repeated above-threshold. Proofs: PROOF.md, 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol, final

import numpy as np
import numpy.typing as npt

from topdown.privacy.accountant import ReleaseEvent
from topdown.selection.chance import Chance, Subsampling, root_below
from topdown.selection.incidences import Covering, Incidence, Integers, Similarity, check_count


@final
class CoverScore:
    """Records that `needed` items cover count 1, with fewer a part of it: min(1, items / needed).

    Args:
        sample: the incidence of the sample.
        needed: at least 1; the units of a record.
    """

    def __init__(self, sample: Incidence, needed: int = 1) -> None:
        self.grid = needed
        self._sample, self._hits = sample, np.zeros(sample.n_records, dtype=np.int64)
        self._gains: Gains | None = None

    def gains(self) -> Gains:
        """Return how many records of each item still lack one. Cost: one pass over the pairs after each `take`."""
        if self._gains is None:
            still = self._hits[self._sample.records] < self.grid
            weights = self._sample.pair_weights
            open_pairs = np.cumsum(still if weights is None else still * weights)
            self._gains = np.diff(np.concatenate(([0], open_pairs))[self._sample.starts])
        return self._gains

    def take(self, item: int) -> None:
        """Count the item for the records it covers."""
        start, end = self._sample.starts[item : item + 2]
        self._hits[self._sample.records[start:end]] += 1
        if end > start:
            self._gains = None

    @property
    def covered(self) -> int:
        """Return how many records have what they need: secret."""
        done, weights = self._hits >= self.grid, self._sample.weights
        return int(np.count_nonzero(done) if weights is None else weights[done].sum())


@final
class NearestScore:
    """The similarity of the nearest taken item, summed over rows with their number of records.

    Args:
        values: whole, 0 .. grid, shape (rows, items).
        records: how many records of the sample each row stands for.
        grid: the units of a record.
    """

    def __init__(self, values: Integers, records: Integers, grid: int) -> None:
        self.grid = grid
        kept = records > 0
        self._values, self._records = values[kept].astype(np.int64), records[kept].astype(np.int64)
        self._best = np.zeros(int(kept.sum()), dtype=np.int64)

    def gains(self) -> Gains:
        """Return by how much each item would raise the sum."""
        better = np.maximum(self._values - self._best[:, None], 0)
        return np.asarray(self._records @ better, dtype=np.int64)

    def take(self, item: int) -> None:
        """Let the item serve those it serves best."""
        self._best = np.maximum(self._best, self._values[:, item])


@final
class FractionalCoverScore:
    """Coverage by fractions y of items, y in steps of 1/steps: 1 - product over covering items of (1 - y).

    What is not yet covered of a record is a whole number of units; a step of an item takes the whole part of its share,
    so the gains of a record add up to at most `grid` exactly, whatever is rounded. PROOF.md, section 8.
    """

    def __init__(self, sample: Incidence, steps: int, grid: int) -> None:
        self.grid, self._sample = grid, sample
        self._open = np.full(sample.n_records, grid, dtype=np.int64)
        self._steps_left = np.full(sample.items, steps, dtype=np.int64)

    @cached_property
    def _item_of_pair(self) -> Integers:
        return np.repeat(np.arange(self._sample.items), np.diff(self._sample.starts))

    def gains(self) -> Gains:
        """Return what one step of each item would cover, in units."""
        left = np.maximum(self._steps_left, 1)[self._item_of_pair]
        units, weights = self._open[self._sample.records] // left, self._sample.pair_weights
        added = np.concatenate(([0], np.cumsum(units if weights is None else units * weights)))
        return np.where(self._steps_left > 0, np.diff(added[self._sample.starts]), 0)

    def take(self, item: int) -> None:
        """Make one step of the item."""
        start, end = self._sample.starts[item : item + 2]
        records = self._sample.records[start:end]
        self._open[records] -= self._open[records] // self._steps_left[item]
        self._steps_left[item] -= 1


Gains = npt.NDArray[np.int64]
Allowed = Callable[[tuple[int, ...]], Sequence[int]]


class Score(Protocol):
    """What each item would add for the records of the sample, in whole units; one record adds at most `grid`."""

    grid: int

    def gains(self) -> Gains:
        """Return what each item would add now."""

    def take(self, item: int) -> None:
        """Count an item as taken."""


def repeated_choice(
    score: Score, allowed: Allowed, rounds: int, base: Fraction, chance: Chance
) -> tuple[int, ...]:
    """Choose one item a round, with weight base^gain, and take it; stop where nothing is allowed.

    Args:
        score: gains of the sample.
        allowed: items that may be chosen after some outputs; it may not look at records.
        rounds: public.
        base: r with r^grid at most the budget's base.
        chance: decisions.
    """
    chosen: tuple[int, ...] = ()
    for _ in range(rounds):
        candidates = allowed(chosen)
        if not len(candidates):
            break
        gains = score.gains()
        item = candidates[chance.choose([int(gains[c]) for c in candidates], base)]
        score.take(item)
        chosen = (*chosen, item)
    return chosen


def repeated_threshold(
    score: Score, thresholds: Sequence[int], items: int, base: Fraction, chance: Chance
) -> tuple[tuple[int, int], ...]:
    """Ask at each threshold, of each item not yet accepted, whether its gain reaches it; return each yes in order.

    A yes is (place of the threshold, item). These say all that was answered, and are private together.

    An item at or above the threshold is accepted for certain, another with probability base^-(missing units). "No" is
    free, so thresholds and items may be as many as the public side likes.
    """
    accepted: list[tuple[int, int]] = []
    left = list(range(items))
    for place, threshold in enumerate(thresholds):
        still = []
        for item in left:
            if chance.accept(base, threshold - int(score.gains()[item])):
                score.take(item)
                accepted.append((place, item))
            else:
                still.append(item)
        left = still
    return tuple(accepted)


@dataclass(frozen=True)
class Selection:
    """What may be published of a selection: the items in the order chosen, and what the choice cost."""

    items: tuple[int, ...]
    event: ReleaseEvent


def max_cover(data: Covering, k: int, plan: Subsampling, chance: Chance) -> Selection:
    """Choose k items that cover many records.

    Args:
        data: which items cover which record.
        k: 1 .. items, public.
        plan: rate and base, from `subsampling(epsilon, neighbours)`.
        chance: `RealChance(AesBits())` for records.

    Raises: ConfigError (C193).
    """
    return multi_cover(data, k, 1, plan, chance)


def multi_cover(data: Covering, k: int, needed: int, plan: Subsampling, chance: Chance) -> Selection:
    """Choose k items that cover many records `needed` times; fewer times count in proportion.

    Args: as `max_cover`; `needed` is 1 .. 10,000, public.

    Raises: ConfigError (C193).
    """
    check_count(needed, 10_000, "the number of items a record needs")
    check_count(k, data.items, "k")
    score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)), needed)
    return Selection(greedy(score, data.items, k, plan.base, chance), plan.event)


def facility_location(data: Similarity, k: int, plan: Subsampling, chance: Chance) -> Selection:
    """Choose k items so that the sum over records of the similarity to the nearest is large.

    Args: as `max_cover`, for `data` with similarities on a grid.

    Raises: ConfigError (C193).
    """
    n_records, items = data.values.shape
    check_count(k, items, "k")
    flags = chance.keep(n_records, plan.rate)
    score = NearestScore(data.values, flags.astype(np.int64), data.grid)
    return Selection(greedy(score, items, k, plan.base, chance), plan.event)


def greedy(score: Score, items: int, k: int, base: Fraction, chance: Chance) -> tuple[int, ...]:
    """Choose k items of a sample, each once, one-sided with the base for a record's whole contribution."""

    def allowed(chosen: tuple[int, ...]) -> Sequence[int]:
        return [item for item in range(items) if item not in chosen]

    return repeated_choice(score, allowed, k, root_below(base, score.grid), chance)
