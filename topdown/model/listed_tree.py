"""A tree whose nodes are listed as releases list them, built without an object for each node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.model.codes import Codes
from topdown.model.geography import Geography, Level


def from_listing(
    names: tuple[str, ...], level: NDArray[np.integer[Any]], codes: Codes, parents: Codes
) -> Geography | None:
    """Return the tree of nodes listed level by level, each in the order of (parent, geocode).

    Args:
        names: of the levels, distinct, root first.
        level: of each node, integers (n,). codes: of each node. parents: of each node but the first, which is the root.

    Returns:
        the tree that `from_parents` would make; None if the list has another order, or errors that it would name.
    """
    ends = np.searchsorted(level, np.arange(len(names) + 1))
    in_order = np.repeat(np.arange(len(names), dtype=level.dtype), np.diff(ends))
    if not np.array_equal(in_order, level) or ends[1] != 1:
        return None
    every = np.sort(codes.coded)
    if (every[1:] == every[:-1]).any():
        return None
    del every, in_order
    levels = [Level(names[0], codes[:1], np.zeros(1, dtype=np.int64))]
    for name, first, last in zip(names[1:], ends[1:-1].tolist(), ends[2:].tolist(), strict=True):
        here, up = codes.coded[first:last], parents.coded[first - 1 : last - 1]
        new = up[1:] != up[:-1]
        begins = np.concatenate(([0], 1 + np.flatnonzero(new)))
        if not (new | (here[1:] > here[:-1])).all() or Codes(up[begins]) != levels[-1].codes:
            return None
        parent = np.concatenate(([0], np.cumsum(new))).astype(np.int64)
        levels.append(Level(name, codes[first:last], parent))
    return Geography(tuple(levels))
