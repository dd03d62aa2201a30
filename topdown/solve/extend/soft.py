"""Soft rules in one stage of an extension: which of them the stage decides, and at what price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topdown.solve.extend.fit import StageProblem
from topdown.solve.extend.least_squares import largest_curvature
from topdown.solve.passes import PRICE, SLACK_PERSONS
from topdown.solve.problem import Compared, Floats, Ints


def rules_of_stage(rows: Ints, table: Ints, group: Ints) -> Ints:
    """Return the rules that a stage decides, int64 (n_rules, n).

    A rule is the stage's business if its number is the same for all cells of one answer of the stage's table, but not
    for all cells of one answer of the table fixed before: coarser stages cannot tell its cells apart, and after finer
    ones nothing is left to decide.

    Args:
        rows: int64 (n_rules, n), soft rules on the rows of a split.
        table, group: int64 (n,), the stage's table and the one before.
    """
    return rows[[_constant(row, table) and not _constant(row, group) for row in rows]]


def _constant(row: Ints, label: Ints) -> bool:
    seen = np.zeros(int(label.max(initial=0)) + 1, dtype=np.int64)
    seen[label] = row
    return bool(np.array_equal(seen[label], row))


def with_rules(problem: StageProblem, rows: Ints, most: Ints, estimate: Floats) -> StageProblem | None:
    """Return the problem with those soft rules priced in, or None if its estimate without them keeps them all.

    Args:
        rows: int64 (n_rules, n). most: int64 (n_rules, m). estimate: (n, m).
    """
    if not len(rows):
        return None
    scale = np.maximum(np.abs(rows).max(axis=1, initial=1, keepdims=True), 1)
    over = float((rows / scale @ estimate - most / scale).max(initial=0.0))
    if over <= SLACK_PERSONS:
        return None
    price = PRICE * largest_curvature(problem) * max(over, 1.0)
    return replace(problem, compared=Compared(rows / scale, most / scale, price))
