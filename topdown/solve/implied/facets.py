"""Which subset limits of a base polytope do not follow from the others: its facets, from the limits alone.

The face where x(A) is as large as it may be is the product of the polytopes of A and of the rest; it is a facet if
neither falls apart (Fujishige 2005, Theorem 3.36, after Edmonds 1970). Falling apart is read from the limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.model.constraint_table import NO_LIMIT
from topdown.solve.groups import Ints

_BOUNDLESS = np.int64(2**60)


@dataclass(frozen=True)
class Facets:
    """An irredundant description: sets are bit sets of the ground elements.

    Args:
        parts: sets whose sum is fixed, which together hold every element once.
        limits: sets A with x(A) <= limit that follow from no others.
    """

    parts: tuple[int, ...]
    limits: tuple[int, ...]


def facets(limits: Ints) -> Facets:
    """Describe the base polytope {x: x(A) <= limits[A], x(all) = limits[all]} without redundant rows.

    Args:
        limits: int64 (2^n,), submodular, NO_LIMIT and above for none; finite for all elements together.

    Cost: 3^n additions.
    """
    values = np.where(limits >= NO_LIMIT // 2, _BOUNDLESS, limits)
    parts = _parts(values, len(values) - 1)
    found = []
    for part in parts:
        for inside in _subsets(part)[1:-1].tolist():
            whole = values[inside] < _BOUNDLESS
            if whole and _cut(values, inside, 0) == 0 and _cut(values, part & ~inside, inside) == 0:
                found.append(inside)
    return Facets(tuple(parts), tuple(sorted(found, key=lambda a: (a.bit_count(), a))))


def _parts(values: Ints, everything: int) -> list[int]:
    waiting, done = [everything], []
    while waiting:
        part = waiting.pop()
        piece = _cut(values, part, 0)
        if piece:
            waiting += [piece, part & ~piece]
        else:
            done.append(part)
    return sorted(part for part in done if part)


def _cut(values: Ints, inside: int, before: int) -> int:
    """Return a part that `inside` falls into, once `before` is full; 0 if it does not fall apart."""
    some = _subsets(inside)[1:-1]
    some = some[(some & inside & -inside) != 0]  # the half that holds the first element
    if not len(some):
        return 0
    base = values[before]
    both = (values[some | before] - base) + (values[(inside & ~some) | before] - base)
    apart = some[both == values[inside | before] - base]
    return int(apart[0]) if len(apart) else 0


def _subsets(of: int) -> Ints:
    """Return all subsets of a bit set, the empty one first and itself last."""
    out = np.zeros(1, dtype=np.int64)
    for bit in (1 << i for i in range(of.bit_length()) if of >> i & 1):
        out = np.concatenate([out, out | bit])
    return out
