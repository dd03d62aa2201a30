"""Where noisy answers come from: the measurement files of a release, or memory; and its exact statistics."""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.errors import CertificateError, ConfigError
from topdown.formats.caps import PLAN_BYTES, read_json, read_plain
from topdown.formats.packed_lists import IS_COMPILED, LISTS, list_form
from topdown.formats.release_documents import TABLE_VERSIONS
from topdown.model import Exact
from topdown.plan import Plan, PublicContext, exact_table_names, read_exact_table
from topdown.plan.exact_statistics import EXACT_FILE, MEASUREMENTS_FOLDER, most_exact_bytes

Ranges = tuple[slice, ...]  # of nodes, one a level


class AnswerSource(Protocol):
    """What opens answers of parts of a tree; it holds no node itself, so a worker may keep it."""

    def opened(self, part: Any) -> NoisyAnswers:
        """Return the answers of a part, by the part's own numbers of nodes."""
        ...


class NoisyAnswers(Protocol):
    """What every query was measured to answer at every inhabited node."""

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.generic]]:
        """Return the inhabited nodes among first..last-1 and their answers, (n_nodes, answers_per_node)."""
        ...

    def source(self) -> AnswerSource:
        """Return what opens the answers of parts."""
        ...

    def part(self, ranges: Ranges) -> Any:
        """Return what the source opens: the answers of some nodes, or where they lie."""
        ...


@final
@dataclass(frozen=True)
class MemorySource:
    """Source of answers that come in memory."""

    def opened(self, part: AnswersInMemory) -> AnswersInMemory:
        """Return them."""
        return part


@final
@dataclass(frozen=True, eq=False)
class AnswersInMemory:
    """NoisyAnswers that lie in memory.

    Args:
        nodes: per level, the inhabited nodes, int64, increasing.
        values: per level, int32 (inhabited nodes, answers_per_node), queries of the plan side by side.
    """

    nodes: tuple[Ints, ...]
    values: tuple[NDArray[np.int32], ...]

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.int32]]:
        """Return the inhabited nodes among first..last-1 and their answers."""
        low, high = np.searchsorted(self.nodes[level_index], (first_node, last_node))
        return self.nodes[level_index][low:high], self.values[level_index][low:high]

    def source(self) -> MemorySource:
        """Return what opens the answers of parts."""
        return MemorySource()

    def part(self, ranges: Ranges) -> AnswersInMemory:
        """Return the answers of some nodes, by numbers of their own."""
        places = [
            (slice(*np.searchsorted(nodes, (here.start, here.stop))), here.start)
            for nodes, here in zip(self.nodes, ranges, strict=True)
        ]
        return AnswersInMemory(
            tuple(nodes[at] - first for nodes, (at, first) in zip(self.nodes, places, strict=True)),
            tuple(values[at] for values, (at, _) in zip(self.values, places, strict=True)),
        )


KEPT_OPEN = 4  # parts, in each process


@dataclass(frozen=True, eq=False)
class RowGroup:
    """One row group: read-only answers, int32 or narrower, and where those of each (node, query) start and end.

    `is_even`: whether every query has its number of answers at every node.
    """

    path: Path
    values: NDArray[np.signedinteger[Any]]
    offsets: NDArray[np.int64]
    is_even: bool


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
        here = list(self.codes[int(nodes[0]) : int(nodes[-1]) + 1])
        return [here[i] for i in (nodes - nodes[0]).tolist()]


