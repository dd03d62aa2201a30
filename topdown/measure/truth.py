"""What is true of the records: counts of every level, and the statistics that stay exact."""

from __future__ import annotations

import numpy as np

from topdown.ledger.same_records import keyed_digest
from topdown.measure.confidential import Confidential
from topdown.measure.exact import exact_values
from topdown.model.contradiction import Contradiction, find_contradiction
from topdown.model.histogram import Histogram
from topdown.plan.prepare import Context


def records_digest(leaves: Histogram, key: bytes) -> str:
    """Return the HMAC-SHA256 of records under a key, from their histogram."""
    parts = (leaves.node, leaves.cell, leaves.count)
    return keyed_digest(key, (np.ascontiguousarray(part, dtype="<i8").data for part in parts))


class Truth:
    """The true counts of every level and the exact statistics; shows nothing of itself."""

    def __init__(self, context: Context, records: Confidential) -> None:
        self._context = context
        self.levels = records.open_histogram().at_every_level(context.geography)
        self.exact = exact_values(context, self.levels)

    def digest(self, key: bytes) -> str:
        """Return the HMAC-SHA256 of the records under a key; the order of the rows does not matter."""
        return records_digest(self.levels[-1], key)

    def contradiction(self) -> Contradiction | None:
        """Hold the exact statistics against each other and the public facts, before anything is charged."""
        context = self._context
        if context.support is not None:  # no statistic of its own is exact; `find_patterns` checks the rest
            return None
        plan = context.plan
        return find_contradiction(plan.schema, context.geography, plan.invariants, context.facts, self.exact)
