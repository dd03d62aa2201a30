"""One parent and its children as the passes see them, and whether the root's bounds can still be met."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from topdown.model.labels import refines
from topdown.solve.backends import bipartite_flow, linear_program
from topdown.solve.groups import Bounds, FixedTable, Floats, Ints, KindLimits, LowerBounds
from topdown.solve.refusals import no_table_fits
from topdown.solve.statistics import Objective

NEAR_LIMIT_PERSONS = 1e-3  # limits of the root closer than this are looked at together with the next table


@dataclass(frozen=True, eq=False)
class Split:
    """One parent and the children that may hold records, on the parent's nonzero cells.

    Args:
        cells: int64 (n,), cells with records in the parent (all open cells at the root).
        counts: int64 (n,), the parent's counts; None at the root.
        allowed: bool (n, m).
        objective: what the children are fitted to.
        totals: exact totals of the children.
        exact: an exact table of the children that tells more than their totals.
        exact_told: whether limits tell that table too.
        bounds: what each child can hold: lower bounds of disjoint cells, or limits on sets of kinds of cells.
    """

    cells: Ints
    counts: Ints | None
    allowed: NDArray[np.bool_]
    objective: Objective
    totals: FixedTable
    exact: FixedTable
    exact_told: bool
    bounds: Bounds

    @property
    def sums(self) -> Ints:
        """What each cell holds over all children, (n,); -1 where unknown."""
        return np.full(len(self.cells), -1, dtype=np.int64) if self.counts is None else self.counts


def bounds_fit(split: Split, group: Ints, values: Floats, slack: float = NEAR_LIMIT_PERSONS) -> bool:
    """Tell whether the root's lower bounds can be met once a table is fixed: a maximum flow, decided in integers.

    Beside an exact table that the fixed one crosses it is a linear program. Then `limits`, if any, must tell the
    exact table.

    Args:
        split: of the root.
        group: answer of the table each cell belongs to, 0..n_groups-1.
        values: the table, persons; only whole persons are counted on.
        slack: limits closer than this are taken for broken; 0 if `values` are whole.
    """
    bounds = split.bounds
    if isinstance(bounds, KindLimits):
        fits = _limits_fit(bounds, group, values, slack)
        if split.exact.n_groups:  # what an exact table fixes is no near miss
            fits |= _told(bounds, group, values)
        return bool(fits.all())
    if not refines(group, split.exact.of):
        return _table_fits(split.exact, bounds, group, values)
    need, bound = bounds.lower[:, 0], bounds.of
    if not need.any():
        return True
    usable = np.zeros((len(values), len(need)), dtype=bool)
    usable[group[bound >= 0], bound[bound >= 0]] = True
    return bipartite_flow.meet(np.floor(values).astype(np.int64), usable, need) is not None


def _table_fits(exact: FixedTable, bounds: LowerBounds, group: Ints, values: Floats) -> bool:
    """Tell whether some table has these sums of groups, the exact table's answers, and meets the lower bounds."""
    keys = np.unique(np.stack([group, exact.of, bounds.of]), axis=1)
    at, need = np.arange(keys.shape[1]), bounds.lower[:, 0]
    inside = keys[2] >= 0
    shape = (len(need), len(at))
    lower = csr_array((-np.ones(int(inside.sum())), (keys[2][inside], at[inside])), shape=shape)
    sums = [(keys[0], values), (keys[1], exact.answers[:, 0].astype(np.float64))]
    equal = [csr_array((np.ones(len(at)), (of, at)), shape=(len(v), len(at))) for of, v in sums]
    least = -(need + NEAR_LIMIT_PERSONS * (need > 0))
    told = np.concatenate([v for _, v in sums])
    return linear_program.minimise(np.zeros(len(at)), (lower, least), (vstack(equal), told)) is not None


def _limits_fit(bounds: KindLimits, group: Ints, values: Floats, slack: float) -> NDArray[np.bool_]:
    """Tell for each set of the root's kinds whether it can keep its limits once a table is fixed (Rado's theorem).

    A group whose cells are of kinds A only counts towards every set that holds A. Near misses count as misses.
    """
    limits = bounds.limits[0].astype(np.float64)
    n_sets, inside = 1 << bounds.n_kinds, _inside(bounds, group, values)
    everybody = values.sum()
    fits = (inside <= limits[:n_sets] - slack) | (
        (inside >= everybody - slack) & (limits[:n_sets] >= everybody - 1e-6)
    )
    fits[inside <= 0] = True
    if len(limits) > n_sets:  # at least so many people in every set: -limits of the rest with the slack entry
        least = -limits[n_sets:][::-1]
        touching = everybody - inside[::-1]
        fits &= (least <= 0) | (touching >= least + slack)
    return np.asarray(fits, dtype=bool)


def _told(bounds: KindLimits, group: Ints, values: Floats) -> NDArray[np.bool_]:
    """Tell which sets of kinds have one possible number of people, and hold no more."""
    if not bounds.is_whole:
        return np.zeros(1 << bounds.n_kinds, dtype=bool)
    limits = bounds.limits[0].astype(np.float64)
    fixed = limits + limits[::-1] == limits[-1]
    return np.asarray(fixed & (_inside(bounds, group, values) <= limits + 1e-6), dtype=bool)


def _inside(bounds: KindLimits, group: Ints, values: Floats) -> Floats:
    """Return the people of the groups whose cells are all of kinds in a set, for every set."""
    kinds = np.zeros(len(values), dtype=np.int64)
    np.bitwise_or.at(kinds, group, 1 << bounds.of)
    inside = np.zeros(1 << bounds.n_kinds)
    np.add.at(inside, kinds, values)
    for k in range(bounds.n_kinds):
        have = (np.arange(len(inside)) >> k) & 1 == 1
        inside[have] += inside[np.arange(len(inside))[have] - (1 << k)]
    return inside


def check_exact_fits(split: Split) -> None:
    """Refuse a root whose exact table does not go together with everything below it; whole numbers, exact (I013)."""
    exact = split.exact.floats()
    if exact.n_groups and not bounds_fit(split, exact.of, exact.answers[:, 0], slack=0.0):
        raise no_table_fits()
