"""The tree of places: levels, nodes, leaves, and which node lies in which.

Geocodes of a level are one block of bytes: a nation's blocks would be 500 MB of separate texts. A tree is made from
prefixes of geocodes, from rows of geocode and parent, from columns of the table of leaves, or from the listing that a
release holds, without an object for each node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, pairwise
from typing import Any, TypeVar, cast, final, overload

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.errors import ConfigError, DataError
from topdown.notebook import card

MOST_PADDING = 4  # times the bytes of all codes that equal widths may take


@final
class Codes(Sequence[str]):
    """A frozen sequence of texts, each of as many bytes as the longest; made by `codes_of`.

    Args:
        coded: UTF-8 without zero bytes, shape (n,), kind S. Its order is that of the texts.
    """

    __slots__ = ("coded",)

    def __init__(self, coded: NDArray[np.bytes_]) -> None:
        self.coded = coded.view()
        self.coded.flags.writeable = False

    def __len__(self) -> int:
        return len(self.coded)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Codes: ...
    def __getitem__(self, at: int | slice) -> str | Codes:
        if isinstance(at, slice):
            return Codes(self.coded[at])
        return bytes(self.coded[at]).decode()

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), 4_096):
            for code in self.coded[first : first + 4_096].tolist():
                yield code.decode()

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and bool(len(self._places(code)))

    def index(self, code: str, start: int = 0, stop: int | None = None) -> int:
        """Return where a code first stands between `start` and `stop`; ValueError if it does not."""
        inside = range(len(self))[start:stop]
        found = [int(at) for at in self._places(code) if at in inside]
        if not found:
            raise ValueError(f"{code!r} is not there")
        return found[0]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Codes):
            return np.array_equal(self.coded, other.coded)
        if isinstance(other, tuple | list):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _places(self, code: str) -> NDArray[np.intp]:
        wanted = code.encode(errors="replace")
        if not wanted or b"\0" in wanted or len(wanted) > self.coded.dtype.itemsize:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(self.coded == wanted)


def codes_of(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as `Codes`; as a tuple where one is empty, has a zero byte, or is far longer than the others."""
    if isinstance(texts, Codes):
        return texts
    try:
        coded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        return tuple(texts)
    sizes = [len(code) for code in coded]
    most = max(sizes, default=1)
    if (
        not all(sizes)
        or most * len(sizes) > MOST_PADDING * sum(sizes) + 4_096
        or any(b"\0" in c for c in coded)
    ):
        return tuple(texts)
    return Codes(np.array(coded, dtype=f"S{most}"))


def are_ascii(codes: Codes, n_bytes: int) -> bool:
    """Tell whether each code is ASCII and has so many bytes."""
    if codes.coded.dtype.itemsize != n_bytes:
        return False
    each = np.ascontiguousarray(codes.coded).view(np.uint8)
    return bool((each > 0).all() and (each < 128).all())


T = TypeVar("T", bound=np.generic)
Value = TypeVar("Value")


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
    parent: Ints

    def __len__(self) -> int:
        return len(self.codes)


