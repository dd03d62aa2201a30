"""Which answers of each node are measured where a base release leaves only some open; public files say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import Query
from topdown.model.support import Support

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Listing:
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

    def places(self, query: int, n_answers: int, row: Ints, answer: Ints) -> tuple[Ints, NDArray[np.bool_]]:
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


Listed = Callable[[Ints], Listing]  # of nodes, increasing


def listed_at(support: Support, depth: int, queries: tuple[Query, ...]) -> Listed:
    """Return what lists the answers that a base release leaves open at nodes of a level."""

    def of(nodes: Ints) -> Listing:
        rows = []
        for node in nodes:
            cells = support.cells(depth, int(node))
            rows.append([support.listed(query, cells) for query in queries])
        sizes = np.array([[len(answers) for answers in row] for row in rows], dtype=np.int64)
        return Listing(sizes, tuple(np.concatenate(column) for column in zip(*rows, strict=True)))

    return of
