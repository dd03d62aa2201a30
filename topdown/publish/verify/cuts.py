"""Where the files of a release are cut: sections, derived from the tree of public/ alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.publish.verify.arithmetic import Whole
from topdown.publish.verify.tree import Tree

CUT_LEAVES = 4_096
SECTION_LEAVES = 131_072


@dataclass(frozen=True, eq=False)
class Cuts:
    """The sections of a release.

    Args:
        level: the one between whose nodes is cut; 0 where there is one section.
        first: for each level from there down, the first node of each section, and the number of nodes.
    """

    level: int
    first: tuple[Whole, ...]

    @property
    def n_sections(self) -> int:
        """Number of sections, 1 or more."""
        return len(self.first[0]) - 1

    def span(self, number: int, level: int) -> tuple[int, int]:
        """Return first and last + 1 of the nodes of a level in a section."""
        at = self.first[level - self.level]
        return int(at[number]), int(at[number + 1])

    def paths(self, path: str, level: int) -> list[str]:
        """Return the files of a table of a level; the microdata are a table of the leaves."""
        if self.n_sections == 1 or level < self.level:
            return [path]
        return [part(path, number) for number in range(self.n_sections)]


def part(path: str, number: int) -> str:
    """Return where part `number` of a table lies that would be one file in a release of one section."""
    return f"{path.removesuffix('.parquet')}/part-{number:03d}.parquet"


def cuts_of(tree: Tree) -> Cuts:
    """Cut a tree: below the highest level whose nodes have few leaves, wherever enough leaves are together."""
    sizes = tree.sums(np.ones(tree.n_leaves, dtype=np.int64))
    inner = range(max(len(sizes) - 1, 1))
    level = min((i for i in inner if sizes[i].max() <= CUT_LEAVES), default=inner[-1])
    ends, held = [0], 0
    for node, size in enumerate(sizes[level].tolist(), start=1):
        held += size
        if held >= SECTION_LEAVES or node == len(sizes[level]):
            ends.append(node)
            held = 0
    if len(ends) == 2:
        return Cuts(0, tuple(np.array([0, len(codes)]) for codes in tree.geocodes))
    first = [np.array(ends)]
    for parent in tree.parent[level + 1 :]:
        first.append(np.searchsorted(parent, first[-1]))
    return Cuts(level, tuple(first))
