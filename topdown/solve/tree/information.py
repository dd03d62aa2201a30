"""What the measurements of one level say of one node: a matrix by components, and a linear term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import Query
from topdown.solve.tree.lattice import Floats, Ints, Lattice, product_query


@dataclass(frozen=True, eq=False)
class Information:
    """Own information of a level, the same at all its nodes.

    Args:
        matrices: (n_components, n_dense, n_dense), A_C = sum over queries of weight times Gram.
        labels: per query, int64 (n_dense, n_product), place of each cell's answer among a node's answers.
        weights: one a query, inverse variance.
    """

    matrices: Floats
    labels: tuple[Ints, ...]
    weights: tuple[float, ...]

    def on(self, values: Ints) -> Floats:
        """Return A_C on some dense values."""
        return self.matrices[:, values[:, None], values[None, :]]

    def linear(self, answers: NDArray[Any], values: Ints) -> Floats:
        """Return the sum over queries of weight times Q'y on some dense values, (n_nodes, t, n_product).

        Args:
            answers: (n_nodes, answers_per_node). values: dense values.
        """
        out = np.zeros((len(answers), len(values), self.labels[0].shape[1]))
        for labels, weight in zip(self.labels, self.weights, strict=True):
            out += weight * answers[:, labels[values]]
        return out


def information(lattice: Lattice, queries: Sequence[Query], weights: Sequence[float]) -> Information:
    """Add up what the queries of a level tell.

    Args:
        lattice: in whose form the queries are.
        queries: measured at the level, in the order of their answers.
        weights: one a query, inverse variance, records to the power -2.
    """
    matrices = np.zeros((lattice.n_components, lattice.n_dense, lattice.n_dense))
    labels, first = [], 0
    for query, weight in zip(queries, weights, strict=True):
        matrices += weight * product_query(lattice, query).gram(lattice)
        labels.append(first + query.labels[lattice.cell].astype(np.int64))
        first += query.n_answers
    return Information(matrices, tuple(labels), tuple(weights))
