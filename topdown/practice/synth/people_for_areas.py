"""Make up people for the areas of a plan: its own geography and public facts, and nobody where its rules forbid it.

People are drawn as for a made-up census, without a thought of the rules; the solver then finds the people nearest to
them, in the queries of the plan, who keep every rule.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.made_up import write_mark
from topdown.measure import RecordsForm
from topdown.model import Histogram
from topdown.plan import LevelPlan, PublicContext
from topdown.practice.synth.made_up_people import Crowd, Population
from topdown.practice.synth.made_up_tree import MadeUpTree
from topdown.practice.synth.profile import load_profile
from topdown.practice.synth.repeatable_random import RepeatableRandom, apportion
from topdown.progress import silent
from topdown.solve import AnswersInMemory, make_top_down_solver, solve_tree

MOST_ANSWERS = 1 << 29  # of all areas, held at once: two gigabytes
SPREAD = 0.5  # standard deviation of the logarithm of people, between siblings
Answers = NDArray[np.int32]


def people_of_plan(context: PublicContext, people: int, seed: int) -> Histogram:
    """Return made-up people of the leaves of a plan, about as many as asked for, who keep its rules.

    Areas with larger public counts get more people. What the plan will publish exactly is not known and not met.

    Args:
        context: of a plan that extends no release.
        people: records, 1 or more.
        seed: nonnegative; another seed, other people.

    Raises:
        ConfigError: C065 an extension, or more answers than are held at once.

    Cost: that of solving a release of the plan, and four bytes an answer of each inhabited area.
    """
    n_answers = sum(
        int(inside.sum()) * level.answers_per_node
        for inside, level in zip(context.inhabited, context.plan.levels, strict=True)
    )
    if context.support is not None or n_answers > MOST_ANSWERS:
        why = (
            "its plan extends a release"
            if context.support is not None
            else f"{n_answers:,} answers are too many"
        )
        raise ConfigError(
            f"cannot make people up for these areas: {why}",
            code="C065",
            fix="give a plan that extends no release, with fewer areas, or run topdown synth without a run file",
        )
    tree = _tree_with_people(context, people, seed)
    lived = np.flatnonzero(tree.residents)
    rules, schema = context.rules, context.plan.schema
    somewhere = np.any(rules.open[-1], axis=0)[rules.class_of_cell]
    population = Population(schema, load_profile(schema), tree, seed)
    crowd = Crowd("residents", lived, tree.residents[lived], somewhere, households=True)
    parts = list(population.draw(crowd))
    drawn = Histogram.build(
        tree.n_leaves,
        schema.n_cells,
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("leaf", "cell", "count")),
    )
    free = without_exact(context)
    return people_fitted_to(
        free,
        [
            _answers_of(table, nodes, level, free)
            for table, nodes, level in zip(
                drawn.at_every_level(context.geography), _inhabited(free), free.plan.levels, strict=True
            )
        ],
    )


def write_people(path: Path, people: Histogram, context: PublicContext, form: RecordsForm, seed: int) -> int:
    """Write people as records of a run, packed CSV with its mark; return the number of rows.

    Where a column tells units apart, people of one area and cell are put together, as many as a unit may have.

    Args:
        people: of the plan's leaves.
        form: of the run's records: what columns are called, and whether there is a column `count`.
    """
    schema, codes = context.plan.schema, context.geography.levels[-1].codes
    unit = schema.privacy_unit
    told = unit.column != ""
    columns = ["geocode", *(a.name for a in schema.attributes), *[unit.column] * told]
    names = [form.called.get(name, name) for name in columns]
    values = zip(*(value.tolist() for value in schema.coordinates(people.cell)), strict=True)
    n_rows = n_units = 0
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow([*names, *([form.called.get("count", "count")] if form.has_count else [])])
        for leaf, value, count in zip(people.node.tolist(), values, people.count.tolist(), strict=True):
            row = [codes[leaf], *(a.labels[v] for a, v in zip(schema.attributes, value, strict=True))]
            for first in range(0, count, unit.most_records if told else count):
                size = min(unit.most_records, count - first) if told else count
                n_units += 1
                own = [*row, *[f"{unit.name} {n_units}"] * told]
                rows.writerows([[*own, size]] if form.has_count else [own] * size)
                n_rows += 1 if form.has_count else size
    write_mark(path, "topdown synth", seed)
    return n_rows


def without_exact(context: PublicContext) -> PublicContext:
    """Return a plan's public side with nothing that is published exactly: only the records say what that is."""
    plan = replace(context.plan, invariants=replace(context.plan.invariants, exact=()))
    return PublicContext(plan, context.geography, context.facts)


def people_fitted_to(context: PublicContext, answers: Sequence[Answers]) -> Histogram:
    """Return the people whom the solver finds for answers, as if these were noisy.

    Args:
        context: with nothing exact.
        answers: per level, int32 (inhabited nodes, answers_per_node).
    """
    noisy = AnswersInMemory(_inhabited(context), tuple(answers))
    leaves, _ = solve_tree(make_top_down_solver(context, noisy, {}, tables={}), context, 1, silent)
    return leaves.whole()


def _inhabited(context: PublicContext) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.flatnonzero(inside).astype(np.int64) for inside in context.inhabited)


def _answers_of(
    table: Histogram, nodes: NDArray[np.int64], level: LevelPlan, context: PublicContext
) -> Answers:
    found = [
        table.answers(context.plan.query(m.query)).reshape(table.n_nodes, -1) for m in level.measurements
    ]
    return np.concatenate([answers[nodes] for answers in found], axis=1).astype(np.int32)


def _tree_with_people(context: PublicContext, people: int, seed: int) -> MadeUpTree:
    levels = context.geography.levels
    log_weight = np.zeros(1)
    for level in levels[1:]:
        log_weight = log_weight[level.parent] + SPREAD * RepeatableRandom(seed, "areas", level.name).normal(
            len(level)
        )
    counted = sum(context.facts.columns.values(), np.zeros(len(levels[-1]), dtype=np.int64))
    weight = np.exp(log_weight) * (1.0 + counted) * context.inhabited[-1]
    return MadeUpTree(
        tuple(level.name for level in levels),
        (),
        tuple(level.parent for level in levels),
        np.zeros(len(levels[-1]), dtype=np.bytes_),
        apportion(people, weight),
    )
