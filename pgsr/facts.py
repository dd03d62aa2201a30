"""Which numbers of groups a release knows exactly: those declared public, and those that no neighbour step changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pgsr.hierarchy import Hierarchy, Ints
from pgsr.plan import Plan
from pgsr.totals import spread_known
from pgsr.vectors import ADAPTIVE
from topdown.errors import ConfigError


def refuse_unkept(plan: Plan, regions: Hierarchy) -> None:
    """Refuse public numbers that the mechanism would contradict (ConfigError C182)."""
    if plan.post_processing.informed or set(plan.public) <= {regions.regions[0]}:
        return
    raise ConfigError(
        f"{plan.mechanism} does not keep public numbers of groups: it would publish others beside them",
        code="C182",
        fix="use tracking+parent or tracking, or leave the public numbers out; nothing was spent",
    )


def refuse_unknown(plan: Plan, regions: Hierarchy, total: int) -> None:
    """Refuse rows where the number of groups of some region is not public (ConfigError C183)."""
    if plan.kind != ADAPTIVE:
        return
    known = np.array([plan.public.get(region, -1) for region in regions.regions], dtype=np.int64)
    known[0] = total
    missing = np.flatnonzero(spread_known(regions.tree, known) < 0)
    if len(missing):
        raise ConfigError(
            f"{plan.mechanism} chooses how a region is measured by its public number of groups, before its noise is "
            f"drawn; region {regions.regions[missing[0]]!r} has none",
            code="C183",
            fix="list all leaf regions in --public, list all units with --smallest 0, or use tracking+parent",
        )


def with_listed_units(plan: Plan, regions: Hierarchy, leaves: Ints) -> Plan:
    """Return the plan with the number of groups of every leaf where all units are listed, empty ones as size 0.

    If the noise covers moves alone, no neighbour changes these numbers, so that no noise protects them; the
    certificate lists them as exact.

    Args:
        plan: what is released.
        regions: the regions.
        leaves: counts [size][leaf].
    """
    if (
        plan.sizes.smallest != 0
        or plan.steps not in (("move",), ("household",))
        or not plan.post_processing.informed
    ):
        return plan
    found = dict(zip(regions.geography.leaves.codes, leaves.sum(axis=0).tolist(), strict=True))
    return replace(plan, public={**plan.public, **found})
