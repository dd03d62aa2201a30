"""Read public/ anew: the tree of areas, the facts about leaves, what they leave open, and the sections of files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.verify.exact_arithmetic import narrow
from topdown.verify.plan_reader import PlanFile
from topdown.verify.query_labels import Query
from topdown.verify.rule_kinds import CountBound
from topdown.verify.strict_parquet import TEXT, WHOLE, ParquetTable, TableForm, int64_array, label_positions
from topdown.verify.strict_reader import unreadable

_AT_ONCE = 1 << 16  # geocodes that are texts of Python at a time
GEOGRAPHY, LEAVES = "public/geography.parquet", "public/leaves.parquet"


@final
class Facts(Mapping[str, Ints]):
    """Public columns of leaves; one that is asked for is a new int64 array.

    Args:
        kept: columns of any integer type, (n_leaves,).
    """

    def __init__(self, kept: Mapping[str, NDArray[Any]]) -> None:
        self._kept = dict(kept)

    def __getitem__(self, name: str) -> Ints:
        return self._kept[name].astype(np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def at(self, leaves: slice) -> Facts:
        """Return the facts of some leaves."""
        return Facts({name: column[leaves] for name, column in self._kept.items()})


@dataclass(frozen=True, eq=False)
class Tree:
    """Levels from the root down and the public facts of the leaves.

    Args:
        names: level names.
        geocodes: per level, text array in file order.
        parent: per level, index of each node's parent in the level above.
        facts: public columns of the leaves, nonnegative.

    """

    names: tuple[str, ...]
    geocodes: tuple[pa.Array, ...]
    parent: tuple[Ints, ...]
    facts: Facts

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.geocodes[-1])

    @cached_property
    def ancestors(self) -> tuple[Ints, ...]:
        """Per level, the node each leaf lies in; of a nation a third of a gigabyte, so ask sections."""
        up = [np.arange(self.n_leaves, dtype=np.int64)]
        for parent in reversed(self.parent[1:]):
            up.append(parent[up[-1]])
        return tuple(reversed(up))

    def sums(self, leaves: Ints) -> tuple[Ints, ...]:
        """Add what the leaves hold, (n_leaves,), up to every level, root first."""
        out = [leaves]
        for geocodes, parent in zip(self.geocodes[-2::-1], self.parent[:0:-1], strict=True):
            above = np.zeros(len(geocodes), dtype=np.int64)
            np.add.at(above, parent, out[-1])
            out.append(above)
        return tuple(reversed(out))

    def code(self, level: int, node: int) -> str:
        """Return the geocode of a node."""
        return str(self.geocodes[level][node].as_py())

    def _hash_of_tree(self) -> hashlib._Hash:
        digest = hashlib.sha256()
        for name, geocodes, parent in zip(self.names, self.geocodes, self.parent, strict=True):
            digest.update(f"level {name} {len(geocodes)}\n".encode())
            for first in range(0, len(geocodes), _AT_ONCE):
                texts = geocodes.slice(first, _AT_ONCE).to_pylist()
                digest.update(("\n" * (first > 0) + "\n".join(texts)).encode())
            digest.update(parent.astype("<i8").tobytes())
        return digest

    @cached_property
    def geography_sha256(self) -> str:
        """Hash of the tree alone, as the plan states it."""
        return self._hash_of_tree().hexdigest()

    @cached_property
    def sha256(self) -> str:
        """Hash of the tree and the facts, as the plan states it."""
        digest = self._hash_of_tree()
        for name in sorted(self.facts):
            digest.update(f"\ncolumn {name}\n".encode())
            digest.update(self.facts[name].astype("<i8").tobytes())
        return digest.hexdigest()


def load_tree(root: Path, plan: PlanFile) -> Tree:
    """Read the public tables; UnreadableError (V015) if they are damaged or no tree in the right order."""
    levels = plan.doc.levels
    n_nodes = sum(level.n_nodes for level in levels)
    columns = {"level": TEXT, "geocode": TEXT, "parent": TEXT}
    table = ParquetTable(root, GEOGRAPHY, "V015", TableForm("topdown.geography", columns), n_nodes).read()
    names = tuple(level.name for level in levels)
    at = label_positions(table.column("level"), pa.array(names, TEXT))
    sizes = [level.n_nodes for level in levels]
    if min(sizes) < 1 or sizes[0] != 1 or not np.array_equal(at, np.repeat(np.arange(len(sizes)), sizes)):
        raise unreadable(
            "V015", GEOGRAPHY, "does not list the levels and numbers of nodes of the plan, root first"
        )
    geocodes, parents = [], []
    start = 0
    for i, size in enumerate(sizes):
        here = table.slice(start, size)
        start += size
        geocodes.append(here.column("geocode").cast(TEXT).combine_chunks())
        above = geocodes[i - 1] if i else pa.array([""], TEXT)
        parents.append(label_positions(here.column("parent"), above))
        _check_level(geocodes[i], parents[i], len(above))
    del table, here
    facts = load_facts(root, plan, geocodes[-1])
    pa.default_memory_pool().release_unused()  # Arrow keeps more than the tree takes otherwise
    return Tree(names, tuple(geocodes), tuple(parents), facts)


def _check_level(geocodes: pa.Array, parent: Ints, n_above: int) -> None:
    if (parent < 0).any():
        raise unreadable("V015", GEOGRAPHY, "has a node whose parent is not in the level above")
    if not (np.bincount(parent, minlength=n_above) > 0).all():
        raise unreadable("V015", GEOGRAPHY, "has a node without children")
    step = np.diff(parent)
    larger = np.asarray(
        pc.greater(geocodes[1:], geocodes[:-1])
    )  # bytes of UTF-8 are in order of their letters
    once = larger.all() or pc.count_distinct(geocodes).as_py() == len(geocodes)
    if not once or not ((step > 0) | ((step == 0) & larger)).all():
        raise unreadable("V015", GEOGRAPHY, "is not in order of (parent, geocode), each geocode once")


def load_facts(root: Path, plan: PlanFile, leaves: pa.Array, path: str = LEAVES, code: str = "V015") -> Facts:
    """Read the public columns that a plan's rules name; UnreadableError if they are damaged or of other leaves."""
    names = plan.rules.columns
    columns = {"geocode": TEXT} | dict.fromkeys(names, WHOLE)
    table = ParquetTable(root, path, code, TableForm("topdown.leaves", columns), len(leaves)).read()
    named, first = table.column("geocode"), 0
    same = table.num_rows == len(leaves)
    for chunk in named.chunks:
        same = same and chunk.cast(TEXT).equals(leaves.slice(first, len(chunk)))
        first += len(chunk)
    if not same:
        raise unreadable(code, path, "does not list the leaves of the geography in order")
    facts: dict[str, NDArray[Any]] = {}
    for name in names:
        values = int64_array(table.column(name))
        if len(values) and (values.min() < 0 or values.max() >= 2**31):
            raise unreadable(code, path, f"has a value outside 0..2^31-1 in {name!r}")
        facts[name] = narrow(values)
    return Facts(facts)


