"""Rows for large groups: sparse sizes measured sideways, at full scale, where the parent's answers say it helps.

A person is one cell (rank, size) of a region's Young diagram, its groups in order of size. Answers that count every
cell at most once move by one in one place when one person joins or leaves a group, so that the first T tail counts in
full, the lengths past T of the K largest groups, and past T the tail counts in excess of K ("corners") need the noise
of tail counts alone. T and K of a region follow from answers of higher levels that were drawn before and from public
numbers of groups; the root, and a region whose number of groups is not public, have columns only.

`match_groups` is the step of Kuo, Cho, Kifer and Machanavajjhala (2018), for the comparison with them: groups of a
region and of its parts meet in order of size and take their mean by precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pgsr.estimators.kernels_isotonic import extreme_medians
from pgsr.estimators.kernels_paths import choose_columns_and_rows, fill_rows, steady_tails
from pgsr.estimators.kernels_split import match_runs
from pgsr.hierarchy import Tree
from pgsr.level_noise import Calibration, NoiseSource
from topdown.arrays import Floats, Ints


def median_isotonic(values: Floats) -> Floats:
    """Return ascending values with the least sum of absolute differences, the middle between its two extremes.

    Args:
        values: one dimension.

    Cost: O(n log n).
    """
    if len(values) == 0:
        return values.copy()
    one = extreme_medians(values)
    other = -extreme_medians(-values[::-1])[::-1]
    return np.asarray(0.5 * (one + other))


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of one region in order of size, equal ones together.

    Args:
        size: row of the size, ascending.
        variance: of the size.
        count: number of groups, above 0.
    """

    size: Ints
    variance: Floats
    count: Ints


def match_groups(parent: Groups, children: Sequence[Groups], n_sizes: int) -> list[Groups]:
    """Return the children's groups, in order of size, after they met their parent's.

    Args:
        parent: groups of a region.
        children: of its parts; together as many as the parent's.
        n_sizes: number of sizes.
    """
    child = np.repeat(np.arange(len(children)), [len(c.size) for c in children])
    size = np.concatenate([c.size for c in children])
    variance = np.concatenate([c.variance for c in children])
    count = np.concatenate([c.count for c in children])
    order = np.lexsort((child, size))
    most = 4 * (len(size) + len(parent.size) * len(children)) + 16
    out = np.empty((most, 4))
    n = match_runs(
        parent.size,
        parent.count,
        size[order],
        count[order],
        parent.variance,
        variance[order],
        child[order],
        out,
    )
    rows = out[:n]
    new = np.minimum(np.floor(rows[:, 1] + 0.5), n_sizes - 1)
    again = np.lexsort((new, rows[:, 0]))
    rows, new = rows[again], new[again].astype(np.int64)
    bounds = np.searchsorted(rows[:, 0], np.arange(len(children) + 1))
    cut = [slice(bounds[c], bounds[c + 1]) for c in range(len(children))]
    return [Groups(new[here], rows[here, 2].copy(), rows[here, 3].astype(np.int64)) for here in cut]


Draw = Callable[[int, tuple[int, ...]], Ints]


@dataclass(frozen=True, eq=False)
class ColumnsAndRows:
    """How every region is measured: `columns` tail counts, past them the lengths of `rows` largest groups, corners.

    Args:
        columns, rows: of every node; together at most the number of sizes, columns at least 1.
    """

    columns: Ints
    rows: Ints


def all_columns(tree: Tree, n_sizes: int) -> ColumnsAndRows:
    """Return that every region is measured by columns alone."""
    return ColumnsAndRows(
        np.full(tree.n_nodes, n_sizes, dtype=np.int64), np.zeros(tree.n_nodes, dtype=np.int64)
    )


@dataclass(frozen=True, eq=False)
class RowsDesign:
    """What a choice needs besides answers; all of it public.

    Args:
        totals: number of groups of every node, -1 where it is not public.
        variances: of one answer of every level.
    """

    tree: Tree
    totals: Ints
    variances: tuple[float, ...]

    def choice(self, answers: Ints, n_levels: int | None = None) -> ColumnsAndRows:
        """Return how the regions of the first levels are measured, from the answers of the levels above the last.

        Args:
            answers: noisy answers [size][node]; those of the last of the levels and below it are not read.
            n_levels: how many levels; all by default. Nodes below have all columns.
        """
        n_sizes = len(answers)
        alone = all_columns(self.tree, n_sizes)
        columns, rows = alone.columns, alone.rows
        stop = self.tree.n_levels if n_levels is None else n_levels
        for g in range(self.tree.n_inner):
            level = int(self.tree.level_of[g]) + 1
            if level >= stop:
                break
            if self.totals[g] <= 0:
                continue
            steady = self.steady(answers, g, int(columns[g]), int(rows[g]))
            for c in range(self.tree.first_child[g], self.tree.first_child[g + 1]):
                columns[c], rows[c] = choose_columns_and_rows(
                    steady, self.totals[c], self.totals[g], self.variances[level]
                )
        return ColumnsAndRows(columns, rows)

    def steady(self, answers: Ints, g: int, columns: int, rows: int) -> Ints:
        """Return the descending tail counts of a region that its parts are chosen by; one more than sizes."""
        out = np.empty(len(answers) + 1, dtype=np.int64)
        mine = np.ascontiguousarray(answers[:, g])
        steady_tails(mine, columns, rows, int(self.totals[g]), out)
        return out


def exact_answers(tails: Ints, choice: ColumnsAndRows, nodes: slice) -> Ints:
    """Return the answers of some nodes without noise, [size][node]: columns, rows, corners.

    Args:
        tails: exact tail counts [size][node] of these nodes.
        choice: of all nodes.
        nodes: which.
    """
    out = np.empty(tails.shape[::-1], dtype=np.int64)
    turned = np.ascontiguousarray(tails.T)
    for i, (columns, rows) in enumerate(zip(choice.columns[nodes], choice.rows[nodes], strict=True)):
        fill_rows(turned[i], columns, rows, out[i])
    return np.ascontiguousarray(out.T)


def rows_answers_of_level(draw: Draw, exact: Ints, noisy: Ints, level: int, public: RowsDesign) -> Ints:
    """Return the noisy answers of one level, [size][region of the level], as the levels above it say.

    Args:
        draw: returns noise of a level in a shape.
        exact: tail counts [size][node] without noise.
        noisy: answers [size][node], drawn for the levels above.
        level: its position, the root's is 0.
        public: what the choice needs besides.
    """
    here, choice = public.tree.columns(level), public.choice(noisy, level + 1)
    answers = exact_answers(exact[:, here], choice, here)
    return np.asarray(answers + draw(level, answers.shape))


def rows_answers(draw: Draw, exact: Ints, public: RowsDesign) -> Ints:
    """Return the noisy answers of every level, [size][node]; see `level_answers`."""
    noisy = np.zeros_like(exact)
    for level in range(public.tree.n_levels):
        noisy[:, public.tree.columns(level)] = rows_answers_of_level(draw, exact, noisy, level, public)
    return noisy


def all_answers(
    source: NoiseSource, exact: Ints, calibration: Calibration, tree: Tree, public: RowsDesign | None
) -> Ints:
    """Return the noisy answers of every level, [size][node]: of rows too where `public` is given."""
    if public is None:
        return source.add(exact, calibration, tree)
    return rows_answers(partial(source.noise, calibration), exact, public)
