"""Read noisy answers back, a run of nodes at a time, in whatever process needs them."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.caps import PLAN_BYTES, read_json
from topdown.errors import CertificateError
from topdown.plan.prepare import Context

KEPT_OPEN = 4  # parts, in each process


@dataclass(frozen=True, eq=False)
class _Level:
    """Where the row groups of one level lie, in two numbers each; footers are read anew with the groups.

    Args:
        measured: indices of the measured nodes, int64, increasing.
        first: row group k holds measured nodes first[k] .. first[k + 1] - 1.
        begins: part i holds row groups begins[i] .. begins[i + 1] - 1.

    """

    measured: NDArray[np.int64]
    first: NDArray[np.int64]
    begins: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowGroup:
    """One row group: read-only answers int32, and where those of each (node, query) start, int64, and end."""

    path: Path
    values: NDArray[np.int32]
    offsets: NDArray[np.int64]


class MeasurementFiles:
    """The measurement files of one release.

    Guarantees: every number returned stands beside its node and query in a file of this plan; a missing,
    mixed-up or damaged file raises. Keeps the parts it read last open, each process its own, and pickles to a
    path, so it may cross a fork or be sent to another process.

    Args:
        release: the release folder.
        context: its plan and public facts.
        n_groups: row groups kept in memory, about 1 MB each.

    """

    def __init__(self, release: Path, context: Context, n_groups: int = 8) -> None:
        self.release, self.context, self._n_groups = Path(release), context, n_groups
        self._levels: dict[int, _Level] = {}
        self._cache: OrderedDict[tuple[int, int], RowGroup] = OrderedDict()
        self._parts: OrderedDict[tuple[int, Path], pq.ParquetFile] = OrderedDict()

    def __reduce__(self) -> tuple[type[MeasurementFiles], tuple[Path, Context, int]]:
        return type(self), (self.release, self.context, self._n_groups)

    def level(self, level_index: int) -> _Level:
        """Return the opened files of a level (CertificateError V020: missing, altered, or of another plan)."""
        if level_index not in self._levels:
            self._levels[level_index] = self._open(level_index)
        return self._levels[level_index]

    def group(self, level_index: int, k: int) -> RowGroup:
        """Return row group k of a level (V020).

        Cost: about 4 ns a number, nothing for groups still in memory.
        """
        key = (level_index, k)
        if key not in self._cache:
            self._cache[key] = self._read(level_index, k)
            while len(self._cache) > self._n_groups:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def _open(self, level_index: int) -> _Level:
        level = self.context.plan.levels[level_index]
        first, begins = [0], [0]
        while first[-1] < level.n_measured:
            path = self._path(level_index, len(begins) - 1)
            try:
                footer = pq.read_metadata(path)
                sound = self._is_of(level_index, footer)
            except (OSError, pa.ArrowException, ValueError):
                raise damaged(path) from None
            rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
            whole = bool(rows) and all(n and n % len(level.measurements) == 0 for n in rows)
            if not (sound and whole):
                raise damaged(path)
            for n in rows:
                first.append(first[-1] + n // len(level.measurements))
            begins.append(begins[-1] + len(rows))
        if first[-1] != level.n_measured or self._path(level_index, len(begins) - 1).exists():
            raise damaged(self._path(level_index, 0).parent)
        measured = np.flatnonzero(self.context.inhabited[level_index]).astype(np.int64)
        return _Level(measured, np.array(first, dtype=np.int64), np.array(begins, dtype=np.int64))

    def _is_of(self, level_index: int, footer: pq.FileMetaData) -> bool:
        """Tell whether a file says that it holds this plan's measurements of a level (ValueError: it says nonsense)."""
        plan, stated = self.context.plan, footer.metadata or {}
        level = plan.levels[level_index]
        due = {
            "type": "topdown.measurements",
            "version": "1",
            "plan_hash": plan.measured_hash,
            "level": level.name,
        }
        queries = json.loads(stated.get(b"queries", b"[]"))
        told = all(stated.get(key.encode()) == value.encode() for key, value in due.items())
        return told and queries == [m.query for m in level.measurements]

    def _path(self, level_index: int, part: int) -> Path:
        name = self.context.plan.levels[level_index].name
        return self.release / "measurements" / name / f"part-{part:03d}.parquet"

    def _part(self, level_index: int, path: Path) -> pq.ParquetFile:
        """Return an open part; one that another process opened is left to that. ValueError: it was exchanged."""
        key = (os.getpid(), path)
        if key not in self._parts:
            while len(self._parts) >= KEPT_OPEN:
                self._parts.popitem(last=False)[1].close()
            file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
            if not self._is_of(level_index, file.metadata):
                raise ValueError
            self._parts[key] = file
        self._parts.move_to_end(key)
        return self._parts[key]

    def _read(self, level_index: int, k: int) -> RowGroup:
        level, opened = self.context.plan.levels[level_index], self.level(level_index)
        part = int(np.searchsorted(opened.begins, k, side="right")) - 1
        path, g = self._path(level_index, part), k - int(opened.begins[part])
        nodes = opened.measured[opened.first[k] : opened.first[k + 1]]
        codes = self.context.geography.levels[level_index].codes
        try:
            columns = ["node", "query", "answers"]
            table = self._part(level_index, path).read_row_group(g, columns=columns, use_threads=False)
            lists = table.column("answers").combine_chunks()
            sound = (
                table.column("node").to_pylist() == [codes[i] for i in nodes for _ in level.measurements]
                and table.column("query").to_pylist() == [m.query for m in level.measurements] * len(nodes)
                and lists.null_count == lists.values.null_count == 0
                and lists.values.type == pa.int32()
            )
        except (OSError, pa.ArrowException, ValueError, LookupError, AttributeError):
            sound = False
        if not sound:
            raise damaged(path)
        return RowGroup(
            path, lists.values.to_numpy(zero_copy_only=True), lists.offsets.to_numpy().astype(np.int64)
        )