@final
class MeasurementParts:
    """The measurement files of one release, row group by row group, in whatever process needs them.

    Guarantees: every number returned stands beside its node and query in a file of this plan; a missing,
    mixed-up or damaged file raises. Keeps the parts it read last open, each process its own, and pickles to a
    path, so it may cross a fork or be sent to another process.

    Args:
        release: the release folder.
        plan: of the release.
        n_groups: row groups kept in memory, about 2 MB each; None: all, in 16 bits where they fit.
    """

    def __init__(self, release: Path, plan: Plan, n_groups: int | None = 8) -> None:
        self.release, self.plan, self._n_groups = Path(release), plan, n_groups
        self._cache: OrderedDict[tuple[int, int, int], RowGroup] = OrderedDict()
        self._parts: OrderedDict[tuple[int, Path], tuple[pq.ParquetFile, pa.NativeFile]] = OrderedDict()

    def __reduce__(self) -> tuple[type[MeasurementParts], tuple[Path, Plan, int | None]]:
        return type(self), (self.release, self.plan, self._n_groups)

    def group(self, level_index: int, rows: LevelRows, k: int) -> RowGroup:
        """Return row group k of some rows of a level (V020).

        Cost: about 4 ns a number, nothing for groups still in memory.
        """
        key = (level_index, int(rows.part[k]), int(rows.group[k]))
        if key not in self._cache:
            group = self._read(level_index, rows, k)
            self._cache[key] = _narrowed(group) if self._n_groups is None else group
            while self._n_groups is not None and len(self._cache) > self._n_groups:
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
        found = pieces[0] if len(pieces) == 1 else np.concatenate([empty, *pieces])
        return rows.measured[low:high], found.astype(np.int32, copy=False)

    def _whole(self, level_index: int, rows: LevelRows, k: int) -> NDArray[np.signedinteger[Any]]:
        """Return a row group with a row for each node: every query has its number of answers there (V020)."""
        group = self.group(level_index, rows, k)
        if not group.is_even:
            raise damaged_measurements(group.path)
        return group.values.reshape(int(rows.first[k + 1] - rows.first[k]), -1)

    def path(self, level_index: int, part: int) -> Path:
        """Return where a part of a level lies."""
        name = self.plan.levels[level_index].name
        return self.release / "measurements" / name / f"part-{part:03d}.parquet"

    def is_of(self, level_index: int, footer: pq.FileMetaData) -> bool:
        """Tell whether a file says that it holds this plan's measurements of a level (ValueError: it says nonsense)."""
        stated, level = footer.metadata or {}, self.plan.levels[level_index]
        due = {
            "type": "topdown.measurements",
            "version": TABLE_VERSIONS["topdown.measurements"],
            "plan_hash": self.plan.measured_hash,
            "level": level.name,
        }
        queries = json.loads(stated.get(b"queries", b"[]"))
        is_stated = all(stated.get(key.encode()) == value.encode() for key, value in due.items())
        return is_stated and queries == [m.query for m in level.measurements]

    def _part(self, level_index: int, path: Path) -> tuple[pq.ParquetFile, pa.NativeFile]:
        """Return an open part and its bytes; another process has its own. ValueError: it was exchanged."""
        key = (os.getpid(), path)
        if key not in self._parts:
            while len(self._parts) >= KEPT_OPEN:
                self._parts.popitem(last=False)[1][1].close()
            data = pa.OSFile(str(path))
            file = pq.ParquetFile(
                data, page_checksum_verification=True, pre_buffer=False, read_dictionary=["node", "query"]
            )
            if not self.is_of(level_index, file.metadata):
                raise ValueError
            self._parts[key] = file, data
        self._parts.move_to_end(key)
        return self._parts[key]

    def _read(self, level_index: int, rows: LevelRows, k: int) -> RowGroup:
        level, path = self.plan.levels[level_index], self.path(level_index, int(rows.part[k]))
        codes = rows.codes_in(k)
        try:
            file, data = self._part(level_index, path)
            group, sizes = int(rows.group[k]), np.tile([m.n_answers for m in level.measurements], len(codes))
            values, offsets = _answers_of(file, data, group, sizes)
            table = file.read_row_group(group, columns=["node", "query"], use_threads=False)
            queries = [m.query for m in level.measurements]
            due = {
                "node": (codes, np.repeat(np.arange(len(codes)), len(queries))),
                "query": (queries, np.tile(np.arange(len(queries)), len(codes))),
            }
            sound = (
                all(_holds(table.column(name).combine_chunks(), *texts) for name, texts in due.items())
                and file.schema_arrow.field("answers").type == LISTS
            )
        except (OSError, pa.ArrowException, ValueError, LookupError, AttributeError):
            sound = False
        if not sound:
            raise damaged_measurements(path)
        is_even = np.array_equal(offsets, np.concatenate(([0], np.cumsum(sizes))))
        return RowGroup(path, values, offsets, is_even)


