"""The tree estimate as what a release is fitted to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from topdown.plan.plan import Plan
from topdown.plan.prepare import Context
from topdown.solve.answers import NoisyAnswers
from topdown.solve.groups import Floats, Ints
from topdown.solve.level import LevelModel
from topdown.solve.statistics import Objective, OwnStatistics, Statistics
from topdown.solve.tree.covered import Covered, choose
from topdown.solve.tree.gls import Covariances, NodeEstimates, along, estimate, make_tree, open_values
from topdown.solve.tree.judge import LeafPath, Measured, residual_persons
from topdown.solve.tree.lattice import Lattice, query_of_labels
from topdown.solve.tree.objective import TreeObjective
from topdown.solve.tree.root import ExactAtRoot, condition, spread_evenly

JUDGED_LEAVES = 12


@final
@dataclass(frozen=True, eq=False)
class TreeStatistics:
    """Own information of each node and what the areas below it add; leaves, and levels not covered, by themselves.

    Args:
        context: plan and public facts.
        answers: measured.
        choice: what the estimate covers; one level at least.
        levels: the solver's view of every level.
        exact: labels and answers of what is exact at the root, int64 (n_cells,) and (n_answers,).
    """

    context: Context
    answers: NoisyAnswers
    choice: Covered
    levels: tuple[LevelModel, ...]
    exact: tuple[tuple[Ints, Ints], ...]

    @property
    def lattice(self) -> Lattice:
        """The cells as the estimate sorts them."""
        if self.choice.lattice is None:
            raise TypeError("no level is covered by the tree estimate")
        return self.choice.lattice

    @cached_property
    def tree(self) -> Covariances:
        """All covariances."""
        rules = self.context.rules
        is_open = [open_values(self.lattice, rules.class_of_cell, at) for at in rules.open]
        return make_tree(self.lattice, self.context.geography, is_open, self.choice.own)

    @cached_property
    def found(self) -> NodeEstimates:
        """What the noisy answers say of every node above the leaves."""
        return estimate(self.tree, self.answers)

    @cached_property
    def root(self) -> tuple[Floats, Floats]:
        """Estimate and covariance of the root, conditioned on what is exact there."""
        known = []
        for labels, answers in self.exact:
            query = query_of_labels(self.lattice, labels)
            by_cell = answers[labels[self.lattice.cell]].astype(np.float64)
            known.append(ExactAtRoot(query, spread_evenly(self.lattice, query, by_cell)))
        return condition(self.tree, self.found.linear[0][0][0], self.found.alone[0][0][0], known)

    @cached_property
    def residual(self) -> float:
        """Deviation of some leaves and their ancestors from the normal equations, in persons."""
        inhabited = np.flatnonzero(self.context.rules.inhabited[-1])
        rng = np.random.default_rng(int(self.context.plan.plan_hash[:8], 16))
        leaves = np.sort(rng.permutation(inhabited)[:JUDGED_LEAVES])
        levels = [Measured(at.labels, at.offsets, at.weights) for at in self.levels]
        return residual_persons(
            levels, [self._path(int(leaf)) for leaf in leaves], [labels for labels, _ in self.exact]
        )

    def _path(self, leaf: int) -> LeafPath:
        geography, lattice = self.context.geography, self.lattice
        path = [int(of[leaf]) for of in geography.ancestors_of_leaves]
        found, sums = along(self.tree, self.found, self.root[0], self.answers, leaf)
        cells = [
            lattice.cell[level.shape.values[level.shape.pattern[node]]].reshape(-1)
            for level, node in zip(self.tree.levels, path, strict=True)
        ]
        return LeafPath(
            cells[-1],
            tuple(_on_cells(lattice, at, x) for at, x in zip(cells, found, strict=True)),
            tuple(_on_cells(lattice, at, x) for at, x in zip(cells[:-1], sums, strict=True)),
            tuple(self.answers.answers(depth, node, node + 1)[1][0] for depth, node in enumerate(path)),
        )

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes and the objective: their own answers, or the tree estimate."""
        if self.choice.levels[level_index].targets == "own":
            return OwnStatistics(self.answers).split(level_index, first_node, last_node)
        shape = self.tree.levels[level_index].shape
        nodes = first_node + np.flatnonzero(shape.pattern[first_node:last_node] >= 0).astype(np.int64)
        _ = self.residual  # before workers are forked: the root is split first
        in_lattice = self.choice.in_lattice[level_index]
        return nodes, TreeObjective(self.tree, self.found, level_index, nodes, in_lattice)

    def anew(self, answers: NoisyAnswers) -> TreeStatistics:
        """Return the statistics of other answers; covariances are shared."""
        other = replace(self, answers=answers)
        vars(other).update(tree=self.tree)  # a cached property, made once
        return other

    def document(self) -> dict[str, Any]:
        """Return what solve.json says: levels, attributes, and how well the normal equations hold."""
        return {
            "targets": self.choice.document(),
            "dense": list(self.lattice.dense),
            "product": list(self.lattice.product),
            "residual_persons": float(f"{self.residual:.2e}"),
        }


def _on_cells(lattice: Lattice, cells: Ints, x: Floats) -> Floats:
    out = np.zeros(lattice.cell.size)
    out[cells] = x.reshape(-1)
    return out


@final
@dataclass(frozen=True, eq=False)
class NoLevelCovered:
    """The own answers everywhere, where the tree estimate was asked for and covers no level."""

    own: OwnStatistics
    choice: Covered

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return what the nodes' own answers ask for."""
        return self.own.split(level_index, first_node, last_node)

    def anew(self, answers: NoisyAnswers) -> NoLevelCovered:
        """Return those of other answers."""
        return replace(self, own=self.own.anew(answers))

    def document(self) -> dict[str, Any]:
        """Return why no level is covered."""
        return {"targets": self.choice.document()}


def statistics_of(
    context: Context,
    answers: NoisyAnswers,
    levels: tuple[LevelModel, ...],
    exact: dict[str, Ints],
    tables: dict[str, Ints],
) -> Statistics:
    """Return what the splits of a plan are fitted to.

    Args:
        context: plan and public facts. answers: measured. levels: the solver's view.
        exact: exact node totals by level name. tables: other exact tables, by name.
    """
    own = OwnStatistics(answers)
    if not context.plan.fits_tree:
        return own
    choice = choose(context)
    if choice.lattice is None:
        return NoLevelCovered(own, choice)
    return TreeStatistics(context, answers, choice, levels, exact_at_root(context.plan, exact, tables))


def exact_at_root(
    plan: Plan, exact: dict[str, Ints], tables: dict[str, Ints]
) -> tuple[tuple[Ints, Ints], ...]:
    """Return what is exact at the root: labels of every cell and answers, one pair a statistic."""
    known = []
    for invariant in plan.invariants.exact:
        query = plan.query(invariant.query)
        held = tables[invariant.name] if query.factors else exact[invariant.level][:, None]
        known.append((query.labels.astype(np.int64), held.sum(axis=0)))
    return tuple(known)
