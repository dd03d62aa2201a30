"""Labels of cells: an integer for each cell, equal for cells that a table adds up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def refines(fine: NDArray[Any], coarse: NDArray[Any]) -> bool:
    """Tell whether cells with one label in `fine` have one label in `coarse`.

    Args:
        fine, coarse: whole numbers, -1 or more, of the same cells.
    """
    seen = np.zeros(int(fine.max(initial=-1)) + 2, dtype=np.int64)  # label -1 takes the last place
    seen[fine] = coarse
    return bool(np.array_equal(seen[fine], coarse))


def join(coarse: Ints, fine: Ints) -> tuple[Ints, int]:
    """Return the common refinement of two labels, numbered so that groups of `coarse` stay together; its size."""
    span = int(fine.max(initial=0)) + 1
    found, label = np.unique(coarse * span + fine, return_inverse=True)
    return label.reshape(-1).astype(np.int64), len(found)


def first_of(label: Ints, n: int) -> Ints:
    """Return the first position of every label."""
    out = np.zeros(n, dtype=np.int64)
    out[label[::-1]] = np.arange(len(label))[::-1]
    return out
