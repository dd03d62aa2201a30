"""In how many places a release meets each invariant, in percent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.measure.beside_truth import BesideTruth
from topdown.model.constraint_table import leaf_rows


def exactness(both: BesideTruth) -> dict[str, object]:
    """Check every invariant at every node it speaks of (a lower bound of 0 says nothing).

    Returns:
        percent (of all places together) and checks: name, kind, level, n_checked, n_met, percent.
    """
    context, released = both.context, both.released
    invariants = context.plan.invariants
    leaf = context.geography.leaves.name
    checks = []
    for exact in invariants.exact:
        level = context.geography.index(exact.level)
        query = context.plan.query(exact.query)
        equal = [(r.answers(query) == t.answers(query)).all(axis=1) for r, t in both.stretches(level)]
        met = np.concatenate(equal)
        checks.append(_check(exact.name, "exact", exact.level, met))
    for row in leaf_rows(context.plan.schema, invariants, context.facts.columns, context.geography):
        held, asks = released.held(row.cells), row.asks
        met = (row.low <= held) & (held <= row.high)
        checks.append(_check(row.name, row.kind, leaf, met[asks]))
    n_checked, n_met = (sum(int(str(c[key])) for c in checks) for key in ("n_checked", "n_met"))
    for soft in invariants.no_more_than:  # not promised, so not in the percentage of all
        chosen = (context.plan.schema.select(dict(cells)) for cells in (soft.cells, soft.than))
        held, most = (released.held(cells) for cells in chosen)
        checks.append(_check(soft.name, "no_more_than", leaf, held <= soft.times * most))
    return {"percent": _percent(n_met, n_checked), "checks": checks}


def _check(name: str, kind: str, level: str, met: NDArray[np.bool_]) -> dict[str, object]:
    n_checked, n_met = len(met), int(met.sum())
    percent = _percent(n_met, n_checked)
    return {
        "name": name,
        "kind": kind,
        "level": level,
        "n_checked": n_checked,
        "n_met": n_met,
        "percent": percent,
    }


def _percent(n_met: int, n_checked: int) -> float:
    return 100.0 if n_met == n_checked else min(100 * n_met / n_checked, 99.999)
