"""Read the listed answers of an extension's measurements, a node at a time."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.solve.groups import Ints
from topdown.solve.measurements import MeasurementFiles
from topdown.solve.row_groups import damaged


@final
class ListedAnswers(MeasurementFiles):
    """Noisy answers of one extension; every row stands where plan and base table put it."""

    def node(self, depth: int, node: int) -> list[tuple[Ints, NDArray[np.int32]]]:
        """Return (answers listed, noisy values) of every query of the level at a node that is measured."""
        support = self.context.support
        if support is None:
            raise ConfigError("this plan extends no release", code="C091")
        queries, level = self.context.queries(self.context.plan.levels[depth].name), self.level(depth)
        position = int(np.searchsorted(level.measured, node))
        k = int(np.searchsorted(level.first, position, side="right")) - 1
        group = self.group(depth, k)
        row = (position - int(level.first[k])) * len(queries)
        cells = support.cells(depth, node)
        out = []
        for q, query in enumerate(queries):
            listed = support.listed(query, cells)
            found = group.values[group.offsets[row + q] : group.offsets[row + q + 1]]
            if len(found) != len(listed):
                raise damaged(group.path)
            out.append((listed, found))
        return out
