"""What a published table leaves open for the release that extends it, and which answers are measured."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.model.constraint_system import ConstraintSystem
from topdown.model.histogram import Histogram
from topdown.model.query import Query, map_attributes, on_axis, parse_query
from topdown.model.schema import Schema


def base_labels(schema: Schema, base: Schema, names: dict[str, str]) -> Ints:
    """Return, for every cell of `schema`, the cell of `base` it belongs to.

    Arguments and errors are those of `map_attributes`.
    """
    grid = np.zeros(schema.shape, dtype=np.int64)
    axes = [a.name for a in schema.attributes]
    reading = map_attributes(schema, base, names)
    for attribute in base.attributes:
        here, value = reading[attribute.name]
        grid = grid * len(attribute.labels) + on_axis(np.asarray(value), axes.index(here), len(axes))
    return np.ascontiguousarray(grid.reshape(-1))


_SORTED_AS_MARKED = 20  # answers that are looked through in the time in which one label is sorted


_Derivation = tuple[int, int | None, NDArray[np.int32]]
"""Of one query: its place, the place of a finer one (None: the cells themselves), and its answer for each of those."""


@final
class Support:
    """The cells and answers that a published base table leaves open at every node.

    A cell is open at a node if public facts and definitions allow it there and the base release has records in
    its base cell there. An answer is listed, that is measured, if one of its cells is open. Both are known to
    everybody who has the base release, so restricting measurements to them costs no privacy and no accuracy:
    an answer that is left out is one that would be drawn and thrown away.

    Args:
        schema: of the extension.
        rules: what public facts say.
        of_cell: base cell of every cell.
        levels: the base release's table at every level, root first.
    """

    def __init__(
        self, schema: Schema, rules: ConstraintSystem, of_cell: Ints, levels: tuple[Histogram, ...]
    ) -> None:
        self.schema, self.rules, self.of_cell, self.levels = schema, rules, of_cell, levels
        self._order = np.argsort(of_cell, kind="stable")
        self._first = np.searchsorted(of_cell[self._order], np.arange(levels[0].n_cells + 1))
        self._queries: dict[str, Query] = {}
        self._marks: dict[int, NDArray[np.bool_]] = {}
        self._derivations_of: dict[tuple[str, ...], list[_Derivation]] = {}
        self._lengths: dict[tuple[int, tuple[str, ...]], Ints] = {}

    @cached_property
    def inhabited(self) -> tuple[NDArray[np.bool_], ...]:
        """Per level, the nodes where the base release has records; only these are measured."""
        return tuple(np.asarray(level.totals() > 0) for level in self.levels)

    @cached_property
    def _pointers(self) -> tuple[Ints, ...]:
        return tuple(level.pointers() for level in self.levels)

    def base(self, depth: int, node: int) -> tuple[Ints, Ints]:
        """Return the base cells with records at a node, increasing, and their counts."""
        first, last = self._pointers[depth][node : node + 2]
        return self.levels[depth].cell[first:last], self.levels[depth].count[first:last]

    def of_base(self, base_cells: Ints) -> Ints:
        """Return all cells that belong to some base cells, in order of the base cells."""
        parts = [self._order[self._first[b] : self._first[b + 1]] for b in base_cells]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def cells(self, depth: int, node: int) -> Ints:
        """Return the open cells of a node."""
        cells = self.of_base(self.base(depth, node)[0])
        return np.asarray(cells[self.rules.open[depth][node, self.rules.class_of_cell[cells]]])

    def query(self, name: str) -> Query:
        """Return a query by name, made once."""
        if name not in self._queries:
            self._queries[name] = parse_query(self.schema, name)
        return self._queries[name]

    def listed(self, queries: tuple[Query, ...], cells: Ints) -> list[Ints]:
        """Return the answers that some cells have, increasing, of each query."""
        found = [cells] * len(queries)
        for at, finer, labels in self._derivations(queries):
            answers = labels[cells if finer is None else found[finer]]
            found[at] = self._distinct(answers, queries[at].n_answers)
        return found

    def _derivations(self, queries: tuple[Query, ...]) -> list[_Derivation]:
        """Return how the answers of each query follow from those of a finer one, finer queries first."""
        names = tuple(query.name for query in queries)
        if names not in self._derivations_of:
            steps: list[_Derivation] = []
            for at in sorted(range(len(queries)), key=lambda at: -queries[at].n_answers):
                query = queries[at]
                finer = next((step[0] for step in reversed(steps) if queries[step[0]].refines(query)), None)
                labels = query.labels
                if finer is not None:
                    labels = np.zeros(queries[finer].n_answers, dtype=np.int32)
                    labels[queries[finer].labels] = query.labels
                steps.append((at, finer, labels))
            self._derivations_of[names] = steps
        return self._derivations_of[names]

    def _distinct(self, answers: NDArray[np.int32], n_answers: int) -> Ints:
        if len(answers) * _SORTED_AS_MARKED < n_answers:
            ordered = np.sort(answers)  # np.unique, which hashes first, takes up to ten times as long
            return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))].astype(np.int64)
        mark = self._marks.get(n_answers)
        if mark is None:
            mark = self._marks.setdefault(n_answers, np.zeros(n_answers, dtype=bool))
        mark[answers] = True
        found: Ints = np.flatnonzero(mark)
        mark[found] = False
        return found

    def lengths(self, depth: int, queries: tuple[Query, ...]) -> Ints:
        """Return how many answers are listed: shape (measured nodes, queries); counted once."""
        key = depth, tuple(query.name for query in queries)
        if key not in self._lengths:
            nodes = np.flatnonzero(self.inhabited[depth])
            out = np.zeros((len(nodes), len(queries)), dtype=np.int64)
            for i, node in enumerate(nodes):
                out[i] = [len(answers) for answers in self.listed(queries, self.cells(depth, int(node)))]
            out.setflags(write=False)
            self._lengths[key] = out
        return self._lengths[key]
