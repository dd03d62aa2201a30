"""Groups of people at the same leaves, put together a range of leaves at a time, so that no more are ever held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.histogram import Histogram

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Crowd:
    """People to draw.

    Args:
        name: of their stream.
        leaves: int64, increasing, where there are any. people: int64, positive, how many at each of them.
        cells: bool (n_cells,), those they may be in.
        households: whether they live in households of alike people.
    """

    name: str
    leaves: Ints
    people: Ints
    cells: NDArray[np.bool_]
    households: bool = False


@dataclass(frozen=True, eq=False)
class DrawnPeople:
    """Drawn people of one group at some leaves: everybody up to leaf `last`, behind an earlier part.

    Args:
        last: of the leaves. leaf, cell, count: int64, each pair once.
    """

    last: int
    leaf: Ints
    cell: Ints
    count: Ints


def together(n_leaves: int, n_cells: int, groups: Sequence[Iterator[DrawnPeople]]) -> Iterator[Histogram]:
    """Yield the people of all groups by ranges of leaves, in leaf order; each numbers leaves as the tree does.

    Args:
        n_leaves, n_cells: of all.
        groups: parts of each group in leaf order.

    Cost: holds two parts a group at most.
    """
    waiting = [next(group, None) for group in groups]
    while any(part is not None for part in waiting):
        last = min(part.last for part in waiting if part is not None)
        here = [_cut(part, last + 1) for part in waiting if part is not None]
        yield Histogram.build(
            n_leaves, n_cells, *(np.concatenate(c) for c in zip(*(ready for ready, _ in here), strict=True))
        )
        rest = iter(here)
        for g, part in enumerate(waiting):
            if part is not None:
                left = next(rest)[1]
                waiting[g] = next(groups[g], None) if part.last == last else left


def _cut(part: DrawnPeople, end: int) -> tuple[tuple[Ints, Ints, Ints], DrawnPeople]:
    """Return the people of a part at leaves before `end`, and the part without them."""
    at = int(np.searchsorted(part.leaf, end))
    ready = part.leaf[:at], part.cell[:at], part.count[:at]
    return ready, DrawnPeople(part.last, part.leaf[at:], part.cell[at:], part.count[at:])
