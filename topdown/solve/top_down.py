"""From the root to the leaves: split every node's table over its children (Census TopDown, Algorithm 1).

The same solver compares one split of a published table with its own, solved from the published parent.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from topdown.arrays import Ints
from topdown.errors import InfeasibleError, InternalError, NoSplitError, TopdownError
from topdown.model import Histogram
from topdown.solve.group_constraints import Bounds, LowerBounds, SubsetLimits
from topdown.solve.least_squares import TARGET_PERSONS, solve_with
from topdown.solve.least_squares.policy import SOFT_KEPT_PERSONS, worst_break
from topdown.solve.noisy_answers import NoisyAnswers
from topdown.solve.objectives import Statistics
from topdown.solve.polytopes import FlowArcs, LimitUse
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
from topdown.solve.table_changes import find_node_conflict, relax_to_feasible
from topdown.solve.tree.tree_objective import statistics_of
from topdown.solve.tree_solver import TreeSolver, nodes_with_records


class LeavesMissingError(Exception):
    """A table has to be mended, and this slice has no leaves to mend it by."""


@dataclass(frozen=True, eq=False)
class TopDownSolver(TreeSolver):
    """The solver of one release: everything public, and the noisy answers.

    Args:
        context: plan and public facts.
        answers: measured.
        exact: exact node totals by level name.
        backend: least-squares solver, see `backends/quadratic.py`.
        tables: exact tables other than totals, by name.
    """

    answers: NoisyAnswers
    exact: dict[str, Ints]
    backend: str = "admm"
    tables: dict[str, Ints] = field(default_factory=dict)

    @cached_property
    def known(self) -> ReleaseFacts:
        """The public side of the release."""
        return facts_of_release(self.context, self.exact, self.tables)

    @cached_property
    def statistics(self) -> Statistics:
        """What the splits are fitted to."""
        return statistics_of(self.context, self.answers, self.known.levels, self.exact, self.tables)

    def again(self, answers: NoisyAnswers) -> TopDownSolver:
        """Return the solver of the same release for other answers; what is known before a solve is shared."""
        other = replace(self, answers=answers)
        made_once = {"known": self.known, "repairer": self.repairer}  # cached properties
        vars(other).update(made_once, statistics=self.statistics.anew(answers))
        return other

    def prepare(self) -> None:
        """Make everything that forked workers should inherit."""
        _ = self.known, self.repairer.rows, self.statistics

    def root(self, tally: Tally) -> Node:
        """Solve the top node. It needs no failsafe: the records themselves satisfy all its constraints."""
        try:
            split, index = self.open_root()
            counts = self.solve_split(0, split, index, tally)[1].counts[:, 0]
        except TopdownError as error:
            error.node = error.node or self.context.geography.root.codes[0]
            raise
        return Node(0, split.cells[counts > 0], counts[counts > 0])

    def let_go(self) -> None:
        """Forget what is known of all nodes; slices have their own rows of it."""
        vars(self).pop("known", None)

    def open_root(self) -> tuple[Split, Ints]:
        """Return what is to be solved at the top, and the node's index."""
        level, index = self.known.levels[0], np.zeros(1, dtype=np.int64)
        _, objective = self.statistics.split(0, 0, 1)
        everywhere = np.arange(len(level.class_of_cell))
        may = level.exact.may_hold(index, everywhere)[0]
        cells = np.flatnonzero(level.open[0][level.class_of_cell] & may)
        split = Split(
            cells=cells,
            counts=None,
            allowed=np.ones((len(cells), 1), dtype=bool),
            objective=objective,
            **self._public(0, index, cells),
        )
        if not level.exact_told:
            check_exact_fits(split)
        return split, index

    def split_below(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth`, after a repair of its table if it cannot be split."""
        if self.known.polytopes.decided(depth) is not LimitUse.TOO_MANY:
            with suppress(NoSplitError):
                return self._children(depth, parent, tally)
        return self._children(depth, self._mended(depth, parent, tally), tally)

    def _mended(self, depth: int, parent: Node, tally: Tally) -> Node:
        """Return the closest table that can be split, and report it if it is not the node's own."""
        geography, level = self.context.geography, self.known.levels[depth + 1]
        if not len(geography.leaves):
            raise LeavesMissingError
        first, last = geography.child_pointers[depth][parent.index : parent.index + 2]
        index = first + np.flatnonzero(level.open[first:last].any(axis=1))
        mended = relax_to_feasible(
            self.context, self.known.polytopes, depth + 1, index, parent.cells, parent.counts
        )
        if mended is None:
            raise InfeasibleError(
                "no table with the total of this place satisfies the constraints below it",
                code="I010",
                fix="check exact totals and public facts below this node for constraints that exclude each other",
            )
        if mended.distance:
            why = find_node_conflict(
                self.context, self.known.polytopes, depth + 1, parent.index, parent.cells, parent.counts
            )
            tally.failsafe.append(
                {
                    "node": geography.levels[depth].codes[parent.index],
                    "level": geography.levels[depth].name,
                    "distance": mended.distance,
                    "marginals_kept": mended.marginals_kept,
                    "constraints": list(why.names),
                    "smallest": why.smallest,
                }
            )
        return Node(parent.index, mended.cells, mended.counts)

    def _children(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        if not len(parent.cells):
            return []
        index = self.open_children(depth, parent)
        if len(index) == 1:
            return [replace(parent, index=int(index[0]))]
        split, index = self.open_split(depth, parent)
        return nodes_with_records(
            parent.cells, self.solve_split(depth + 1, split, index, tally)[1].counts, index
        )

    def open_children(self, depth: int, parent: Node) -> Ints:
        """Return the indices of a node's children where some cell may hold records."""
        first, last = self.context.geography.child_pointers[depth][parent.index : parent.index + 2]
        found: Ints = first + np.flatnonzero(self.known.levels[depth + 1].open[first:last].any(axis=1))
        return found

    def open_split(self, depth: int, parent: Node) -> tuple[Split, Ints]:
        """Return what is to be solved below one node, and the indices of the children that may hold records."""
        first, last = self.context.geography.child_pointers[depth][parent.index : parent.index + 2]
        level, index = self.known.levels[depth + 1], self.open_children(depth, parent)
        measured, objective = self.statistics.split(depth + 1, int(first), int(last))
        if not np.array_equal(measured, index):
            raise InfeasibleError("measurements are missing for some areas", code="I011")
        holds = level.totals.may_hold(index, parent.cells[:1])[
            :, 0
        ]  # a child whose exact total is zero does not
        objective, index = objective.keep(holds), index[holds]
        allowed = level.open[index][:, level.class_of_cell[parent.cells]]
        allowed = (allowed & level.exact.may_hold(index, parent.cells)).T
        split = Split(
            cells=parent.cells,
            counts=parent.counts,
            allowed=np.ascontiguousarray(allowed),
            objective=objective,
            **self._public(depth + 1, index, parent.cells),
        )
        return split, index

    def judge(self, depth: int, parent: Node | None, published: list[Node]) -> GapReport:
        """See `judge_split`."""
        return compare_split(self, depth, parent, published)

    def rows_of(self, leaves: Histogram) -> Histogram:
        """Return a table of the leaves as splits keep it: by cells."""
        return leaves

    def _public(self, depth: int, index: Ints, cells: Ints) -> dict[str, Any]:
        """Return what public knowledge asks of some nodes of a level: bounds or limits, exact totals and tables."""
        level, polytopes = self.known.levels[depth], self.known.polytopes
        bound_of = level.bound_of_cell[cells]
        bounds: Bounds = LowerBounds(bound_of, np.ascontiguousarray(level.lower[index].T))
        if level.limited:
            bounds = SubsetLimits(bound_of, polytopes.kinds.n_kinds, polytopes.limits(depth, index))
        return {
            "totals": level.totals.at(index, cells),
            "exact": level.exact.at(index, cells),
            "exact_told": level.exact_told,
            "bounds": bounds,
        }

    def solve_split(
        self, depth: int, split: Split, index: Ints, tally: Tally
    ) -> tuple[RoundingProblem, Rounded, Fit]:
        """Solve and round one split of level `depth`; returns what was rounded, how, and how the estimate was found."""
        level = self.known.levels[depth]
        backend = partial(solve_with, self.backend)
        fractional, fit = estimate(level, split, backend)
        soft = level.comparisons[:, split.cells]
        enforced = bool(len(soft)) and (over := worst_break(soft, fractional)) > SOFT_KEPT_PERSONS
        dropped = False
        if enforced:
            kept, its_fit = estimate(level, split, backend, over_persons=over)
            dropped = its_fit.residual_persons > TARGET_PERSONS  # no certified optimum: leave it to rounding
            if not dropped:
                fractional, fit = kept, its_fit
        chain = self.known.chains[depth]
        flow = level.limited and not isinstance(self.known.places[depth], NoFlow)
        arcs: tuple[FlowArcs, ...] = (
            tuple(self.known.polytopes.arcs(depth, int(i)) for i in index) if flow else ()
        )
        problem = RoundingProblem(
            estimate=fractional,
            allowed=split.allowed,
            sums=split.sums,
            chain=np.stack([table[split.cells] for table in chain.tables]),
            weights=chain.weights,
            totals=split.totals,
            exact=split.exact,
            exact_place=chain.exact_place,
            bounds=split.bounds,
            bound_places=self.known.places[depth],
            arcs=arcs,
            comparisons=soft,
            most=np.zeros((len(soft), len(index)), dtype=np.int64),
        )
        rounded = round_table(problem)
        if (
            rounded.route != "flow"
            and not len(soft)
            and self.known.verdicts[depth].kind == "complete_integral"
        ):
            raise InternalError(
                f"level {self.known.verdicts[depth].level} was promised to be rounded by a flow and was not",
                code="X041",
                fix="report it with plan.json; the noise is kept, nothing more is spent",
            )
        done = tally.level(self.context.plan.levels[depth].name)
        done.add(fit, rounded)
        if len(soft):
            done.compare(soft, rounded, enforced=enforced, dropped=dropped)
        return problem, rounded, fit


def compare_split(
    descent: TopDownSolver, depth: int, parent: Node | None, published: list[Node]
) -> GapReport:
    """Return how the published children of a node compare with the split of the node's published table.

    Args:
        descent: the solver of the release.
        depth: level of the parent.
        parent: its published table; None to judge the top node itself, then `published` holds just that.
        published: the published tables of its children.
    """
    if parent is not None and len(index := descent.open_children(depth, parent)) < 2:
        strange = any(node.index not in index for node in published)
        return GapReport(sum(len(node.cells) for node in published), NOWHERE) if strange else GapReport()
    try:
        split, index = descent.open_root() if parent is None else descent.open_split(depth, parent)
        level = 0 if parent is None else depth + 1
        problem, rounded, fit = descent.solve_split(level, split, index, Tally())
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
