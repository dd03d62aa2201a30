"""Row groups of measurement files: where those of some nodes lie, and what reads them."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import CertificateError
from topdown.plan.plan import Plan
from topdown.solve.answers import Ranges
from topdown.solve.groups import Ints

KEPT_OPEN = 4  # parts, in each process


@dataclass(frozen=True, eq=False)
class RowGroup:
    """One row group: read-only answers int32, and where those of each (node, query) start, int64, and end."""

    path: Path
    values: NDArray[np.int32]
    offsets: NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class LevelRows:
    """Where the rows of some nodes of a level lie, in a few numbers for each row group; a part has its own numbers.

    Args:
        measured: indices of the measured nodes of these row groups, increasing. A part numbers its own nodes from 0;
            its first and last row group may hold others.
        first: row group k holds measured nodes first[k] .. first[k + 1] - 1.
        part, group: (n_groups,), the part that each lies in, and its place there.
        codes: geocodes of all nodes from the first measured one to the last.
    """

    measured: Ints
    first: Ints
    part: Ints
    group: Ints
    codes: Sequence[str]

    def cut(self, here: slice) -> LevelRows:
        """Return where the rows of some nodes lie."""
        low, high = (int(i) for i in np.searchsorted(self.measured, (here.start, here.stop)))
        groups = slice(0, 0)
        if high > low:
            groups = slice(
                int(np.searchsorted(self.first, low, side="right")) - 1,
                int(np.searchsorted(self.first, high)),
            )
        first = self.first[groups.start : groups.stop + 1]
        measured = self.measured[first[0] : first[-1]]
        base = int(self.measured[0]) if len(self.measured) else 0
        codes = self.codes[:0]
        if len(measured):
            codes = self.codes[int(measured[0]) - base : int(measured[-1]) + 1 - base]
        return LevelRows(
            measured - here.start, first - first[0], self.part[groups], self.group[groups], codes
        )

    def codes_in(self, k: int) -> list[str]:
        """Return the geocodes of the nodes of a row group."""
        nodes = self.measured[self.first[k] : self.first[k + 1]] - self.measured[0]
        return [self.codes[i] for i in nodes.tolist()]


@final
class PartFiles:
    """The measurement files of one release, row group by row group, in whatever process needs them.

    Guarantees: every number returned stands beside its node and query in a file of this plan; a missing,
    mixed-up or damaged file raises. Keeps the parts it read last open, each process its own, and pickles to a
    path, so it may cross a fork or be sent to another process.

    Args:
        release: the release folder.
        plan: of the release.
        n_groups: row groups kept in memory, about 1 MB each.
    """

    def __init__(self, release: Path, plan: Plan, n_groups: int = 8) -> None:
        self.release, self.plan, self._n_groups = Path(release), plan, n_groups
        self._cache: OrderedDict[tuple[int, int, int], RowGroup] = OrderedDict()
        self._parts: OrderedDict[tuple[int, Path], pq.ParquetFile] = OrderedDict()

    def __reduce__(self) -> tuple[type[PartFiles], tuple[Path, Plan, int]]:
        return type(self), (self.release, self.plan, self._n_groups)

    def group(self, level_index: int, rows: LevelRows, k: int) -> RowGroup:
        """Return row group k of some rows of a level (V020).

        Cost: about 4 ns a number, nothing for groups still in memory.
        """
        key = (level_index, int(rows.part[k]), int(rows.group[k]))
        if key not in self._cache:
            self._cache[key] = self._read(level_index, rows, k)
            while len(self._cache) > self._n_groups:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def answers(
        self, level_index: int, rows: LevelRows, first_node: int, last_node: int
    ) -> tuple[Ints, NDArray[np.int32]]:
        """Return the answers of the measured nodes among first_node .. last_node - 1.

        Returns:
            (nodes, answers): indices, increasing; and read-only int32 of shape (len(nodes), answers_per_node), the
            queries of the plan side by side. A view if the run lies in one row group.

        Raises:
            CertificateError: files missing, altered, or of another plan (V020).

        Cost: about 4 ns a number of the row groups touched, nothing for groups still in memory.
        """
        low, high = (int(i) for i in np.searchsorted(rows.measured, (first_node, last_node)))
        width = self.plan.levels[level_index].answers_per_node
        pieces = []
        for k in range(int(np.searchsorted(rows.first, low, side="right")) - 1, len(rows.first) - 1):
            start = int(rows.first[k])
            if start >= high:
                break
            pieces.append(self._whole(level_index, rows, k)[max(low - start, 0) : high - start])
        empty = np.empty((0, width), dtype=np.int32)
        return rows.measured[low:high], pieces[0] if len(pieces) == 1 else np.concatenate([empty, *pieces])

    def _whole(self, level_index: int, rows: LevelRows, k: int) -> NDArray[np.int32]:
        """Return a row group with a row for each node: every query has its number of answers there (V020)."""
        group, level = self.group(level_index, rows, k), self.plan.levels[level_index]
        n_nodes, sizes = int(rows.first[k + 1] - rows.first[k]), [m.n_answers for m in level.measurements]
        if not np.array_equal(group.offsets, np.concatenate(([0], np.cumsum(np.tile(sizes, n_nodes))))):
            raise damaged(group.path)
        return group.values.reshape(n_nodes, -1)

    def path(self, level_index: int, part: int) -> Path:
        """Return where a part of a level lies."""
        name = self.plan.levels[level_index].name
        return self.release / "measurements" / name / f"part-{part:03d}.parquet"

    def is_of(self, level_index: int, footer: pq.FileMetaData) -> bool:
        """Tell whether a file says that it holds this plan's measurements of a level (ValueError: it says nonsense)."""
        stated, level = footer.metadata or {}, self.plan.levels[level_index]
        due = {
            "type": "topdown.measurements",
            "version": "1",
            "plan_hash": self.plan.measured_hash,
            "level": level.name,
        }
        queries = json.loads(stated.get(b"queries", b"[]"))
        told = all(stated.get(key.encode()) == value.encode() for key, value in due.items())
        return told and queries == [m.query for m in level.measurements]

    def _part(self, level_index: int, path: Path) -> pq.ParquetFile:
        """Return an open part; one that another process opened is left to that. ValueError: it was exchanged."""
        key = (os.getpid(), path)
        if key not in self._parts:
            while len(self._parts) >= KEPT_OPEN:
                self._parts.popitem(last=False)[1].close()
            file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
            if not self.is_of(level_index, file.metadata):
                raise ValueError
            self._parts[key] = file
        self._parts.move_to_end(key)
        return self._parts[key]

    def _read(self, level_index: int, rows: LevelRows, k: int) -> RowGroup:
        level, path = self.plan.levels[level_index], self.path(level_index, int(rows.part[k]))
        codes = rows.codes_in(k)
        try:
            table = self._part(level_index, path).read_row_group(
                int(rows.group[k]), columns=["node", "query", "answers"], use_threads=False
            )
            lists = table.column("answers").combine_chunks()
            sound = (
                table.column("node").to_pylist() == [code for code in codes for _ in level.measurements]
                and table.column("query").to_pylist() == [m.query for m in level.measurements] * len(codes)
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
@dataclass(frozen=True, eq=False)
class FileAnswers:
    """Noisy answers of some nodes, from files.

    Args:
        files: of the release. levels: where the rows of the nodes lie, one a level.
    """

    files: PartFiles
    levels: tuple[LevelRows, ...]

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.int32]]:
        """Return those of the measured nodes among first_node .. last_node - 1, see `PartFiles`."""
        return self.files.answers(level_index, self.levels[level_index], first_node, last_node)

    def source(self) -> FileAnswers:
        """Return what opens parts: the files, and no node."""
        return replace(self, levels=())

    def part(self, ranges: Ranges) -> tuple[LevelRows, ...]:
        """Return where the rows of some nodes lie."""
        return tuple(rows.cut(here) for rows, here in zip(self.levels, ranges, strict=True))

    def opened(self, part: tuple[LevelRows, ...]) -> FileAnswers:
        """Return the answers of a part."""
        return replace(self, levels=part)


def damaged(path: Path) -> CertificateError:
    """Return the error that a file does not hold what its plan says."""
    return CertificateError(
        f"{path} is missing, altered, or belongs to another plan",
        code="V020",
        file=str(path),
        fix="run the measurement again to finish it, or get the release again; do not mix files of two runs",
    )
