"""From the root to the leaves, stage by stage: each stage fixes a table, whole, before the next is solved.

A node's table is kept by rows (cell, pattern), see `patterns`. A split starts with its groups fixed to the
children's base tables and refines them: first the classes with reserves, then the table of each pass of the
plan, each by least squares and rounding. Rows and children where nothing is left to decide are set at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from topdown.errors import InternalError
from topdown.model.histogram import Histogram
from topdown.model.labels import first_of, join
from topdown.model.support import Support
from topdown.solve.extend.answers import ListedAnswers
from topdown.solve.extend.judge import Beside, Decided, SolvedStage
from topdown.solve.extend.patterns import Patterns
from topdown.solve.extend.stages import (
    Measured,
    Rows,
    Stage,
    rules_of_stage,
    stage_problem,
    stage_rounding,
    stages,
    targets,
)
from topdown.solve.groups import FixedTable, Ints
from topdown.solve.least_squares.policy import solve
from topdown.solve.least_squares.problem import Solution
from topdown.solve.least_squares.soft import solve_with_rules, with_rules
from topdown.solve.least_squares.structured import Structured, foreseen
from topdown.solve.least_squares.tree_step import proportional
from topdown.solve.node import Node
from topdown.solve.passes import Fit
from topdown.solve.rounding import round_table
from topdown.solve.tally import LevelTally, Tally
from topdown.solve.walk import Walk, with_records
from topdown.solve.weigh import NOWHERE, Weighed, joined, table_of


@dataclass(frozen=True, eq=False)
class Extension(Walk):
    """The solver of one extension.

    Args:
        context: plan, public facts and base table.
        answers: the measurements.
        patterns: see `patterns`.
    """

    answers: ListedAnswers
    patterns: Patterns

    @cached_property
    def support(self) -> Support:
        """What the base table leaves open."""
        if self.context.support is None:
            raise InternalError("this plan extends no release")
        return self.context.support

    @cached_property
    def levels(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages of every level."""
        return tuple(stages(self.support, level) for level in self.context.plan.levels)

    def prepare(self) -> None:
        """Make everything that forked workers should inherit."""
        _ = self.levels, self.repairer.rows

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
        return with_records(parent.cells, counts, index)

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

    def judge(self, depth: int, parent: Node | None, published: list[Node]) -> Weighed:
        """Weigh the children stage by stage, see `Beside`."""
        if parent is None:
            rows, index = self._rows(self.patterns.tables[0].cell), np.zeros(1, dtype=np.int64)
            sums = np.full(len(rows), -1, dtype=np.int64)
        else:
            rows, sums, index = parent.cells, parent.counts, self._inhabited(depth, parent)
        level = 0 if parent is None else depth + 1
        table = table_of(published, rows, index)
        if table is None:
            return Weighed(sum(len(node.cells) for node in published), NOWHERE)
        beside = Beside(table)
        if parent is None or len(index) > 1:
            self._split(level, rows, sums, index, Tally(), beside)
        return joined(beside.weighed)

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
        beside: Beside | None = None,
    ) -> Ints:
        p = self.patterns
        cells = rows // p.n_patterns
        supergroup = self.support.of_cell[cells]
        key = supergroup * p.n_patterns + rows % p.n_patterns
        keys, group = np.unique(key, return_inverse=True)
        fixed = FixedTable(group.reshape(-1).astype(np.int64), p.tables[depth].at(nodes, keys))
        measured = [self.answers.node(depth, int(node)) for node in nodes]
        soft = np.ascontiguousarray(self.repairer.rows[:, cells])
        done = tally.level(self.context.plan.levels[depth].name)
        for stage in self.levels[depth]:
            label = stage.labels(cells)
            if stage.table is None:  # classes with a reserve
                kept = np.isin(key, p.reserved)
                if not kept.any():
                    continue
                label = np.where(kept, p.class_of_cell[cells], 0)
            public = join(supergroup, p.class_of_cell[cells] if stage.table is None else label)[0]
            table, n_table = join(fixed.of, label)
            if n_table == fixed.n_groups:
                continue
            first = first_of(table, n_table)
            floor, rules = np.zeros((n_table, len(nodes)), dtype=np.int64), soft[:0]
            if stage.table is None:
                held = np.flatnonzero(np.isin(key[first], p.reserved))
                at = key[first[held]] * p.n_classes + label[first[held]]
                floor[held] = p.reserves[depth].at(nodes, at)
            else:
                rules = rules_of_stage(soft, table, fixed.of)
            lines = Rows(cells, sums, fixed, supergroup, table, first, public, floor, rules)
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


def solve_stage(stage: Stage, rows: Rows, measured: Measured, tally: LevelTally) -> SolvedStage:
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
    queries = foreseen(targets(stage, rows, known, free, measured), supergroup)
    allowed = np.ascontiguousarray(goal.answers[goal.of] > 0)
    quadratic = Structured(queries, supergroup)
    problem = stage_problem(quadratic, left, goal, allowed)
    soft = np.ascontiguousarray(rows.soft[:, first][:, free])
    most = -(rows.soft[:, first] @ known)
    compared = None
    if queries:
        found, residual = solve(problem)
        compared = with_rules(problem, soft, most, found.z)
        better = solve_with_rules(compared) if compared is not None else None
        if better is not None:
            found, residual = better
        tally.n_dropped += compared is not None and better is None
    else:  # nothing is known: spread evenly
        found, residual = Solution.without_multipliers(problem, proportional(problem), 0), 0.0
    rounding = stage_rounding(stage, rows.cells[first][free], goal, (found.z, allowed, left), (soft, most))
    rounded = round_table(rounding)
    tally.add(Fit(residual, found.iterations, 1, found.z.size), rounded)
    tally.n_enforced += compared is not None or rounded.route == "milp"
    out[free] = rounded.counts + least
    unique = not queries or quadratic.curvature > 0
    return SolvedStage(out, Decided(free, least, residual, unique, rounding, rounded))
