"""The tree of places: levels, nodes, leaves, and which node lies in which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topdown.errors import DataError
from topdown.model.codes import Codes, are_plain, codes_of

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Level:
    """One level of the tree.

    Args:
        name: as used in settings and invariants.
        codes: geocode of each node (`codes_of`).
        parent: index of each node's parent in the level above (all 0 at the root), nondecreasing, so that the
            children of a node are a contiguous run.
    """

    name: str
    codes: Sequence[str]
    parent: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class Geography:
    """Levels from the root (one node) to the leaves; nodes ordered by (parent, geocode)."""

    levels: tuple[Level, ...]

    @property
    def root(self) -> Level:
        """The level with the single top node."""
        return self.levels[0]

    @property
    def leaves(self) -> Level:
        """The lowest level."""
        return self.levels[-1]

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names from the root down."""
        return tuple(level.name for level in self.levels)

    @cached_property
    def child_pointers(self) -> tuple[NDArray[np.int64], ...]:
        """For each inner level, pointers p with children of node i at p[i]:p[i+1] of the next level."""
        return tuple(
            np.searchsorted(below.parent, np.arange(len(above) + 1))
            for above, below in zip(self.levels[:-1], self.levels[1:], strict=True)
        )

    def let_go(self) -> None:
        """Forget what is derived again when it is asked for."""
        for name in ("child_pointers", "ancestors_of_leaves"):
            vars(self).pop(name, None)

    @cached_property
    def ancestors_of_leaves(self) -> tuple[NDArray[np.int64], ...]:
        """For each level, the index of the node that contains each leaf."""
        up = [np.arange(len(self.leaves), dtype=np.int64)]
        for level in reversed(self.levels[1:]):
            up.append(level.parent[up[-1]])
        return tuple(reversed(up))

    def upward(self, values: NDArray[T], depth: int, to: int, join: np.ufunc = np.add) -> NDArray[T]:
        """Add what the nodes of a level hold up to a level at or above it, or join it by another function.

        Args:
            values: (n_nodes, ...), of level `depth`; of level `to` it is returned.
        """
        for first in reversed(self.child_pointers[to:depth]):
            values = join.reduceat(values, first[:-1], axis=0)
        return values

    def first_leaves(self, depth: int) -> NDArray[np.int64]:
        """Return the first leaf of every node of a level, and the number of all leaves: (n_nodes + 1,)."""
        first = np.arange(len(self.levels[depth]) + 1)
        for pointers in self.child_pointers[depth:]:
            first = pointers[first]
        return first

    def stretches(
        self, depth: int, n_leaves: int, first: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """Yield runs of nodes first..end-1 of a level, or of all: each ends where its leaves are `n_leaves` or more."""
        leaves = self.first_leaves(depth)
        end = len(leaves) - 1 if end is None else end
        while first < end:
            last = min(int(np.searchsorted(leaves, leaves[first] + n_leaves)), end)
            yield first, last
            first = last

    def at_every_level(self, leaves: NDArray[T], join: np.ufunc = np.add) -> tuple[NDArray[T], ...]:
        """Add what the leaves hold, (n_leaves, ...), up to every level, or join it; root first."""
        found = [leaves]
        for depth in range(len(self.levels) - 1, 0, -1):
            found.append(self.upward(found[-1], depth, depth - 1, join))
        return tuple(reversed(found))

    def index(self, name: str) -> int:
        """Return the position of the level called `name`; KeyError if there is none."""
        return {level.name: i for i, level in enumerate(self.levels)}[name]


def from_prefixes(
    names: tuple[str, ...], prefix_lengths: tuple[int, ...], leaves: Sequence[str]
) -> Geography:
    """Build a geography from geocodes in which each level is a prefix of the next.

    Args:
        names: level names from the root down.
        prefix_lengths: characters of the geocode that name a node of each level, increasing; the last is the
            full length. 0 gives a single root with the empty code, shown as "0", or "root" if that names a place.
        leaves: geocode of every leaf, no code twice.

    Raises:
        DataError: a geocode has another length, appears twice, or the first level has several nodes.
    """
    coded = codes_of(leaves)
    if isinstance(coded, Codes) and are_plain(coded, prefix_lengths[-1]):
        levels = _by_bytes(prefix_lengths, np.sort(coded.coded))
        if levels is not None:
            return _named(names, prefix_lengths, levels)
    return one_by_one(names, prefix_lengths, leaves)


_Found = list[tuple[Sequence[str], NDArray[np.int64]]]  # codes and parents, root first


def _by_bytes(prefix_lengths: tuple[int, ...], leaves: NDArray[np.bytes_]) -> _Found | None:
    """Return the nodes of sorted codes of ASCII; None where they have errors."""
    levels: _Found = []
    number = np.zeros(len(leaves), dtype=np.int64)  # of the node of the level above that holds each leaf
    for n in prefix_lengths:
        here = leaves.astype(f"S{n}") if n else np.full(len(leaves), b"0")
        new = here[1:] != here[:-1]
        first = np.concatenate(([0], 1 + np.flatnonzero(new)))
        levels.append((Codes(here[first]), number[first]))
        number[1:] = np.cumsum(new)
    return levels if len(levels[0][0]) == 1 and len(levels[-1][0]) == len(leaves) else None


def _named(names: tuple[str, ...], prefix_lengths: tuple[int, ...], levels: _Found) -> Geography:
    """Name the levels, and a root that no geocode names."""
    if prefix_lengths[0] == 0:
        names_of_root = chain(["0"], ("root" + "-" * n for n in count()))
        root = next(code for code in names_of_root if not any(code in codes for codes, _ in levels[1:]))
        levels[0] = codes_of((root,)), levels[0][1]
    return Geography(
        tuple(Level(name, codes, parent) for name, (codes, parent) in zip(names, levels, strict=False))
    )


def one_by_one(names: tuple[str, ...], prefix_lengths: tuple[int, ...], leaves: Sequence[str]) -> Geography:
    """Do what `from_prefixes` does, for codes of any letters, and name what is wrong."""
    length = prefix_lengths[-1]
    wrong = next((code for code in leaves if len(code) != length), None)
    if wrong is not None:
        raise DataError(
            f"geocode {wrong!r} has {len(wrong)} characters; level {names[-1]!r} needs {length}",
            code="D011",
            fix="keep leading zeros (read geocodes as text) or correct geography.prefix_lengths",
        )
    codes = [sorted({code[:n] for code in leaves}) for n in prefix_lengths]
    if len(codes[-1]) != len(leaves):
        twice = sorted(leaves)
        repeated = next(a for a, b in pairwise(twice) if a == b)
        raise DataError(
            f"leaf {repeated!r} is listed twice", code="D012", fix="keep one row a leaf", node=repeated
        )
    if len(codes[0]) != 1:
        raise DataError(
            f"level {names[0]!r} has {len(codes[0])} nodes; the first level must have exactly one",
            code="D013",
            fix="add a root level with prefix length 0 in front, or give one root's leaves only",
        )
    levels: _Found = [(codes_of(codes[0]), np.zeros(1, dtype=np.int64))]
    for n_up, up, here in zip(prefix_lengths, codes, codes[1:], strict=False):
        position = {code: i for i, code in enumerate(up)}
        parent = np.array([position[code[:n_up]] for code in here], dtype=np.int64)
        levels.append((codes_of(here), parent))
    return _named(names, prefix_lengths, levels)


def from_parents(rows: list[tuple[str, str, str]]) -> Geography:
    """Build a geography from (geocode, parent, level) rows; the root's parent is empty.

    Levels are ordered by depth; every leaf must lie at the same depth and level names must follow depth.

    Raises:
        DataError: repeated geocode, unknown parent, a cycle, several roots, or a level name at two depths.
    """
    parent_of = {code: parent for code, parent, _ in rows}
    level_of = {code: level for code, _, level in rows}
    if len(parent_of) != len(rows):
        codes = sorted(code for code, _, _ in rows)
        repeated = next(a for a, b in pairwise(codes) if a == b)
        raise DataError(f"geocode {repeated!r} is listed twice", code="D012", fix="keep one row a node")
    roots = [code for code, parent in parent_of.items() if parent == ""]
    if len(roots) != 1:
        raise DataError(
            f"the geography table has {len(roots)} rows without a parent",
            code="D013",
            fix="leave the parent empty for exactly one node, the root",
        )
    children: dict[str, list[str]] = {}
    for code, parent in parent_of.items():
        if parent and parent not in parent_of:
            raise DataError(
                f"node {code!r} has the unknown parent {parent!r}", code="D014", fix="add that node"
            )
        if parent:
            children.setdefault(parent, []).append(code)
    levels = [Level(level_of[roots[0]], (roots[0],), np.zeros(1, dtype=np.int64))]
    seen = 1
    while True:
        above = levels[-1]
        pairs = [(i, code) for i, up in enumerate(above.codes) for code in sorted(children.get(up, []))]
        if not pairs:
            break
        names = {level_of[code] for _, code in pairs}
        if len(names) != 1 or names & {level.name for level in levels}:
            raise DataError(
                f"nodes at one depth carry the levels {sorted(names)}",
                code="D015",
                fix="one level name a depth",
            )
        childless = [up for up in above.codes if up not in children]
        if childless:
            raise DataError(
                f"node {childless[0]!r} of level {above.name!r} has no children while others have",
                code="D016",
                fix="every branch must reach the lowest level",
                node=childless[0],
            )
        parents = np.array([i for i, _ in pairs], dtype=np.int64)
        levels.append(Level(names.pop(), codes_of([code for _, code in pairs]), parents))
        seen += len(pairs)
    if seen != len(rows):
        raise DataError(
            "some nodes are not below the root (a node is its own ancestor)",
            code="D017",
            fix="check the parent column for a cycle",
        )
    return Geography(tuple(levels))
