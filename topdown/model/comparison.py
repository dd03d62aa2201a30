"""Soft rules that compare the people in two sets of cells, as integer rows over the cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.model.constraint import Invariants
from topdown.model.schema import Schema


def comparison_rows(schema: Schema, invariants: Invariants) -> NDArray[np.int64]:
    """Return one row a rule: 1 in `cells`, -times in `than`, so that a table keeps the rule if its sum is <= 0.

    Added up over leaves such a sum stays <= 0: every node above keeps the rule too (necessary; not sufficient).

    Returns:
        int64 (n_rules, n_cells); a cell in both sets has 1 - times.
    """
    rows = np.zeros((len(invariants.no_more_than), schema.n_cells), dtype=np.int64)
    for row, rule in zip(rows, invariants.no_more_than, strict=True):
        row += schema.select(dict(rule.cells))
        row -= rule.times * schema.select(dict(rule.than)).astype(np.int64)
    return rows
