"""Which constraints exclude each other where a table cannot be split: the smallest set, or an irreducible one.

Dropping a constraint never takes a split away, so leaving out one after the other ends in a set from which none
can be left out. Sets with fewer members are then tried size by size, as long as they are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from topdown.model.constraint_table import NO_LIMIT
from topdown.model.kinds import find_kinds
from topdown.plan.prepare import Context
from topdown.solve.failsafe import splits
from topdown.solve.groups import Ints
from topdown.solve.polytopes import Marks, Polytopes

MAX_TRIES = 300  # sets smaller than the irreducible one that are tried; each is a maximum flow


@dataclass(frozen=True)
class NodeConflict:
    """Constraints without a common table at a node.

    Args:
        names: of bounds and of rules that close cells, in the order of the invariants.
        smallest: whether no set with fewer members conflicts; otherwise only none of these can be left out.
    """

    names: tuple[str, ...]
    smallest: bool


def conflicting(
    context: Context, polytopes: Polytopes, depth: int, parent: int, cells: Ints, counts: Ints
) -> NodeConflict:
    """Return why a node's table does not split; exact totals, exact tables of leaves and `never` are taken as given.

    Args:
        context: plan and public facts. polytopes: of the release.
        depth: level of the children. parent: index of the node at the level above.
        cells, counts: the node's table.
    """
    one = _Relaxed(context, polytopes, depth, parent)

    def conflict(kept: tuple[int, ...]) -> bool:
        return not splits(one.polytopes(kept), depth, one.children, cells, counts)

    kept = one.relevant
    for i in one.relevant:
        fewer = tuple(k for k in kept if k != i)
        if conflict(fewer):
            kept = fewer
    n_tries = sum(comb(len(one.relevant), size) for size in range(len(kept)))
    if n_tries <= MAX_TRIES:
        smaller = (s for size in range(len(kept)) for s in combinations(one.relevant, size))
        kept = next((s for s in smaller if conflict(s)), kept)
    return NodeConflict(tuple(one.names[i] for i in kept), n_tries <= MAX_TRIES)


class _Relaxed:
    """The polytopes of a release with only some of its constraints on the leaves of one node."""

    def __init__(self, context: Context, polytopes: Polytopes, depth: int, parent: int) -> None:
        invariants, facts, schema = context.plan.invariants, context.facts, context.plan.schema
        first, last = polytopes.geography.child_pointers[depth - 1][parent : parent + 2]
        self.children = np.arange(first, last)
        self.whole, self.n_low, self.n_high = polytopes, len(invariants.at_least), len(invariants.at_most)
        self.names = [b.name for b in invariants.at_least] + [b.name for b in invariants.at_most]
        self.names += [zero.name for zero in invariants.none_where_zero]
        class_of_cell = polytopes.rules.class_of_cell
        inside = polytopes.leaf_range(depth - 1, parent)
        self.shut: list[Marks] = []  # of each rule, where it holds (leaves, classes)
        for zero in invariants.none_where_zero:
            closed = np.zeros(polytopes.rules.open[-1].shape[1], dtype=bool)
            closed[class_of_cell[schema.select(dict(zero.cells))]] = True
            there = np.stack([facts.columns[c] for c in zero.columns], axis=1).sum(axis=1, keepdims=True)
            self.shut.append(np.asarray(there == 0) & closed)
        never = np.zeros(polytopes.rules.open[-1].shape[1], dtype=bool)
        for rule in invariants.never:
            never[class_of_cell[schema.select(dict(rule.cells))]] = True
        self.possible = np.broadcast_to(~never, polytopes.rules.open[-1].shape)
        says = np.concatenate(
            [
                np.any(polytopes.rules.lower[-1][inside, : self.n_low] > 0, axis=0),
                np.any(polytopes.rules.caps[inside, : self.n_high] < NO_LIMIT, axis=0),
                np.array([shut[inside].any() for shut in self.shut], dtype=bool),
            ]
        )
        self.relevant = tuple(int(i) for i in np.flatnonzero(says))
        self.exact = -1
        if polytopes.by_answer and depth <= polytopes.unit_depth:  # the exact table is one more constraint
            level = polytopes.geography.level_names[polytopes.unit_depth]
            tables = [e for e in invariants.exact if e.level == level and context.plan.query(e.query).factors]
            self.exact = len(self.names)
            self.names.append(" and ".join(e.name for e in tables))
            self.relevant += (self.exact,)

    def polytopes(self, kept: tuple[int, ...]) -> Polytopes:
        """Return the polytopes with only the constraints of these numbers."""
        rules = self.whole.rules
        lower, caps, is_open = rules.lower[-1].copy(), rules.caps.copy(), self.possible.copy()
        for i in range(len(self.names) - (self.exact >= 0)):
            if i in kept:
                if i >= self.n_low + self.n_high:
                    is_open &= ~self.shut[i - self.n_low - self.n_high]
            elif i < self.n_low:
                lower[:, i] = 0
            elif i < self.n_low + self.n_high:
                caps[:, i - self.n_low] = NO_LIMIT
        weaker = replace(
            rules,
            open=(np.asarray(is_open.any(axis=0))[None, :], *rules.open[1:-1], is_open),
            lower=(*rules.lower[:-1], lower),
            caps=caps,
        )
        answers = self.whole.answers if self.exact < 0 or self.exact in kept else None
        kinds = find_kinds(weaker, answers=self.whole.kinds.answers)
        return replace(self.whole, kinds=kinds, rules=weaker, answers=answers)
