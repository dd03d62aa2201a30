"""From the root to the leaves: split every node's table over its children (Census TopDown, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from topdown.errors import InfeasibleError, TopdownError
from topdown.plan.prepare import Context
from topdown.solve.backends.quadratic import solve_with
from topdown.solve.flow import RoundingProblem, laminar_places
from topdown.solve.level import LevelModel, build_levels
from topdown.solve.passes import Split, estimate
from topdown.solve.problem import Ints
from topdown.solve.rounding import Rounded, round_table
from topdown.solve.tally import Tally
from topdown.solve.targets import Targets


@dataclass(frozen=True, eq=False)
class Node:
    """A solved node: its position in its level and its nonzero cells (int64, sorted) with counts (int64)."""

    index: int
    cells: Ints
    counts: Ints


@dataclass(frozen=True, eq=False)
class Descent:
    """The solver of one release: everything public, and the targets.

    Args:
        context: plan and public facts.
        targets: measured (or better) answers.
        exact: exact node totals by level name.
        backend: least-squares solver, see `backends/quadratic.py`.
    """

    context: Context
    targets: Targets
    exact: dict[str, Ints]
    backend: str = "admm"

    @cached_property
    def levels(self) -> tuple[LevelModel, ...]:
        """Solver's view of every level."""
        return build_levels(self.context, self.exact)

    @cached_property
    def places(self) -> tuple[tuple[tuple[int, int], ...] | None, ...]:
        """Per level, where lower bounds sit in the rounding chain; None where rounding is not a flow."""
        return tuple(laminar_places(_chain(v)[0], v.bound_of_cell, v.lower.shape[1]) for v in self.levels)

    def root(self, tally: Tally) -> Node:
        """Solve the top node."""
        level = self.levels[0]
        _, answers = self.targets.answers(0, 0, 1)
        cells = np.flatnonzero(level.open[0][level.class_of_cell])
        split = Split(
            cells=cells,
            counts=None,
            allowed=np.ones((len(cells), 1), dtype=bool),
            targets=np.ascontiguousarray(answers.T, dtype=np.float64),
            lower=level.lower[0][:, None],
            totals=level.exact[:1] if level.exact is not None else None,
        )
        counts = self._solve(0, split, tally, self.context.geography.root.codes[0])[:, 0]
        return Node(0, cells[counts > 0], counts[counts > 0])

    def children(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth`; children without records are left out."""
        first, last = self.context.geography.child_pointers[depth][parent.index : parent.index + 2]
        level = self.levels[depth + 1]
        index = first + np.flatnonzero(level.open[first:last].any(axis=1))
        if not len(parent.cells):
            return []
        if len(index) == 1:
            return [replace(parent, index=int(index[0]))]
        measured, answers = self.targets.answers(depth + 1, int(first), int(last))
        code = self.context.geography.levels[depth].codes[parent.index]
        if not np.array_equal(measured, index):
            raise InfeasibleError("measurements are missing for some areas", code="I011", node=code)
        split = Split(
            cells=parent.cells,
            counts=parent.counts,
            allowed=np.ascontiguousarray(level.open[index][:, level.class_of_cell[parent.cells]].T),
            targets=np.ascontiguousarray(answers.T, dtype=np.float64),
            lower=np.ascontiguousarray(level.lower[index].T),
            totals=level.exact[index] if level.exact is not None else None,
        )
        counts = self._solve(depth + 1, split, tally, code)
        nodes = []
        for j, child in enumerate(index):
            inside = counts[:, j] > 0
            if inside.any():
                nodes.append(Node(int(child), parent.cells[inside], counts[inside, j]))
        return nodes

    def subtree(self, depth: int, node: Node, tally: Tally) -> list[Node]:
        """Solve everything below one node and return its leaves with records, in leaf order."""
        nodes = [node]
        for below in range(depth, len(self.levels) - 1):
            nodes = [child for parent in nodes for child in self.children(below, parent, tally)]
        return nodes

    def _solve(self, depth: int, split: Split, tally: Tally, code: str) -> Ints:
        level = self.levels[depth]
        try:
            fractional, fit = estimate(level, split, partial(solve_with, self.backend))
            chain, weights = _chain(level)
            rounded: Rounded = round_table(
                RoundingProblem(
                    estimate=fractional,
                    allowed=split.allowed,
                    sums=split.counts,
                    chain=np.stack([table[split.cells] for table in chain]),
                    weights=weights,
                    bound_of=level.bound_of_cell[split.cells],
                    lower=split.lower,
                    bound_places=self.places[depth],
                    totals=split.totals,
                )
            )
        except TopdownError as error:
            error.node = error.node or code
            raise
        tally.level(self.context.plan.levels[depth].name).add(fit, rounded)
        return rounded.counts


def _chain(level: LevelModel) -> tuple[tuple[Ints, ...], tuple[int, ...]]:
    """Return the rounding chain, with the total in front where totals are exact."""
    if level.exact is None or not level.chain[0].any():
        return level.chain, level.chain_weights
    return (np.zeros_like(level.chain[0]), *level.chain), (level.chain_weights[0], *level.chain_weights)
