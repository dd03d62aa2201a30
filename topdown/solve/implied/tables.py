"""The combination constraints of every node above the lowest level with exact totals (section 7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.errors import InfeasibleError
from topdown.model.constraint import Invariants
from topdown.model.geography import Geography
from topdown.model.public import PublicFacts
from topdown.model.schema import Schema
from topdown.solve.implied.atoms import Atoms, find_atoms
from topdown.solve.implied.combinations import Combinations
from topdown.solve.implied.groups import check_size
from topdown.solve.implied.polymatroid import coverage
from topdown.solve.problem import Ints


@dataclass(frozen=True, eq=False)
class NodeCombinations:
    """People by combination of groups, per node; group totals of a node must lie in the polytope of its table.

    Args:
        atoms: the groups; `atoms.of_cell` maps cells to them.
        people: per level, int64 (n_nodes, 2^k); None at and below the lowest level with exact totals, where totals,
            zeros and lower bounds already say everything.
    """

    atoms: Atoms
    people: tuple[Ints | None, ...]

    def tables(self, level: int) -> Ints | None:
        """Return U for every node of a level, int64 (n_nodes, 2^k), as `projection.project` takes it."""
        people = self.people[level]
        return None if people is None else coverage(people)

    def node(self, level: int, index: int) -> Combinations | None:
        """Return the combinations of one node, for `combinations.assign`."""
        people = self.people[level]
        if people is None:
            return None
        masks = np.flatnonzero(people[index])
        return Combinations(self.atoms.names, {int(m): int(people[index, m]) for m in masks})


def open_groups(atoms: Atoms, invariants: Invariants, facts: PublicFacts, n_leaves: int) -> NDArray[np.bool_]:
    """Tell which groups each leaf may hold: bool (n_leaves, k)."""
    zero = np.zeros((n_leaves, len(invariants.none_where_zero)), dtype=bool)
    for i, rule in enumerate(invariants.none_where_zero):
        zero[:, i] = np.all([facts.columns[c] == 0 for c in rule.columns], axis=0)
    return ~((zero.astype(np.int64) @ atoms.closed_by.T.astype(np.int64)) > 0)


def node_combinations(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact_totals: Mapping[str, Ints],
) -> NodeCombinations:
    """Count people by combination for every node of the levels that need it.

    A lower bound counts for the groups it names that are open at the leaf; what is left of a node's exact total may
    be in any group open at one of its leaves.

    Args:
        schema, geography, invariants, facts: the public side of a plan.
        exact_totals: exact node totals by level name; only the lowest level matters.

    Raises:
        ConfigError: more than 14 groups (C101).
        InfeasibleError: a node cannot have its total (I002); `contradiction` says which constraints conflict.
    """
    atoms, n_levels = find_atoms(schema, invariants), len(geography.levels)
    lowest = max((geography.index(name) for name in exact_totals), default=0)
    if lowest == 0:
        return NodeCombinations(atoms, (None,) * n_levels)
    check_size(len(atoms))
    n_leaves, weight = len(geography.leaves), 1 << np.arange(len(atoms))
    is_open = open_groups(atoms, invariants, facts, n_leaves)
    node_of_leaf = geography.ancestors_of_leaves[lowest]
    left = exact_totals[geography.levels[lowest].name].astype(np.int64).copy()
    reach = np.zeros((len(left), len(atoms)), dtype=bool)
    np.logical_or.at(reach, node_of_leaf, is_open)
    entries: list[tuple[Ints, Ints, Ints]] = []
    for b, bound in enumerate(invariants.at_least):
        people = bound.per * facts.columns[bound.column]
        entries.append((node_of_leaf, (is_open & atoms.bounded_by[:, b]) @ weight, people))
        np.subtract.at(left, node_of_leaf, people)
    entries.append((np.arange(len(left)), reach @ weight, left))
    node, mask, people = (np.concatenate(column) for column in zip(*entries, strict=True))
    wrong = (people < 0) | ((people > 0) & (mask == 0))
    if wrong.any():
        code = geography.levels[lowest].codes[int(node[wrong][0])]
        raise InfeasibleError(
            f"the exact total of {code} contradicts the public facts below it",
            code="I002",
            node=code,
            fix="correct the facts or the total of this area",
        )
    levels: list[Ints | None] = []
    for i in range(n_levels):
        if i >= lowest:
            levels.append(None)
            continue
        up = np.arange(len(left))
        for below in range(lowest, i, -1):
            up = geography.levels[below].parent[up]
        table = np.zeros((len(geography.levels[i]), 1 << len(atoms)), dtype=np.int64)
        np.add.at(table, (up[node], mask), people)
        table[:, 0] = 0
        levels.append(table)
    return NodeCombinations(atoms, tuple(levels))
