"""A solved node."""

from __future__ import annotations

from dataclasses import dataclass

from topdown.solve.groups import Ints


@dataclass(frozen=True, eq=False)
class Node:
    """A solved node: its position in its level and its nonzero cells (int64, sorted) with counts (int64)."""

    index: int
    cells: Ints
    counts: Ints