def inhabited_leaves(tree: Tree, plan: PlanFile) -> NDArray[np.bool_]:
    """Mark the leaves where at least one cell may hold records."""
    schema, rules, free = plan.schema, plan.rules.closing_somewhere, plan.rules.open_cells(plan.schema)
    if not rules:
        return np.full(tree.n_leaves, bool(free.any()))
    closing = np.array([rule.closed(tree.facts, tree.n_leaves) for rule in rules], dtype=bool)
    cells = np.array([schema.select(rule.cells) for rule in rules], dtype=bool)
    # Leaves share few patterns of closed constraints; each pattern, a text of bytes, is looked at once, over all cells.
    packed = np.ascontiguousarray(np.packbits(closing, axis=0).T)
    texts = packed.view(f"S{packed.shape[1]}").reshape(-1)
    _, first, which = np.unique(texts, return_index=True, return_inverse=True)
    some: NDArray[np.bool_] = np.array(
        [bool((free & ~cells[closing[:, leaf]].any(axis=0)).any()) for leaf in first]
    )
    return some[which]


def inhabited(tree: Tree, plan: PlanFile) -> tuple[NDArray[np.bool_], ...]:
    """Mark, per level, the nodes that may hold records: those with an inhabited leaf."""
    out = [inhabited_leaves(tree, plan)]
    for geocodes, parent in zip(tree.geocodes[-2::-1], tree.parent[:0:-1], strict=True):
        above = np.zeros(len(geocodes), dtype=bool)
        above[parent[out[-1]]] = True
        out.append(above)
    return tuple(reversed(out))


def bounds_by_level(tree: Tree, rule: CountBound) -> tuple[Ints, ...] | None:
    """Return, per level, the sum of a bound over each node's leaves; None on overflow."""
    numbers = rule.numbers(tree.facts)
    if int(numbers.max(initial=0)) > 2**61 // (len(numbers) + 1):
        return None
    return tree.sums(numbers)