@final
class DerivedValues:
    """What follows from a frozen value and takes much room: made when asked for, forgotten when a stage says so."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def get(self, name: str, make: Callable[[], Value]) -> Value:
        """Return the value of a name; it is made if it is not there, the first time or after `release`."""
        if name not in self._made:
            self._made[name] = make()
        return cast("Value", self._made[name])

    def release(self) -> None:
        """Forget all values."""
        self._made.clear()


@dataclass(frozen=True, eq=False, repr=False)
class Geography:
    """Levels from the root (one node) to the leaves; nodes ordered by (parent, geocode)."""

    levels: tuple[Level, ...]
    derived: DerivedValues = field(default_factory=DerivedValues, init=False, repr=False)

    @staticmethod
    def from_table(
        table: Mapping[str, Iterable[object]], levels: Sequence[str], columns: Mapping[str, str] | None = None
    ) -> Geography:
        """Return the tree of a public table with a row a leaf and a column of codes a level.

        Args:
            table: columns by name: a data frame, or a mapping. Codes are text, or whole numbers written in digits.
            levels: root first, leaves last; the root may lack a column and is then one area.
            columns: column by level, where it is not called like the level; "a + b" joins two codes.

        Raises:
            ConfigError: C338 a level has no column.
            DataError: D012, D013, D019 a leaf twice, several roots, an area in two others.

        >>> from topdown import Geography
        >>> Geography.from_table({"region": ["N", "N"], "town": ["1", "2"]}, ["land", "region", "town"])
        Geography(land 1, region 1, town 2)
        """
        named = {level: (columns or {}).get(level, level) for level in levels}
        held: dict[str, list[str]] = {}
        for depth, (level, column) in enumerate(named.items()):
            parts = [part.strip() for part in column.split("+")]
            if not depth and column not in table:
                continue
            missing = [part for part in parts if part not in table]
            if missing:
                raise ConfigError(
                    f"the table has no column {missing[0]!r} for level {level!r}",
                    code="C338",
                    fix=f"name it: columns={{{level!r}: COLUMN}}",
                )
            held[level] = joined_codes([[str(code) for code in table[part]] for part in parts])
        leaves = held.pop(levels[-1])
        twice = sorted(code for code, n in Counter(leaves).items() if n > 1)
        if twice:
            raise DataError(f"leaf {twice[0]!r} is there twice", code="D012", fix="keep one row a leaf")
        return from_columns(tuple(levels), list(held.values()), leaves)

    def __repr__(self) -> str:
        return f"Geography({', '.join(f'{level.name} {len(level):,}' for level in self.levels)})"

    def _repr_html_(self) -> str:
        rows = [(level.name, f"{len(level):,}", ", ".join(level.codes[:3])) for level in self.levels]
        return card("Geography", rows, head=("level", "areas", "first codes"))

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

    @property
    def child_pointers(self) -> tuple[Ints, ...]:
        """For each inner level, pointers p with children of node i at p[i]:p[i+1] of the next level."""
        return self.derived.get("child_pointers", self._make_child_pointers)

    def _make_child_pointers(self) -> tuple[Ints, ...]:
        return tuple(
            np.searchsorted(below.parent, np.arange(len(above) + 1))
            for above, below in zip(self.levels[:-1], self.levels[1:], strict=True)
        )

    @property
    def ancestors_of_leaves(self) -> tuple[Ints, ...]:
        """For each level, the index of the node that contains each leaf."""
        return self.derived.get("ancestors_of_leaves", self._make_ancestors)

    def _make_ancestors(self) -> tuple[Ints, ...]:
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

    def first_leaves(self, depth: int) -> Ints:
        """Return the first leaf of every node of a level, and the number of all leaves: (n_nodes + 1,)."""
        first = np.arange(len(self.levels[depth]) + 1)
        for pointers in self.child_pointers[depth:]:
            first = pointers[first]
        return first

    def ranges(self, depth: int, first: int, last: int) -> tuple[slice, ...]:
        """Return the nodes of every level that lie above or below nodes first..last-1 of a level, or are these."""
        out = [slice(first, last)]
        for pointers in self.child_pointers[depth:]:
            out.append(slice(int(pointers[out[-1].start]), int(pointers[out[-1].stop])))
        for level in reversed(self.levels[1 : depth + 1]):
            up = level.parent
            out.insert(0, slice(int(up[out[0].start]), int(up[out[0].stop - 1]) + 1))
        return tuple(out)

    def part(self, ranges: Sequence[slice]) -> Geography:
        """Return the tree of some nodes, as from `ranges`."""
        levels = []
        for level, here, above in zip(self.levels, ranges, (slice(0, 1), *ranges), strict=False):
            levels.append(Level(level.name, level.codes[here], level.parent[here] - above.start))
        return Geography(tuple(levels))

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
    if isinstance(coded, Codes) and are_ascii(coded, prefix_lengths[-1]):
        levels = _nodes_from_bytes(prefix_lengths, np.sort(coded.coded))
        if levels is not None:
            return _name_levels(names, prefix_lengths, levels)
    return from_any_prefixes(names, prefix_lengths, leaves)


_Levels = list[tuple[Sequence[str], Ints]]  # codes and parents, root first


def _nodes_from_bytes(prefix_lengths: tuple[int, ...], leaves: NDArray[np.bytes_]) -> _Levels | None:
    """Return the nodes of sorted codes of ASCII; None where they have errors."""
    levels: _Levels = []
    number = np.zeros(len(leaves), dtype=np.int64)  # of the node of the level above that holds each leaf
    for n in prefix_lengths:
        here = leaves.astype(f"S{n}") if n else np.full(len(leaves), b"0")
        new = here[1:] != here[:-1]
        first = np.concatenate(([0], 1 + np.flatnonzero(new)))
        levels.append((Codes(here[first]), number[first]))
        number[1:] = np.cumsum(new)
    return levels if len(levels[0][0]) == 1 and len(levels[-1][0]) == len(leaves) else None


def _name_levels(names: tuple[str, ...], prefix_lengths: tuple[int, ...], levels: _Levels) -> Geography:
    """Name the levels, and a root that no geocode names."""
    if prefix_lengths[0] == 0:
        names_of_root = chain(["0"], ("root" + "-" * n for n in count()))
        root = next(code for code in names_of_root if not any(code in codes for codes, _ in levels[1:]))
        levels[0] = codes_of((root,)), levels[0][1]
    return Geography(
        tuple(Level(name, codes, parent) for name, (codes, parent) in zip(names, levels, strict=False))
    )


def from_any_prefixes(
    names: tuple[str, ...], prefix_lengths: tuple[int, ...], leaves: Sequence[str]
) -> Geography:
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
    levels: _Levels = [(codes_of(codes[0]), np.zeros(1, dtype=np.int64))]
    for n_up, up, here in zip(prefix_lengths, codes, codes[1:], strict=False):
        position = {code: i for i, code in enumerate(up)}
        parent = np.array([position[code[:n_up]] for code in here], dtype=np.int64)
        levels.append((codes_of(here), parent))
    return _name_levels(names, prefix_lengths, levels)


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
            text = f"nodes at one depth carry the levels {sorted(names)}"
            raise DataError(text, code="D015", fix="one level name a depth")
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


CODE_SEPARATOR = "-"  # between codes that name an area together, and after the level's name


def from_columns(
    names: tuple[str, ...], columns: Sequence[Sequence[str]], leaves: Sequence[str]
) -> Geography:
    """Build a geography from the codes of the areas that each leaf lies in; codes have any length.

    Where a code is used at two levels, the areas of the higher one are called by level and code, such as "region-12".

    Args:
        names: level names from the root down.
        columns: codes a level, one a leaf: of every level but the leaves', or of those between root and leaves; the
            root is then called by its level.
        leaves: geocode of every leaf, no code twice.

    Raises:
        DataError: an area lies in two others (D019), the first level has several areas (D013), two areas of the same
            code are left (D012).
    """
    above = [list(codes) for codes in columns]
    if len(above) == len(names) - 2:
        above.insert(0, [names[0]] * len(leaves))
    if len(set(above[0])) > 1:
        raise DataError(
            f"level {names[0]!r} has {len(set(above[0]))} areas; the first level must have exactly one",
            code="D013",
            fix=f"add a level in front of {names[0]!r}, such as the whole country, and no column for it",
        )
    below = set(leaves)
    for depth in range(len(above) - 1, -1, -1):
        if below & set(above[depth]):
            above[depth] = [f"{names[depth]}{CODE_SEPARATOR}{code}" for code in above[depth]]
        below |= set(above[depth])
    rows = [(above[0][0], "", names[0])]
    for name, ups, codes in zip(names[1:], above, [*above[1:], list(leaves)], strict=True):
        parent: dict[str, str] = {}
        for up, code in zip(ups, codes, strict=True):
            if parent.setdefault(code, up) != up:
                raise DataError(
                    f"{name} {code!r} lies in {parent[code]!r} and in {up!r}",
                    code="D019",
                    node=code,
                    fix=f"correct the row; if codes of {name} begin anew in each area above, join the columns: "
                    f'geography.columns = [..., "COLUMN_ABOVE + COLUMN"]',
                )
        rows += [(code, up, name) for code, up in parent.items()]
    return from_parents(rows)


def joined_codes(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return codes that name an area together, one a leaf: "1" and "7" give "1-7"."""
    return [CODE_SEPARATOR.join(codes) for codes in zip(*parts, strict=True)]


