"""Labels of rows: joined, their first places, and sparse tables looked up by them."""

from __future__ import annotations

import numpy as np

from topdown.model.histogram import Histogram
from topdown.solve.groups import Ints


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


def lookup(table: Histogram, keys: Ints, nodes: Ints) -> Ints:
    """Return a sparse table at some nodes as an array (len(keys), len(nodes)); keys need not be sorted."""
    out = np.zeros((len(keys), len(nodes)), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    known = keys[order]
    for j, node in enumerate(nodes):
        first, last = np.searchsorted(table.node, (node, node + 1))
        here, count = table.cell[first:last], table.count[first:last]
        place = np.searchsorted(known, here)
        inside = place < len(known)
        inside[inside] = known[place[inside]] == here[inside]
        out[order[place[inside]], j] = count[inside]
    return out