CUT_LEAVES = 4_096
SECTION_LEAVES = 131_072


@dataclass(frozen=True, eq=False)
class FileSections:
    """The sections of a release.

    Args:
        level: the one between whose nodes is cut; 0 where there is one section.
        first: for each level from there down, the first node of each section, and the number of nodes.
    """

    level: int
    first: tuple[Ints, ...]

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
        return [part_file(path, number) for number in range(self.n_sections)]


def part_file(path: str, number: int) -> str:
    """Return where part `number` of a table lies that would be one file in a release of one section."""
    return f"{path.removesuffix('.parquet')}/part-{number:03d}.parquet"


def file_sections(tree: Tree) -> FileSections:
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
        return FileSections(0, tuple(np.array([0, len(codes)]) for codes in tree.geocodes))
    first = [np.array(ends)]
    for parent in tree.parent[level + 1 :]:
        first.append(np.searchsorted(parent, first[-1]))
    return FileSections(level, tuple(first))


MOST_ROWS = 1_000_000  # of a table with intervals that lists zeros


@dataclass(frozen=True, eq=False)
class PossibleAnswers:
    """Leaves by what rules close there.

    Args:
        patterns: bool (n_patterns, n_cells), cells that may hold records.
        kinds: per level, bool (n_kinds, n_patterns), every set of patterns that some node's leaves have.
        kind: per level, int64 (n_nodes,), which of these sets each node has.
    """

    patterns: NDArray[np.bool_]
    kinds: tuple[NDArray[np.bool_], ...]
    kind: tuple[Ints, ...]
    _listed: dict[tuple[str, int], Literal["all", "nonzero"]] = field(default_factory=dict)

    def listed(self, query: Query, level: int) -> Literal["all", "nonzero"]:
        """Return whether a table lists every possible answer."""
        place = (query.name, level)
        if place not in self._listed:
            n_rows = int(self._answers(query, level).sum(axis=1)[self.kind[level]].sum())
            self._listed[place] = "all" if n_rows <= MOST_ROWS else "nonzero"
        return self._listed[place]

    def keys(self, query: Query, level: int) -> Ints:
        """Return node * n_answers + answer of every row that a table of all possible answers has."""
        if not query.factors:  # every area has a total
            return np.arange(len(self.kind[level]), dtype=np.int64)
        node, answer = np.nonzero(self._answers(query, level)[self.kind[level]])
        return np.asarray(node * query.n_answers + answer, dtype=np.int64)

    def closed(self, level: int) -> NDArray[np.bool_]:
        """Mark the nodes where no cell is open."""
        is_open: NDArray[np.bool_] = np.asarray((self.kinds[level] & self.patterns.any(axis=1)).any(axis=1))
        return ~is_open[self.kind[level]]

    def _answers(self, query: Query, level: int) -> NDArray[np.bool_]:
        """Return open answers of every kind of node, (n_kinds, n_answers)."""
        some = np.zeros((len(self.patterns), query.n_answers), dtype=bool)
        pattern, cell = np.nonzero(self.patterns)
        some[pattern, query.labels[cell]] = True
        return np.asarray(self.kinds[level].astype(np.int64) @ some.astype(np.int64) > 0, dtype=bool)


def possible_answers(tree: Tree, plan: PlanFile) -> PossibleAnswers:
    """Return what a release's public facts leave open."""
    which, found = np.zeros(tree.n_leaves, dtype=np.int64), plan.rules.open_cells(plan.schema)[None]
    for rule in plan.rules.closing_somewhere:
        closing = rule.closed(tree.facts, tree.n_leaves)
        cells = plan.schema.select(rule.cells)
        found = np.concatenate([found, found & ~cells])
        kept, which = np.unique(which + closing * (len(found) // 2), return_inverse=True)
        found, which = found[kept], which.reshape(-1)
    kinds, kind = [], []
    for up, geocodes in zip(tree.ancestors, tree.geocodes, strict=True):
        held = np.zeros((len(geocodes), len(found)), dtype=bool)
        held[up, which] = True
        packed = np.packbits(held, axis=1)
        _, first, of_node = np.unique(
            packed.view([("", packed.dtype)] * packed.shape[1]), return_index=True, return_inverse=True
        )
        kinds.append(held[first])
        kind.append(of_node.reshape(-1).astype(np.int64))
    return PossibleAnswers(found, tuple(kinds), tuple(kind))
