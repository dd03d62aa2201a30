"""Where noisy answers come from: files of a release, or memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from topdown.solve.groups import Ints

Ranges = tuple[slice, ...]  # of nodes, one a level


class AnswerSource(Protocol):
    """What opens answers of parts of a tree; it holds no node itself, so a worker may keep it."""

    def opened(self, part: Any) -> NoisyAnswers:
        """Return the answers of a part, by the part's own numbers of nodes."""
        ...


class NoisyAnswers(Protocol):
    """What every query was measured to answer at every inhabited node."""

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.generic]]:
        """Return the inhabited nodes among first..last-1 and their answers, (n_nodes, answers_per_node)."""
        ...

    def source(self) -> AnswerSource:
        """Return what opens the answers of parts."""
        ...

    def part(self, ranges: Ranges) -> Any:
        """Return what the source opens: the answers of some nodes, or where they lie."""
        ...


@final
@dataclass(frozen=True)
class AsTheyAre:
    """Source of answers that come in memory."""

    def opened(self, part: HeldAnswers) -> HeldAnswers:
        """Return them."""
        return part


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

    def source(self) -> AsTheyAre:
        """Return what opens the answers of parts."""
        return AsTheyAre()

    def part(self, ranges: Ranges) -> HeldAnswers:
        """Return the answers of some nodes, by numbers of their own."""
        places = [
            (slice(*np.searchsorted(nodes, (here.start, here.stop))), here.start)
            for nodes, here in zip(self.nodes, ranges, strict=True)
        ]
        return HeldAnswers(
            tuple(nodes[at] - first for nodes, (at, first) in zip(self.nodes, places, strict=True)),
            tuple(values[at] for values, (at, _) in zip(self.values, places, strict=True)),
        )
