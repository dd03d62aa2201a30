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
from topdown.model.public import only_leaves
from topdown.plan.base import BaseFiles, describe_base, read_support
from topdown.plan.prepare import Context, Prepared
from topdown.plan.runfile import InputTable, LedgerTable
from topdown.progress import silent
from topdown.publish.microdata import PERSONS, write_microdata
from topdown.rehearse.people import people, people_beside
from topdown.rehearse.thin_base import charge_base, only_facts, thin_plan, write_thin_base

_LEDGER = "ledger.jsonl"


def make_miniature(
    prepared: Prepared, folder: Path, solve_and_publish: Callable[[Prepared, Path], None]
) -> None:
    """Measure, solve and publish a few leaves of the tree with people made up from what is public.

    An extension keeps the published table of its base release at these leaves. The noise is real, the people are not:
    it is charged to a ledger in `folder` that nobody keeps.

    Args:
        prepared: of the run; its records and its ledger are not touched.
        folder: is created.
        solve_and_publish: see `rehearse`.

    Raises:
        TopdownError: as measure, solve and publish do.
    """
    small = _thin(prepared, folder / "base")
    context, limit = small.context, small.context.policy.loss
    found = people(context) if context.support is None else people_beside(context)
    write_microdata(folder, context, found)
    run = structs.replace(
        prepared.run,
        input=InputTable(records=PERSONS, leaves=prepared.run.input.leaves),
        ledger=LedgerTable(path=_LEDGER, limit=limit, delta_limit=context.plan.delta),
    )
    small = replace(small, run=run, path=folder / "run.toml")
    place = place_of(small)
    place = replace(place, id=create_ledger(place.path, place.witness_folder, place.binding))
    small = replace(small, run=structs.replace(run, ledger=structs.replace(run.ledger, id=place.id)))
    if context.bases:
        charge_base(place, context.bases[-1].plan, limit)
    measure(
        small, folder / "release", silent, again=True
    )  # whether it may be is asked of the run's own ledger
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


def _thin(prepared: Prepared, folder: Path) -> Prepared:
    """Return a run at a few leaves; an extension's base release is written to `folder`."""
    context = prepared.context
    leaves = few_leaves(context.inhabited[-1])
    geography, facts = only(context.geography, leaves), only_facts(context.facts, leaves)
    plan = thin_plan(context.plan, geography, facts)
    if plan.base is None:
        return replace(prepared, context=_measured(Context(plan, geography, facts)))
    bases = write_thin_base(prepared, geography, leaves, folder)
    files = BaseFiles.of_release(folder)
    rules, names = only_leaves(context.rules, geography, leaves), dict(plan.base.map)
    support = read_support(plan.schema, rules, geography, bases[-1].plan.schema, names, files.table)
    base = describe_base(bases[-1].plan, files, support, plan, names)
    small = Context(replace(plan, base=base), geography, facts, support, bases)
    return replace(prepared, context=_measured(small), base=files)


def _measured(context: Context) -> Context:
    levels = zip(context.plan.levels, context.inhabited, strict=True)
    counted = tuple(replace(level, n_measured=int(inside.sum())) for level, inside in levels)
    return replace(context, plan=replace(context.plan, levels=counted))
