"""A release in miniature: a few leaves of the tree, made-up people, and the real code from measuring to publishing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from topdown.ledger.ledger import create_ledger
from topdown.measure.measure import measure
from topdown.measure.run_ledger import place_of
from topdown.model.geography import Geography, Level
from topdown.model.histogram import Histogram
from topdown.model.public import PublicFacts
from topdown.plan.plan import Plan
from topdown.plan.prepare import Context, Prepared
from topdown.plan.public_tables import geography_sha256, public_sha256
from topdown.plan.runfile import InputTable, LedgerTable
from topdown.progress import silent
from topdown.publish.microdata import PERSONS, write_microdata
from topdown.solve.descend import Descent
from topdown.solve.solve import descend, solved
from topdown.solve.targets import HeldAnswers

PEOPLE = 3  # in every answer that the made-up people are fitted to
_LEDGER = "ledger.jsonl"


def make_miniature(
    prepared: Prepared, folder: Path, solve_and_publish: Callable[[Prepared, Path], None]
) -> None:
    """Measure, solve and publish a few leaves of the tree with people made up from the public facts.

    The noise is real, the people are not: it is charged to a ledger in `folder` that nobody keeps.

    Args:
        prepared: of the run; its records and its ledger are not touched.
        folder: is created.
        solve_and_publish: see `rehearse`.

    Raises:
        TopdownError: as measure, solve and publish do.
    """
    context = _thin(prepared.context)
    write_microdata(folder, context, _people(context))
    run = structs.replace(
        prepared.run,
        input=InputTable(records=PERSONS, leaves=prepared.run.input.leaves),
        ledger=LedgerTable(path=_LEDGER, limit=context.plan.loss),
    )
    small = Prepared(context, run, folder / "run.toml")
    place = place_of(small)
    made = create_ledger(place.path, place.witness_folder, place.binding)
    small = replace(small, run=structs.replace(run, ledger=structs.replace(run.ledger, id=made)))
    measure(small, folder / "release", silent)
    solve_and_publish(small, folder / "release")


def few_leaves(inhabited: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return at most three leaves: the first that holds people with the next one, and the last."""
    open_leaves = np.flatnonzero(inhabited)
    return np.unique(open_leaves[[0, min(1, len(open_leaves) - 1), -1]])


def only(geography: Geography, leaves: NDArray[np.int64]) -> Geography:
    """Return the tree of some leaves.

    Args:
        leaves: int64, increasing.
    """
    kept, levels = leaves, []
    for depth in range(len(geography.levels) - 1, -1, -1):
        level = geography.levels[depth]
        above = np.unique(level.parent[kept])
        parent = np.searchsorted(above, level.parent[kept]) if depth else np.zeros(1, dtype=np.int64)
        levels.append(Level(level.name, tuple(level.codes[i] for i in kept), parent.astype(np.int64)))
        kept = above
    return Geography(tuple(reversed(levels)))


def _thin(context: Context) -> Context:
    leaves = few_leaves(context.inhabited[-1])
    geography = only(context.geography, leaves)
    facts = PublicFacts({name: values[leaves] for name, values in context.facts.columns.items()})
    plan = replace(
        context.plan,
        public_sha256=public_sha256(geography, facts),
        geography_sha256=geography_sha256(geography),
    )
    small = Context(plan, geography, facts)
    levels = tuple(
        replace(level, n_nodes=len(here), n_measured=int(inside.sum()))
        for level, here, inside in zip(plan.levels, geography.levels, small.inhabited, strict=True)
    )
    return Context(replace(plan, levels=levels), geography, facts)


def _people(context: Context) -> Histogram:
    """Return people that fit the public facts: what the solver makes of a small answer to every query."""
    plan = _without_exact(context.plan)
    nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in context.inhabited)
    answers = tuple(
        np.full((len(here), level.answers_per_node), PEOPLE, dtype=np.int32)
        for here, level in zip(nodes, plan.levels, strict=True)
    )
    free = Context(plan, context.geography, context.facts)
    leaves, tally = descend(Descent(free, HeldAnswers(nodes, answers), {}, tables={}), free, 1, silent)
    return solved(free, leaves, tally).leaves


def _without_exact(plan: Plan) -> Plan:
    return replace(plan, invariants=replace(plan.invariants, exact=()))
