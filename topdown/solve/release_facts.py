"""What is known of a release before its solve: from plan, public facts and exact statistics.

What is the same for every area (levels, verdicts, the form of the constraints) does not grow with areas. A part of a
tree has the numbers of its own nodes beside it: it is given the rest and has nothing to make it from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from topdown.arrays import Bools, Floats, Ints
from topdown.errors import DataError
from topdown.formats.plan_documents import Verdict
from topdown.model import (
    SplitConstraints,
    complete_totals,
    exact_contradiction,
    exact_margins,
    exact_rows,
    parse_query,
    refines,
    soft_rule_rows,
    split_constraints,
)
from topdown.plan import Pass, PublicContext
from topdown.solve.group_constraints import FamilyConstraints, FixedTable
from topdown.solve.implied import plan_verdicts
from topdown.solve.least_squares.admm import TOLERANCE_PERSONS
from topdown.solve.least_squares.dense_steps import SMALL_PACE
from topdown.solve.least_squares.optimality import TARGET_PERSONS
from topdown.solve.rounding.chain import (
    BoundPositions,
    DisjointBounds,
    LevelBounds,
    NoFlow,
    RoundingChain,
    level_bounds,
)
from topdown.solve.rounding.flow_network import SNAP, UNIT

FamilyArguments = tuple[
    Ints, Ints, Floats, Ints, Ints, Ints, Ints, Ints, Ints, float, float, float, float, Ints, Floats
]  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class LevelModel:
    """One level of a plan in the solver's terms; the same for every area.

    Args:
        index: position of the level, 0 at the root.
        query_names: measured queries, in the order of the answers.
        labels: int64 (n_queries, n_cells), answer of each cell in each measured query.
        offsets: int64 (n_queries,), where each query's answers start in a node's answer row.
        weights: float64 (n_queries,), inverse variance.
        passes: solving order.
        tables: labels of every table the passes fix, by name.
        class_of_cell: int64 (n_cells,), see `ConstraintSystem`.
        bounds: what the nodes keep.
        chain: rounding chain.
        positions: where lower bounds sit in the chain, or why rounding is no flow.
        comparisons: int64 (n_rules, n_cells), soft rules (`soft_rule_rows`).
    """

    index: int
    query_names: tuple[str, ...]
    labels: Ints
    offsets: Ints
    weights: Floats
    passes: tuple[Pass, ...]
    tables: dict[str, Ints]
    class_of_cell: Ints
    bounds: LevelBounds
    chain: RoundingChain
    positions: BoundPositions | NoFlow
    comparisons: Ints

    @cached_property
    def single_valued(self) -> frozenset[str]:
        """Tables of passes of which a query of the pass tells all answers apart, whatever cells there are."""
        return frozenset(step.table for step in self.passes if self.tells_apart(step, slice(None)))

    @cached_property
    def family_arguments(self) -> FamilyArguments | None:
        """What `solve_family` takes of the level; None where it cannot.

        It knows lower bounds only, and one pass, or one before it that fits totals to queries of one answer.
        """
        *before, last = self.passes
        totals = [self.query_names.index(name) for step in before for name in step.queries]
        is_known = not before or (len(before) == 1 and not self.tables[before[0].table].any())
        if not is_known or self.labels[totals].any() or len(self.comparisons):
            return None
        if isinstance(self.positions, NoFlow):
            return None
        bounds = self.bounds
        if not isinstance(bounds, DisjointBounds) or bounds.has_total or bounds.exact_beside:
            return None
        chosen = [self.query_names.index(name) for name in last.queries]
        queries = np.ascontiguousarray(self.labels[chosen]), self.offsets[chosen], self.weights[chosen]
        tables = self.chain.stacked, np.array(self.chain.weights, dtype=np.int64)
        places = np.array([table for table, _ in self.positions], dtype=np.int64)
        goals = (SMALL_PACE, TOLERANCE_PERSONS, TARGET_PERSONS, float(UNIT), SNAP)
        of_totals = self.offsets[totals], self.weights[totals]
        return *queries, *tables, self.class_of_cell, bounds.group_of_cell, places, *goals, *of_totals

    def tells_apart(self, step: Pass, cells: Ints | slice) -> bool:
        """Tell whether some query of a pass tells all answers of its table apart on some cells."""
        labels = self.labels[[self.query_names.index(name) for name in step.queries]][:, cells]
        return any(refines(query, self.tables[step.table][cells]) for query in labels)


@final
@dataclass(frozen=True, eq=False)
class ReleaseFacts:
    """The public side of a solve, for the whole tree or a part of it.

    Args:
        levels: of the plan. verdicts: what the plan promises of each; the solver holds itself to it.
        constraints: on the tables of the tree's nodes.
    """

    levels: tuple[LevelModel, ...]
    verdicts: tuple[Verdict, ...]
    constraints: SplitConstraints

    def family(self, depth: int, nodes: Ints, cells: Ints) -> FamilyConstraints:
        """Return what some nodes of a level keep, on some cells.

        Raises:
            InfeasibleError: I013 an exact table has records in other cells.
        """
        bounds, constraints = self.levels[depth].bounds, self.constraints
        return FamilyConstraints(
            FixedTable(*constraints.total_at(depth).among(nodes, cells)),
            FixedTable(*constraints.exact_at(depth).among(nodes, cells)),
            bounds.among(constraints, nodes, cells),
            bounds.checks_exact,
        )

    def afresh(self) -> ReleaseFacts:
        """Return the same without what was found of leaves, which takes room."""
        return replace(self, constraints=self.constraints.afresh())

    def may_hold(self, depth: int, nodes: Ints, cells: Ints) -> Bools:
        """Tell where some nodes may hold records, bool (n_nodes, n_cells)."""
        is_open = self.constraints.numbers.open[depth][nodes][:, self.levels[depth].class_of_cell[cells]]
        exact = self.constraints.exact_at(depth)
        return np.asarray(is_open & exact.may_hold(nodes, cells) if exact.answers.shape[1] else is_open)

    def open_children(self, depth: int, parent: int) -> Ints:
        """Return the children of a node of a level that may hold any record."""
        first, last = self.constraints.geography.child_pointers[depth][parent : parent + 2]
        inhabited = self.constraints.numbers.open[depth + 1][first:last].any(axis=1)
        return np.asarray(first + np.flatnonzero(inhabited), dtype=np.int64)


def facts_of_release(context: PublicContext, exact: dict[str, Ints], tables: dict[str, Ints]) -> ReleaseFacts:
    """Return the public side of a whole release; the only place where its form is made.

    Args:
        context: plan and public facts.
        exact: exact node totals by level name.
        tables: exact tables other than totals, by name.

    Raises:
        InfeasibleError: exact statistics contradict each other or the public facts; the node is named.
    """
    schema, invariants, geography = context.plan.schema, context.plan.invariants, context.geography
    verdicts = plan_verdicts(context)  # first: it holds as many numbers of every leaf as all that follows
    margins = exact_margins(schema, invariants, geography, context.rules, exact, tables)
    system = context.rules.with_exact(geography, exact_rows(schema, invariants, tables, geography))
    partition = system.partition(margins.split.of_cell)
    totals = complete_totals(geography, system, partition, exact, margins)
    constraints = split_constraints(partition, system, geography, totals, margins)
    soft, depths = soft_rule_rows(schema, invariants), range(len(geography.levels))
    levels = tuple(_level_model(context, constraints, depth, soft) for depth in depths)
    return ReleaseFacts(levels, verdicts, constraints)


def _level_model(context: PublicContext, constraints: SplitConstraints, depth: int, soft: Ints) -> LevelModel:
    plan, level = context.plan, context.plan.levels[depth]
    queries = [parse_query(plan.schema, m.query) for m in level.measurements]
    sizes = np.array([q.n_answers for q in queries], dtype=np.int64)
    bounds = level_bounds(constraints, depth)
    tables = tuple(parse_query(plan.schema, r.table).labels.astype(np.int64) for r in level.rounding)
    chain = bounds.chain(tables, tuple(r.weight for r in level.rounding))
    return LevelModel(
        index=depth,
        query_names=tuple(q.name for q in queries),
        labels=np.stack([q.labels.astype(np.int64) for q in queries]),
        offsets=np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64),
        weights=np.array([float(1 / m.variance) for m in level.measurements]),
        passes=level.passes,
        tables={p.table: parse_query(plan.schema, p.table).labels.astype(np.int64) for p in level.passes},
        class_of_cell=constraints.form.system.class_of_cell,
        bounds=bounds,
        chain=chain,
        positions=bounds.positions(chain),
        comparisons=soft,
    )


def exact_totals(context: PublicContext, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact total of every node of each level that has one.

    Args:
        context: plan and geography.
        values: by invariant name, answers of shape (n_nodes, n_answers) in the order of the level.

    Raises:
        DataError: an exact statistic is missing or has another shape.
    """
    totals: dict[str, Ints] = {}
    for invariant in context.plan.invariants.exact:
        answers = np.asarray(values.get(invariant.name, ()), dtype=np.int64)
        n_nodes = len(context.geography.levels[context.geography.index(invariant.level)])
        if answers.shape != (n_nodes, context.plan.query(invariant.query).n_answers):
            raise DataError(
                f"exact statistic {invariant.name!r} is missing or incomplete in measurements/exact.json",
                code="D051",
                fix="measure again, or get the release again",
            )
        total = answers.sum(axis=1)
        if invariant.level in totals and not np.array_equal(totals[invariant.level], total):
            raise exact_contradiction(f"two exact totals of level {invariant.level!r} differ", None)
        totals[invariant.level] = total
    return totals


def exact_tables(context: PublicContext, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact tables other than totals, by name; `exact_totals` checks their shapes."""
    chosen = [e for e in context.plan.invariants.exact if context.plan.query(e.query).factors]
    return {e.name: np.asarray(values[e.name], dtype=np.int64) for e in chosen}