def from_release_listing(
    names: tuple[str, ...], level: NDArray[np.integer[Any]], codes: Codes, parents: Codes
) -> Geography | None:
    """Return the tree of nodes listed level by level, each in the order of (parent, geocode).

    Args:
        names: of the levels, distinct, root first.
        level: of each node, integers (n,). codes: of each node. parents: of each node but the first, which is the root.

    Returns:
        the tree that `from_parents` would make; None if the list has another order, or errors that it would name.
    """
    ends = np.searchsorted(level, np.arange(len(names) + 1))
    in_order = np.repeat(np.arange(len(names), dtype=level.dtype), np.diff(ends))
    if not np.array_equal(in_order, level) or ends[1] != 1:
        return None
    every = np.sort(codes.coded)
    if (every[1:] == every[:-1]).any():
        return None
    del every, in_order
    levels = [Level(names[0], codes[:1], np.zeros(1, dtype=np.int64))]
    for name, first, last in zip(names[1:], ends[1:-1].tolist(), ends[2:].tolist(), strict=True):
        here, up = codes.coded[first:last], parents.coded[first - 1 : last - 1]
        new = up[1:] != up[:-1]
        begins = np.concatenate(([0], 1 + np.flatnonzero(new)))
        if not (new | (here[1:] > here[:-1])).all() or Codes(up[begins]) != levels[-1].codes:
            return None
        parent = np.concatenate(([0], np.cumsum(new))).astype(np.int64)
        levels.append(Level(name, codes[first:last], parent))
    return Geography(tuple(levels))
