"""What a split is to be fitted to: the one seam between noisy answers and the solver.

A split does not know what a noisy answer is. It asks its `Objective` for the quadratic of each pass; plain TopDown
makes it from the children's own noisy answers (`OwnStatistics`), the tree estimate from their descendants' too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, final

import numpy as np
import scipy  # which loads its parts when they are first used: a plan needs none
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.errors import InternalError
from topdown.formats.common import EstimateOfLevel
from topdown.formats.release_documents import TreeEstimate
from topdown.model import refines
from topdown.plan import Pass
from topdown.solve.group_constraints import FixedTable, group_sums, occurring
from topdown.solve.kernels_shared import gram, linear_term, separating_weight
from topdown.solve.least_squares import (
    MOST_CROSSING,
    Dense,
    LatticeQuadratic,
    Partition,
    PerChild,
    Structured,
)
from topdown.solve.noisy_answers import NoisyAnswers
from topdown.solve.release_facts import LevelModel

WIDE_CELLS = 2_048  # of a schema above which a dense Hessian costs more than a step without one
CROSSING = 4  # rows there must be at least for every answer that is none of one row
FirstNodes = tuple[int, ...]  # number in the whole tree of a part's first node of each level
FEW_ROWS = 300  # of such a schema's splits that a dense Hessian solves sooner


@dataclass(frozen=True, eq=False)
class PassRows:
    """One pass of a split, as its quadratic is asked for.

    Args:
        step: table and queries of the pass.
        last: whether it is the last, whose rows are cells.
        cells: int64 (n,), cells of the split. counts: the parent's, int64 (n,); None at the root.
        table: int64 (n,), answer of each cell in the pass's table.
        first: int64 (n_rows,), one cell of each row, as a place in `cells`.
        fixed: the table that is already fixed, on cells.
        allowed: bool (n_rows, m), where records may be.
        plain: whether nothing bounds the rows but a table's sums.
    """

    step: Pass
    last: bool
    cells: Ints
    counts: Ints | None
    table: Ints
    first: Ints
    fixed: FixedTable
    allowed: NDArray[np.bool_]
    plain: bool = False


class Objective(Protocol):
    """What one split is fitted to."""

    def quadratic(
        self, level: LevelModel, rows: PassRows
    ) -> Dense | PerChild | LatticeQuadratic | Structured:
        """Return the quadratic of a pass, (n_rows, m)."""

    def keep(self, children: NDArray[np.bool_]) -> Objective:
        """Return the objective of some of the children."""


class Statistics(Protocol):
    """What every split of a release is fitted to."""

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes among first..last-1 of a level, and the objective of a split into them."""

    def anew(self, answers: NoisyAnswers) -> Statistics:
        """Return the statistics of the same release for other answers."""

    def of_parts(self) -> StatisticsOfParts:
        """Return what opens those of parts of the tree."""

    def document(self) -> TreeEstimate | None:
        """Return what solve.json says of them; None for plain answers."""


class StatisticsOfParts(Protocol):
    """What every split of a part of a tree is fitted to; it holds no answers of other parts unless it must."""

    def open(self, answers: NoisyAnswers, firsts: FirstNodes) -> Statistics:
        """Return the statistics of a part, by its own numbers of nodes.

        Args:
            answers: of the part. firsts: see `FirstNodes`.
        """


@final
@dataclass(frozen=True, eq=False)
class OwnStatistics:
    """The noisy answers of each node, and nothing else.

    Args:
        answers: measured.
        asked: levels of the tree estimate if it was asked for and covers none of them, and why; else None.
    """

    answers: NoisyAnswers
    asked: tuple[EstimateOfLevel, ...] | None = None

    def split(self, level_index: int, first_node: int, last_node: int) -> tuple[Ints, Objective]:
        """Return the measured nodes and what their own answers ask for."""
        nodes, answers = self.answers.answers(level_index, first_node, last_node)
        return nodes, OwnObjective(np.ascontiguousarray(answers, dtype=np.int32))

    def anew(self, answers: NoisyAnswers) -> OwnStatistics:
        """Return those of other answers."""
        return replace(self, answers=answers)

    def of_parts(self) -> OwnOfParts:
        """Return what opens those of parts."""
        return OwnOfParts()

    def document(self) -> TreeEstimate | None:
        """Return why no level is covered by the estimate that was asked for."""
        return None if self.asked is None else TreeEstimate(targets=list(self.asked))


@final
@dataclass(frozen=True)
class OwnOfParts:
    """Parts whose splits are fitted to their own answers."""

    def open(self, answers: NoisyAnswers, firsts: FirstNodes) -> OwnStatistics:
        """Return the answers of the part."""
        del firsts
        return OwnStatistics(answers)


