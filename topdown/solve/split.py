"""One parent and its children as the passes see them, and whether the root's bounds can still be met."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from topdown.solve.problem import Floats, Ints

SLACK_PERSONS = 1e-3  # limits of the root closer than this are looked at together with the next table


@dataclass(frozen=True, eq=False)
class Split:
    """One parent and the children that may hold records, on the parent's nonzero cells.

    Args:
        cells: int64 (n,), cells with records in the parent (all open cells at the root).
        counts: int64 (n,), the parent's counts; None at the root.
        allowed: bool (n, m).
        targets: float64 (n_answers_of_all_queries, m), what each query should answer at each child.
        lower: int64 (n_bounds, m).
        totals: int64 (m,), exact totals of the children; None if not exact.
        limits: int64, what each child's kinds of cells can hold (`Regions.limits`), in place of `lower`; or None.
    """

    cells: Ints
    counts: Ints | None
    allowed: NDArray[np.bool_]
    targets: Floats
    lower: Ints
    totals: Ints | None
    limits: Ints | None = None


def bounds_fit(split: Split, bound: Ints, group: Ints, values: Floats) -> bool:
    """Tell whether the root's lower bounds can be met once a table is fixed: a maximum flow, decided in integers.

    Args:
        bound: bound or kind of each cell, -1 for none.
        group: answer of the table each cell belongs to, 0..n_groups-1.
        values: the table, persons; only whole persons are counted on.
    """
    if split.limits is not None:
        return _limits_fit(split.limits[0].astype(np.float64), bound, len(split.lower), group, values)
    need = split.lower[:, 0]
    if not need.any():
        return True
    n_groups, n_bounds = len(values), len(need)
    usable = np.zeros((n_groups, n_bounds), dtype=bool)
    usable[group[bound >= 0], bound[bound >= 0]] = True
    need = np.minimum(need, 2**30)
    network = np.zeros((n_groups + n_bounds + 2, n_groups + n_bounds + 2), dtype=np.int32)
    network[0, 1 : 1 + n_groups] = np.minimum(np.floor(values), 2**30)
    network[1 : 1 + n_groups, 1 + n_groups : -1] = np.where(usable, need[None, :], 0)
    network[1 + n_groups : -1, -1] = need
    return bool(maximum_flow(csr_array(network), 0, len(network) - 1).flow_value == need.sum())


def _limits_fit(limits: Floats, kind: Ints, n_kinds: int, group: Ints, values: Floats) -> bool:
    """Tell whether the root's kinds of cells can stay within their limits once a table is fixed (Rado's theorem).

    A group whose cells are of kinds A only counts towards every set that holds A. Near misses count as misses.
    """
    kinds = np.zeros(len(values), dtype=np.int64)
    np.bitwise_or.at(kinds, group, 1 << kind)
    n_sets = 1 << n_kinds
    inside = np.zeros(n_sets)
    np.add.at(inside, kinds, values)
    for k in range(n_kinds):
        have = (np.arange(n_sets) >> k) & 1 == 1
        inside[have] += inside[np.arange(n_sets)[have] - (1 << k)]
    everybody = values.sum()
    fits = (inside <= limits[:n_sets] - SLACK_PERSONS) | (
        (inside >= everybody - SLACK_PERSONS) & (limits[:n_sets] >= everybody - 1e-6)
    )
    fits[inside <= 0] = True
    if len(limits) > n_sets:  # at least so many people in every set: -limits of the rest with the slack entry
        least = -limits[n_sets:][::-1]
        touching = everybody - inside[::-1]
        fits &= (least <= 0) | (touching >= least + SLACK_PERSONS)
    return bool(fits.all())
