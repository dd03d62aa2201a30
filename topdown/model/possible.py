"""Which records public facts leave possible, and which changes of one record they leave: by classes of cells.

Cells that no rule tells apart are of one class. A change is left if both records are possible and it keeps every count
that bounds fix (see `topdown.model.meeting`): at one leaf both records are in the same fixed sets; between two leaves,
and where a record comes or goes, neither is in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.model.cell_classes import distinct_rows
from topdown.model.meeting import NO_LIMIT, meet
from topdown.model.schema import Schema

Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]
Values = dict[str, tuple[bool, ...]]  # attribute -> which of its values; attributes left out: all of them
MOST_PAIRS = 1 << 22  # pairs of classes looked at in one step


@dataclass(frozen=True, eq=False)
class Zero:
    """A rule that closes cells: those with all of `values`, at the leaves marked in bool (n_leaves,)."""

    name: str
    values: Values
    leaves: Marks


@dataclass(frozen=True, eq=False)
class ValueBound:
    """A rule that bounds the records with all of `values` at each leaf: int64 (n_leaves,), above or below."""

    name: str
    values: Values
    number: Ints
    above: bool


@dataclass(frozen=True, eq=False)
class Fixed:
    """What one bound has a part in fixing.

    Args:
        name: of the bound.
        inside: bool (n_classes,), classes it speaks of.
        met: bool (n_leaves,), where their count is fixed at the number of the bound.
        alone: bool (n_leaves,), where each of their records is taken to be fixed alone.
    """

    name: str
    inside: Marks
    met: Marks
    alone: Marks


@dataclass(frozen=True, eq=False)
class Places:
    """Where records can be and what changes public facts leave.

    Args:
        alike: per attribute, int64 (n_values,), values that no rule tells apart have one number.
        kind: class of each combination of these numbers.
        is_open: bool (n_leaves, n_classes), where a record can be.
        free: bool (n_leaves, n_classes), where one can also come and go, or be taken to another leaf.
        together: bool (n_classes, n_classes), whether a record of one can be replaced by one of the other at a leaf.
        fixed: bounds that fix something, in their order.
        closing: names of the rules that close cells, and of the bounds that close or fix some.
    """

    alike: tuple[Ints, ...]
    kind: Ints
    is_open: Marks
    free: Marks
    together: Marks
    fixed: tuple[Fixed, ...]
    closing: tuple[str, ...]

    def altered_by_some(self, held: Ints) -> list[str]:
        """Name the bounds whose fixed count some replaced record alters; `held`: cells of each class."""
        if not self.fixed:
            return []
        here = self.is_open.astype(np.float64)
        n_records = int(here.sum(axis=0) @ held)
        inside = here @ (held * np.array([f.inside for f in self.fixed])).T
        met = np.array([f.met for f in self.fixed]).T & (inside > 0) & (inside < n_records)
        alone = np.array([f.alone for f in self.fixed]).T & (inside > 0) & (n_records > 1)
        return [f.name for f, some in zip(self.fixed, (met | alone).any(axis=0), strict=True) if some]

    def altered_along(self, lines: Ints) -> list[str]:
        """Name the bounds whose fixed count a record alters that goes along a line, at one leaf.

        Args:
            lines: (n_lines, n_positions), class of each position.
        """
        if not self.fixed:
            return []
        counts = np.zeros((len(lines), len(self.together)), dtype=np.float32)
        np.add.at(counts, (np.arange(len(lines))[:, None], lines), 1)
        some = (counts > 0).astype(np.float32)
        pairs = some.T @ some > 0
        np.fill_diagonal(pairs, (counts > 1).any(axis=0))
        return [f.name for f, left in zip(self.fixed, self._left, strict=True) if (left & pairs).any()]

    @cached_property
    def _left(self) -> tuple[Marks, ...]:
        """Per bound that fixes something, the pairs of classes between which a record leaves it at some leaf."""
        out = []
        for f in self.fixed:
            kept = f.met | f.alone
            here = self.is_open[kept].astype(np.float32)
            beyond = here * (f.alone[kept][:, None] | ~f.inside)
            out.append(np.asarray((here * f.inside).T @ beyond > 0))
        return tuple(out)


def find_places(schema: Schema, n_leaves: int, zeros: Sequence[Zero], bounds: Sequence[ValueBound]) -> Places:
    """Decide which records and changes public facts leave.

    Args:
        schema: of the release.
        n_leaves: number of leaves.
        zeros, bounds: every rule, those of releases that are extended too.
    """
    if not any(b.above for b in bounds):
        bounds = ()  # without an upper bound there is room for any record more
    values_of = [*(z.values for z in zeros), *(b.values for b in bounds)]
    alike = tuple(_alike(a.name, len(a.labels), values_of) for a in schema.attributes)
    firsts = [np.unique(of, return_index=True)[1] for of in alike]
    shape = tuple(map(len, firsts))
    by_rule = [_members(schema, values, firsts).reshape(-1) for values in values_of]
    signature, kind = distinct_rows(np.stack([np.ones(int(np.prod(shape)), bool), *by_rule], axis=1))
    members = signature[:, 1:].T
    inside = members[len(zeros) :]
    above = np.array([b.above for b in bounds], dtype=bool)
    closes = np.concatenate([members[: len(zeros)], inside[above]])
    nobody = [b.number == 0 for b in bounds if b.above]
    is_open = _open(n_leaves, [*(z.leaves for z in zeros), *nobody], closes)
    names = [z.name for z in zeros]
    if not bounds:
        rows = distinct_rows(is_open)[0].astype(np.float32)
        together = np.asarray(rows.T @ rows > 0)
        return Places(alike, kind.reshape(shape), is_open, is_open, together, (), tuple(dict.fromkeys(names)))
    sets, of_bound = _sets(inside & is_open.any(axis=0))
    low = np.zeros((n_leaves, len(sets)), dtype=np.int64)
    high = np.full((n_leaves, len(sets)), NO_LIMIT, dtype=np.int64)
    for bound, s in zip(bounds, of_bound, strict=True):
        if s >= 0:
            ends, narrower = (high, np.minimum) if bound.above else (low, np.maximum)
            ends[:, s] = narrower(ends[:, s], bound.number)
    met = meet(sets, low, high, is_open)
    is_open = is_open & ~met.shut
    moving = is_open & ~_covered(met.alone, sets)
    together = _together(moving, met.count > 0, sets)
    fixed = []
    for bound, cells, s in zip(bounds, inside, of_bound, strict=True):
        if s >= 0:
            at = (bound.number > 0) & (met.count[:, s] == bound.number)
            found = Fixed(bound.name, cells, at, met.alone[:, s] & (bound.number > 0))
            fixed += [found] if (found.met | found.alone).any() else []
    biting = {f.name for f in fixed} | {b.name for b in bounds if b.above and (b.number == 0).any()}
    names += [b.name for b in bounds if b.name in biting]
    free = moving & ~_covered(met.count > 0, sets)
    return Places(
        alike, kind.reshape(shape), is_open, free, together, tuple(fixed), tuple(dict.fromkeys(names))
    )


def _alike(name: str, n_values: int, values_of: Sequence[Values]) -> Ints:
    """Return a number for each value of an attribute, equal where no rule tells them apart."""
    rows = [values[name] for values in values_of if name in values]
    return distinct_rows(np.array(rows, dtype=bool).reshape(len(rows), n_values).T)[1]


def _members(schema: Schema, values: Values, firsts: Sequence[Ints]) -> Marks:
    """Mark the combinations of values that a rule speaks of, over one value of each number."""
    out = np.ones(tuple(map(len, firsts)), dtype=bool)
    for i, attribute in enumerate(schema.attributes):
        if attribute.name in values:
            out &= along(np.asarray(values[attribute.name])[firsts[i]], i, out.ndim)
    return out


def along(values: NDArray[Any], axis: int, ndim: int) -> NDArray[Any]:
    """Return values of one axis in the shape of an array of `ndim` axes."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _open(n_leaves: int, leaves: Sequence[Marks], closes: Marks) -> Marks:
    """Mark the classes that no rule closes at each leaf; `closes`: bool (n_rules, n_classes)."""
    patterns, which = distinct_rows(np.stack([np.ones(n_leaves, dtype=bool), *leaves], axis=1))
    closed = patterns[:, 1:].astype(np.float32) @ closes.astype(np.float32)
    return np.asarray((closed == 0)[which])


