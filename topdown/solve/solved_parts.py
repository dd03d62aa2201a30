"""What a solve finds: nodes, what is reported of how they were found, and finished parts kept as files.

Reports are sums and maxima, so that order and worker count do not matter. A section is a consecutive run of nodes whose
leaves are put away together, once all of them are solved. `work/above.parquet` holds the tables of the cut,
`work/section-000.parquet` and so on the leaves of each section; a stopped run goes on from them, and the release that
comes of it is the same. A file that was not made from the same plan, public facts and measurements by the same engine,
of other nodes, or that is damaged, is as good as none: its part is solved again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET

from topdown.arrays import Ints
from topdown.formats.accuracy_documents import Convergence
from topdown.formats.release_documents import (
    Broken,
    ComparedLevel,
    Comparisons,
    FailsafeUse,
    Repair,
    Solve,
    SolvedLevel,
)
from topdown.model import Geography, PackedRows, narrow
from topdown.plan import Plan
from topdown.solve.least_squares import TARGET_PERSONS
from topdown.solve.rounding.rounding import Rounded
from topdown.solve.split_estimate import Fit


@dataclass(frozen=True, eq=False)
class Node:
    """A solved node: its position in its level and its nonzero cells (int64, sorted) with counts (int64)."""

    index: int
    cells: Ints
    counts: Ints


@dataclass
class LevelTally:
    """Counts and worst cases of one level."""

    n_splits: int = 0
    n_problems: int = 0
    n_variables: int = 0
    n_unconverged: int = 0
    max_iterations: int = 0
    max_kkt_residual_persons: float = 0.0
    n_roundings: int = 0
    n_roundings_optimal: int = 0
    n_milp: int = 0
    n_enforced: int = 0
    n_dropped: int = 0
    n_broken: int = 0

    def add(self, fit: Fit, rounded: Rounded) -> None:
        """Count one split."""
        self.n_splits += 1
        self.n_problems += fit.n_problems
        self.n_variables += fit.n_variables
        self.n_unconverged += not fit.residual_persons <= TARGET_PERSONS
        self.max_iterations = max(self.max_iterations, fit.iterations)
        self.max_kkt_residual_persons = max(self.max_kkt_residual_persons, float(fit.residual_persons))
        self.n_roundings += 1
        self.n_roundings_optimal += rounded.optimal
        self.n_milp += rounded.route == "milp"

    def compare(self, soft: Ints, rounded: Rounded, *, enforced: bool, dropped: bool) -> None:
        """Count one split under soft rules: solved again for them, and children left breaking one."""
        self.n_enforced += enforced or rounded.route == "milp"
        self.n_dropped += dropped
        self.n_broken += int((soft @ rounded.counts > 0).any(axis=0).sum())

    def merge(self, other: LevelTally) -> None:
        """Add another tally of the same level."""
        for name, value in asdict(other).items():
            mine = getattr(self, name)
            setattr(self, name, max(mine, value) if name.startswith("max_") else mine + value)

    def to_document(self, name: str) -> SolvedLevel:
        """Return what solve.json says of the level of this name."""
        return SolvedLevel(
            level=name,
            n_splits=self.n_splits,
            n_problems=self.n_problems,
            n_variables=self.n_variables,
            n_unconverged=self.n_unconverged,
            max_iterations=self.max_iterations,
            max_kkt_residual_persons=float(f"{self.max_kkt_residual_persons:.2e}"),
            n_roundings=self.n_roundings,
            n_roundings_optimal=self.n_roundings_optimal,
            n_milp=self.n_milp,
        )


@dataclass
class Tally:
    """One `LevelTally` a level, every use of the failsafe, and what became of leaves that broke soft rules."""

    levels: dict[str, LevelTally] = field(default_factory=dict)
    failsafe: list[FailsafeUse] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)

    def level(self, name: str) -> LevelTally:
        """Return the tally of a level, started if need be."""
        return self.levels.setdefault(name, LevelTally())

    def merge(self, other: Tally) -> None:
        """Add another tally."""
        for name, level in other.levels.items():
            self.level(name).merge(level)
        self.failsafe += other.failsafe
        self.repairs += other.repairs
        self.broken += other.broken

    def convergence(self) -> Convergence:
        """Return how many splits of all levels missed the target, and how far the worst is from its optimum."""
        levels = self.levels.values()
        return Convergence(
            n_splits=sum(level.n_splits for level in levels),
            n_unconverged=sum(level.n_unconverged for level in levels),
            worst_persons=max((level.max_kkt_residual_persons for level in levels), default=0.0),
            target_persons=TARGET_PERSONS,
        )

    def to_document(self, plan: Plan) -> Solve:
        """Return solve.json (docs/format.md), without what it was made from and what came out."""
        order = [level.name for level in plan.levels]
        levels = [self.level(name) for name in order]
        soft = Comparisons(
            levels=[
                ComparedLevel(
                    level=name, n_enforced=at.n_enforced, n_dropped=at.n_dropped, n_broken=at.n_broken
                )
                for name, at in zip(order, levels, strict=True)
            ],
            repairs=sorted(self.repairs, key=lambda repair: repair.node),
            broken=sorted(self.broken, key=lambda leaf: leaf.node),
        )
        return Solve(
            plan_hash=plan.plan_hash,
            target_kkt_residual_persons=TARGET_PERSONS,
            failsafe=sorted(self.failsafe, key=lambda use: (order.index(use.level), use.node)),
            levels=[at.to_document(name) for name, at in zip(order, levels, strict=True)],
            comparisons=soft if plan.invariants.soft_rules else UNSET,
        )


CHECKPOINT_LEAVES = 131_072  # a section is closed where it has so many or more


@dataclass(frozen=True)
class NodeSpan:
    """Nodes first..last-1 of a level: what a section has of the cut."""

    depth: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class SolvedPart:
    """What a part of a solve found: records, and how they were found."""

    rows: PackedRows
    tally: Tally


def checkpoint_spans(geography: Geography, cut: int) -> list[NodeSpan]:
    """Return all nodes of the cut as sections; they follow from the tree and the cut alone."""
    return [NodeSpan(cut, *ends) for ends in geography.stretches(cut, CHECKPOINT_LEAVES)]


def unpack_nodes(rows: PackedRows) -> list[Node]:
    """Return the nodes that have records."""
    if not len(rows):
        return []
    first = np.flatnonzero(np.diff(rows.node.astype(np.int64), prepend=-1))
    cells, counts = (np.split(of.astype(np.int64), first[1:]) for of in (rows.cell, rows.count))
    index = rows.node[first].tolist()
    return [Node(i, cell, count) for i, cell, count in zip(index, cells, counts, strict=True)]


def pack_nodes(nodes: Sequence[Node], first: int = 0) -> PackedRows:
    """Return the records of nodes that follow each other, whose numbers count from `first`."""
    node = first + np.repeat([n.index for n in nodes], [len(n.cells) for n in nodes]).astype(np.int64)
    none = np.zeros(0, dtype=np.int64)
    cell = np.concatenate([none, *(n.cells for n in nodes)])
    count = np.concatenate([none, *(n.counts for n in nodes)])
    if ((np.diff(node) < 0) | ((np.diff(node) == 0) & (np.diff(cell) < 0))).any():
        order = np.lexsort((cell, node))
        node, cell, count = node[order], cell[order], count[order]
    return PackedRows(*(narrow(column) for column in (node, cell, count)))


def concatenate_rows(parts: Sequence[PackedRows]) -> PackedRows:
    """Return the records of parts that follow each other."""
    parts = parts or (pack_nodes(()),)
    return PackedRows(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("node", "cell", "count"))
    )


@dataclass(frozen=True, eq=False)
class NodeRun:
    """A run of nodes of the cut, and their records."""

    span: NodeSpan
    rows: PackedRows


def node_runs(geography: Geography, span: NodeSpan, run_leaves: int, rows: PackedRows) -> Iterator[NodeRun]:
    """Yield the runs of a section that have records, in order; each ends where it has so many leaves or more.

    Args:
        rows: records of the cut.
    """
    for first, last in geography.stretches(span.depth, run_leaves, span.first, span.last):
        here = rows.between(first, last)
        if len(here):
            yield NodeRun(NodeSpan(span.depth, first, last), here)


def renumbered(nodes: Sequence[Node], by: int) -> list[Node]:
    """Return nodes with other numbers."""
    return [Node(node.index + by, node.cells, node.counts) for node in nodes]


_COLUMNS = ("node", "cell", "count")


ABOVE = "above"


@dataclass(frozen=True)
class Checkpoints:
    """The finished parts of one solve.

    Args:
        folder: where they lie; made with the first.
        made_from: what decides the result to the last byte (plan, inputs, engine), as text by name.
    """

    folder: Path
    made_from: dict[str, str]

    def above(self) -> tuple[int, SolvedPart] | None:
        """Return the cut that an earlier run chose and the tables of its nodes; None if there are none."""
        found = self._read(ABOVE)
        return None if found is None else (found[0].depth, found[1])

    def write_above(self, span: NodeSpan, part: SolvedPart) -> None:
        """Keep the tables of all nodes of the cut."""
        self._write(ABOVE, span, part)

    def section(self, number: int, span: NodeSpan) -> SolvedPart | None:
        """Return what an earlier run found for a section; None if there is nothing."""
        found = self._read(f"section-{number:03d}")
        return found[1] if found is not None and found[0] == span else None

    def write_section(self, number: int, span: NodeSpan, part: SolvedPart) -> None:
        """Keep a finished section."""
        self._write(f"section-{number:03d}", span, part)

    def _write(self, name: str, span: NodeSpan, part: SolvedPart) -> None:
        stamps = {
            "type": "topdown.work",
            "name": name,
            "span": json.dumps([span.depth, span.first, span.last]),
            "tally": msgspec.json.encode(part.tally).decode(),
        } | self.made_from
        table = pa.table({c: pa.array(getattr(part.rows, c)) for c in _COLUMNS})
        stamps["sha256"] = _part_digest(stamps, table)
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{name}.parquet.tmp"
        pq.write_table(table.replace_schema_metadata(stamps), path, compression="zstd")
        path.replace(path.with_suffix(""))

    def _read(self, name: str) -> tuple[NodeSpan, SolvedPart] | None:
        try:
            with pq.ParquetFile(self.folder / f"{name}.parquet", pre_buffer=False) as file:
                table = file.read(use_threads=False)
            stamps = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
            stated, due = stamps.pop("sha256"), self.made_from | {"type": "topdown.work", "name": name}
            if stated != _part_digest(stamps, table) or any(stamps[key] != due[key] for key in due):
                return None
            rows = PackedRows(*(table.column(c).to_numpy() for c in _COLUMNS))
            tally = msgspec.json.decode(stamps["tally"], type=Tally)
            return NodeSpan(*json.loads(stamps["span"])), SolvedPart(rows, tally)
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
            return None


def _part_digest(stamps: dict[str, str], table: pa.Table) -> str:
    """Return the SHA-256 of everything a file says."""
    digest = hashlib.sha256(json.dumps(stamps, sort_keys=True).encode())
    for column in _COLUMNS:
        digest.update(table.column(column).to_numpy().astype("<i8").tobytes())
    return digest.hexdigest()
