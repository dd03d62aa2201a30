"""From the root to the leaves: split every node's table over its children (Census TopDown, Algorithm 1).

The same solver compares one split of a published table with its own, solved from the published parent.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np

from topdown.arrays import Ints
from topdown.errors import InfeasibleError, InternalError, NoSplitError, TopdownError
from topdown.formats.release_documents import FailsafeUse
from topdown.model import ConstraintSystem, Histogram, LimitUse
from topdown.plan import PublicContext
from topdown.solve.kernels_family import solve_family
from topdown.solve.least_squares import TARGET_PERSONS
from topdown.solve.least_squares.admm import SMALL_ROWS
from topdown.solve.least_squares.dense_steps import SMALL
from topdown.solve.least_squares.policy import SOFT_KEPT_PERSONS, worst_break
from topdown.solve.noisy_answers import NoisyAnswers
from topdown.solve.objectives import OwnObjective, Statistics
from topdown.solve.published_gap import (
    FAR,
    NOWHERE,
    SEVERAL,
    SOFT,
    GapReport,
    beyond_rounding,
    objective_gap,
    table_of_nodes,
    unproved_reason,
)
from topdown.solve.release_facts import ReleaseFacts, facts_of_release
from topdown.solve.rounding import NoFlow, RoundingProblem, round_table
from topdown.solve.rounding.rounding import Rounded, broken_constraint
from topdown.solve.solved_parts import Node, Tally
from topdown.solve.split_estimate import Fit, Split, check_exact_fits, estimate
from topdown.solve.table_changes import SoftRuleRepair, find_node_conflict, relax_to_feasible
from topdown.solve.tree.tree_objective import exact_at_root, statistics_of
from topdown.solve.tree_solver import TreeSolver, nodes_with_records


class LeavesMissingError(Exception):
    """A table has to be changed before it splits, and this slice has no leaves to change it by."""


@final
@dataclass(frozen=True, eq=False)
class TopDownSolver(TreeSolver):
    """The solver of one release, or of a part of its tree: everything public, and the noisy answers.

    Args:
        context: plan and public facts.
        repair: of leaves that break soft rules.
        facts: what is known before a solve.
        statistics: what the splits are fitted to.
        answers: measured.
        at_root: what is exact at the root, as from `exact_at_root`; nothing for a part.
    """

    facts: ReleaseFacts
    statistics: Statistics
    answers: NoisyAnswers
    at_root: tuple[tuple[Ints, Ints], ...]

    def again(self, answers: NoisyAnswers) -> TopDownSolver:
        """Return the solver of the same release for other answers; what is known before a solve is shared."""
        return replace(self, answers=answers, statistics=self.statistics.anew(answers))

    @property
    def leaf_constraints(self) -> ConstraintSystem:
        """What public facts ask of the leaves."""
        return self.facts.constraints.system.public

    def root(self, tally: Tally) -> Node:
        """Solve the top node. It needs no failsafe: the records themselves satisfy all its constraints."""
        # What is found of all leaves for the limits of the root is for this split only: slices find their own.
        solver = replace(self, facts=self.facts.afresh())
        try:
            split, index = solver.open_root()
            if not len(split.cells):  # exact tables leave no cell in which anybody could be
                return Node(0, split.cells, np.zeros(0, dtype=np.int64))
            counts = solver.solve_split(0, split, index, tally)[1].counts[:, 0]
        except TopdownError as error:
            error.node = error.node or self.context.geography.root.codes[0]
            raise
        return Node(0, split.cells[counts > 0], counts[counts > 0])

    def open_root(self) -> tuple[Split, Ints]:
        """Return what is to be solved at the top, and the node's index."""
        facts, level, index = self.facts, self.facts.levels[0], np.zeros(1, dtype=np.int64)
        _, objective = self.statistics.split(0, 0, 1)
        cells = np.flatnonzero(facts.may_hold(0, index, np.arange(len(level.class_of_cell)))[0])
        split = Split(
            cells=cells,
            counts=None,
            allowed=np.ones((len(cells), 1), dtype=bool),
            objective=objective,
            family=facts.family(0, index, cells),
        )
        if level.bounds.exact_beside:
            check_exact_fits(split)
        return split, index

    def split_below(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth`, after the least change of its table if it cannot be split."""
        if self.facts.constraints.decided(depth) is not LimitUse.TOO_MANY:
            with suppress(NoSplitError):
                return self._children(depth, parent, tally)
        return self._children(depth, self._relaxed(depth, parent, tally), tally)

    def _relaxed(self, depth: int, parent: Node, tally: Tally) -> Node:
        """Return the closest table that can be split, and report it if it is not the node's own."""
        geography, constraints = self.context.geography, self.facts.constraints
        if not len(geography.leaves):
            raise LeavesMissingError
        children = self.facts.open_children(depth, parent.index)
        relaxed = relax_to_feasible(self.context, constraints, depth + 1, children, parent)
        if relaxed is None:
            raise InfeasibleError(
                "no table with the total of this place satisfies the constraints below it",
                code="I010",
                fix="check exact totals and public facts below this node for constraints that exclude each other",
            )
        if relaxed.distance:
            why = find_node_conflict(self.context, constraints, depth + 1, parent)
            tally.failsafe.append(
                FailsafeUse(
                    node=geography.levels[depth].codes[parent.index],
                    level=geography.levels[depth].name,
                    distance=relaxed.distance,
                    marginals_kept=relaxed.marginals_kept,
                    constraints=list(why.names),
                    smallest=why.smallest,
                )
            )
        return relaxed.table

    def _children(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        if not len(parent.cells):
            return []
        if (at_once := self._in_one_call(depth, parent, tally)) is not None:
            return at_once
        index = self.facts.open_children(depth, parent.index)
        if len(index) == 1:
            return [replace(parent, index=int(index[0]))]
        split, index = self.open_split(depth, parent, index)
        counts = self.solve_split(depth + 1, split, index, tally)[1].counts
        return nodes_with_records(parent.cells, counts, index)

    def _in_one_call(self, depth: int, parent: Node, tally: Tally) -> list[Node] | None:
        """Return the children of a small family that nothing binds but what holds by itself; None for another."""
        level, numbers = self.facts.levels[depth + 1], self.facts.constraints.numbers
        if level.family_arguments is None or len(parent.cells) > SMALL_ROWS:
            return None
        first, last = self.context.geography.child_pointers[depth][parent.index : parent.index + 2].tolist()
        if numbers.exact[depth + 1].shape[1] or len(parent.cells) ** 2 * (last - first) > SMALL:
            return None
        measured, objective = self.statistics.split(depth + 1, first, last)
        if not isinstance(objective, OwnObjective):
            return None
        found = solve_family(
            *level.family_arguments,
            parent.cells,
            parent.counts,
            np.ascontiguousarray(numbers.open[depth + 1][first:last]),
            np.ascontiguousarray(numbers.lower[depth + 1][first:last]),
            measured,
            first,
            objective.answers,
        )
        if found is None:
            return None
        distance, steps, n_unknowns, holding, begins, cells, counts = found
        fit = Fit(distance, steps, len(level.passes), n_unknowns)
        rounded = Rounded(counts, True, "flow")
        tally.level(self.context.plan.levels[depth + 1].name).add(fit, rounded)
        return [
            Node(node, cells[low:high], counts[low:high])
            for node, (low, high) in zip(holding, pairwise(begins), strict=True)
        ]

    def open_split(self, depth: int, parent: Node, index: Ints) -> tuple[Split, Ints]:
        """Return what is to be solved below one node, and the indices of the children that may hold records.

        Args:
            depth, parent: level and table of the node. index: of its children that public facts leave open.
        """
        facts, (first, last) = self.facts, self.context.geography.child_pointers[depth][parent.index :][:2]
        measured, objective = self.statistics.split(depth + 1, int(first), int(last))
        if not np.array_equal(measured, index):
            raise InfeasibleError("measurements are missing for some areas", code="I011")
        some = facts.constraints.total_at(depth + 1).may_hold(index, parent.cells[:1])[:, 0]
        objective, index = objective.keep(some), index[some]  # a child whose exact total is zero holds none
        split = Split(
            cells=parent.cells,
            counts=parent.counts,
            allowed=np.ascontiguousarray(facts.may_hold(depth + 1, index, parent.cells).T),
            objective=objective,
            family=facts.family(depth + 1, index, parent.cells),
        )
        return split, index

    def judge(self, depth: int, parent: Node | None, published: list[Node]) -> GapReport:
        """See `compare_split`."""
        return compare_split(self, depth, parent, published)

    def rows_of(self, leaves: Histogram) -> Histogram:
        """Return a table of the leaves as splits keep it: by cells."""
        return leaves

    def solve_split(
        self, depth: int, split: Split, index: Ints, tally: Tally
    ) -> tuple[RoundingProblem, Rounded, Fit]:
        """Solve and round one split of level `depth`; returns what was rounded, how, and how the estimate was found."""
        level = self.facts.levels[depth]
        fractional, fit = estimate(level, split)
        soft = level.comparisons[:, split.cells]
        enforced = bool(len(soft)) and (over := worst_break(soft, fractional)) > SOFT_KEPT_PERSONS
        dropped = False
        if enforced:
            kept, its_fit = estimate(level, split, over_persons=over)
            dropped = its_fit.residual_persons > TARGET_PERSONS  # no certified optimum: leave it to rounding
            if not dropped:
                fractional, fit = kept, its_fit
        chain, family, is_flow = level.chain, split.family, not isinstance(level.positions, NoFlow)
        problem = RoundingProblem(
            estimate=fractional,
            allowed=split.allowed,
            sums=split.sums,
            chain=np.take(chain.stacked, split.cells, axis=1),
            weights=chain.weights,
            totals=family.totals,
            exact=family.exact,
            exact_place=chain.exact_place,
            bounds=family.bounds,
            bound_places=level.positions,
            arcs=level.bounds.networks(self.facts.constraints, index) if is_flow else (),
            comparisons=soft,
            most=np.zeros((len(soft), len(index)), dtype=np.int64),
        )
        rounded = round_table(problem)
        verdict = self.facts.verdicts[depth]
        if rounded.route != "flow" and not len(soft) and verdict.kind == "complete_integral":
            raise InternalError(
                f"level {verdict.level} was promised to be rounded by a flow and was not",
                code="X041",
                fix="report it with plan.json; the noise is kept, nothing more is spent",
            )
        done = tally.level(self.context.plan.levels[depth].name)
        done.add(fit, rounded)
        if len(soft):
            done.compare(soft, rounded, enforced=enforced, dropped=dropped)
        return problem, rounded, fit


def make_top_down_solver(
    context: PublicContext,
    answers: NoisyAnswers,
    exact: dict[str, Ints],
    tables: dict[str, Ints] | None = None,
) -> TopDownSolver:
    """Return the solver of a whole release.

    Args:
        context: plan and public facts.
        answers: measured.
        exact: exact node totals by level name. tables: exact tables other than totals, by name.

    Raises:
        InfeasibleError: exact statistics contradict each other or the public facts; the node is named.
    """
    facts = facts_of_release(context, exact, tables or {})
    at_root = exact_at_root(context.plan, exact, tables or {})
    statistics = statistics_of(context, answers, facts.levels, at_root)
    repair = SoftRuleRepair.of_release(context)
    return TopDownSolver(context, repair, facts, statistics, answers, at_root)


def compare_split(solver: TopDownSolver, depth: int, parent: Node | None, published: list[Node]) -> GapReport:
    """Return how the published children of a node compare with the split of the node's published table.

    Args:
        solver: of the release.
        depth: level of the parent.
        parent: its published table; None to judge the top node itself, then `published` holds just that.
        published: the published tables of its children.
    """
    index = np.zeros(0, dtype=np.int64) if parent is None else solver.facts.open_children(depth, parent.index)
    if parent is not None and len(index) < 2:
        strange = any(node.index not in index for node in published)
        return GapReport(sum(len(node.cells) for node in published), NOWHERE) if strange else GapReport()
    try:
        split, index = solver.open_root() if parent is None else solver.open_split(depth, parent, index)
        if not len(split.cells):
            return GapReport(sum(len(node.cells) for node in published), NOWHERE if published else "")
        level = 0 if parent is None else depth + 1
        problem, rounded, fit = solver.solve_split(level, split, index, Tally())
    except InfeasibleError as error:
        return GapReport(sum(len(node.cells) for node in published), str(error))
    table = table_of_nodes(published, split.cells, index)
    if table is None:
        return GapReport(sum(len(node.cells) for node in published), NOWHERE)
    return _gap_of_split(problem, rounded, fit, table)


def _gap_of_split(problem: RoundingProblem, rounded: Rounded, fit: Fit, published: Ints) -> GapReport:
    n_cells = int((rounded.counts != published).sum())
    if not n_cells:
        return GapReport()
    far = FAR if beyond_rounding(problem.estimate, published) else ""
    if problem.excess(published) != problem.excess(rounded.counts):
        far = SOFT
    tables = tuple(problem.chain)
    over, allowed = objective_gap(
        problem.estimate, problem.allowed, tables, problem.weights, rounded.counts, published,
        by_program=rounded.route == "milp",
    )  # fmt: skip
    broken, several = broken_constraint(problem, published), "" if fit.unique else SEVERAL
    return GapReport(
        n_cells, broken, far, over, allowed, unproved_reason(fit.residual_persons, rounded), several
    )
