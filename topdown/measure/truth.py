"""What is true of the records: counts of the leaves, of levels above them on demand, and statistics that stay exact."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from topdown.ledger.same_records import keyed_digest
from topdown.measure.added_up import AddedUp
from topdown.measure.confidential import Confidential
from topdown.measure.exact import exact_values
from topdown.measure.leaf_counts import LeafCounts
from topdown.model.contradiction import Contradiction, find_contradiction
from topdown.model.histogram import Histogram
from topdown.model.leaf_table import Counts
from topdown.plan.prepare import Context


def records_digest(leaves: LeafCounts, key: bytes) -> str:
    """Return the HMAC-SHA256 of records under a key, from their counts."""
    parts = np.ascontiguousarray(leaves.key, dtype="<i8"), np.ascontiguousarray(leaves.count, dtype="<i4")
    return keyed_digest(key, (part.data for part in parts))


class Truth:
    """The true counts of the leaves and the exact statistics; shows nothing of itself, and is sent nowhere."""

    stays_in_its_process = True  # `workers.guard` asks for it

    def __init__(self, context: Context, records: Confidential) -> None:
        self._context = context
        self.leaves = records.open_counts()
        self.exact = exact_values(context, self._level)

    def __reduce__(self) -> NoReturn:
        raise TypeError("true counts are not copied or pickled")

    def digest(self, key: bytes) -> str:
        """Return the HMAC-SHA256 of the records under a key; the order of the rows does not matter."""
        return records_digest(self.leaves, key)

    def counts(self, depth: int) -> Counts:
        """Return the counts of one level, which are added up where they are asked for."""
        tree = self._context.geography
        return self.leaves if depth == len(tree.levels) - 1 else AddedUp(tree, self.leaves, depth)

    def _level(self, depth: int) -> Histogram:
        return self.counts(depth).between(0, len(self._context.geography.levels[depth]))

    def contradiction(self) -> Contradiction | None:
        """Hold the exact statistics against each other and the public facts, before anything is charged."""
        context = self._context
        if context.support is not None:  # no statistic of its own is exact; `find_patterns` checks the rest
            return None
        plan = context.plan
        return find_contradiction(plan.schema, context.geography, plan.invariants, context.facts, self.exact)