def _answers_of(
    file: pq.ParquetFile, data: pa.NativeFile, group: int, sizes: Ints
) -> tuple[NDArray[np.int32], Ints]:
    """Return the answers of a row group whose lists should have these lengths, and where each list begins and ends."""
    form = list_form(sizes.tobytes()) if IS_COMPILED and file.num_row_groups > 1 else None
    if form is not None:
        column = file.metadata.row_group(group).column(file.schema_arrow.get_field_index("answers"))
        values = form.values(data.read_at(column.total_compressed_size, column.data_page_offset))
        if values is not None:
            return values, np.concatenate(([0], np.cumsum(sizes)))
    (lists,) = file.read_row_group(group, columns=["answers"], use_threads=False).column(0).chunks
    return lists.values.to_numpy(zero_copy_only=True), lists.offsets.to_numpy().astype(np.int64)


def _narrowed(group: RowGroup) -> RowGroup:
    """Return a row group in 16 bits if its answers fit."""
    narrow = group.values.astype(np.int16)
    return replace(group, values=narrow) if np.array_equal(narrow, group.values) else group


def _holds(column: pa.DictionaryArray, labels: Sequence[str], of_row: NDArray[np.intp]) -> bool:
    """Tell whether a column has these labels, written in the order of their first rows."""
    indices: NDArray[np.integer[Any]] = column.indices.to_numpy(zero_copy_only=False)
    return np.array_equal(indices, of_row) and column.dictionary.to_pylist() == list(labels)


@final
@dataclass(frozen=True, eq=False)
class FileAnswers:
    """Noisy answers of some nodes, from files.

    Args:
        files: of the release. levels: where the rows of the nodes lie, one a level.
    """

    files: MeasurementParts
    levels: tuple[LevelRows, ...]

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, NDArray[np.int32]]:
        """Return those of the measured nodes among first_node .. last_node - 1, see `MeasurementParts`."""
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


def damaged_measurements(path: Path) -> CertificateError:
    """Return the error that a file does not hold what its plan says."""
    return CertificateError(
        f"{path} is missing, altered, of another version of its form, or belongs to another plan",
        code="V020",
        file=str(path),
        fix="run the measurement again to finish it, or get the release again; do not mix files of two runs",
    )


def read_exact(release: Path, context: PublicContext) -> dict[str, Ints]:
    """Return the answers that are exact by policy: invariant name to int64 of shape (n_nodes, n_answers).

    Nodes are all nodes of the invariant's level, in the geography's order.

    Args:
        release: its folder.
        context: plan and public facts.

    Raises:
        CertificateError: exact.json, or a table it names, is missing, altered or of another plan (V020).
    """
    plan, path = context.plan, release / MEASUREMENTS_FOLDER / EXACT_FILE
    try:
        document = read_json(path, PLAN_BYTES)
        stated = {value["name"]: value for value in document["values"]}
        head = (document["type"], document["version"], document["plan_hash"])
        sound = head == ("topdown.exact", 1, plan.measured_hash)
        if not sound or list(stated) != [e.name for e in plan.invariants.exact]:
            raise damaged_measurements(path)
        out = {}
        for exact in plan.invariants.exact:
            if name := exact_table_names(plan).get(exact.name):
                out[exact.name] = _answers_in_table(path.with_name(name), context, exact, stated[exact.name])
            else:
                out[exact.name] = _answers_in_json(context, exact, stated[exact.name])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise damaged_measurements(path) from None
    return out