@final
@dataclass(frozen=True, eq=False)
class OwnObjective:
    """The children's own noisy answers.

    Args:
        answers: int32 (m, n_answers_of_all_queries), as they are measured.
    """

    answers: NDArray[np.int32]

    @cached_property
    def _cells(self) -> dict[tuple[int, ...], CellFit]:
        """The fit of every cell by some queries: passes that name the same ones share it."""
        return {}

    def keep(self, children: NDArray[np.bool_]) -> OwnObjective:
        """Return the answers of some of the children."""
        return self if children.all() else OwnObjective(self.answers[children])

    def quadratic(self, level: LevelModel, rows: PassRows) -> Dense | Structured:
        """Return the weighted distance from the answers of the pass's queries.

        Many rows of a wide schema that nothing bounds get a structured quadratic: its steps cost time in proportion to
        them.
        """
        step, table, first = rows.step, rows.table, rows.first
        chosen = np.array([level.query_names.index(name) for name in step.queries])
        labels = np.take(level.labels[chosen], rows.cells, axis=1)
        weights, offsets = level.weights[chosen], level.offsets[chosen]
        direct = rows.last or all(refines(table, query) for query in labels)
        at = np.take(labels, first, axis=1) if direct else labels
        wide = level.labels.shape[1] > WIDE_CELLS and at.shape[1] > FEW_ROWS
        if direct and rows.plain and wide:
            found = structured_quadratic(at, offsets[:, None] + at, weights, self.answers.T)
            if found is not None:
                return found
        if not direct:
            key = tuple(chosen.tolist())
            if key not in self._cells:
                linear = linear_term(labels, offsets, weights, self.answers)
                self._cells[key] = CellFit.to_queries(step.table, labels, weights, linear)
            return self._cells[key].margin(table, first)
        g = linear_term(at, offsets, weights, self.answers)
        return Dense(gram(at, weights), g, separating_weight(at, weights), float(weights.min()))


def structured_quadratic(
    at: Ints, places: Ints, weights: Floats, answers: Floats | NDArray[np.int32]
) -> Structured | None:
    """Return the weighted distance as queries that partition the rows; None where its steps would be no quicker.

    Args:
        at: int64 (n_queries, n), answer of each row. places: the same, among all answers.
        weights: (n_queries,). answers: of all queries, (n_answers, m), whole or not.
    """
    queries, n, crossing = [], at.shape[1], 0
    for labels, where, weight in zip(at, places, weights, strict=True):
        _, first, label = np.unique(labels, return_index=True, return_inverse=True)
        queries.append(
            Partition(
                label.reshape(-1), np.full(len(first), weight), answers[where[first]].astype(np.float64)
            )
        )
        crossing += len(first) if len(first) < n else 0
    alone = any(len(query.weight) == n for query in queries)
    few = crossing <= min(n // CROSSING, MOST_CROSSING)
    return Structured(tuple(queries), np.zeros(n, dtype=np.int64)) if alone and few else None


@dataclass(frozen=True, eq=False)
class CellFit:
    """The unconstrained fit of every cell to some queries.

    Args:
        solve: gives x of H x = r, (n, k), where H is its Hessian. value: the fit, (n, m).
    """

    solve: Callable[[Floats], Floats]
    value: Floats

    @staticmethod
    def of(name: str, hessian: Floats, g: Floats) -> CellFit:
        """Fit cells.

        Args:
            name: of the table that is to be fitted. hessian: (n, n), overwritten. g: (n, m).

        Raises:
            InternalError: the queries do not tell every cell apart.
        """
        try:
            factor = scipy.linalg.cho_factor(hessian, overwrite_a=True)
        except np.linalg.LinAlgError:
            raise InternalError(
                f"pass {name!r} needs measured queries that tell every cell apart",
                code="C057",
                fix="measure 'detailed' at this level, or list only coarser queries in the pass",
            ) from None
        solve = partial(scipy.linalg.cho_solve, factor)
        return CellFit(solve, solve(g))

    @staticmethod
    def to_queries(name: str, labels: Ints, weights: Floats, g: Floats) -> CellFit:
        """Fit cells to queries; where one has an answer for every cell, by a system of the answers of the others.

        H = w I + S'S, with a row of S for each answer of the others, has the inverse (I - S'(w I + S S')^-1 S) / w.

        Args:
            name, g: see `of`. labels: int64 (n_queries, n), answer of each cell. weights: (n_queries,).
        """
        n = labels.shape[1]
        occur, inverse = zip(*(np.unique(of, return_inverse=True) for of in labels), strict=True)
        sizes = np.array([len(answers) for answers in occur])
        apart, total = sizes == n, int(sizes[sizes < n].sum())
        weight = float(weights[apart].sum())
        if not weight or total >= n:
            return CellFit.of(name, gram(labels, weights), g)
        starts = np.cumsum(sizes * ~apart) - sizes
        answer = np.stack([of.reshape(-1) for of in inverse])[~apart] + starts[~apart, None]
        pointers = len(answer) * np.arange(n + 1)
        roots = np.tile(np.sqrt(weights[~apart]), n)
        sums = scipy.sparse.csr_array((roots, answer.T.reshape(-1), pointers), shape=(n, total))
        by_answer = sums.T.tocsr()
        factor = scipy.linalg.cho_factor(
            (by_answer @ sums).toarray() + weight * np.eye(total), overwrite_a=True
        )

        def solve(r: Floats) -> Floats:
            return np.asarray((r - sums @ scipy.linalg.cho_solve(factor, by_answer @ r)) / weight)

        return CellFit(solve, solve(g))

    def margin(self, table: Ints, first: Ints) -> Dense:
        """Return the fit of a table of sums with its inverse covariance as the Hessian.

        Args:
            table: int64 (n,), answer of each cell. first: one cell of each row.
        """
        answers, of_cell = occurring(table)
        k = len(answers)
        covariance = group_sums(self.solve((of_cell[:, None] == np.arange(k)).astype(np.float64)), of_cell, k)
        information = np.linalg.inv(covariance)
        information = (information + information.T) / 2
        lowest = float(np.linalg.eigvalsh(information)[0])
        row_table = of_cell[first]
        one_row_each = len(first) == k
        curvature = lowest * (1 - 1e-9) if one_row_each else 0.0
        linear = information @ group_sums(self.value, of_cell, k)
        return Dense(information[np.ix_(row_table, row_table)], linear[row_table], curvature, lowest)
