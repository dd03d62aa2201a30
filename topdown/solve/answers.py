"""Where noisy answers come from: files of a release, or memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from topdown.solve.groups import Ints


class NoisyAnswers(Protocol):
    """What every query was measured to answer at every inhabited node."""

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.generic]]:
        """Return the inhabited nodes among first..last-1 and their answers, (n_nodes, answers_per_node)."""
        ...


@final
@dataclass(frozen=True, eq=False)
class HeldAnswers:
    """NoisyAnswers that lie in memory.

    Args:
        nodes: per level, the inhabited nodes, int64, increasing.
        values: per level, int32 (inhabited nodes, answers_per_node), queries of the plan side by side.
    """

    nodes: tuple[Ints, ...]
    values: tuple[NDArray[np.int32], ...]

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.int32]]:
        """Return the inhabited nodes among first..last-1 and their answers."""
        low, high = np.searchsorted(self.nodes[level_index], (first_node, last_node))
        return self.nodes[level_index][low:high], self.values[level_index][low:high]
