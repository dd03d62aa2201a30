"""Counts of many records held as few sorted runs, 12 bytes a cell with records; nothing of them goes to a disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 2**17  # that are sorted at once
AT_ONCE = 2**18  # counts that are compared or moved at once
Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Run:
    """Counts by key.

    Args:
        key: int64, increasing. count: int32, positive, same length.
    """

    key: Keys
    count: NDArray[np.int32]


class Runs:
    """Adds up counts by key, in any order of the keys.

    Rows wait until there are enough to sort. A run is merged into the one before it while that is not twice as long,
    so that every count is moved a logarithmic number of times.

    Args:
        rows: that are sorted at once.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self._rows, self._n_waiting = rows, 0
        self._waiting: list[tuple[Keys, NDArray[np.int64]]] = []
        self._runs: list[Run] = []

    def add(self, key: Keys, count: NDArray[np.int64]) -> None:
        """Take rows.

        Args:
            key: int64 (n,). count: int64 (n,), from 0 on; all counts ever added sum to less than 2^31.
        """
        self._waiting.append((key, count))
        self._n_waiting += len(key)
        if self._n_waiting >= self._rows:
            self._sort()

    def total(self) -> Run:
        """Return all counts as one run; the runs are gone. Takes half as much memory again for a moment."""
        self._sort()
        while len(self._runs) > 1:
            self._merge()
        return self._runs.pop()

    def _sort(self) -> None:
        key, count = (np.concatenate([*part, np.zeros(0, np.int64)]) for part in _columns(self._waiting))
        self._waiting, self._n_waiting = [], 0
        self._runs.append(sorted_run(key, count))
        while len(self._runs) > 1 and len(self._runs[-2].key) < 2 * len(self._runs[-1].key):
            self._merge()

    def _merge(self) -> None:
        self._runs.append(merged(self._runs.pop(-2), self._runs.pop()))  # no name here that would keep them


def sorted_run(key: Keys, count: NDArray[np.int64]) -> Run:
    """Return counts added up by key; keys without any are dropped."""
    order = np.argsort(key, kind="stable")  # rows of one place often stand together already
    key, count = key[order], count[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
    total = np.add.reduceat(count, first) if len(first) else count
    return Run(key[first][total > 0], total[total > 0].astype(np.int32))


def merged(older: Run, newer: Run) -> Run:
    """Return the sum of two runs, which are used up. Cost: linear in `older`, and a search for each key of `newer`."""
    key, count = newer.key, newer.count
    del newer
    if not len(older.key):
        return Run(key, count)
    place, new = np.searchsorted(older.key, key), np.empty(len(key), dtype=bool)
    for first in range(0, len(key), AT_ONCE):
        here = slice(first, first + AT_ONCE)
        at = np.minimum(place[here], len(older.key) - 1)
        new[here] = older.key[at] != key[here]
        older.count[at[~new[here]]] += count[here][~new[here]]
    key = key[new]
    count = count[new]
    place = place[new]
    del new
    place += np.arange(len(place))
    _insert(older.key, place, key)
    del key
    _insert(older.count, place, count)
    return older


def _insert(column: NDArray[Any], place: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Insert values into an array in its own memory, from the end, as `np.insert` would into a new one.

    Args:
        column: (n,), that nothing else looks at. place: int64 (m,), increasing, where `values` (m,) are afterwards.
    """
    high, j = len(column) + len(values), len(values)
    column.resize(high, refcheck=False)
    while j:
        low = max(high - AT_ONCE, 0)
        i = int(np.searchsorted(place, low))
        there = np.zeros(high - low, dtype=bool)
        there[place[i:j] - low] = True
        block = np.empty_like(column, shape=high - low)
        block[there], block[~there] = values[i:j], column[low - i : high - j]
        column[low:high] = block
        high, j = low, i


def _columns(
    waiting: list[tuple[Keys, NDArray[np.int64]]],
) -> tuple[list[Keys], list[NDArray[np.int64]]]:
    return [key for key, _ in waiting], [count for _, count in waiting]
