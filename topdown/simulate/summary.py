"""How far simulated releases are from the truth, by level and query, over all replicates."""

from __future__ import annotations

from math import sqrt

from topdown.documents.simulation import LevelError, QueryError
from topdown.measure.differences import difference
from topdown.model.histogram import Histogram
from topdown.model.query import Query, parse_query
from topdown.simulate.simulate import Replicate, Simulation


class ErrorSums:
    """Add up errors of replicates, in whole records: exact, so that order does not matter.

    Args:
        simulation: plan and truth.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._true: dict[tuple[int, str], Histogram] = {}
        self._queries: list[tuple[Query, ...]] = []
        self._sums: dict[tuple[int, str], list[tuple[int, int]]] = {}
        plan = simulation.context.plan
        for depth, level in enumerate(plan.levels):
            names = dict.fromkeys(["total", *(m.query for m in level.measurements)])
            self._queries.append(tuple(parse_query(plan.schema, name) for name in names))
            for query in self._queries[depth]:
                self._true[depth, query.name] = simulation.truth[depth].sparse_answers(query)
                self._sums[depth, query.name] = []

    def add(self, replicate: Replicate) -> None:
        """Count one replicate."""
        tree = self._simulation.context.geography.levels
        released = replicate.leaves
        for depth in range(len(tree) - 1, -1, -1):
            for query in self._queries[depth]:
                gap = difference(released.sparse_answers(query), self._true[depth, query.name])
                self._sums[depth, query.name].append((int(abs(gap.count).sum()), int(gap.count.sum())))
            if depth:
                released = released.aggregate(tree[depth].parent, len(tree[depth - 1]))

    def levels(self) -> list[LevelError]:
        """Return errors by level and query, in records an answer; released minus true.

        `mae_standard_error` is that of `mae` over the replicates; None if there is only one.
        """
        names = self._simulation.context.geography.level_names
        return [
            LevelError(
                level=names[depth],
                n_nodes=self._simulation.truth[depth].n_nodes,
                queries=[self._row(depth, query) for query in queries],
            )
            for depth, queries in enumerate(self._queries)
        ]

    def _row(self, depth: int, query: Query) -> QueryError:
        sums = self._sums[depth, query.name]
        n_values, n = self._simulation.truth[depth].n_nodes * query.n_answers, len(sums)
        absolute = [size for size, _ in sums]
        # n * (sum of squares) - (sum)^2 in whole numbers, so that nothing cancels
        spread = n * sum(size * size for size in absolute) - sum(absolute) ** 2
        return QueryError(
            query=query.name,
            n_answers=query.n_answers,
            mae=sum(absolute) / (n_values * n),
            mae_standard_error=sqrt(spread / (n - 1)) / (n_values * n) if n > 1 else None,
            bias=sum(signed for _, signed in sums) / (n_values * n),
        )
