"""Cells that no rule about leaves tells apart: the groups of Theorem 3 for a given set of invariants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import Invariants
from topdown.model.schema import Schema
from topdown.solve.implied.naming import cells_name
from topdown.solve.problem import Ints


@dataclass(frozen=True, eq=False)
class Atoms:
    """A partition of the possible cells.

    Args:
        names: of the k groups, from the labels their cells have in common.
        of_cell: int64 (n_cells,), group of every cell; -1 where no record may ever be.
        closed_by: bool (k, n_none_where_zero), whether the rule closes the group where its columns are zero.
        bounded_by: bool (k, n_at_least), whether the group counts for the lower bound.
    """

    names: tuple[str, ...]
    of_cell: Ints
    closed_by: NDArray[np.bool_]
    bounded_by: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shared(self) -> tuple[int, int] | None:
        """Two lower bounds with a group in common, if there are."""
        pairs = np.argwhere(self.bounded_by.sum(axis=1) > 1)
        if not len(pairs):
            return None
        first, second = np.flatnonzero(self.bounded_by[int(pairs[0, 0])])[:2]
        return int(first), int(second)

    @property
    def spread(self) -> int | None:
        """A lower bound on several groups, so that leaves may close part of its cells, if there is one."""
        wide = np.flatnonzero(self.bounded_by.sum(axis=0) > 1)
        return int(wide[0]) if len(wide) else None


def find_atoms(schema: Schema, invariants: Invariants) -> Atoms:
    """Group the cells by the zero rules and lower bounds that touch them."""
    never = np.zeros(schema.n_cells, dtype=bool)
    for rule in invariants.never:
        never |= schema.select(dict(rule.cells))
    possible = np.flatnonzero(~never)
    chosen = [r.cells for r in invariants.none_where_zero] + [r.cells for r in invariants.at_least]
    rules = [schema.select(dict(cells))[possible] for cells in chosen]
    signature = np.zeros((len(possible), len(rules)), dtype=bool)
    for i, rule_cells in enumerate(rules):
        signature[:, i] = rule_cells
    packed = np.packbits(signature, axis=1) if rules else np.zeros((len(possible), 1), dtype=np.uint8)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # groups in the order of their first cells
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    of_cell = np.full(schema.n_cells, -1, dtype=np.int64)
    of_cell[possible] = rank[group.reshape(-1)]
    kinds = signature[first[order]]
    split = len(invariants.none_where_zero)
    names = tuple(cells_name(schema, possible[of_cell[possible] == a]) for a in range(len(order)))
    return Atoms(names, of_cell, kinds[:, :split], kinds[:, split:])
