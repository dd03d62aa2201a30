"""Sections: runs of areas whose records and tables are files of their own, in releases too large for one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from topdown.model.geography import Geography

CUT_LEAVES = 4_096  # of the largest node of the cut, at most
SECTION_LEAVES = 131_072  # a section is closed where it has so many leaves or more


@dataclass(frozen=True)
class Sections:
    """How the files of a release are cut; it follows from the tree alone (docs/format.md).

    Args:
        cut: index of the level between whose nodes is cut; 0 where there is one section.
        first: for each level from the cut down, its first node in each section, and its number of nodes.
    """

    cut: int
    first: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.first[0]) - 1

    def nodes(self, number: int, depth: int) -> slice:
        """Return the nodes of a level, at or below the cut, that are in a section."""
        return slice(*self.first[depth - self.cut][number : number + 2])

    def paths(self, path: str, depth: int) -> list[str]:
        """Return where a file of a level lies: its path, or from the cut down one part a section.

        Args:
            path: with its ending, as a release of one section has it.
        """
        if len(self) == 1 or depth < self.cut:
            return [path]
        return [part_path(path, number) for number in range(len(self))]

    def files_at(self, path: Path, depth: int) -> list[Path]:
        """Return the files of a table of a level, there or not: one, or, where that is not there, what `paths` says."""
        return [path] if path.is_file() else [path.parent / name for name in self.paths(path.name, depth)]


def sections_of(geography: Geography) -> Sections:
    """Return the sections of a tree.

    The cut is the highest level above the leaves whose nodes all have `CUT_LEAVES` leaves or fewer, or the level above
    the leaves if there is none. A section is a run of its nodes that ends where it has `SECTION_LEAVES` leaves or more.
    """
    last = len(geography.levels) - 1
    small = (d for d in range(last) if int(np.diff(geography.first_leaves(d)).max()) <= CUT_LEAVES)
    cut = next(small, max(last - 1, 0))
    ends = [end for _, end in geography.stretches(cut, SECTION_LEAVES)]
    if len(ends) == 1:
        return Sections(0, tuple((0, len(level)) for level in geography.levels))
    first = [np.array([0, *ends])]
    for pointers in geography.child_pointers[cut:]:
        first.append(pointers[first[-1]])
    return Sections(cut, tuple(tuple(at.tolist()) for at in first))


def part_path(path: str, number: int) -> str:
    """Return the path of a part: name.ext is the folder name/ with part-000.ext, part-001.ext and so on."""
    stem, _, ending = path.rpartition(".")
    return f"{stem}/part-{number:03d}.{ending}"


def files_at(path: Path) -> list[Path]:
    """Return the file of a release at a path, or its parts in order as far as they go; the path if there is neither."""
    if path.is_file():
        return [path]
    found: list[Path] = []
    while (part := path.parent / part_path(path.name, len(found))).is_file():
        found.append(part)
    return found or [path]
