"""What a published table leaves open for the release that extends it, and which answers are measured."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

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


Places = NDArray[np.signedinteger[Any]]
"""Where answers stand among all answers of all queries, side by side; 32 bits are sorted in half the time of 64."""


_MOST_KEPT, _SHORT = 4_000_000, 2**31  # places that are kept, in 16 MB; answers whose places have 32 bits


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
        self._classes: dict[int, Ints] = {}
        self._places: dict[tuple[tuple[str, ...], int, bytes], Places] = {}
        self._n_kept = 0
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

    def query(self, name: str) -> Query:
        """Return a query by name, made once."""
        if name not in self._queries:
            self._queries[name] = parse_query(self.schema, name)
        return self._queries[name]

    def listed(self, queries: tuple[Query, ...], depth: int, node: int) -> list[Ints]:
        """Return the answers that the open cells of a node have, increasing, of each query."""
        first = _first_places(queries)
        places = self._listed_places(queries, first, depth, node)
        ends = np.searchsorted(places, first)
        found = zip(ends[:-1], ends[1:], first, strict=False)
        return [np.subtract(places[start:end], before, dtype=np.int64) for start, end, before in found]

    def _listed_places(self, queries: tuple[Query, ...], first: Places, depth: int, node: int) -> Places:
        """Return the places of the answers that are listed at a node, increasing."""
        opened, names = self.rules.open[depth][node], tuple(query.name for query in queries)
        parts = []
        for base_cell in self.base(depth, node)[0].tolist():
            if base_cell not in self._classes:
                cells = self.of_base(np.array([base_cell]))
                self._classes[base_cell] = np.unique(self.rules.class_of_cell[cells])
            key = names, base_cell, opened[self._classes[base_cell]].tobytes()  # many nodes have the same
            if key not in self._places:
                if self._n_kept > _MOST_KEPT:
                    self._places.clear()
                    self._n_kept = 0
                self._places[key] = self._places_below(queries, first, base_cell, opened)
                self._n_kept += len(self._places[key])
            parts.append(self._places[key])
        places = np.sort(np.concatenate([first[:0], *parts]))
        return places[np.diff(places, prepend=-1) > 0]

    def _places_below(
        self, queries: tuple[Query, ...], first: Places, base_cell: int, opened: NDArray[np.bool_]
    ) -> Places:
        """Return the places of the answers that the open cells of one base cell have."""
        cells = self.of_base(np.array([base_cell]))
        cells = cells[opened[self.rules.class_of_cell[cells]]]
        places = [
            np.unique(query.labels[cells]) + before for query, before in zip(queries, first, strict=False)
        ]
        return np.concatenate([first[:0], *places])

    def lengths(self, depth: int, queries: tuple[Query, ...]) -> Ints:
        """Return how many answers are listed: shape (measured nodes, queries); counted once."""
        key = depth, tuple(query.name for query in queries)
        if key not in self._lengths:
            nodes, first = np.flatnonzero(self.inhabited[depth]), _first_places(queries)
            out = np.zeros((len(nodes), len(queries)), dtype=np.int64)
            for i, node in enumerate(nodes):
                places = self._listed_places(queries, first, depth, int(node))
                out[i] = np.diff(np.searchsorted(places, first))
            out.setflags(write=False)
            self._lengths[key] = out
        return self._lengths[key]


def _first_places(queries: tuple[Query, ...]) -> Places:
    """Return where the answers of each query begin if those of all stand side by side, and where the last ones end."""
    first = np.cumsum([0, *(query.n_answers for query in queries)])
    return first.astype(np.int32) if first[-1] < _SHORT else first
