"""Counts of many records held as few sorted runs, 12 bytes a cell with records; nothing of them goes to a disk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS = 2**17  # that are sorted at once
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
        """Return all counts as one run; the runs are gone. Takes twice the memory for a moment."""
        self._sort()
        while len(self._runs) > 1:
            newer = self._runs.pop()
            self._runs.append(merged(self._runs.pop(), newer))
        return self._runs.pop()

    def _sort(self) -> None:
        key, count = (np.concatenate([*part, np.zeros(0, np.int64)]) for part in _columns(self._waiting))
        self._waiting, self._n_waiting = [], 0
        self._runs.append(sorted_run(key, count))
        while len(self._runs) > 1 and len(self._runs[-2].key) < 2 * len(self._runs[-1].key):
            newer = self._runs.pop()
            self._runs.append(merged(self._runs.pop(), newer))


def sorted_run(key: Keys, count: NDArray[np.int64]) -> Run:
    """Return counts added up by key; keys without any are dropped."""
    order = np.argsort(key, kind="stable")  # rows of one place often stand together already
    key, count = key[order], count[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
    total = np.add.reduceat(count, first) if len(first) else count
    return Run(key[first][total > 0], total[total > 0].astype(np.int32))


def merged(older: Run, newer: Run) -> Run:
    """Return the sum of two runs; `older` may be changed. Cost: linear in it, and a search for each key of `newer`."""
    place = np.searchsorted(older.key, newer.key)
    known = place < len(older.key)
    known[known] = older.key[place[known]] == newer.key[known]
    older.count[place[known]] += newer.count[known]
    place, new = place[~known], ~known
    return Run(np.insert(older.key, place, newer.key[new]), np.insert(older.count, place, newer.count[new]))


def _columns(
    waiting: list[tuple[Keys, NDArray[np.int64]]],
) -> tuple[list[Keys], list[NDArray[np.int64]]]:
    return [key for key, _ in waiting], [count for _, count in waiting]
