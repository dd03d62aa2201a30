"""Small censuses whose plan asks for one estimate of the whole tree."""

from dataclasses import replace

import numpy as np

from tests.helpers.dense_tree import Case
from tests.helpers.solved import Census, NoisyAnswers
from topdown.model import parse_query
from topdown.plan import Estimates, PublicContext
from topdown.solve import AnswersInMemory
from topdown.solve.tree import choose_levels, open_values


def with_tree(census: Census) -> Census:
    """Return the census under the same plan with a tree estimate."""
    plan = replace(census.context.plan, estimates=Estimates("tree"))
    return replace(census, context=replace(census.context, plan=plan))


def case_of(census: Census, answers: NoisyAnswers) -> Case:
    """Return what `solve_densely` takes."""
    context = census.context
    lattice = choose_levels(context).lattice
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
        AnswersInMemory(nodes, tuple(answers.values[d][nodes[d]].astype(np.int32) for d in depths)),
    )


def on_one_pattern(context: PublicContext) -> PublicContext:
    """Return the context as if what is open in most of its leaves were open in every inhabited area, and no more."""
    rules = context.rules
    patterns, counts = np.unique(rules.open[-1][rules.inhabited[-1]], axis=0, return_counts=True)
    is_open = tuple(inside[:, None] & patterns[counts.argmax()] for inside in rules.inhabited)
    return replace(context, given_rules=replace(rules, open=is_open))
