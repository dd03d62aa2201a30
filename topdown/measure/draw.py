"""Draw one part: exact noise for whole nodes, plus the true answers, as the bytes of a Parquet file (docs/format.md).

Where a base release leaves only some answers open, public files say which are measured.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.errors import InternalError
from topdown.formats.packed_lists import file_of_lists
from topdown.inputs import codes_to_arrow, has_stamps, parquet_bytes
from topdown.measure.confidential import noise_law
from topdown.model import Counts, Query, Support
from topdown.plan import LevelPlan, Plan, PublicContext
from topdown.privacy import BitSource, Sampler
from topdown.privacy.ledger import MeasuredPart


@dataclass(frozen=True, eq=False)
class OpenAnswers:
    """The answers of some nodes that are measured.

    Args:
        sizes: how many, int64 (n_nodes, n_queries).
        answers: of each query, node by node, increasing within a node.
    """

    sizes: Ints
    answers: tuple[Ints, ...]

    def positions(self, query: int) -> Ints:
        """Return where the answers of a query stand among all: node by node, queries side by side."""
        size = self.sizes[:, query]
        ends = np.cumsum(self.sizes.reshape(-1)).reshape(self.sizes.shape)[:, query]
        return np.repeat(ends - np.cumsum(size), size) + np.arange(size.sum())

    def places(self, query: int, n_answers: int, row: Ints, answer: Ints) -> tuple[Ints, Bools]:
        """Find (row, answer) pairs among the answers of a query.

        Args:
            n_answers: of the query.
            row: position of a node, below n_nodes.

        Returns:
            where each pair stands, and whether it is there at all.
        """
        size = self.sizes[:, query]
        key = np.repeat(np.arange(len(size)) * n_answers, size) + self.answers[query]
        mine = row * n_answers + answer
        place = np.searchsorted(key, mine)
        known = place < len(key)
        known[known] = key[place[known]] == mine[known]
        return place, known


ListOpenAnswers = Callable[[Ints], OpenAnswers]  # of nodes, increasing


def open_answers_lister(support: Support, depth: int, queries: tuple[Query, ...]) -> ListOpenAnswers:
    """Return what lists the answers that a base release leaves open at nodes of a level."""

    def list_answers(nodes: Ints) -> OpenAnswers:
        rows = [support.listed(queries, depth, int(node)) for node in nodes]
        sizes = np.array([[len(answers) for answers in row] for row in rows], dtype=np.int64)
        return OpenAnswers(sizes, tuple(np.concatenate(column) for column in zip(*rows, strict=True)))

    return list_answers


NUMBERS_PER_PART = 4_000_000
NUMBERS_PER_ROW_GROUP = 1 << 19
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False)
class PartPlan:
    """A part and the nodes in it.

    Args:
        part: level and name.
        depth: index of the level.
        nodes: indices of the part's nodes in their level, int64, increasing; inhabited nodes only.
        n_group: nodes of a row group.

    """

    part: MeasuredPart
    depth: int
    nodes: Ints
    n_group: int


def plan_parts(context: PublicContext) -> tuple[PartPlan, ...]:
    """Cut every level into parts of whole row groups; follows from the plan and public facts alone."""
    out = []
    for depth, level in enumerate(context.plan.levels):
        inhabited = np.flatnonzero(context.inhabited[depth]).astype(np.int64)
        if context.support is not None:
            sizes = context.support.lengths(depth, context.queries(level.name)).sum(axis=1)
            cuts = np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // NUMBERS_PER_PART)) + 1
            for k, nodes in enumerate(np.split(inhabited, cuts)):
                out.append(PartPlan(MeasuredPart(level.name, f"part-{k:03d}"), depth, nodes, len(nodes)))
            continue
        n_group = max(1, NUMBERS_PER_ROW_GROUP // level.answers_per_node)
        n_part = n_group * max(1, NUMBERS_PER_PART // (n_group * level.answers_per_node))
        for k, first in enumerate(range(0, len(inhabited), n_part)):
            nodes = inhabited[first : first + n_part]
            out.append(PartPlan(MeasuredPart(level.name, f"part-{k:03d}"), depth, nodes, n_group))
    return tuple(out)


def part_size(context: PublicContext, part: PartPlan) -> int:
    """Return how many numbers a part holds, at most."""
    n_numbers = len(part.nodes) * context.plan.levels[part.depth].answers_per_node
    return n_numbers if context.plan.base is None else min(n_numbers, context.plan.numbers_at(part.depth))


def choose_children(context: PublicContext, parts: tuple[PartPlan, ...], workers: int) -> int:
    """Return how many forked processes should draw: 0 where this one has few numbers to draw."""
    whole = sum(part_size(context, part) for part in parts) // NUMBERS_PER_PART
    return min(workers, whole) if min(workers, whole) > 1 else 0


def layout_hash(parts: tuple[PartPlan, ...]) -> str:
    """Return a hash of which nodes are in which part: a restart must cut the levels the same way."""
    lines = (f"{p.part.key} {p.nodes[0]} {p.nodes[-1]} {len(p.nodes)}\n" for p in parts)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class DrawnAnswers:
    """Noisy answers of whole nodes.

    Args:
        answers: int32, side by side.
        sizes: how many each node and query has, int64.
        is_release: False if a seed decided the noise.

    """

    answers: NDArray[np.int32]
    sizes: Ints
    is_release: bool


class LevelDrawer:
    """Draw the parts of one level; see `level_drawer`.

    Args:
        level: what is measured.
        queries: of its measurements, in their order.
        counts: true counts of the level.
        bits: source of randomness.
        listed: lists the answers that a base release leaves open; None: everything.

    """

    def __init__(
        self,
        level: LevelPlan,
        queries: tuple[Query, ...],
        counts: Counts,
        bits: BitSource,
        listed: ListOpenAnswers | None = None,
    ) -> None:
        self._level, self._queries = level, queries
        self._samplers = [Sampler(noise_law(m), bits) for m in level.measurements]
        self._counts = counts
        self._listed = listed
        self._is_release = bits.is_release

    def draw(self, nodes: Ints) -> DrawnAnswers:
        """Return fresh noisy answers, node by node, queries side by side.

        Raises:
            InternalError: an answer leaves 32 bits (probability below 2^-128 for checked records).

        """
        if self._listed is not None:
            return self._draw_listed(self._listed(nodes), nodes)
        out = np.empty((len(nodes), self._level.answers_per_node), dtype=np.int32)
        held = self._counts.between(int(nodes[0]), int(nodes[-1]) + 1)
        row, cell, count = np.searchsorted(nodes, held.node), held.cell, held.count
        first = 0
        for measurement, sampler, query in zip(
            self._level.measurements, self._samplers, self._queries, strict=True
        ):
            block = np.empty((len(nodes), measurement.n_answers), dtype=np.int32)
            sampler.draw_into(block)
            add_counts(block, row, query.labels[cell], count)
            out[:, first : first + measurement.n_answers] = block
            first += measurement.n_answers
        sizes = np.array([m.n_answers for m in self._level.measurements], dtype=np.int64)
        return DrawnAnswers(out.reshape(-1), np.tile(sizes, len(nodes)), self._is_release)

    def _draw_listed(self, listing: OpenAnswers, nodes: Ints) -> DrawnAnswers:
        """Draw the answers that are listed; an answer counts all records that have it."""
        out = np.empty(int(listing.sizes.sum()), dtype=np.int32)
        held = self._counts.between(int(nodes[0]), int(nodes[-1]) + 1)
        row = np.searchsorted(nodes, held.node)
        here = nodes[row] == held.node
        row, cell, count = row[here], held.cell[here], held.count[here]
        for number, (sampler, query) in enumerate(zip(self._samplers, self._queries, strict=True)):
            block = np.empty((1, len(listing.answers[number])), dtype=np.int32)
            sampler.draw_into(block)
            place, known = listing.places(number, query.n_answers, row, query.labels[cell])
            place = place[known]
            add_counts(block, np.zeros_like(place), place, count[known])
            out[listing.positions(number)] = block[0]
        return DrawnAnswers(out, listing.sizes.reshape(-1), self._is_release)


def level_drawer(context: PublicContext, depth: int, counts: Counts, bits: BitSource) -> LevelDrawer:
    """Return what draws the parts of one level of a plan.

    Args:
        context: plan and public facts.
        depth: index of the level.
        counts: true counts of the level.
        bits: source of randomness.

    """
    level = context.plan.levels[depth]
    queries = context.queries(level.name)
    listed = None if context.support is None else open_answers_lister(context.support, depth, queries)
    return LevelDrawer(level, queries, counts, bits, listed)


def add_counts(
    block: NDArray[np.int32],
    row: NDArray[np.intp],
    answer: NDArray[np.integer[Any]],
    count: Ints,
) -> None:
    """Add counts to block[row, answer], exactly; in 32 bits if no sum can leave them in any order."""
    flat, key = block.reshape(-1), row * block.shape[1] + answer
    if not len(key):
        return
    before, most = flat[key], int(np.abs(count).sum())
    if max(int(before.max()), 0) + most > _INT32_MAX or min(int(before.min()), 0) - most < -_INT32_MAX:
        add_in_64_bits(flat, key, count)
    else:
        np.add.at(flat, key, count.astype(np.int32))


def add_in_64_bits(flat: NDArray[np.int32], key: Ints, count: Ints) -> None:
    """Add counts to flat[key] by way of 64 bits; InternalError (X020) if a sum does not fit in 32."""
    key, place = np.unique(key, return_inverse=True)
    exact = flat[key].astype(np.int64)
    np.add.at(exact, place.reshape(-1), count)
    if exact.max() > _INT32_MAX or exact.min() < -_INT32_MAX:
        raise InternalError(
            "an answer does not fit in 32 bits; nothing of this part was written",
            code="X020",
            fix="split the data set, then measure again",
        )
    flat[key] = exact.astype(np.int32)


def _part_stamps(plan: Plan, part: PartPlan) -> dict[str, str]:
    level = plan.levels[part.depth]
    return {
        "plan_hash": plan.plan_hash,
        "level": level.name,
        "queries": json.dumps([m.query for m in level.measurements], ensure_ascii=False),
    }


def encode_part(context: PublicContext, part: PartPlan, drawn: DrawnAnswers) -> bytes:
    """Return the Parquet file of a part.

    Nothing can be missing: Parquet then says less of each number. Packed answers are not compressed.

    Args:
        context: plan and public facts.
        part: the part.
        drawn: noisy answers of the part's nodes.

    Raises:
        InternalError: X045 a seed decided the noise; no measurement file holds such numbers.

    """
    if not drawn.is_release:
        raise InternalError(
            "noise of a simulation cannot become a measurement",
            code="X045",
            fix="nothing was written; to simulate, use topdown simulate",
        )
    level = context.plan.levels[part.depth]
    first, last = part.nodes[[0, -1]].tolist()
    codes = codes_to_arrow(context.geography.levels[part.depth].codes[first : last + 1])
    n_nodes, n_queries = len(part.nodes), len(level.measurements)
    node, query = np.repeat(np.arange(n_nodes), n_queries), np.tile(np.arange(n_queries), n_nodes)
    variances, n_rows = [m.variance for m in level.measurements], part.n_group * n_queries

    def write(answers: pa.ListArray) -> bytes:
        columns = {
            "level": _dictionary_column(np.zeros_like(node), [level.name]),
            "node": _dictionary_column(node, codes.take(pa.array(part.nodes - first))),
            "query": _dictionary_column(query, [m.query for m in level.measurements]),
            "answers": answers,
            "variance_numerator": _repeated_column([v.numerator for v in variances], n_nodes),
            "variance_denominator": _repeated_column([v.denominator for v in variances], n_nodes),
        }
        fields = [pa.field(name, array.type, nullable=False) for name, array in columns.items()]
        table = pa.table(list(columns.values()), schema=pa.schema(fields))
        return parquet_bytes("topdown.measurements", table, _part_stamps(context.plan, part), n_rows)

    return file_of_lists(write, drawn.sizes, drawn.answers, n_rows, "answers")


def has_form_of_part(context: PublicContext, part: PartPlan, data: bytes) -> bool:
    """Tell whether the file of a part has the form that `encode_part` gives it."""
    if not has_stamps("topdown.measurements", data, _part_stamps(context.plan, part)):
        return False
    footer = pq.read_metadata(pa.BufferReader(data))
    n_queries = len(context.plan.levels[part.depth].measurements)
    n_rows, at_once = len(part.nodes) * n_queries, part.n_group * n_queries
    groups = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    return groups == [min(at_once, n_rows - first) for first in range(0, n_rows, at_once)]


def _dictionary_column(index: NDArray[np.generic], labels: list[str] | pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), pa.array(labels, pa.string()))


def _repeated_column(values: list[int], n_nodes: int) -> pa.Array:
    return pa.array(np.tile(np.array(values, dtype=np.int64), n_nodes))
