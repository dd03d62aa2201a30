"""Exact statistics in the solver's terms: node totals by level."""

from __future__ import annotations

from typing import Any

import numpy as np

from topdown.errors import DataError
from topdown.plan.prepare import Context
from topdown.solve.problem import Ints


def exact_totals(context: Context, values: dict[str, Any]) -> dict[str, Ints]:
    """Return the exact total of every node of each level that has one.

    Args:
        context: plan and geography.
        values: by invariant name, answers of shape (n_nodes, 1) in the order of the level.

    Raises:
        DataError: an exact statistic is missing or has another shape.
    """
    totals: dict[str, Ints] = {}
    for invariant in context.plan.invariants.exact:
        answers = np.asarray(values.get(invariant.name, ()), dtype=np.int64)
        n_nodes = len(context.geography.levels[context.geography.index(invariant.level)])
        if answers.shape != (n_nodes, 1):
            raise DataError(
                f"exact statistic {invariant.name!r} is missing or incomplete in measurements/exact.json",
                code="D051",
                fix="measure again, or get the release again",
            )
        totals[invariant.level] = answers[:, 0]
    return totals
