"""Do constraints exclude each other, or the public facts? The lowest node, and a smallest set that conflicts there.

`node_without_population` decides in closed form, so a whole state takes milliseconds. A constraint is left out by
leaving its rows out. Smallest sets are found by hitting sets (Ignatiev et al. 2015, after Reiter 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from topdown.arrays import Ints
from topdown.errors import InfeasibleError
from topdown.model.cell_sets import binary_digits, group_cells
from topdown.model.constraint_system import (
    ConstraintRow,
    ConstraintSystem,
    PublicFacts,
    exact_rows,
    leaf_rows,
)
from topdown.model.exact_tables import NodeAnswers, node_without_population
from topdown.model.geography import Geography
from topdown.model.invariants import Exact, Invariants
from topdown.model.schema import Schema

MAX_TESTS = 2_000  # feasibility tests, and twenty times as many steps of the search for hitting sets


ConflictTest = Callable[[frozenset[int]], bool]


@dataclass(frozen=True)
class ConflictSet:
    """A set of constraints without a solution, and whether it is a smallest one or only irreducible."""

    members: frozenset[int]
    is_smallest: bool


class _LimitError(Exception):
    """The search took more tests or steps than stated."""


def smallest_conflict(n: int, conflicts: ConflictTest, *, max_tests: int = MAX_TESTS) -> ConflictSet:
    """Find a smallest subset of 0..n-1 that conflicts; the first in order among the smallest it meets.

    Every conflict meets the complement of every set without conflict. So a smallest set that meets all complements
    found so far is a smallest conflict as soon as it conflicts; until then it grows to a maximal set without
    conflict, whose complement joins the others.

    Args:
        n: constraints; all together conflict.
        conflicts: monotone: with a set, every larger one conflicts.
        max_tests: calls after which an irreducible set is returned instead.
    """
    search = _HittingSetSearch(n, conflicts, max_tests)
    try:
        return ConflictSet(search.smallest(), True)
    except _LimitError:
        orders = (range(n), range(n - 1, -1, -1))  # the result depends on the order, so two are tried
        return ConflictSet(min([irreducible(order, conflicts) for order in orders], key=len), False)


def irreducible(order: Sequence[int], conflicts: ConflictTest) -> frozenset[int]:
    """Leave out constraints one at a time while the conflict stays; of what remains none can be left out."""
    kept = frozenset(order)
    for i in order:
        if conflicts(kept - {i}):
            kept -= {i}
    return kept


class _HittingSetSearch:
    def __init__(self, n: int, conflicts: ConflictTest, max_tests: int) -> None:
        self._n, self._conflicts = n, conflicts
        self._tests, self._steps = max_tests, 20 * max_tests

    def smallest(self) -> frozenset[int]:
        to_hit: list[frozenset[int]] = []
        size = 0
        while True:
            found = self._hitting(to_hit, frozenset(), size)
            if found is None:
                size += 1
                continue
            if self._test(found):
                return found
            for i in range(self._n):
                if i not in found and not self._test(found | {i}):
                    found |= {i}
            to_hit.append(frozenset(range(self._n)) - found)

    def _hitting(
        self, to_hit: list[frozenset[int]], chosen: frozenset[int], left: int
    ) -> frozenset[int] | None:
        """Return a set of at most `left` more members that meets every set, or None."""
        self._steps -= 1
        if self._steps < 0:
            raise _LimitError
        missed = [s for s in to_hit if not s & chosen]
        if not missed:
            return chosen
        if left == 0:
            return None
        fewest = min(missed, key=len)
        for i in sorted(fewest):
            found = self._hitting(missed, chosen | {i}, left - 1)
            if found is not None:
                return found
        return None

    def _test(self, kept: frozenset[int]) -> bool:
        self._tests -= 1
        if self._tests < 0:
            raise _LimitError
        return self._conflicts(kept)


MAX_ANSWERS = 64  # of an exact table above the leaves; each takes a pass over the tree
Rows = tuple[ConstraintRow, ...]  # of one constraint


def _without_population(
    schema: Schema, geography: Geography, constraints: Sequence[Rows], rules: ConstraintSystem | None = None
) -> tuple[int, int] | None:
    """Return (depth, index) of the first node of the lowest level that no population fits, or None.

    Args:
        geography: the tree below some node. constraints: on it.
        rules: what those of public facts say, if that is known.
    """
    exact = [rows for rows in constraints if isinstance(rows[0].rule, Exact)]
    if rules is None:
        public = [row for rows in constraints for row in rows if not isinstance(row.rule, Exact)]
        rules = ConstraintSystem.from_rows(schema, geography, public)
    system = rules.with_exact(geography, [row for rows in exact for row in rows])
    above = [rows for rows in exact if len(rows) == 1 or rows[0].depth < len(geography.levels) - 1]
    tables = [(rows[0].depth, _exact_table(rows)) for rows in above]
    digits = [digit for _, table in tables for digit in binary_digits(table.of_cell)]
    answers = group_cells(digits, schema.n_cells)
    return node_without_population(geography, system, system.partition(answers.of_cell), tables)


def _exact_table(rows: Rows) -> NodeAnswers:
    """Return an exact table from its rows; of one with many answers the total."""
    answers = np.array([row.low for row in rows]).T
    if len(rows) > MAX_ANSWERS:
        return NodeAnswers(np.zeros(len(rows[0].cells), dtype=np.int64), answers.sum(axis=1, keepdims=True))
    return NodeAnswers(np.argmax([row.cells for row in rows], axis=0), answers)


@dataclass(frozen=True)
class Contradiction:
    """Constraints that exclude each other at a node; each of them can be met there once another is left out.

    Args:
        level, node: the first node of the lowest level where constraints meet.
        leaf: the node if it is a leaf, else empty.
        names: of the constraints.
        is_smallest: whether no smaller set conflicts there; if not, the search was cut short (`MAX_TESTS`).
        is_public: whether public facts alone exclude each other.
    """

    level: str
    node: str
    leaf: str
    names: tuple[str, ...]
    is_smallest: bool = True
    is_public: bool = False

    def error(self) -> InfeasibleError:
        """Return the refusal. It names constraints and the node, never an exact statistic's value."""
        n = len(self.names)
        said = "a constraint cannot be met" if n == 1 else f"{n} constraints exclude each other"
        details = [("constraint", name) for name in self.names]
        if not self.is_smallest:
            details.append(("note", "none of these can be left out, but fewer others may exclude each other"))
        where = "the public leaf table" if self.is_public else "the records or the public leaf table"
        return InfeasibleError(
            f"{said} at {self.level} {self.node}",
            code="I014" if self.is_public else "I002",
            node=self.node,
            details=tuple(details),
            fix=f"correct {where}, or leave out one of these constraints; nothing was spent",
        )