@final
class MeasurementReader(MeasurementFiles):
    """Noisy answers of one plain release: as many for every node."""

    def answers(
        self, level_index: int, first_node: int, last_node: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the answers of the measured nodes among first_node .. last_node - 1 of a level.

        Returns:
            (nodes, answers): indices of the measured nodes in their level, increasing; and read-only int32 of
            shape (len(nodes), answers_per_node), the queries of the plan side by side. A view if the run lies
            in one row group.

        Raises:
            CertificateError: files missing, altered, or of another plan (V020).

        Cost: about 4 ns a number of the row groups touched, nothing for groups still in memory.

        """
        level = self.level(level_index)
        low, high = (int(i) for i in np.searchsorted(level.measured, (first_node, last_node)))
        width = self.context.plan.levels[level_index].answers_per_node
        pieces = []
        for k in range(int(np.searchsorted(level.first, low, side="right")) - 1, len(level.first) - 1):
            start = int(level.first[k])
            if start >= high:
                break
            pieces.append(self._whole(level_index, k)[max(low - start, 0) : high - start])
        empty = np.empty((0, width), dtype=np.int32)
        return level.measured[low:high], pieces[0] if len(pieces) == 1 else np.concatenate([empty, *pieces])

    def exact(self) -> dict[str, NDArray[np.int64]]:
        """Return the answers that are exact by policy: invariant name to int64 of shape (n_nodes, n_answers).

        Nodes are all nodes of the invariant's level, in the geography's order.

        Raises:
            CertificateError: exact.json is missing, altered or of another plan (V020).

        """
        path = self.release / "measurements" / "exact.json"
        plan, geography = self.context.plan, self.context.geography
        try:
            document = read_json(path, PLAN_BYTES)
            found = {value["name"]: value for value in document["values"]}
            sound = (document["type"], document["version"], document["plan_hash"]) == (
                "topdown.exact",
                1,
                plan.measured_hash,
            ) and list(found) == [e.name for e in plan.invariants.exact]
            out = {}
            for exact in plan.invariants.exact if sound else ():
                nodes = geography.levels[geography.index(exact.level)].codes
                out[exact.name] = np.array(found[exact.name]["answers"], dtype=np.int64)
                sound &= tuple(found[exact.name]["nodes"]) == nodes
                sound &= out[exact.name].shape == (len(nodes), plan.query(exact.query).n_answers)
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            sound, out = False, {}
        if not sound:
            raise damaged(path)
        return out

    def _whole(self, level_index: int, k: int) -> NDArray[np.int32]:
        """Return a row group with a row for each node: every query has its number of answers there."""
        group, level = self.group(level_index, k), self.context.plan.levels[level_index]
        first = self.level(level_index).first
        n_nodes, sizes = int(first[k + 1] - first[k]), [m.n_answers for m in level.measurements]
        if not np.array_equal(group.offsets, np.concatenate(([0], np.cumsum(np.tile(sizes, n_nodes))))):
            raise damaged(group.path)
        return group.values.reshape(n_nodes, -1)


def damaged(path: Path) -> CertificateError:
    """Return the error that a file does not hold what its plan says."""
    return CertificateError(
        f"{path} is missing, altered, or belongs to another plan",
        code="V020",
        file=str(path),
        fix="run the measurement again to finish it, or get the release again; do not mix files of two runs",
    )
