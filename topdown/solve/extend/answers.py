"""Read the listed answers of an extension's measurements, a node at a time."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.errors import CertificateError, ConfigError
from topdown.model.support import Support
from topdown.plan.prepare import Context
from topdown.solve.groups import Ints

KEPT_PARTS = 4  # about 8 MB each


@final
class ListedAnswers:
    """Noisy answers of one extension; checks that every row stands where plan and base table put it.

    Holds no open file, so it may cross a fork.

    Args:
        release: the release folder.
        context: its plan, public facts and base table.
    """

    def __init__(self, release: Path, context: Context) -> None:
        if context.support is None:
            raise ConfigError("this plan extends no release", code="C091")
        self._release, self._context = release, context
        self._support: Support = context.support
        self._first: dict[int, Ints] = {}
        self._cache: OrderedDict[tuple[int, int], tuple[NDArray[np.int32], Ints]] = OrderedDict()

    def node(self, depth: int, node: int) -> list[tuple[Ints, NDArray[np.int32]]]:
        """Return (answers listed, noisy values) of every query of the level at a node that is measured."""
        level = self._context.plan.levels[depth]
        queries = self._context.queries(level.name)
        position = int(np.searchsorted(self._nodes(depth), node))
        part = int(np.searchsorted(self._starts(depth), position, side="right")) - 1
        values, offsets = self._part(depth, part)
        row = (position - int(self._starts(depth)[part])) * len(queries)
        cells = self._support.cells(depth, node)
        out = []
        for q, query in enumerate(queries):
            listed = self._support.listed(query, cells)
            found = values[offsets[row + q] : offsets[row + q + 1]]
            if len(found) != len(listed):
                raise _damaged(self._path(depth, part))
            out.append((listed, found))
        return out

    def _nodes(self, depth: int) -> Ints:
        return np.flatnonzero(self._context.inhabited[depth]).astype(np.int64)

    def _path(self, depth: int, part: int) -> Path:
        name = self._context.plan.levels[depth].name
        return self._release / "measurements" / name / f"part-{part:03d}.parquet"

    def _starts(self, depth: int) -> Ints:
        """Return the position of the first measured node of every part, and the end."""
        if depth not in self._first:
            level = self._context.plan.levels[depth]
            n_queries, starts, part = len(level.measurements), [0], 0
            while starts[-1] < level.n_measured:
                path = self._path(depth, part)
                try:
                    footer: Any = pq.read_metadata(path)
                except (OSError, pa.ArrowException):
                    raise _damaged(path) from None
                stated = footer.metadata or {}
                wanted = {
                    b"type": b"topdown.measurements",
                    b"version": b"1",
                    b"plan_hash": self._context.plan.plan_hash.encode(),
                    b"level": level.name.encode(),
                }
                if (
                    any(stated.get(key) != value for key, value in wanted.items())
                    or json.loads(stated.get(b"queries", b"[]")) != [m.query for m in level.measurements]
                    or not footer.num_rows
                    or footer.num_rows % n_queries
                ):
                    raise _damaged(path)
                starts.append(starts[-1] + footer.num_rows // n_queries)
                part += 1
            if starts[-1] != level.n_measured or self._path(depth, part).exists():
                raise _damaged(self._path(depth, part))
            self._first[depth] = np.array(starts, dtype=np.int64)
        return self._first[depth]

    def _part(self, depth: int, part: int) -> tuple[NDArray[np.int32], Ints]:
        if (depth, part) not in self._cache:
            self._cache[depth, part] = self._read(depth, part)
            while len(self._cache) > KEPT_PARTS:
                self._cache.popitem(last=False)
        self._cache.move_to_end((depth, part))
        return self._cache[depth, part]

    def _read(self, depth: int, part: int) -> tuple[NDArray[np.int32], Ints]:
        level, path = self._context.plan.levels[depth], self._path(depth, part)
        codes = self._context.geography.levels[depth].codes
        nodes = self._nodes(depth)[self._starts(depth)[part] : self._starts(depth)[part + 1]]
        try:
            with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
                table = file.read(columns=["node", "query", "answers"], use_threads=False)
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
            raise _damaged(path)
        return lists.values.to_numpy(zero_copy_only=True), lists.offsets.to_numpy().astype(np.int64)


def _damaged(path: Path) -> CertificateError:
    return CertificateError(
        f"{path} is missing, altered, or belongs to another plan",
        code="V020",
        file=str(path),
        fix="run the measurement again to finish it, or get the release again; do not mix files of two runs",
    )
