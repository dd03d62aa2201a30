"""From the root to the leaves, stage by stage: each stage fixes a table, whole, before the next is solved.

A node's table is kept by rows (cell, pattern), see `patterns`. A split starts with its groups fixed to the
children's base tables and refines them: first the classes with reserves, then the table of each pass of the
plan, each by least squares and rounding. Rows and children where nothing is left to decide are set at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from topdown.errors import InternalError, TopdownError
from topdown.model.histogram import Histogram
from topdown.model.support import Support
from topdown.plan.prepare import Context
from topdown.solve.extend.answers import ListedAnswers
from topdown.solve.extend.judge import Beside, Decided, SolvedStage
from topdown.solve.extend.labels import first_of, join, lookup
from topdown.solve.extend.patterns import Patterns
from topdown.solve.extend.soft import rules_of_stage, solve_with_rules, with_rules
from topdown.solve.extend.stages import Measured, Rows, Stage, stage_problem, stage_rounding, stages, targets
from topdown.solve.groups import FixedTable, Ints
from topdown.solve.least_squares.policy import solve
from topdown.solve.least_squares.problem import Solution
from topdown.solve.least_squares.structured import Structured
from topdown.solve.least_squares.tree_step import proportional
from topdown.solve.node import Node
from topdown.solve.passes import Fit
from topdown.solve.repair import Repairer
from topdown.solve.rounding import round_table
from topdown.solve.tally import LevelTally, Tally
from topdown.solve.weigh import NOWHERE, Weighed, joined, table_of


@dataclass(frozen=True, eq=False)
class _Work:
    """One stage of one split: cells, parent's counts, labels and fixed table of every row; see `Extension`."""

    stage: Stage
    cells: Ints
    sums: Ints
    group: Ints
    fixed: Ints
    supergroup: Ints
    table: Ints
    n_table: int
    public: Ints
    floor: Ints
    soft: Ints


