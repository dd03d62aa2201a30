"""A part of a tree as a solver of its own: the same levels, fewer nodes, everything asked of all leaves as it was.

A part is a run of nodes of one level with everything below them and the nodes above them. Its nodes are numbered from
the first on, and its results are those of the whole tree, to the last byte: what depends on leaves elsewhere (which
kinds of cells there are, whether limits are needed, chains, verdicts) comes with the part and is never made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from topdown.model.geography import Geography, Level
from topdown.model.public import PublicFacts
from topdown.solve.answers import NoisyAnswers
from topdown.solve.groups import Ints
from topdown.solve.shape import Ranges
from topdown.solve.statistics import Objective, Statistics


def ranges_of(geography: Geography, depth: int, first: int, last: int) -> Ranges:
    """Return the nodes of every level that lie above or below nodes first..last-1 of a level, or are these."""
    out = [slice(first, last)]
    for pointers in geography.child_pointers[depth:]:
        out.append(slice(int(pointers[out[-1].start]), int(pointers[out[-1].stop])))
    for level in reversed(geography.levels[1 : depth + 1]):
        up = level.parent
        out.insert(0, slice(int(up[out[0].start]), int(up[out[0].stop - 1]) + 1))
    return tuple(out)


def geography_part(geography: Geography, ranges: Ranges) -> Geography:
    """Return the tree of some nodes."""
    levels = []
    for level, here, above in zip(geography.levels, ranges, (slice(0, 1), *ranges), strict=False):
        levels.append(Level(level.name, level.codes[here], level.parent[here] - above.start))
    return Geography(tuple(levels))


def facts_part(facts: PublicFacts, ranges: Ranges) -> PublicFacts:
    """Return the facts of some leaves."""
    return PublicFacts({name: column[ranges[-1]] for name, column in facts.columns.items()})


@final
@dataclass(frozen=True, eq=False)
class StatisticsPart:
    """What the splits of a part are fitted to: that of the whole tree, by the part's own numbers of nodes.

    Args:
        whole: statistics of the whole tree.
        first: of the part's nodes in each level.
    """

    whole: Statistics
    first: tuple[int, ...]

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes among first..last-1 of a level, and the objective of a split into them."""
        first = self.first[level_index]
        nodes, objective = self.whole.split(level_index, first_node + first, last_node + first)
        return np.asarray(nodes - first, dtype=np.int64), objective

    def anew(self, answers: NoisyAnswers) -> StatisticsPart:
        """Return those of other answers."""
        return replace(self, whole=self.whole.anew(answers))

    def document(self) -> dict[str, Any] | None:
        """Return what solve.json says of the whole."""
        return self.whole.document()
