"""Gains of items over a sample: covered records, covered several times, nearest item.

Each is a sum over records of a monotone submodular function from 0 to `grid` units, so gains never fall when a record
is added, and what one record adds along any order of items is at most `grid` in all.
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from topdown.selection.engines import Gains
from topdown.selection.records import Incidence, Integers


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
