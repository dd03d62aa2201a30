"""Which answers of a table public facts leave open, and whether the table lists all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import Query
from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.plan_file import PlanFile
from topdown.publish.verify.tree import Tree, closed_leaves

MOST_ROWS = 1_000_000  # of a table with intervals that lists zeros


@dataclass(frozen=True, eq=False)
class PossibleAnswers:
    """Leaves by what rules of the kinds `never` and `none_where_zero` close there.

    Args:
        patterns: bool (n_patterns, n_cells), cells that may hold records.
        held: per level, bool (n_nodes, n_patterns), patterns among a node's leaves.
    """

    patterns: NDArray[np.bool_]
    held: tuple[NDArray[np.bool_], ...]
    _listed: dict[tuple[str, int], Literal["all", "nonzero"]] = field(default_factory=dict)

    def listed(self, query: Query, level: int) -> Literal["all", "nonzero"]:
        """Return whether a table lists every possible answer."""
        place = (query.name, level)
        if place not in self._listed:
            answers, which = self._answers(query, level)
            self._listed[place] = "all" if int(answers.sum(axis=1)[which].sum()) <= MOST_ROWS else "nonzero"
        return self._listed[place]

    def keys(self, query: Query, level: int) -> Whole:
        """Return node * n_answers + answer of every row that a table of all possible answers has."""
        answers, which = self._answers(query, level)
        if not query.factors:  # every area has a total
            return np.arange(len(which), dtype=np.int64)
        node, answer = np.nonzero(answers[which])
        return np.asarray(node * query.n_answers + answer, dtype=np.int64)

    def closed(self, level: int) -> NDArray[np.bool_]:
        """Mark the nodes where no cell is open."""
        return np.asarray(~(self.held[level] & self.patterns.any(axis=1)).any(axis=1), dtype=bool)

    def _answers(self, query: Query, level: int) -> tuple[NDArray[np.bool_], Whole]:
        """Return open answers of every kind of node, and the kind of each node."""
        some = np.zeros((len(self.patterns), query.n_answers), dtype=bool)
        pattern, cell = np.nonzero(self.patterns)
        some[pattern, query.labels[cell]] = True
        packed = np.packbits(self.held[level], axis=1)
        _, first, which = np.unique(
            packed.view([("", packed.dtype)] * packed.shape[1]), return_index=True, return_inverse=True
        )
        kinds = self.held[level][first].astype(np.int64) @ some.astype(np.int64) > 0
        return kinds, which.reshape(-1).astype(np.int64)


def possible_answers(tree: Tree, plan: PlanFile) -> PossibleAnswers:
    """Return what a release's public facts leave open."""
    schema, rules = plan.schema, plan.doc.invariants
    free = np.ones(schema.n_cells, dtype=bool)
    for never in rules.never:
        free &= ~schema.select(dict(never.cells))
    which, found = np.zeros(tree.n_leaves, dtype=np.int64), free[None]
    for rule in rules.none_where_zero:
        closing = closed_leaves(tree, rule.columns)
        cells = schema.select(dict(rule.cells))
        found = np.concatenate([found, found & ~cells])
        kept, which = np.unique(which + closing * (len(found) // 2), return_inverse=True)
        found, which = found[kept], which.reshape(-1)
    held = []
    for up, geocodes in zip(tree.ancestors, tree.geocodes, strict=True):
        here = np.zeros((len(geocodes), len(found)), dtype=bool)
        here[up, which] = True
        held.append(here)
    return PossibleAnswers(found, tuple(held))
