"""The statistics that policy keeps exact, as the bytes of exact.json."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context


def exact_values(context: Context, level: Callable[[int], Histogram]) -> dict[str, NDArray[np.int64]]:
    """Return the answers of every exact invariant at every node of its level, (n_nodes, n_answers), by name.

    Args:
        context: plan and public facts.
        level: gives the true counts of a level from its index.

    """
    plan = context.plan
    return {
        exact.name: level(context.geography.index(exact.level)).answers(plan.query(exact.query))
        for exact in plan.invariants.exact
    }


def exact_bytes(context: Context, values: dict[str, NDArray[np.int64]]) -> bytes:
    """Return `exact.json`; `values` as from `exact_values`."""
    plan = context.plan
    rows = [
        {
            "name": exact.name,
            "level": exact.level,
            "query": exact.query,
            "nodes": list(context.geography.levels[context.geography.index(exact.level)].codes),
            "answers": values[exact.name].tolist(),
        }
        for exact in plan.invariants.exact
    ]
    document: dict[str, object] = {"type": "topdown.exact", "version": 1, "plan_hash": plan.plan_hash}
    return (json.dumps(document | {"values": rows}, ensure_ascii=False, indent=1) + "\n").encode()
