"""Slices: a run of nodes with everything below it and the nodes above it, as a tree of its own.

A slice holds the public side of its nodes: one contiguous range a level, parents, facts, where their answers lie. Its
nodes are numbered from its first on. What is asked of all leaves is the shape of the release (`shape`), which each
worker holds once; so a worker keeps the shape and one slice, however large the nation is. Results are those of the
whole tree, to the last byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, final

import numpy as np

from topdown.arrays import Ints
from topdown.model import Geography, Level, PublicFacts
from topdown.plan import Plan, PublicContext
from topdown.solve.noisy_answers import AnswerSource, NoisyAnswers, Ranges
from topdown.solve.objectives import Objective, OwnStatistics, Statistics
from topdown.solve.polytopes import LimitUse
from topdown.solve.release_facts import NodeFacts, ReleaseShape, facts_of_part
from topdown.solve.table_changes import SoftRuleRepair
from topdown.solve.top_down import TopDownSolver
from topdown.solve.tree import TreeStatistics
from topdown.solve.tree_solver import TreeSolver

FirstNodes = tuple[int, ...]  # number in the whole tree of a slice's first node of each level


@final
@dataclass(frozen=True, eq=False)
class Slice:
    """The public side of a run of nodes, with all above and below.

    Args:
        firsts: see `Firsts`.
        geography, facts: of the slice, by its own numbers.
        nodes: narrowed.
        answers: what the source of noisy answers opens.
    """

    firsts: FirstNodes
    geography: Geography
    facts: PublicFacts
    nodes: NodeFacts
    answers: Any


class WorkerState(ABC):
    """What a worker holds to solve parts of a tree."""

    @abstractmethod
    def open(self, part: Slice | None) -> tuple[TreeSolver, FirstNodes]:
        """Return the solver of a part, and its first node of every level."""


@final
@dataclass(frozen=True, eq=False)
class WholeTreeState(WorkerState):
    """The solver itself, where nothing says how to cut it."""

    walk: TreeSolver

    def open(self, part: Slice | None) -> tuple[TreeSolver, FirstNodes]:
        """Return it."""
        del part
        return self.walk, (0,) * len(self.walk.context.geography.levels)


@final
@dataclass(frozen=True, eq=False)
class SliceState(WorkerState):
    """A plain release without its nodes.

    Args:
        plan, shape, backend: of the release.
        repairer: of no node.
        source: opens the noisy answers of a slice.
        statistics: of the whole tree, where splits are fitted to more than their own answers; else None.
    """

    plan: Plan
    shape: ReleaseShape
    backend: str
    repairer: SoftRuleRepair
    source: AnswerSource
    statistics: Statistics | None

    def open(self, part: Slice | None) -> tuple[TopDownSolver, FirstNodes]:
        """Return the solver of a slice, which has nothing to make a shape from but is given it."""
        if part is None:
            raise TypeError("a plain release is solved from slices")
        known = facts_of_part(self.shape, part.geography, part.nodes.widened())
        context = PublicContext(self.plan, part.geography, part.facts, given_rules=known.public)
        answers = self.source.opened(part.answers)
        statistics: Statistics = OwnStatistics(answers)
        if self.statistics is not None:
            statistics = PartStatistics(self.statistics, part.firsts)
        descent = TopDownSolver(context, answers, {}, self.backend)
        vars(descent).update(known=known, statistics=statistics, repairer=self.repairer.within(context))
        return descent, part.firsts


@final
@dataclass(frozen=True, eq=False)
class TreePartitioner:
    """Cuts a solver into slices; stays with whoever hands them out.

    Args:
        walk: the solver of the whole tree, prepared.
        opener: what workers hold.
        nodes: facts of all nodes; None where nothing is cut.
        one_level: per level but the last, whether splits of its nodes ask nothing of what is below their children.
    """

    walk: TreeSolver
    opener: WorkerState
    nodes: NodeFacts | None
    one_level: tuple[bool, ...]

    def cut(
        self, depth: int, first: int, last: int, *, one_level: bool = False
    ) -> tuple[Slice | None, FirstNodes]:
        """Return all above and below nodes first..last-1 of a level, and the first node of every level.

        Args:
            depth, first, last: of the nodes.
            one_level: leave out what is below their children.
        """
        walk = self.walk
        ranges = node_ranges(walk.context.geography, depth, first, last)
        if one_level:
            ranges = (*ranges[: depth + 2], *(slice(0, 0) for _ in ranges[depth + 2 :]))
        if self.nodes is None or not isinstance(walk, TopDownSolver):
            return None, (0,) * len(ranges)
        geography = geography_part(walk.context.geography, ranges)
        firsts = tuple(here.start for here in ranges)
        facts, nodes = walk.context.facts.at(ranges[-1]), self.nodes.part(ranges).narrowed()
        return Slice(firsts, geography, facts, nodes, walk.answers.part(ranges)), firsts


def make_partitioner(walk: TreeSolver) -> TreePartitioner:
    """Return what cuts a solver: a plain release into slices, an extension not at all."""
    if not isinstance(walk, TopDownSolver):
        return TreePartitioner(
            walk, WholeTreeState(walk), None, (False,) * (len(walk.context.geography.levels) - 1)
        )
    plan, known, statistics = walk.context.plan, walk.known, walk.statistics
    fits_tree = isinstance(statistics, TreeStatistics)
    repairer = walk.repairer.within(PublicContext(plan, Geography(()), PublicFacts({})))
    opener = SliceState(
        plan, known.shape, walk.backend, repairer, walk.answers.source(), statistics if fits_tree else None
    )
    decided = [known.polytopes.decided(depth) for depth in range(len(known.levels))]
    one_level = (
        own is not LimitUse.TOO_MANY and below is LimitUse.NOT_NEEDED for own, below in pairwise(decided)
    )
    return TreePartitioner(walk, opener, known.nodes, tuple(one_level))


def node_ranges(geography: Geography, depth: int, first: int, last: int) -> Ranges:
    """Return the nodes of every level that lie above or below nodes first..last-1 of a level, or are these."""
    out = [slice(first, last)]
    for pointers in geography.child_pointers[depth:]:
        out.append(slice(int(pointers[out[-1].start]), int(pointers[out[-1].stop])))
    for level in reversed(geography.levels[1 : depth + 1]):
        up = level.parent
        out.insert(0, slice(int(up[out[0].start]), int(up[out[0].stop - 1]) + 1))
    return tuple(out)


def geography_part(geography: Geography, ranges: Ranges) -> Geography:
    """Return the tree of some nodes."""
    levels = []
    for level, here, above in zip(geography.levels, ranges, (slice(0, 1), *ranges), strict=False):
        levels.append(Level(level.name, level.codes[here], level.parent[here] - above.start))
    return Geography(tuple(levels))


@final
@dataclass(frozen=True, eq=False)
class PartStatistics:
    """What the splits of a part are fitted to: that of the whole tree, by the part's own numbers of nodes.

    Args:
        whole: statistics of the whole tree.
        first: of the part's nodes in each level.
    """

    whole: Statistics
    first: tuple[int, ...]

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes among first..last-1 of a level, and the objective of a split into them."""
        first = self.first[level_index]
        nodes, objective = self.whole.split(level_index, first_node + first, last_node + first)
        return np.asarray(nodes - first, dtype=np.int64), objective

    def anew(self, answers: NoisyAnswers) -> PartStatistics:
        """Return those of other answers."""
        return replace(self, whole=self.whole.anew(answers))

    def document(self) -> dict[str, Any] | None:
        """Return what solve.json says of the whole."""
        return self.whole.document()
