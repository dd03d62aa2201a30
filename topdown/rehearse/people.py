"""People made up from what is public, so that a run can be tried without its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from topdown.errors import InternalError
from topdown.model.histogram import Histogram
from topdown.plan.plan import LevelPlan, Plan
from topdown.plan.prepare import Context
from topdown.progress import silent
from topdown.solve.answers import HeldAnswers
from topdown.solve.descend import Descent
from topdown.solve.extend.patterns import find_patterns
from topdown.solve.groups import Ints
from topdown.solve.solve import descend

Answers = NDArray[np.int32]
PEOPLE = 3  # in every answer that the made-up people are fitted to


def people(context: Context) -> Histogram:
    """Return people that fit the public facts: what the solver makes of a small answer to every query."""
    free = Context(_without_exact(context.plan), context.geography, context.facts)
    found = _fitted(free, lambda level: np.full(level.answers_per_node, PEOPLE, dtype=np.int32))
    if found.count.any():
        return found
    # A small total, spread over many cells, is rounded to nobody: all of them in one cell then.
    is_open = context.rules.open[-1][np.argmax(context.inhabited[-1])]
    cell = int(np.argmax(is_open[context.rules.class_of_cell]))
    return _fitted(free, lambda level: _of_cell(free.plan, level, cell))


def _fitted(context: Context, answers_of: Callable[[LevelPlan], Answers]) -> Histogram:
    """Return what the solver makes of the same answers at every node of a level."""
    plan = context.plan
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in context.inhabited)
    answers = tuple(
        np.tile(answers_of(level), (len(here), 1)) for here, level in zip(nodes, plan.levels, strict=True)
    )
    leaves, _ = descend(Descent(context, HeldAnswers(nodes, answers), {}, tables={}), context, 1, silent)
    return leaves.whole()


def _of_cell(plan: Plan, level: LevelPlan, cell: int) -> Answers:
    """Return the answers of a level where everybody is in one cell, int32 (answers_per_node,)."""
    rows = []
    for m in level.measurements:
        query = plan.query(m.query)
        rows.append(np.where(np.arange(query.n_answers) == query.labels[cell], PEOPLE, 0))
    return np.concatenate(rows).astype(np.int32)


def people_beside(context: Context) -> Histogram:
    """Return people that add up to the base table of an extension at every leaf and fit the public facts.

    Lower bounds are met by the people whom the solver would reserve for them; the others are spread over their open
    cells as evenly as may be.

    Raises:
        InfeasibleError: I020 a leaf's base table has no extension that meets the constraints there.
    """
    patterns, support = find_patterns(context), context.support
    if support is None:
        raise InternalError("this plan extends no release")
    table, kept = patterns.tables[-1], patterns.reserves[-1]
    key, kind = np.divmod(kept.cell, patterns.n_classes)
    entry = np.searchsorted(table.node * table.n_cells + table.cell, kept.node * table.n_cells + key)
    found: list[Ints] = []
    for i, (leaf, here, total) in enumerate(zip(table.node, table.cell, table.count, strict=True)):
        cells = support.of_base(np.array([here // patterns.n_patterns]))
        cells = cells[patterns.open_in(np.full(len(cells), here), cells)]
        put = np.zeros(len(cells), dtype=np.int64)
        for r in np.flatnonzero(entry == i):
            put[np.argmax(patterns.class_of_cell[cells] == kind[r])] += kept.count[r]
        each, more = divmod(int(total - put.sum()), len(cells))
        put += each
        put[:more] += 1
        found.append(np.stack([np.full(len(cells), leaf), cells, put]))
    node, cell, count = np.concatenate(found, axis=1)
    return Histogram.build(table.n_nodes, context.plan.schema.n_cells, node, cell, count)


def _without_exact(plan: Plan) -> Plan:
    return replace(plan, invariants=replace(plan.invariants, exact=()))