def _answers_in_json(context: PublicContext, exact: Exact, stated: dict[str, Any]) -> Ints:
    """Return the answers that exact.json lists itself (ValueError: of other nodes)."""
    nodes = context.geography.levels[context.geography.index(exact.level)].codes
    answers = np.array(stated["answers"], dtype=np.int64)
    shape = (len(nodes), context.plan.query(exact.query).n_answers)
    if tuple(stated["nodes"]) != nodes or answers.shape != shape:
        raise ValueError("it lists other areas")
    return answers


def _answers_in_table(path: Path, context: PublicContext, exact: Exact, stated: dict[str, Any]) -> Ints:
    """Return the answers of the table that exact.json names."""
    if stated["file"] != path.name:
        raise ValueError("it names another file")
    try:
        data = read_plain(path, most_exact_bytes(context, exact))
        if hashlib.sha256(data).hexdigest() != stated["sha256"]:
            raise damaged_measurements(path)
        return read_exact_table(data, context, exact)
    except (OSError, ValueError):
        raise damaged_measurements(path) from None


class MeasurementFiles:
    """The measurement files of one release, see `MeasurementParts`; of each level it knows where all rows lie.

    Args:
        release: the release folder.
        context: its plan and public facts.
        n_groups: see `MeasurementParts`.

    """

    def __init__(self, release: Path, context: PublicContext, n_groups: int | None = 8) -> None:
        self.release, self.context, self._n_groups = Path(release), context, n_groups
        self.files = MeasurementParts(release, context.plan, n_groups)
        self._levels: dict[int, LevelRows] = {}

    def __reduce__(self) -> tuple[type[MeasurementFiles], tuple[Path, PublicContext, int | None]]:
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
                raise damaged_measurements(path) from None
            rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
            whole = bool(rows) and all(n and n % len(level.measurements) == 0 for n in rows)
            if not (sound and whole):
                raise damaged_measurements(path)
            for g, n in enumerate(rows):
                first.append(first[-1] + n // len(level.measurements))
                part.append(n_parts)
                group.append(g)
            n_parts += 1
        if first[-1] != level.n_measured or self.files.path(level_index, n_parts).exists():
            raise damaged_measurements(self.files.path(level_index, 0).parent)
        measured = np.flatnonzero(self.context.inhabited[level_index]).astype(np.int64)
        codes = self.context.geography.levels[level_index].codes
        if len(measured):
            codes = codes[int(measured[0]) : int(measured[-1]) + 1]
        starts, parts, groups = (np.array(column, dtype=np.int64) for column in (first, part, group))
        return LevelRows(measured, starts, parts, groups, codes)


@final
class MeasurementReader(MeasurementFiles):
    """Noisy answers of one plain release: as many for every node."""

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
        return tuple(self.level(i).cut(here) for i, here in enumerate(ranges))

    def exact(self) -> dict[str, Ints]:
        """Return the answers that are exact by policy, by the name of the invariant; see `read_exact` (V020)."""
        return read_exact(self.release, self.context)


@final
class ListedAnswers(MeasurementFiles):
    """Noisy answers of one extension; every row stands where plan and base table put it."""

    def node(self, depth: int, node: int) -> list[tuple[Ints, NDArray[np.int32]]]:
        """Return (answers listed, noisy values) of every query of the level at a node that is measured."""
        support = self.context.support
        if support is None:
            raise ConfigError("this plan extends no release", code="C091")
        queries, level = self.context.queries(self.context.plan.levels[depth].name), self.level(depth)
        position = int(np.searchsorted(level.measured, node))
        k = int(np.searchsorted(level.first, position, side="right")) - 1
        group = self.group(depth, k)
        row = (position - int(level.first[k])) * len(queries)
        out = []
        for q, listed in enumerate(support.listed(queries, depth, node)):
            found = group.values[group.offsets[row + q] : group.offsets[row + q + 1]]
            if len(found) != len(listed):
                raise damaged_measurements(group.path)
            out.append((listed, found))
        return out