@dataclass(frozen=True, eq=False)
class Extension:
    """The solver of one extension; the same interface as `descend.Descent`.

    Args:
        context: plan, public facts and base table.
        answers: the measurements.
        patterns: see `patterns`.
    """

    context: Context
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

    def children(self, depth: int, parent: Node, tally: Tally) -> list[Node]:
        """Split one node of level `depth`; children without records are left out."""
        index = self._inhabited(depth, parent)
        if len(index) == 1:
            return [replace(parent, index=int(index[0]))]
        try:
            counts = self._split(depth + 1, parent.cells, parent.counts, index, tally)
        except TopdownError as error:
            error.node = error.node or self.context.geography.levels[depth].codes[parent.index]
            raise
        nodes = []
        for j, child in enumerate(index):
            inside = counts[:, j] > 0
            nodes.append(Node(int(child), parent.cells[inside], counts[inside, j]))
        return nodes

    def subtree(self, depth: int, node: Node, tally: Tally) -> list[Node]:
        """Solve everything below one node and return its leaves with records, in leaf order."""
        nodes = [node]
        for below in range(depth, len(self.context.geography.levels) - 1):
            nodes = [child for parent in nodes for child in self.children(below, parent, tally)]
        return nodes

    @cached_property
    def repairer(self) -> Repairer:
        """What mends leaves that break soft rules."""
        return Repairer(self.context)

    def finish(self, leaf: Node, tally: Tally) -> Node:
        """Return a leaf as it is published, by cells instead of rows."""
        cells = leaf.cells // self.patterns.n_patterns
        return self.repairer.finish(replace(leaf, cells=cells), tally)

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
        """Return how published children compare with the split of their published parent, stage by stage.

        Args:
            depth: level of the parent.
            parent: its published table by rows; None to judge the top node itself, which `published` then holds.
            published: the children's published tables by rows.
        """
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
        key = self.support.of_cell[cells] * p.n_patterns + rows % p.n_patterns
        keys, group = np.unique(key, return_inverse=True)
        group = group.reshape(-1).astype(np.int64)
        fixed = lookup(p.tables[depth], keys, nodes)
        supergroup = self.support.of_cell[cells]
        measured = [self.answers.node(depth, int(node)) for node in nodes]
        level = self.context.plan.levels[depth]
        soft = np.ascontiguousarray(self.repairer.rows[:, cells])
        done = tally.level(level.name)
        for stage in self.levels[depth]:
            label = stage.labels(cells)
            if stage.table is None:  # classes with a reserve
                kept = np.isin(key, p.reserved)
                if not kept.any():
                    continue
                label = np.where(kept, p.class_of_cell[cells], 0)
            public = join(supergroup, p.class_of_cell[cells] if stage.table is None else label)[0]
            table, n_table = join(group, label)
            if n_table == len(fixed):
                continue
            floor = np.zeros((n_table, len(nodes)), dtype=np.int64)
            if stage.table is None:
                first = first_of(table, n_table)
                floor = lookup(p.reserves[depth], key[first] * p.n_classes + label[first], nodes)
                floor[~np.isin(key[first], p.reserved)] = 0
            rules = rules_of_stage(soft, table, group) if stage.table is not None else soft[:0]
            work = _Work(stage, cells, sums, group, fixed, supergroup, table, n_table, public, floor, rules)
            solved = self._stage(work, measured, done)
            fixed = solved.table if beside is None else beside.judge(solved, table, n_table)
            if stage.table is not None:
                supergroup = public
            group = table
        if len(fixed) != len(rows):
            raise InternalError("the last pass of a level does not tell cells apart")
        counts = fixed[group]
        if len(soft):
            done.n_broken += int((soft @ counts > 0).any(axis=0).sum())
        return counts

    def _stage(self, work: _Work, measured: Measured, tally: LevelTally) -> SolvedStage:
        """Solve and round one stage."""
        stage, sums, fixed, table, n_table = work.stage, work.sums, work.fixed, work.table, work.n_table
        m = fixed.shape[1]
        first = first_of(table, n_table)
        of_group = work.group[first]
        row_sums = np.zeros(n_table, dtype=np.int64)
        np.add.at(row_sums, table, sums)
        known_sum = row_sums >= 0
        size = np.bincount(of_group, minlength=len(fixed))
        spread = (fixed > 0).sum(axis=1)
        out = np.zeros((n_table, m), dtype=np.int64)
        alone = size[of_group] == 1
        out[alone] = fixed[of_group[alone]]
        once = ~alone & (spread[of_group] == 1) & known_sum
        out[once, fixed.argmax(axis=1)[of_group[once]]] = row_sums[once]
        free = np.flatnonzero(~alone & ~once & (spread[of_group] > 0))
        if not len(free):
            return SolvedStage(out)
        least = work.floor[free]
        used, sub = np.unique(of_group[free], return_inverse=True)
        sub = sub.reshape(-1).astype(np.int64)
        goal = fixed[used].copy()
        np.subtract.at(goal, sub, least)
        left = np.where(known_sum[free], row_sums[free] - least.sum(axis=1), -1)
        known = out.copy()
        known[free] = least
        cells = work.cells
        rows = Rows(cells, work.group, table, first, work.public)
        queries = targets(stage, rows, known, free, measured)
        allowed = np.ascontiguousarray(goal[sub] > 0)
        quadratic = Structured(queries, work.supergroup[first][free])
        before = FixedTable(sub, goal)
        problem = stage_problem(quadratic, left, before, allowed)
        soft = np.ascontiguousarray(work.soft[:, first][:, free])
        most = -(work.soft[:, first] @ known)
        if queries:
            found, residual = solve(problem)
            compared = with_rules(problem, soft, most, found.z)
            better = solve_with_rules(compared) if compared is not None else None
            if better is not None:
                found, residual = better
            tally.n_dropped += compared is not None and better is None
        else:  # nothing is known: spread evenly
            found, residual = Solution.without_multipliers(problem, proportional(problem), 0), 0.0
            compared = None
        estimate = found.z
        rounding = stage_rounding(stage, cells[first][free], before, (estimate, allowed, left), (soft, most))
        rounded = round_table(rounding)
        tally.add(Fit(residual, found.iterations, 1, estimate.size), rounded)
        tally.n_enforced += compared is not None or rounded.route == "milp"
        out[free] = rounded.counts + least
        unique = not queries or quadratic.curvature > 0
        return SolvedStage(out, Decided(free, least, residual, unique, rounding, rounded))
