"""Slices: a run of nodes with everything below it and the nodes above it, as a tree of its own.

A slice holds the public side of its nodes: one contiguous range a level, parents, facts, where their answers lie. Its
nodes are numbered from its first on. What is asked of all leaves is the form of the constraints (`SplitForm`), which
each worker holds once; so a worker keeps the form and one slice, however large the nation is. Results are those of the
whole tree, to the last byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

from topdown.formats.plan_documents import Verdict
from topdown.model import (
    Geography,
    LimitUse,
    NodeNumbers,
    PublicFacts,
    SplitConstraints,
    SplitForm,
)
from topdown.plan import Plan, PublicContext
from topdown.solve.noisy_answers import AnswerSource
from topdown.solve.objectives import FirstNodes, StatisticsOfParts
from topdown.solve.release_facts import LevelModel, ReleaseFacts
from topdown.solve.table_changes import SoftRuleRepair
from topdown.solve.top_down import TopDownSolver
from topdown.solve.tree_solver import TreeSolver


@final
@dataclass(frozen=True, eq=False)
class Slice:
    """The public side of a run of nodes, with all above and below.

    Args:
        firsts: see `FirstNodes`.
        geography, facts: of the slice, by its own numbers.
        nodes: narrowed.
        answers: what the source of noisy answers opens.
    """

    firsts: FirstNodes
    geography: Geography
    facts: PublicFacts
    nodes: NodeNumbers
    answers: Any


class WorkerState(ABC):
    """What a worker holds to solve parts of a tree."""

    @abstractmethod
    def open(self, part: Any) -> tuple[TreeSolver, FirstNodes]:
        """Return the solver of a part, as the partitioner cut it, and its first node of every level."""


@final
@dataclass(frozen=True, eq=False)
class WholeTreeState(WorkerState):
    """The solver itself, where nothing says how to cut it."""

    solver: TreeSolver

    def open(self, part: Any) -> tuple[TreeSolver, FirstNodes]:
        """Return it."""
        del part
        return self.solver, (0,) * len(self.solver.context.geography.levels)


@final
@dataclass(frozen=True, eq=False)
class SliceState(WorkerState):
    """A plain release without its nodes.

    Args:
        plan, levels, verdicts, form, repair: of the release.
        source: opens the noisy answers of a slice.
        statistics: opens what its splits are fitted to.
    """

    plan: Plan
    levels: tuple[LevelModel, ...]
    verdicts: tuple[Verdict, ...]
    form: SplitForm
    repair: SoftRuleRepair
    source: AnswerSource
    statistics: StatisticsOfParts

    def open(self, part: Slice) -> tuple[TopDownSolver, FirstNodes]:
        """Return the solver of a slice, which has nothing to make a form from but is given it."""
        constraints = SplitConstraints(self.form, part.nodes.widened(), part.geography)
        context = PublicContext(self.plan, part.geography, part.facts)
        facts = ReleaseFacts(self.levels, self.verdicts, constraints)
        answers = self.source.opened(part.answers)
        statistics = self.statistics.open(answers, part.firsts)
        solver = TopDownSolver(context, self.repair, facts, statistics, answers, ())
        return solver, part.firsts


class TreePartitioner(ABC):
    """Cuts the tree of a solver into parts; stays with whoever hands them out.

    Args:
        solver: of the whole tree.
        state: what workers hold.
        one_level: per level but the last, whether splits of its nodes ask nothing of what is below their children.
    """

    solver: TreeSolver
    state: WorkerState
    one_level: tuple[bool, ...]

    @abstractmethod
    def cut(self, depth: int, first: int, last: int, *, one_level: bool = False) -> tuple[Any, FirstNodes]:
        """Return all above and below nodes first..last-1 of a level, and the first node of every level.

        Args:
            depth, first, last: of the nodes.
            one_level: leave out what is below their children.
        """


@final
@dataclass(frozen=True, eq=False)
class UncutTree(TreePartitioner):
    """A tree that workers hold whole: that of an extension."""

    solver: TreeSolver
    state: WholeTreeState
    one_level: tuple[bool, ...]

    def cut(self, depth: int, first: int, last: int, *, one_level: bool = False) -> tuple[Any, FirstNodes]:
        """Return nothing: workers have it all."""
        del depth, first, last, one_level
        return None, (0,) * len(self.solver.context.geography.levels)


@final
@dataclass(frozen=True, eq=False)
class SlicedTree(TreePartitioner):
    """The tree of a plain release."""

    solver: TopDownSolver
    state: SliceState
    one_level: tuple[bool, ...]

    def cut(self, depth: int, first: int, last: int, *, one_level: bool = False) -> tuple[Slice, FirstNodes]:
        """Return a slice."""
        context, numbers = self.solver.context, self.solver.facts.constraints.numbers
        ranges = context.geography.ranges(depth, first, last)
        if one_level:
            ranges = (*ranges[: depth + 2], *(slice(0, 0) for _ in ranges[depth + 2 :]))
        geography = context.geography.part(ranges)
        firsts = tuple(here.start for here in ranges)
        facts, nodes = context.facts.at(ranges[-1]), numbers.part(ranges).narrowed()
        return Slice(firsts, geography, facts, nodes, self.solver.answers.part(ranges)), firsts


def make_partitioner(solver: TreeSolver) -> TreePartitioner:
    """Return what cuts a solver: a plain release into slices, an extension not at all."""
    if not isinstance(solver, TopDownSolver):
        n_levels = len(solver.context.geography.levels)
        return UncutTree(solver, WholeTreeState(solver), (False,) * (n_levels - 1))
    facts, constraints = solver.facts, solver.facts.constraints
    state = SliceState(
        solver.context.plan,
        facts.levels,
        facts.verdicts,
        constraints.form,
        solver.repair,
        solver.answers.source(),
        solver.statistics.of_parts(),
    )
    decided = [constraints.decided(depth) for depth in range(len(facts.levels))]
    one_level = (
        own is not LimitUse.TOO_MANY and below is LimitUse.NOT_NEEDED for own, below in pairwise(decided)
    )
    return SlicedTree(solver, state, tuple(one_level))
