"""From the root to the leaves, stage by stage: each stage fixes a table, whole, before the next is solved.

A node's table is kept by rows (cell, pattern), see `patterns`. A split starts with its groups fixed to the
children's base tables and refines them: first the classes with reserves, then the table of each pass of the
plan, each by least squares and rounding. Rows and children where nothing is left to decide are set at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from topdown.arrays import Ints
from topdown.errors import InternalError
from topdown.model import ConstraintSystem, Histogram, Support, common_refinement, first_positions
from topdown.plan import PublicContext
from topdown.solve.extend.patterns import Patterns
from topdown.solve.extend.stages import (
    Measured,
    Stage,
    StageRows,
    release_stages,
    stage_problem,
    stage_queries,
    stage_rounding,
    stage_rules,
)
from topdown.solve.group_constraints import FixedTable
from topdown.solve.least_squares import Solution, Structured, drop_uncertain_queries, solve
from topdown.solve.least_squares.policy import solve_with_soft_rules, with_soft_rules
from topdown.solve.least_squares.structured_step import spread_proportionally
from topdown.solve.noisy_answers import ListedAnswers
from topdown.solve.published_gap import (
    FAR,
    NOWHERE,
    SEVERAL,
    SOFT,
    GapReport,
    beyond_rounding,
    joined_reports,
    objective_gap,
    table_of_nodes,
    unproved_reason,
)
from topdown.solve.rounding import RoundingProblem, round_table
from topdown.solve.rounding.rounding import Rounded, broken_constraint
from topdown.solve.solved_parts import LevelTally, Node, Tally
from topdown.solve.split_estimate import Fit
from topdown.solve.table_changes import SoftRuleRepair
from topdown.solve.tree_solver import TreeSolver, nodes_with_records

# Rows that only single-cell answers tell apart have equal fractions where they are positive, since noise is whole, so
# many roundings are equally close to an estimate. This share of the way to the children's shares of the base table
# decides among them, for more evenly spread counts: a millionth of a person for each person of the way.
TIE_BREAK = 1e-6


@dataclass(frozen=True, eq=False)
class StageDecision:
    """What a stage decided, and how.

    Args:
        free: answers of its table that were not known before. least: what is set aside there, int64 (n_free, m).
        residual, unique: of the least squares, in persons, and whether they have one optimum only.
        rounding, rounded: of the estimate.
    """

    free: Ints
    least: Ints
    residual: float
    unique: bool
    rounding: RoundingProblem
    rounded: Rounded


@dataclass(frozen=True, eq=False)
class SolvedStage:
    """The table of a stage, int64 (n_table, m), and what of it was not known before."""

    table: Ints
    decided: StageDecision | None = None


@dataclass(eq=False)
class PublishedStages:
    """A published table by rows, int64 (n, m), and what was found of its stages so far."""

    table: Ints
    weighed: list[GapReport] = field(default_factory=list)

    def judge(self, solved: SolvedStage, table: Ints, n_table: int) -> Ints:
        """Weigh one stage; return the published table of that stage if the next can start from it, else the solved.

        Args:
            table: answer of each row in the stage's table, 0..n_table-1.
        """
        published = np.zeros((n_table, self.table.shape[1]), dtype=np.int64)
        np.add.at(published, table, self.table)
        found = stage_gap(solved, published)
        self.weighed.append(found)
        return solved.table if found.broken else published


def stage_gap(solved: SolvedStage, published: Ints) -> GapReport:
    """Return how the published table of a stage compares with the solved one."""
    n_cells = int((solved.table != published).sum())
    if not n_cells:
        return GapReport()
    made = solved.decided
    known = np.ones(len(published), dtype=bool)
    if made is not None:
        known[made.free] = False
    if made is None or (solved.table != published)[known].any():
        return GapReport(n_cells, "another table than the base release and the stages before leave possible")
    rounding, rest = made.rounding, published[made.free] - made.least
    far = FAR if beyond_rounding(rounding.estimate, rest) else ""
    if rounding.excess(rest) != rounding.excess(made.rounded.counts):
        far = SOFT
    tables = tuple(rounding.chain)
    over, allowed = objective_gap(
        rounding.estimate, rounding.allowed, tables, rounding.weights, made.rounded.counts, rest,
        by_program=made.rounded.route == "milp",
    )  # fmt: skip
    return GapReport(
        n_cells,
        broken_constraint(rounding, rest),
        far,
        over,
        allowed,
        unproved_reason(made.residual, made.rounded),
        "" if made.unique else SEVERAL,
    )


@dataclass(frozen=True, eq=False)
class ExtensionSolver(TreeSolver):
    """The solver of one extension.

    Args:
        context: plan, public facts and base table.
        repair: of leaves that break soft rules.
        answers: the measurements.
        patterns: see `patterns`.
        levels: the stages of every level.
    """

    answers: ListedAnswers
    patterns: Patterns
    levels: tuple[tuple[Stage, ...], ...]

    @cached_property
    def support(self) -> Support:
        """What the base table leaves open."""
        if self.context.support is None:
            raise InternalError("this plan extends no release")
        return self.context.support

    @property
    def leaf_constraints(self) -> ConstraintSystem:
        """What public facts ask of the leaves."""
        return self.context.rules

    def root(self, tally: Tally) -> Node:
        """Solve the top node."""
        table = self.patterns.tables[0]
        rows = self._rows(table.cell)
        unknown = np.full(len(rows), -1, dtype=np.int64)
        counts = self._split(0, rows, unknown, np.zeros(1, dtype=np.int64), tally)[:, 0]
        return Node(0, rows[counts > 0], counts[counts > 0])

    def split_below(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth`, stage by stage."""
        index = self._inhabited(depth, parent)
        if len(index) == 1:
            return [replace(parent, index=int(index[0]))]
        counts = self._split(depth + 1, parent.cells, parent.counts, index, tally)
        return nodes_with_records(parent.cells, counts, index)

    def finish(self, leaf: Node, tally: Tally) -> Node:
        """Return a leaf as it is published: by cells instead of rows."""
        return super().finish(replace(leaf, cells=leaf.cells // self.patterns.n_patterns), tally)

    def _rows(self, keys: Ints) -> Ints:
        """Return every row that is open in some keys, sorted by key."""
        p = self.patterns
        out = []
        for key in keys:
            cells = self.support.of_base(np.array([key // p.n_patterns]))
            cells = cells[p.open_in(np.full(len(cells), key), cells)]
            out.append(cells * p.n_patterns + key % p.n_patterns)
        return np.concatenate(out) if out else np.zeros(0, dtype=np.int64)

    def judge(self, depth: int, parent: Node | None, published: list[Node]) -> GapReport:
        """Weigh the children stage by stage, see `PublishedStages`."""
        if parent is None:
            rows, index = self._rows(self.patterns.tables[0].cell), np.zeros(1, dtype=np.int64)
            sums = np.full(len(rows), -1, dtype=np.int64)
        else:
            rows, sums, index = parent.cells, parent.counts, self._inhabited(depth, parent)
        level = 0 if parent is None else depth + 1
        table = table_of_nodes(published, rows, index)
        if table is None:
            return GapReport(sum(len(node.cells) for node in published), NOWHERE)
        beside = PublishedStages(table)
        if parent is None or len(index) > 1:
            self._split(level, rows, sums, index, Tally(), beside)
        return joined_reports(beside.weighed)

    def rows_of(self, leaves: Histogram) -> Histogram:
        """Return a table of the leaves by rows: a leaf has one pattern for each base cell."""
        p, base = self.patterns, self.patterns.tables[-1]
        n_base = self.support.levels[0].n_cells
        known = base.node * n_base + base.cell // p.n_patterns
        at = np.searchsorted(known, leaves.node * n_base + self.support.of_cell[leaves.cell])
        row = leaves.cell * p.n_patterns + base.cell[at] % p.n_patterns
        return Histogram(leaves.n_nodes, leaves.n_cells * p.n_patterns, leaves.node, row, leaves.count)

    def _inhabited(self, depth: int, parent: Node) -> Ints:
        first, last = self.context.geography.child_pointers[depth][parent.index : parent.index + 2]
        found: Ints = first + np.flatnonzero(self.support.inhabited[depth + 1][first:last])
        return found

    def _split(
        self,
        depth: int,
        rows: Ints,
        sums: Ints,
        nodes: Ints,
        tally: Tally,
        beside: PublishedStages | None = None,
    ) -> Ints:
        p = self.patterns
        cells = rows // p.n_patterns
        supergroup = self.support.of_cell[cells]
        key = supergroup * p.n_patterns + rows % p.n_patterns
        keys, group = np.unique(key, return_inverse=True)
        fixed = FixedTable(group.reshape(-1).astype(np.int64), p.tables[depth].at(nodes, keys))
        measured = [self.answers.node(depth, int(node)) for node in nodes]
        soft = np.ascontiguousarray(self.repair.rows[:, cells])
        done = tally.level(self.context.plan.levels[depth].name)
        for stage in self.levels[depth]:
            label = stage.labels(cells)
            if stage.table is None:  # classes with a reserve
                kept = np.isin(key, p.reserved)
                if not kept.any():
                    continue
                label = np.where(kept, p.class_of_cell[cells], 0)
            public = common_refinement(supergroup, p.class_of_cell[cells] if stage.table is None else label)[
                0
            ]
            table, n_table = common_refinement(fixed.of, label)
            if n_table == fixed.n_groups:
                continue
            first = first_positions(table, n_table)
            floor, rules = np.zeros((n_table, len(nodes)), dtype=np.int64), soft[:0]
            if stage.table is None:
                held = np.flatnonzero(np.isin(key[first], p.reserved))
                at = key[first[held]] * p.n_classes + label[first[held]]
                floor[held] = p.reserves[depth].at(nodes, at)
            else:
                rules = stage_rules(soft, table, fixed.of)
            lines = StageRows(cells, sums, fixed, supergroup, table, first, public, floor, rules)
            solved = solve_stage(stage, lines, measured, done)
            answers = solved.table if beside is None else beside.judge(solved, table, n_table)
            fixed = FixedTable(table, answers)
            if stage.table is not None:
                supergroup = public
        if fixed.n_groups != len(rows):
            raise InternalError("the last pass of a level does not tell cells apart")
        counts = fixed.answers[fixed.of]
        if len(soft):
            done.n_broken += int((soft @ counts > 0).any(axis=0).sum())
        return counts


def make_extension_solver(
    context: PublicContext, answers: ListedAnswers, patterns: Patterns
) -> ExtensionSolver:
    """Return the solver of an extension.

    Args:
        context: plan, public facts and base table. answers: the measurements. patterns: see `find_patterns`.
    """
    levels = release_stages(context)
    return ExtensionSolver(context, SoftRuleRepair.of_release(context), answers, patterns, levels)


def solve_stage(stage: Stage, rows: StageRows, measured: Measured, tally: LevelTally) -> SolvedStage:
    """Solve and round one stage of a split."""
    before, first = rows.before, rows.first
    of_group = before.of[first]
    row_sums = np.zeros(len(first), dtype=np.int64)
    np.add.at(row_sums, rows.table, rows.sums)
    known_sum = row_sums >= 0
    spread = (before.answers > 0).sum(axis=1)[of_group]
    out = np.zeros((len(first), before.answers.shape[1]), dtype=np.int64)
    alone = np.bincount(of_group, minlength=before.n_groups)[of_group] == 1
    out[alone] = before.answers[of_group[alone]]
    once = ~alone & (spread == 1) & known_sum
    out[once, before.answers.argmax(axis=1)[of_group[once]]] = row_sums[once]
    free = np.flatnonzero(~alone & ~once & (spread > 0))
    if not len(free):
        return SolvedStage(out)
    least = rows.floor[free]
    used, sub = np.unique(of_group[free], return_inverse=True)
    goal = FixedTable(sub.reshape(-1).astype(np.int64), before.answers[used].copy())
    np.subtract.at(goal.answers, goal.of, least)
    left = np.where(known_sum[free], row_sums[free] - least.sum(axis=1), -1)
    known = out.copy()
    known[free] = least
    supergroup = rows.supergroup[first][free]
    queries = drop_uncertain_queries(stage_queries(stage, rows, known, free, measured), supergroup)
    allowed = np.ascontiguousarray(goal.answers[goal.of] > 0)
    quadratic = Structured(queries, supergroup)
    problem = stage_problem(quadratic, left, goal, allowed)
    soft = np.ascontiguousarray(rows.soft[:, first][:, free])
    most = -(rows.soft[:, first] @ known)
    compared = None
    if queries:
        found, residual = solve(problem)
        compared = with_soft_rules(problem, soft, most, found.z)
        better = solve_with_soft_rules(compared) if compared is not None else None
        if better is not None:
            found, residual = better
        tally.n_dropped += compared is not None and better is None
    else:  # nothing is known: spread evenly
        found, residual = Solution.without_multipliers(problem, spread_proportionally(problem), 0), 0.0
    estimate = found.z + TIE_BREAK * (spread_proportionally(problem) - found.z)
    rounding = stage_rounding(stage, rows.cells[first][free], goal, (estimate, allowed, left), (soft, most))
    rounded = round_table(rounding)
    tally.add(Fit(residual, found.iterations, 1, found.z.size), rounded)
    tally.n_enforced += compared is not None or rounded.route == "milp"
    out[free] = rounded.counts + least
    unique = not queries or quadratic.curvature > 0
    return SolvedStage(out, StageDecision(free, least, residual, unique, rounding, rounded))
