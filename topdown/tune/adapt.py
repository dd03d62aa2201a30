"""A run file with other shares: queries that get nothing are dropped, and passes use those that are left."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from topdown.plan.files import EstimatesTable, LevelTable, PassTable
from topdown.plan.plan import Plan
from topdown.plan.runfile import RunFile
from topdown.tune.tune import LevelShares

TUNED = ", tuned"


def tuned_run(run: RunFile, plan: Plan, shares: Sequence[LevelShares]) -> RunFile:
    """Return a run file with other shares; levels that the geography lacks keep theirs.

    Args:
        run: as it was. plan: made from it.
        shares: one a level of the plan, queries in the order of the run file.
    """
    of = {level.name: found for level, found in zip(plan.levels, shares, strict=True)}
    tables = tuple(_level(plan, table, of[table.name]) if table.name in of else table for table in run.level)
    given = run.estimates or EstimatesTable()
    name = run.settings if run.settings.endswith(TUNED) else run.settings + TUNED
    estimates = msgspec.structs.replace(given, tuned_for=given.targets)
    return msgspec.structs.replace(run, level=tables, estimates=estimates, settings=name)


def _level(plan: Plan, table: LevelTable, shares: LevelShares) -> LevelTable:
    queries = {name: share for name, share in zip(table.queries, shares.queries, strict=True) if share}
    dropped = {plan.query(name).name for name in set(table.queries) - set(queries)}
    return msgspec.structs.replace(
        table,
        share=shares.share,
        queries=queries,
        passes=_passes(plan, table.passes, dropped),
        root_passes=_passes(plan, table.root_passes, dropped),
    )


def _passes(plan: Plan, passes: tuple[PassTable, ...], dropped: set[str]) -> tuple[PassTable, ...]:
    """Return passes without some queries; one that is left with none uses all that are measured."""
    return tuple(
        msgspec.structs.replace(
            step, queries=tuple(name for name in step.queries if plan.query(name).name not in dropped)
        )
        for step in passes
    )
