"""The statistics that policy keeps exact, as the bytes of exact.json."""

from __future__ import annotations

import json

from topdown.measure.encode import STAMP
from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context


def exact_bytes(context: Context, levels: list[Histogram]) -> bytes:
    """Return `exact.json`: the answers of every exact invariant at every node of its level.

    Args:
        context: plan and public facts.
        levels: true counts of every level, root first.

    """
    plan = context.plan
    values = []
    for exact in plan.invariants.exact:
        depth = context.geography.index(exact.level)
        answers = levels[depth].answers(plan.query(exact.query))
        values.append(
            {
                "name": exact.name,
                "level": exact.level,
                "query": exact.query,
                "nodes": list(context.geography.levels[depth].codes),
                "answers": answers.tolist(),
            }
        )
    document: dict[str, object] = {"type": "topdown.exact", "version": 1, "plan_hash": plan.plan_hash}
    document |= {"stamp": STAMP} if plan.simulate else {}
    return (json.dumps(document | {"values": values}, ensure_ascii=False, indent=1) + "\n").encode()
