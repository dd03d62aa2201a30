"""Labels of cells: an integer for each cell, equal for cells that a table adds up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def refines(fine: NDArray[Any], coarse: NDArray[Any]) -> bool:
    """Tell whether cells with one label in `fine` have one label in `coarse`.

    Args:
        fine, coarse: whole numbers, -1 or more, of the same cells.
    """
    seen = np.zeros(int(fine.max(initial=-1)) + 2, dtype=np.int64)  # label -1 takes the last place
    seen[fine] = coarse
    return bool(np.array_equal(seen[fine], coarse))
