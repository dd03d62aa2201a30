"""Do constraints exclude each other, or the public facts? The lowest node, and a smallest set that conflicts there.

At a leaf, open cells and bounds on nested sets leave an interval of possible totals; intervals add up from the leaves,
and an exact total cuts one. This is the maximum flow of the tree (leaves to root, with lower bounds and capacities),
solved in closed form, so a whole state takes milliseconds. An answer of an exact table above the leaves is such a total
for its cells alone, under the bounds inside them: necessary, not complete. Smallest sets are found by hitting sets
(Ignatiev et al. 2015, after Reiter 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from topdown.arrays import Bools, Ints
from topdown.errors import InfeasibleError
from topdown.model.cell_sets import NO_LIMIT, distinct_rows, group_cells, laminar_family
from topdown.model.constraint_system import BATCH_LEAVES, ConstraintRow, PublicFacts, exact_rows, leaf_rows
from topdown.model.geography import Geography
from topdown.model.invariants import Exact, InvariantKind, Invariants
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
            to_hit.append(frozenset(range(self._n)) - self._grown(found))

    def _grown(self, kept: frozenset[int]) -> frozenset[int]:
        for i in range(self._n):
            if i not in kept and not self._test(kept | {i}):
                kept |= {i}
        return kept

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


@dataclass(frozen=True, eq=False)
class StatedBound:
    """What a row asks of the leaves, with its cells as atoms: bool (n_atoms,)."""

    rule: int
    atoms: Bools
    row: ConstraintRow


@dataclass(frozen=True, eq=False)
class StatedTotal:
    """Exact numbers of records in some cells at the nodes of one level: bool (n_atoms,) and int64 (n_nodes,)."""

    rule: int
    depth: int
    atoms: Bools
    values: Ints


@dataclass(frozen=True, eq=False)
class StatedConstraints:
    """The constraints below some node.

    Args:
        geography: the whole tree.
        rules: every constraint; a set of constraints is a set of positions here.
        closes: bool (n_rules, n_atoms), cells a constraint closes where it applies; atoms are cells that no
            constraint tells apart.
        shut: bool (n_patterns, n_rules), where it applies; pattern: int64 (n_leaves,).
        bounds: small sets of atoms first, nested or disjoint.
        totals: exact totals, and exact answers above the leaves.
        leaves, top: the leaves concerned, all those of some nodes of level `top`.
    """

    geography: Geography
    rules: tuple[InvariantKind, ...]
    closes: Bools
    shut: Bools
    pattern: Ints
    bounds: tuple[StatedBound, ...]
    totals: tuple[StatedTotal, ...]
    leaves: Ints
    top: int = 0

    @property
    def all(self) -> frozenset[int]:
        """Every constraint."""
        return frozenset(range(len(self.rules)))

    @cached_property
    def relevant(self) -> frozenset[int]:
        """Constraints that ask anything of these leaves or of the nodes above them."""
        closing = self.closes.any(axis=1) & self.shut[np.unique(self.pattern)].any(axis=0)
        asked = {b.rule for b in self.bounds if b.row.asks.any()}
        asked |= {t.rule for t in self.totals if t.depth >= self.top}
        return frozenset(asked | set(np.flatnonzero(closing).tolist()))

    def below(self, depth: int, node: int) -> StatedConstraints:
        """Return what concerns one node and everything below it."""
        inside = np.flatnonzero(self.geography.ancestors_of_leaves[depth][self.leaves] == node)
        bounds = tuple(replace(b, row=b.row.at(inside)) for b in self.bounds)
        return replace(
            self, pattern=self.pattern[inside], bounds=bounds, leaves=self.leaves[inside], top=depth
        )

    def without_population(self, kept: frozenset[int]) -> tuple[int, int] | None:
        """Return (depth, index) of the first node of the lowest level that no population fits, or None.

        Args:
            kept: constraints to look at.
        """
        everything = np.ones(self.closes.shape[1], dtype=bool)
        parts = {everything.tobytes(): everything}
        parts |= {total.atoms.tobytes(): total.atoms for total in self.totals if total.rule in kept}
        found = [self._part_without_population(kept, atoms) for atoms in parts.values()]
        return min((at for at in found if at is not None), key=lambda at: (-at[0], at[1]), default=None)

    def _part_without_population(self, kept: frozenset[int], atoms: Bools) -> tuple[int, int] | None:
        """Return the same for records in some cells alone, under the bounds inside them."""
        fewest, most, boundless, bad = self._leaf_totals(kept, atoms)
        node: Ints = self.leaves
        levels = self.geography.levels
        totals = [t for t in self.totals if t.rule in kept and np.array_equal(t.atoms, atoms)]
        for depth in reversed(range(self.top, len(levels))):
            for total in totals:
                if total.depth == depth:
                    here = total.values[node]
                    bad |= (here < fewest) | (~boundless & (here > most))
                    fewest, most, boundless = here, here, np.zeros(len(node), dtype=bool)
            if bad.any():
                return depth, int(node[bad.argmax()])
            above, up = np.unique(levels[depth].parent[node], return_inverse=True)
            up = up.reshape(-1)
            node, n = above.astype(np.int64), len(above)
            fewest, most = _group_sums(fewest, up, n), _group_sums(np.where(boundless, 0, most), up, n)
            boundless = _group_sums(boundless.astype(np.int64), up, n) > 0
            bad = np.zeros(n, dtype=bool)
        return None

    def _leaf_totals(self, kept: frozenset[int], atoms: Bools) -> tuple[Ints, Ints, Bools, Bools]:
        """Return fewest and most records of every leaf, where there is no upper end, and leaves without a table."""
        chosen = np.array(sorted(kept), dtype=np.int64)
        closed = self.shut[:, chosen].astype(np.float32) @ self.closes[chosen].astype(np.float32)
        is_open = (closed == 0) & atoms
        bounds = [b for b in self.bounds if b.rule in kept and not (b.atoms & ~atoms).any()]
        sets = np.array([b.atoms for b in bounds], dtype=bool).reshape(-1, len(atoms))
        family = laminar_family(sets)
        open_directly = family.open_directly(is_open)
        fewest, most = np.zeros(len(self.leaves), np.int64), np.zeros(len(self.leaves), np.int64)
        bad = np.zeros(len(self.leaves), dtype=bool)
        for first in range(0, len(self.leaves), BATCH_LEAVES):
            here = slice(first, first + BATCH_LEAVES)
            direct = open_directly[self.pattern[here]]
            low, high = (np.zeros((len(direct), len(bounds)), dtype=np.int64) for _ in range(2))
            for s, bound in enumerate(bounds):
                low[:, s], high[:, s] = bound.row.low[here], bound.row.high[here]
            up = family.add_up(low, high, direct)
            bad[here] = (up.least > up.most).any(axis=1)
            fewest[here], most[here] = family.everybody(up, direct)
        return fewest, most, most >= NO_LIMIT, bad


def _group_sums(values: Ints, group: Ints, n_groups: int) -> Ints:
    out = np.zeros(n_groups, dtype=np.int64)
    np.add.at(out, group, values)
    return out


MAX_ANSWERS = 64  # of an exact table above the leaves; each takes a pass over the tree


def collect_constraints(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact: Mapping[str, Ints],
) -> StatedConstraints:
    """Put the constraints of a release together.

    Args:
        schema, geography, invariants, facts: of the release.
        exact: answers of the exact statistics that are known, int64 (n_nodes, n_answers), by name. A table above the
            leaves with more than `MAX_ANSWERS` answers counts with its total only.

    Raises:
        ConfigError: two bounds share cells and neither's hold the other's (C073).
    """
    leaf, n_leaves = len(geography.levels) - 1, len(geography.leaves)
    rules: list[InvariantKind] = []
    closing: list[tuple[int, Bools, Bools]] = []
    bounds: list[StatedBound] = []
    totals: list[StatedTotal] = []
    everybody = np.ones(schema.n_cells, dtype=bool)
    rows = (
        *exact_rows(schema, invariants, exact, geography),
        *leaf_rows(schema, invariants, facts.columns, geography),
    )
    for _, group in groupby(rows, key=lambda row: id(row.rule)):
        answers, rule = tuple(group), len(rules)
        depth, is_exact = answers[0].depth, isinstance(answers[0].rule, Exact)
        rules.append(answers[0].rule)
        if answers[0].rule.closes:
            closing += [(rule, row.cells, row.high == 0) for row in answers]
        elif not is_exact or (depth == leaf and len(answers) > 1):
            bounds += [StatedBound(rule, row.cells, row) for row in answers]
        else:
            totals.append(StatedTotal(rule, depth, everybody, np.sum([row.low for row in answers], axis=0)))
            if 1 < len(answers) <= MAX_ANSWERS:
                totals += [StatedTotal(rule, depth, row.cells, row.low) for row in answers]
    columns = [c for _, c, _ in closing] + [b.atoms for b in bounds] + [t.atoms for t in totals]
    atoms = group_cells(columns, schema.n_cells)
    closes = np.zeros((len(rules), len(atoms.first)), dtype=bool)
    shut = np.zeros((n_leaves, len(rules)), dtype=bool)
    for rule, cells, where in closing:
        closes[rule], shut[:, rule] = cells[atoms.first], where
    patterns, pattern = distinct_rows(shut)
    bounds = [replace(bound, atoms=bound.atoms[atoms.first]) for bound in bounds]
    totals = [replace(total, atoms=total.atoms[atoms.first]) for total in totals]
    bounds.sort(key=lambda b: int(b.atoms.sum()))
    sets = np.array([b.atoms for b in bounds], dtype=bool).reshape(-1, len(atoms.first))
    laminar_family(sets, [rules[b.rule].name for b in bounds])  # refuses those that cross
    return StatedConstraints(
        geography, tuple(rules), closes, patterns, pattern, tuple(bounds), tuple(totals), np.arange(n_leaves)
    )


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
    max_tests: int = MAX_TESTS,
) -> Contradiction | None:
    """Find a conflict of a release's constraints, or None if a population satisfies them all.

    Answers of exact tables above the leaves are checked one by one (`promises`): there None means no conflict of this
    kind, not that a population exists. Soft rules are left aside; breaking them is allowed.

    Args:
        schema, geography, invariants, facts: of the release.
        exact: answers of exact statistics by name, int64 (n_nodes, n_answers); those not known yet are left out.
        max_tests: feasibility tests of the search for a smallest set; beyond it the set is only irreducible.

    Raises:
        ConfigError: bounds share cells without being nested (C073).

    Cost: one pass over the tree; if there is a conflict, at most `max_tests` passes below one node.
    """
    promises = collect_constraints(schema, geography, invariants, facts, exact)
    found = promises.without_population(promises.all)
    if found is None:
        return None
    depth, node = found
    here = promises.below(depth, node)
    candidates = sorted(here.relevant)

    def conflicts(chosen: frozenset[int]) -> bool:
        return here.without_population(frozenset(candidates[i] for i in chosen)) is not None

    conflict = smallest_conflict(len(candidates), conflicts, max_tests=max_tests)
    named = [promises.rules[candidates[i]] for i in sorted(conflict.members)]
    code = geography.levels[depth].codes[node]
    return Contradiction(
        geography.levels[depth].name,
        code,
        code if depth == len(geography.levels) - 1 else "",
        tuple(rule.name for rule in named),
        conflict.is_smallest,
        not any(isinstance(rule, Exact) for rule in named),
    )