def find_contradiction(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact: Mapping[str, Ints],
    *,
    rules: ConstraintSystem | None = None,
    max_tests: int = MAX_TESTS,
) -> Contradiction | None:
    """Find a conflict of a release's constraints, or None if a population satisfies them all.

    Answers of exact tables above the leaves are checked one by one: there None means no conflict of this kind, not
    that a population exists; a table with more than `MAX_ANSWERS` answers counts with its total only. Soft rules are
    left aside; breaking them is allowed.

    Args:
        schema, geography, invariants, facts: of the release.
        exact: answers of exact statistics by name, int64 (n_nodes, n_answers); those not known yet are left out.
        rules: what public facts say, where that is known already.
        max_tests: feasibility tests of the search for a smallest set; beyond it the set is only irreducible.

    Raises:
        ConfigError: bounds share cells without being nested (C073).

    Cost: one pass over the tree; if there is a conflict, at most `max_tests` passes below one node.
    """
    rows = (
        *exact_rows(schema, invariants, exact, geography),
        *leaf_rows(schema, invariants, facts.columns, geography),
    )
    constraints = [tuple(group) for _, group in groupby(rows, key=lambda row: id(row.rule))]
    found = _without_population(schema, geography, constraints, rules)
    if found is None:
        return None
    top, node = found
    ranges = geography.ranges(top, node, node + 1)
    below, inside = geography.part(ranges), [np.arange(nodes.start, nodes.stop) for nodes in ranges]
    here = [tuple(row.at(inside[row.depth]) for row in rows) for rows in constraints if rows[0].depth >= top]
    candidates = [rows for rows in here if any(row.asks.any() for row in rows)]

    def conflicts(chosen: frozenset[int]) -> bool:
        return _without_population(schema, below, [candidates[i] for i in sorted(chosen)]) is not None

    conflict = smallest_conflict(len(candidates), conflicts, max_tests=max_tests)
    named = [candidates[i][0].rule for i in sorted(conflict.members)]
    code = geography.levels[top].codes[node]
    return Contradiction(
        geography.levels[top].name,
        code,
        code if top == len(geography.levels) - 1 else "",
        tuple(rule.name for rule in named),
        conflict.is_smallest,
        not any(isinstance(rule, Exact) for rule in named),
    )
