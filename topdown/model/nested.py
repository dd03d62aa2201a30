"""Sets of cells that are nested or disjoint: which lies in which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topdown.errors import ConfigError
from topdown.model.constraint_table import Ints, Marks


@dataclass(frozen=True, eq=False)
class Nest:
    """Sets that are nested or disjoint.

    Args:
        within: bool (n_sets, n_sets); within[a, b]: every cell of a is one of b. A set is within itself; of two
            equal sets the first is within the second; an empty one is in no other.
        outer: (n_sets,), the smallest set around each, -1 for none.
        inside_out: sets, each before those around it.
        innermost: (n_cells,), the smallest set that holds each cell, -1 for none.
    """

    within: Marks
    outer: Ints
    inside_out: Ints
    innermost: Ints


def nest(sets: Marks, names: Sequence[str] = ()) -> Nest:
    """Order sets by what they hold.

    Args:
        sets: bool (n_sets, n_cells). names: of the bounds on them.

    Raises:
        ConfigError: C073 two sets share some cells, and neither holds the other.
    """
    size, shared = sets.sum(axis=1), _shared(sets)
    crossed = np.argwhere(np.tril(cross(sets)))
    if len(crossed):
        b, a = crossed[0]
        raise ConfigError(
            f"bounds {names[a]!r} and {names[b]!r} share some cells, but neither's hold the other's",
            code="C073",
            fix="make the cells of bounds nested or disjoint",
        )
    inside_out = np.argsort(size, kind="stable")
    rank = np.argsort(inside_out)
    within = (shared == size[:, None]) & (size[:, None] > 0) & (rank[:, None] <= rank)
    np.fill_diagonal(within, val=True)
    outer = np.full(len(sets), -1, dtype=np.int64)
    innermost = np.full(sets.shape[1], -1, dtype=np.int64)
    for b in inside_out[::-1]:
        outer[within[:, b] & (np.arange(len(sets)) != b)] = b
        innermost[sets[b]] = b
    return Nest(within, outer, inside_out, innermost)


def cross(sets: Marks) -> Marks:
    """Mark the pairs of sets, bool (n_sets, n_cells), that share some cells without one holding the other."""
    size, shared = sets.sum(axis=1), _shared(sets)
    return np.asarray((shared > 0) & (shared < np.minimum.outer(size, size)))


def _shared(sets: Marks) -> Ints:
    """Return how many cells each pair of sets shares."""
    marks = sets.astype(np.float64)  # whole numbers far below 2^53, many times as fast as int64
    return np.asarray(marks @ marks.T).astype(np.int64)
