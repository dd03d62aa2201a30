"""The measurements of a release, found again from its footers and opened for whoever solves it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.plan.prepare import Context
from topdown.solve.answers import Ranges
from topdown.solve.exact_file import read_exact
from topdown.solve.groups import Ints
from topdown.solve.row_groups import FileAnswers, LevelRows, PartFiles, RowGroup, damaged


class MeasurementFiles:
    """The measurement files of one release, see `PartFiles`; of each level it knows where all rows lie.

    Args:
        release: the release folder.
        context: its plan and public facts.
        n_groups: row groups kept in memory, about 1 MB each.

    """

    def __init__(self, release: Path, context: Context, n_groups: int = 8) -> None:
        self.release, self.context, self._n_groups = Path(release), context, n_groups
        self.files = PartFiles(release, context.plan, n_groups)
        self._levels: dict[int, LevelRows] = {}

    def __reduce__(self) -> tuple[type[MeasurementFiles], tuple[Path, Context, int]]:
        return type(self), (self.release, self.context, self._n_groups)

    def level(self, level_index: int) -> LevelRows:
        """Return the opened files of a level (CertificateError V020: missing, altered, or of another plan)."""
        if level_index not in self._levels:
            self._levels[level_index] = self._open(level_index)
        return self._levels[level_index]

    def group(self, level_index: int, k: int) -> RowGroup:
        """Return row group k of a level (V020)."""
        return self.files.group(level_index, self.level(level_index), k)

    def _open(self, level_index: int) -> LevelRows:
        level = self.context.plan.levels[level_index]
        first, part, group, n_parts = [0], list[int](), list[int](), 0
        while first[-1] < level.n_measured:
            path = self.files.path(level_index, n_parts)
            try:
                footer = pq.read_metadata(path)
                sound = self.files.is_of(level_index, footer)
            except (OSError, pa.ArrowException, ValueError):
                raise damaged(path) from None
            rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
            whole = bool(rows) and all(n and n % len(level.measurements) == 0 for n in rows)
            if not (sound and whole):
                raise damaged(path)
            for g, n in enumerate(rows):
                first.append(first[-1] + n // len(level.measurements))
                part.append(n_parts)
                group.append(g)
            n_parts += 1
        if first[-1] != level.n_measured or self.files.path(level_index, n_parts).exists():
            raise damaged(self.files.path(level_index, 0).parent)
        measured = np.flatnonzero(self.context.inhabited[level_index]).astype(np.int64)
        codes = self.context.geography.levels[level_index].codes
        if len(measured):
            codes = codes[int(measured[0]) : int(measured[-1]) + 1]
        starts, parts, groups = (np.array(column, dtype=np.int64) for column in (first, part, group))
        return LevelRows(measured, starts, parts, groups, codes)


@final
class MeasurementReader(MeasurementFiles):
    """Noisy answers of one plain release: as many for every node."""

    @cached_property
    def _all(self) -> FileAnswers:
        """Those of all nodes; every level is opened."""
        return FileAnswers(self.files, tuple(self.level(i) for i in range(len(self.context.plan.levels))))

    def answers(
        self, level_index: int, first_node: int, last_node: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the answers of the measured nodes among first_node .. last_node - 1, see `FileAnswers`."""
        return self.files.answers(level_index, self.level(level_index), first_node, last_node)

    def source(self) -> FileAnswers:
        """Return what opens parts: the files, and no node."""
        return FileAnswers(self.files, ())

    def part(self, ranges: Ranges) -> tuple[LevelRows, ...]:
        """Return where the rows of some nodes lie (V020)."""
        return self._all.part(ranges)

    def exact(self) -> dict[str, Ints]:
        """Return the answers that are exact by policy, by the name of the invariant; see `read_exact` (V020)."""
        return read_exact(self.release, self.context)
