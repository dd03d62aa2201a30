"""Run the code that draws a release many times at once, on the nodes and answers that a pair of neighbours has.

A run is the drawing of the nodes above the leaves concerned, at every level. Many runs are one call: their nodes
stand side by side as nodes of one level. Drawn are the answers that the changed record is in, before or after; the
people who are the same in both data sets add the same number to the same answers and are left out, as are answers
that only they are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.measure.draw import DrawnAnswers, LevelDrawer, ListOpenAnswers, OpenAnswers, open_answers_lister
from topdown.model import Attribute, Factor, Histogram, Query, Schema
from topdown.plan import LevelPlan, PublicContext
from topdown.practice.neighbour_pairs import LeafPlace, NeighbourPair
from topdown.privacy import AesBits
from topdown.privacy.laws import Weights

NUMBERS_A_CALL = 1 << 15  # of one query: what the sampler draws from one stretch of bits


@dataclass(frozen=True, eq=False)
class PairAnswers:
    """What one noisy file of a run holds of a pair, by position.

    Args:
        target: per number, index of its level and of its measurement.
        truth: the exact answers of both data sets, (2, n).
        parameter: of the claimed law of each number's noise.
        weights: of that law, if it has them.
    """

    target: tuple[tuple[int, int], ...]
    truth: Ints
    parameter: NDArray[np.float64]
    weights: tuple[Weights, ...] = ()


@dataclass(frozen=True, eq=False)
class _LevelStage:
    level: LevelPlan
    queries: tuple[Query, ...]
    people: tuple[Histogram, Histogram]  # of one run, of each data set
    listing: OpenAnswers | None  # of one run; None: every answer


class PairRuns:
    """Draw runs on one pair.

    Args:
        queries: of every level, see `queries_of`.
        pair: the neighbours.
    """

    def __init__(
        self, context: PublicContext, queries: tuple[tuple[Query, ...], ...], pair: NeighbourPair
    ) -> None:
        records = (pair.gone,), (() if pair.come is None else (pair.come,))
        cells = np.unique([cell for side in records for _, cell in side])
        up = context.geography.ancestors_of_leaves
        leaves = [leaf for leaf, _ in (pair.gone, pair.come or pair.gone)]
        apart = any(nodes[leaves[0]] != nodes[leaves[1]] for nodes in up)
        # at every level: the second node is an empty one where both leaves are in one
        self._n_nodes = 2 if apart else 1
        self._levels = [
            _level_stage(
                context.plan.levels[depth],
                queries[depth],
                nodes,
                cells,
                leaves[: self._n_nodes],
                records,
                None
                if context.support is None
                else open_answers_lister(context.support, depth, queries[depth]),
            )
            for depth, nodes in enumerate(up)
        ]
        widest = max(m.n_answers for stage in self._levels for m in stage.level.measurements)
        self._n_runs = max(1, NUMBERS_A_CALL // (self._n_nodes * widest))
        self.answers = self._positions()

    def runs(self, which: int, n: int) -> Iterator[NDArray[np.int32]]:
        """Yield noisy answers of n runs on one data set (0 or 1), some runs at a time: int32 (runs, numbers).

        A run has the numbers of `answers`, once for each noisy file that it leaves.
        """
        for first in range(0, n, self._n_runs):
            here = min(self._n_runs, n - first)
            bits, files = AesBits(), []
            nodes = np.arange(here * self._n_nodes, dtype=np.int64)
            for stage in self._levels:
                listed = None if stage.listing is None else partial(_listed_cells, stage.listing, here)
                drawer = LevelDrawer(
                    stage.level, stage.queries, _copied_answers(stage.people[which], here), bits, listed
                )
                files.append([drawn.answers.reshape(here, -1) for drawn in parts_of_levels(drawer, nodes)])
            yield np.concatenate([level[k] for k in range(len(files[0])) for level in files], axis=1)

    def _positions(self) -> PairAnswers:
        target, truth, parameter, weights = [], [], [], []
        for depth, stage in enumerate(self._levels):
            both = [[people.answers(query) for query in stage.queries] for people in stage.people]
            for node in range(self._n_nodes):
                for q, m in enumerate(stage.level.measurements):
                    drawn = np.arange(m.n_answers)
                    if stage.listing is not None:
                        drawn = np.split(stage.listing.answers[q], np.cumsum(stage.listing.sizes[:, q])[:-1])[
                            node
                        ]
                    target += [(depth, q)] * len(drawn)
                    truth.append(np.stack([side[q][node][drawn] for side in both]))
                    parameter += [float(m.parameter)] * len(drawn)
                    weights += [m.whole_weights] * len(drawn)
        return PairAnswers(tuple(target), np.concatenate(truth, axis=1), np.array(parameter), tuple(weights))


def parts_of_levels(drawer: LevelDrawer, nodes: Ints) -> list[DrawnAnswers]:
    """Return every noisy file that a run leaves of a level: one, whatever crashes (`charged_run.py`)."""
    return [drawer.draw(nodes)]


def _level_stage(
    level: LevelPlan,
    queries: tuple[Query, ...],
    node_of: Ints,
    cells: Ints,
    leaves: Sequence[int],
    records: tuple[Sequence[LeafPlace], ...],
    listed: ListOpenAnswers | None,
) -> _LevelStage:
    """Narrow a level to some cells and to the nodes above some leaves."""
    schema = Schema("made up", "made up", "record", (Attribute("cell", tuple(map(str, cells))),))
    narrow, measurements, open_answers = [], [], []
    for query, measurement in zip(queries, level.measurements, strict=True):
        answers, group = np.unique(query.labels[cells], return_inverse=True)
        labels = tuple(map(str, answers))
        narrow.append(Query(query.name, schema, (Factor("cell", "cell", labels, tuple(group.tolist())),)))
        measurements.append(replace(measurement, n_answers=len(answers)))
        open_answers.append(answers)
    people = []
    for side in records:
        leaf, cell = np.array(side, dtype=np.int64).reshape(-1, 2).T
        here = (node_of[leaf] != node_of[leaves[0]]).astype(np.int64)
        people.append(
            Histogram.build(len(leaves), len(cells), here, np.searchsorted(cells, cell), np.ones_like(leaf))
        )
    return _LevelStage(
        replace(level, measurements=tuple(measurements)),
        tuple(narrow),
        (people[0], people[1]),
        _narrow_listing(listed, node_of[np.array(leaves)], open_answers),
    )


def _narrow_listing(
    listed: ListOpenAnswers | None, nodes: Ints, answers: list[NDArray[np.int32]]
) -> OpenAnswers | None:
    """Keep of what is listed at some nodes the given answers of each query, by position among them."""
    if listed is None:
        return None
    whole = [listed(node[None]).answers for node in nodes]
    kept = [[np.flatnonzero(np.isin(a, node[q])) for q, a in enumerate(answers)] for node in whole]
    sizes = np.array([[len(a) for a in node] for node in kept], dtype=np.int64)
    return OpenAnswers(sizes, tuple(np.concatenate(column) for column in zip(*kept, strict=True)))


def _listed_cells(listing: OpenAnswers, n: int, _nodes: Ints) -> OpenAnswers:
    """Return what is listed at the nodes of n runs side by side."""
    return OpenAnswers(np.tile(listing.sizes, (n, 1)), tuple(np.tile(a, n) for a in listing.answers))


def _copied_answers(people: Histogram, n: int) -> Histogram:
    """Return n copies side by side, each with nodes of its own."""
    shift = np.repeat(np.arange(n, dtype=np.int64) * people.n_nodes, len(people.node))
    return Histogram(
        n * people.n_nodes,
        people.n_cells,
        np.tile(people.node, n) + shift,
        np.tile(people.cell, n),
        np.tile(people.count, n),
    )
