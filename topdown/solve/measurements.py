"""Read noisy answers back, a run of nodes at a time, in whatever process needs them."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.caps import PLAN_BYTES, read_json
from topdown.errors import CertificateError
from topdown.plan.prepare import Context


@dataclass(frozen=True, eq=False)
class _Level:
    """Files of one level, opened as far as their footers.

    Args:
        measured: indices of the measured nodes, int64, increasing.
        first: row group k holds measured nodes first[k] .. first[k + 1] - 1.
        places: file, footer and number within the file of every row group.

    """

    measured: NDArray[np.int64]
    first: NDArray[np.int64]
    places: tuple[tuple[Path, Any, int], ...]


@dataclass(frozen=True, eq=False)
class RowGroup:
    """One row group: read-only answers int32, and where those of each (node, query) start, int64, and end."""

    path: Path
    values: NDArray[np.int32]
    offsets: NDArray[np.int64]


class MeasurementFiles:
    """The measurement files of one release.

    Guarantees: every number returned stands beside its node and query in a file of this plan; a missing,
    mixed-up or damaged file raises. Holds no open file and pickles to a path, so it may cross a fork or be
    sent to another process.

    Args:
        release: the release folder.
        context: its plan and public facts.
        n_groups: row groups kept in memory, about 1 MB each.

    """

    def __init__(self, release: Path, context: Context, n_groups: int = 8) -> None:
        self.release, self.context, self._n_groups = Path(release), context, n_groups
        self._levels: dict[int, _Level] = {}
        self._cache: OrderedDict[tuple[int, int], RowGroup] = OrderedDict()

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
        folder = self.release / "measurements" / level.name
        expected = {
            b"type": b"topdown.measurements",
            b"version": b"1",
            b"plan_hash": self.context.plan.plan_hash.encode(),
            b"level": level.name.encode(),
        }
        places: list[tuple[Path, Any, int]] = []
        first, n_parts = [0], 0
        while first[-1] < level.n_measured:
            path = folder / f"part-{n_parts:03d}.parquet"
            try:
                footer = pq.read_metadata(path)
                stated = footer.metadata or {}
                queries = json.loads(stated.get(b"queries", b"[]"))
            except (OSError, pa.ArrowException, ValueError):
                raise damaged(path) from None
            rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
            whole = bool(rows) and all(n and n % len(level.measurements) == 0 for n in rows)
            if (
                any(stated.get(key) != value for key, value in expected.items())
                or queries != [m.query for m in level.measurements]
                or not whole
            ):
                raise damaged(path)
            places += [(path, footer, g) for g in range(len(rows))]
            for n in rows:
                first.append(first[-1] + n // len(level.measurements))
            n_parts += 1
        if first[-1] != level.n_measured or (folder / f"part-{n_parts:03d}.parquet").exists():
            raise damaged(folder)
        measured = np.flatnonzero(self.context.inhabited[level_index]).astype(np.int64)
        return _Level(measured, np.array(first, dtype=np.int64), tuple(places))

    def _read(self, level_index: int, k: int) -> RowGroup:
        level, opened = self.context.plan.levels[level_index], self.level(level_index)
        path, footer, g = opened.places[k]
        nodes = opened.measured[opened.first[k] : opened.first[k + 1]]
        codes = self.context.geography.levels[level_index].codes
        try:
            with pq.ParquetFile(
                path, metadata=footer, page_checksum_verification=True, pre_buffer=False
            ) as file:
                table = file.read_row_group(g, columns=["node", "query", "answers"], use_threads=False)
            lists = table.column("answers").combine_chunks()
            sound = (
                table.column("node").to_pylist() == [codes[i] for i in nodes for _ in level.measurements]
                and table.column("query").to_pylist() == [m.query for m in level.measurements] * len(nodes)
                and lists.null_count == lists.values.null_count == 0
                and lists.values.type == pa.int32()
            )
        except (OSError, pa.ArrowException, ValueError, KeyError, AttributeError):
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
        for k in range(int(np.searchsorted(level.first, low, side="right")) - 1, len(level.places)):
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
                plan.plan_hash,
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
