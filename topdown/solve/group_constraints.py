"""Sums of rows that constraints speak of: known tables, lower bounds on disjoint groups, limits on sets of kinds.

Each has the group that every row belongs to and is there even where it asks for nothing: then it has no groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.model import NO_LIMIT, refines
from topdown.solve.kernels_shared import add_by_group

Number = TypeVar("Number", np.int64, np.float64)

LIMITS_MET_PERSONS = 1e-7  # sums of a solution this far outside limits count as inside


@dataclass(frozen=True, eq=False)
class RowGroups(ABC):
    """Rows by group: int64 (n,), 0..n_groups-1, -1 for none."""

    of: Ints

    def at(self, rows: Any) -> Self:
        """Return the same for some rows."""
        return replace(self, of=np.ascontiguousarray(self.of[rows]))

    @property
    @abstractmethod
    def n_groups(self) -> int:
        """How many groups there are."""

    def sums(self, values: NDArray[Number]) -> NDArray[Number]:
        """Add the rows of (n, m) values by group, (n_groups, m)."""
        return group_sums(values, self.of, self.n_groups)

    def by_row(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return each row's column of (k, n_groups) values, (k, n); 0 for rows in no group."""
        return np.hstack([values, np.zeros((len(values), 1), dtype=values.dtype)])[:, self.of]

    def spread(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return each row's entry of (n_groups, m) values, 0 for rows in no group; (1, m) zeros without groups."""
        none = np.zeros((1, values.shape[1]), dtype=values.dtype)
        return np.concatenate([values, none])[self.of] if self.n_groups else none


@dataclass(frozen=True, eq=False)
class FixedTable(RowGroups):
    """Groups with known sums: exact statistics, or the table that an earlier pass fixed.

    Args:
        answers: (n_groups, m), persons.
    """

    answers: NDArray[Any]

    @staticmethod
    def none(n: int, m: int) -> FixedTable:
        """Return a table without answers."""
        return FixedTable(np.full(n, -1, dtype=np.int64), np.zeros((0, m), dtype=np.int64))

    @staticmethod
    def total(n: int, totals: NDArray[Any]) -> FixedTable:
        """Return the table whose one answer counts every row; `totals` are (m,)."""
        return FixedTable(np.zeros(n, dtype=np.int64), totals[None, :])

    @property
    def n_groups(self) -> int:
        """How many answers there are."""
        return len(self.answers)

    def left(self, values: NDArray[Number]) -> NDArray[Number]:
        """Return the answers minus the sums of values."""
        return np.asarray(self.answers - self.sums(values))

    def floats(self) -> FixedTable:
        """Return the same with float64 answers."""
        return FixedTable(self.of, self.answers.astype(np.float64))


@dataclass(frozen=True, eq=False)
class LowerBounds(RowGroups):
    """Groups with lower bounds: (n_groups, m), persons."""

    lower: NDArray[Any]
    broken: ClassVar[str] = "a lower bound that is missed"

    @staticmethod
    def none(n: int, m: int) -> LowerBounds:
        """Return no bounds."""
        return LowerBounds(np.full(n, -1, dtype=np.int64), np.zeros((0, m), dtype=np.int64))

    @property
    def n_groups(self) -> int:
        """How many bounds there are."""
        return len(self.lower)

    @property
    def limits(self) -> Floats:
        """No limits on sets, (m, 0)."""
        return np.zeros((self.lower.shape[1], 0))

    @property
    def everybody(self) -> NDArray[Any]:
        """No known totals of the groups together, (0,)."""
        return self.lower[:0, 0]

    def explicit(self) -> tuple[Floats, Ints, Floats]:
        """Return the bounds as rows: (signed groups (k, n_groups), child (k,), most (k,)) of sums at most that."""
        m = self.lower.shape[1]
        signs = -np.repeat(np.eye(self.n_groups), m, axis=0)
        return signs, np.tile(np.arange(m), self.n_groups), -self.lower.reshape(-1).astype(np.float64)

    def worst_sets(self, sums: Ints) -> tuple[Ints, Ints]:
        """Return no set of groups: bounds are rows of their own."""
        del sums
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def over(self, sums: NDArray[Any]) -> float:
        """Return by how much sums of the groups break a bound, in persons; 0 or less if they keep all."""
        return float((self.lower - sums).max(initial=0.0))

    def are_met(self, sums: Floats) -> bool:
        """Tell whether sums of a solution without bounds keep them all the same."""
        return self.over(sums) <= 0.0

    def signed(self, multipliers: Floats) -> Floats:
        """Return multipliers as they may be: nonnegative."""
        return np.maximum(multipliers, 0.0)

    def with_single_values_fixed(self, fixed: FixedTable) -> tuple[Bounds, FixedTable]:
        """Return the bounds and the fixed table as they are."""
        return self, fixed

    def floats(self) -> LowerBounds:
        """Return the same with float64 bounds."""
        return LowerBounds(self.of, self.lower.astype(np.float64))


@dataclass(frozen=True, eq=False)
class SubsetLimits(RowGroups):
    """Kinds of rows with limits on every set of them, see `SplitConstraints.limits`.

    Args:
        n_kinds: k.
        limits: (m, 2^k), or (m, 2^(k + 1)) with an entry that takes up the slack where nobody knows everybody.
    """

    n_kinds: int
    limits: NDArray[Any]
    broken: ClassVar[str] = "kinds of cells that do not split down to the leaves"

    @property
    def n_groups(self) -> int:
        """How many kinds there are."""
        return self.n_kinds

    @property
    def lower(self) -> NDArray[Any]:
        """No lower bound of a kind by itself, zeros (k, m)."""
        return np.zeros((self.n_kinds, len(self.limits)), dtype=self.limits.dtype)

    @property
    def is_whole(self) -> bool:
        """Whether the limits say how many people there are."""
        return bool(self.limits.shape[1] == 1 << self.n_kinds)

    @property
    def everybody(self) -> NDArray[Any]:
        """How many people the kinds hold together, (m,), or (0,) if that is not known."""
        return self.limits[: len(self.limits) * self.is_whole, -1]

    def explicit(self) -> tuple[Floats, Ints, Floats]:
        """Return every limit but that of everybody, as `LowerBounds.explicit`."""
        child, chosen = np.nonzero(self.limits < NO_LIMIT)
        signs = signed_classes(chosen, self.n_kinds).astype(np.float64)
        some = np.abs(signs).sum(axis=1) > 0
        some &= (chosen < self.limits.shape[1] - 1) | (not self.is_whole)
        most = self.limits[child, chosen].astype(np.float64)
        return signs[some], child[some], most[some]

    def worst_sets(self, sums: Ints) -> tuple[Ints, Ints]:
        """Return the children where sums of the kinds break a limit, and the set of kinds most above its own."""
        over = subset_sums(self.limits, sums) - self.limits
        broken = np.flatnonzero(over.max(axis=1) > 0)
        return broken, over.argmax(axis=1)[broken]

    def over(self, sums: NDArray[Any]) -> float:
        """Return by how much sums of the kinds are outside the limits, in persons."""
        over = subset_sums(self.limits, sums) - self.limits  # the last set is everybody, who are known
        return max(float(over.max(initial=0.0)), float(np.abs(over[:, -1]).max(initial=0.0)))

    def are_met(self, sums: Floats) -> bool:
        """Tell whether sums of a solution without limits keep them all the same."""
        return self.over(sums) <= LIMITS_MET_PERSONS

    def signed(self, multipliers: Floats) -> Floats:
        """Return multipliers as they may be: of any sign."""
        return multipliers

    def with_single_values_fixed(self, fixed: FixedTable) -> tuple[Bounds, FixedTable]:
        """Return limits that leave one value for every kind (an exact table) as a fixed table, which is solved faster.

        Args:
            fixed: on the same rows; limits stay if the new table would not refine it.
        """
        alone = self.limits[:, 1 << np.arange(self.n_kinds)]
        free = (alone.sum(axis=1) != self.limits[:, -1]).any()
        if not self.is_whole or free or not refines(self.of, fixed.of):
            return self, fixed
        present, of = np.unique(self.of, return_inverse=True)
        table = FixedTable(of.reshape(-1).astype(np.int64), np.ascontiguousarray(alone.T[present]))
        return LowerBounds.none(len(self.of), len(self.limits)).floats(), table

    def floats(self) -> SubsetLimits:
        """Return the same with float64 limits."""
        return replace(self, limits=self.limits.astype(np.float64))


Bounds = LowerBounds | SubsetLimits


@final
@dataclass(frozen=True, eq=False)
class FamilyConstraints:
    """What the children of one split keep, or the root.

    Args:
        totals: exact totals.
        exact: an exact table that tells more than the totals.
        bounds: lower bounds of disjoint cells, or limits on sets of kinds of cells.
        checks_exact: whether the root's fixed tables are held against the bounds together with the exact table.
    """

    totals: FixedTable
    exact: FixedTable
    bounds: Bounds
    checks_exact: bool


def occurring(codes: Ints) -> tuple[Ints, Ints]:
    """Return the codes that occur, increasing, and the place of each among them.

    As `np.unique` does, by counting instead of sorting: memory grows with the largest code.

    Args:
        codes: int64 (n,), 0 or more.
    """
    present = np.flatnonzero(np.bincount(codes))
    place = np.zeros(int(present[-1]) + 1 if len(present) else 0, dtype=np.int64)
    place[present] = np.arange(len(present))
    return present, place[codes]


def group_sums(values: NDArray[Number], group: Ints, n_groups: int) -> NDArray[Number]:
    """Add the rows of `values` by group, one after the other; rows with group -1 are left out."""
    out: NDArray[Any] = np.zeros((n_groups, values.shape[1]), dtype=values.dtype)
    if values.dtype == np.float64:
        add_by_group(np.ascontiguousarray(group), np.ascontiguousarray(values), out)
    elif n_groups:
        inside = group >= 0
        np.add.at(out, group[inside], values[inside])
    return out


def signed_classes(sets: Ints, n_kinds: int) -> Ints:
    """Return the kinds of each set as 0 and 1, (n_sets, n_kinds); the slack entry is minus the sum of all kinds."""
    return np.asarray(
        ((sets[:, None] >> np.arange(n_kinds)) & 1) - (sets[:, None] >> n_kinds), dtype=np.int64
    )


def subset_sums(limits: NDArray[Number], held: NDArray[Number]) -> NDArray[Number]:
    """Return the sum of `held` (k, m) over every set of kinds, in the shape of `limits`."""
    if limits.shape[1] > 1 << len(held):
        held = np.vstack([held, -held.sum(axis=0, keepdims=True)])
    sums = np.zeros(limits.shape, dtype=held.dtype)
    for k in range(len(held)):
        sums[:, 1 << k : 2 << k] = sums[:, : 1 << k] + held[k][:, None]
    return sums
