"""Small censuses whose plan asks for one estimate of the whole tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.helpers.dense_tree import Case
from tests.helpers.solved import Census, NoisyAnswers
from topdown.model.query import parse_query
from topdown.plan.plan import Estimates
from topdown.plan.prepare import Context
from topdown.solve.answers import HeldAnswers
from topdown.solve.tree.covered import choose
from topdown.solve.tree.gls import open_values


def with_tree(census: Census) -> Census:
    """Return the census under the same plan with a tree estimate."""
    plan = replace(census.context.plan, estimates=Estimates("tree"))
    return replace(census, context=replace(census.context, plan=plan))


def case_of(census: Census, answers: NoisyAnswers) -> Case:
    """Return what `solve_densely` takes."""
    context = census.context
    lattice = choose(context).lattice
    assert lattice is not None
    rules, depths = context.rules, range(len(context.plan.levels))
    nodes = tuple(np.flatnonzero(rules.inhabited[d]).astype(np.int64) for d in depths)
    return Case(
        context.geography,
        context.plan.schema,
        lattice,
        tuple(
            tuple(parse_query(context.plan.schema, m.query) for m in level.measurements)
            for level in context.plan.levels
        ),
        tuple(tuple(float(1 / m.variance) for m in level.measurements) for level in context.plan.levels),
        tuple(open_values(lattice, rules.class_of_cell, at) for at in rules.open),
        HeldAnswers(nodes, tuple(answers.values[d][nodes[d]].astype(np.int32) for d in depths)),
    )


def on_one_pattern(context: Context) -> Context:
    """Return the context as if what is open in most of its leaves were open in every inhabited area, and no more."""
    rules = context.rules
    patterns, counts = np.unique(rules.open[-1][rules.inhabited[-1]], axis=0, return_counts=True)
    is_open = tuple(inside[:, None] & patterns[counts.argmax()] for inside in rules.inhabited)
    other = replace(context)
    vars(other)["rules"] = replace(rules, open=is_open)  # a cached property
    return other
