"""Cells that no constraint tells apart, and the sets of them that leaf constraints bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.model.constraint_table import NO_LIMIT
from topdown.model.public import Rules, one_cell_each

MAX_KINDS = 14  # a table over all subsets of the kinds is kept at some nodes


@dataclass(frozen=True, eq=False)
class Kinds:
    """Kinds of cells, and bounded sets of kinds.

    Two cells are of one kind if the same constraints close, bound and limit them. Sets are nested or disjoint,
    small ones first.

    Args:
        of_cell: int64 (n_cells,), kind of each cell, -1 for cells that are closed everywhere.
        class_of: int64 (n_kinds,), class of each kind (see `Rules`).
        members: bool (n_sets, n_kinds).
        low, high: int64 (n_leaves, n_sets), bounds of each set at every leaf; NO_LIMIT for none.
        answer_of: int64 (n_kinds,), answer of each kind in the exact table above the leaves; None if there is none.
    """

    of_cell: NDArray[np.int64]
    class_of: NDArray[np.int64]
    members: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    answer_of: NDArray[np.int64]

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return len(self.class_of)

    @property
    def answers(self) -> NDArray[np.int64]:
        """Answer of each possible cell in the exact table above the leaves, as `find_kinds` takes it."""
        return np.where(self.of_cell >= 0, self.answer_of[self.of_cell], 0)

    @property
    def spread(self) -> NDArray[np.bool_]:
        """Sets whose kinds lie in several answers of the exact table, bool (n_sets,)."""
        return np.array([len(np.unique(self.answer_of[row])) > 1 for row in self.members], dtype=bool)


def find_kinds(rules: Rules, names: tuple[str, ...] = (), answers: NDArray[np.int64] | None = None) -> Kinds:
    """Group the cells of a release by the constraints they are under.

    Args:
        rules: of the release.
        names: of lower bounds, then upper bounds, for error messages.
        answers: int64 (n_cells,), answer of each cell in the exact table above the leaves; None if there is none.

    Raises:
        ConfigError: two bounds share some cells, and neither's hold the other's.
    """
    rules, first, one = one_cell_each(rules, answers)  # seconds less where there are a million cells
    answers = None if answers is None else answers[first]
    groups = np.array([*rules.bound_cells, *rules.cap_cells], dtype=bool).reshape(
        -1, len(rules.class_of_cell)
    )
    n_bounds = len(rules.bound_cells)
    reachable = rules.open[0][0][rules.class_of_cell]
    _check_nested(groups & reachable, names or ("",) * len(groups))
    answer = np.zeros(len(rules.class_of_cell), dtype=np.int64) if answers is None else answers
    signature = np.vstack([rules.class_of_cell[None, :], groups, answer])[:, reachable]
    distinct, kind = np.unique(signature, axis=1, return_inverse=True)
    of_cell = np.full(len(reachable), -1, dtype=np.int64)
    of_cell[reachable] = kind.reshape(-1)
    columns = distinct[1 : 1 + len(groups)].astype(bool)
    members, set_of = np.unique(columns, axis=0, return_inverse=True)
    order = np.argsort(members.sum(axis=1), kind="stable")
    members, set_of = members[order], np.argsort(order)[set_of.reshape(-1)]
    n_leaves = len(rules.caps)
    low = np.zeros((n_leaves, len(members)), dtype=np.int64)
    high = np.full((n_leaves, len(members)), NO_LIMIT, dtype=np.int64)
    for g, s in enumerate(set_of.tolist()):
        if g < n_bounds:
            low[:, s] = np.maximum(low[:, s], rules.lower[-1][:, g])
        else:
            high[:, s] = np.minimum(high[:, s], rules.caps[:, g - n_bounds])
    return Kinds(
        of_cell[one], distinct[0].astype(np.int64), members, low, high, distinct[-1].astype(np.int64)
    )


def _check_nested(groups: NDArray[np.bool_], names: tuple[str, ...]) -> None:
    for a in range(len(groups)):
        for b in range(a):
            both = groups[a] & groups[b]
            nested = np.array_equal(both, groups[a]) or np.array_equal(both, groups[b])
            if both.any() and not nested:
                raise ConfigError(
                    f"bounds {names[b]!r} and {names[a]!r} share some cells, but neither's hold the other's",
                    code="C073",
                    fix="make the cells of bounds nested or disjoint",
                )


def set_ranges(
    kinds: Kinds, is_open: NDArray[np.bool_], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the fewest and most records each set can hold, and the innermost set of each kind (-1: none).

    Args:
        is_open: bool (n, n_kinds). low, high: int64 (n, n_sets).
    """
    innermost = np.full(kinds.n_kinds, -1, dtype=np.int64)
    for s in reversed(range(len(kinds.members))):
        innermost[kinds.members[s]] = s
    outer = outer_sets(kinds)
    least, most = np.zeros_like(low), np.zeros_like(high)
    for s in range(len(kinds.members)):
        inner = np.flatnonzero(outer == s)
        direct = is_open[:, innermost == s].any(axis=1)
        room = np.minimum(most[:, inner].sum(axis=1) + np.where(direct, NO_LIMIT, 0), NO_LIMIT)
        least[:, s] = np.maximum(low[:, s], least[:, inner].sum(axis=1))
        most[:, s] = np.minimum(high[:, s], room)
    return least, most, innermost


def are_nested(rules: Rules) -> bool:
    """Tell whether two lower bounds share cells."""
    held = np.zeros(len(rules.class_of_cell), dtype=np.int64)
    for cells in rules.bound_cells:
        held += cells
    return bool((held > 1).any())


def outer_sets(kinds: Kinds) -> NDArray[np.int64]:
    """Return the smallest set that strictly holds each set, -1 for the outermost."""
    outer = np.full(len(kinds.members), -1, dtype=np.int64)
    for s, inside in enumerate(kinds.members):
        for t in range(s + 1, len(kinds.members)):
            if outer[s] < 0 and inside.any() and (kinds.members[t] >= inside).all():
                outer[s] = t
    return outer