def _sets(inside: Marks) -> tuple[Marks, list[int]]:
    """Return the distinct sets of classes that are not empty, and which one each bound speaks of; -1 for none."""
    sets, which = distinct_rows(inside)
    kept = sets.any(axis=1)
    place = np.where(kept, np.cumsum(kept) - 1, -1)
    return sets[kept], place[which].tolist()


def _covered(chosen: Marks, sets: Marks) -> Marks:
    """Mark the classes in some chosen set of each leaf."""
    return np.asarray(chosen.astype(np.float32) @ sets.astype(np.float32) > 0)


def _together(moving: Marks, fixed: Marks, sets: Marks) -> Marks:
    """Mark the pairs of classes that some leaf has both and that no set fixed there tells apart."""
    n = moving.shape[1]
    patterns = distinct_rows(np.concatenate([moving, fixed], axis=1))[0]
    apart = (sets[:, :, None] != sets[:, None, :]).reshape(len(sets), n * n).astype(np.float32)
    out = np.zeros((n, n), dtype=bool)
    step = max(MOST_PAIRS // (n * n), 1)
    for first in range(0, len(patterns), step):
        here, kept = patterns[first : first + step, :n], patterns[first : first + step, n:]
        same = (kept.astype(np.float32) @ apart == 0).reshape(-1, n, n)
        out |= (here[:, :, None] & here[:, None, :] & same).any(axis=0)
    return out
