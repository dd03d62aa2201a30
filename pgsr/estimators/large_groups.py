"""Rows for large groups: sparse sizes measured sideways, at full scale, where the parent's answers say it helps.

A person is one cell (rank, size) of a region's Young diagram, its groups in order of size. Answers that count every
cell at most once move by one in one place when one person joins or leaves a group, so that the first T tail counts in
full and the lengths past T of the K largest groups need the noise of tail counts alone. T and K of a region follow from
answers of higher levels that were drawn before and from public numbers of groups; the root has columns only.

Leaves that rows describe are matched to their parent group by group where most groups are in rows: smoothing cell by
cell spreads a rare large group over sizes near it. Groups of a region and of its parts meet in order of size and take
their mean by precision (Kuo, Cho, Kifer and Machanavajjhala 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pgsr.estimators.kernels_isotonic import extreme_medians
from pgsr.estimators.kernels_rows import (
    LOOSE,
    choose_columns_and_rows,
    expected_density,
    fill_rows,
    row_variance,
    steady_tails,
    tails_from_rows,
)
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
        (parent.size, parent.count, size[order], count[order].copy()),
        (parent.variance, variance[order]),
        child[order],
        out,
    )
    rows = out[:n]
    new = np.minimum(np.floor(rows[:, 1] + 0.5), n_sizes - 1)
    again = np.lexsort((new, rows[:, 0]))
    rows, new = rows[again], new[again].astype(np.int64)
    bounds = np.searchsorted(rows[:, 0], np.arange(len(children) + 1))
    cut = [slice(bounds[c], bounds[c + 1]) for c in range(len(children))]
    return [Groups(new[here], rows[here, 2], rows[here, 3].astype(np.int64)) for here in cut]


Draw = Callable[[int, tuple[int, ...]], Ints]


@dataclass(frozen=True, eq=False)
class ColumnsAndRows:
    """How every region is measured: `columns` tail counts, then the lengths past them of its `rows` largest groups.

    Args:
        columns, rows: of every node; together at most the number of sizes, columns at least 1.
    """

    columns: Ints
    rows: Ints


@dataclass(frozen=True, eq=False)
class RowsDesign:
    """What a choice needs besides answers; all of it public.

    Args:
        tree: the regions.
        totals: number of groups of every node.
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
        columns = np.full(self.tree.n_nodes, n_sizes, dtype=np.int64)
        rows = np.zeros(self.tree.n_nodes, dtype=np.int64)
        stop = self.tree.n_levels if n_levels is None else n_levels
        for g in range(self.tree.n_inner):
            level = int(self.tree.level_of[g]) + 1
            if level >= stop:
                break
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
    """Return the answers of some nodes without noise, [size][node]: columns, rows, then zeros where nothing is asked.

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


def is_asked(choice: ColumnsAndRows, n_sizes: int, nodes: slice = slice(None)) -> NDArray[np.bool_]:
    """Return which cells [size][node] hold an answer; the others hold 0, without noise."""
    return np.arange(n_sizes)[:, None] < (choice.columns + choice.rows)[nodes]


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
    answers += draw(level, answers.shape)
    return np.where(is_asked(choice, len(exact), here), answers, 0)


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


@dataclass(frozen=True, eq=False)
class DecodedAnswers:
    """Answers by columns and rows as tail counts, [size][node] each.

    Args:
        tails: noisy tail counts.
        variances: of each.
        loose: cells that rows describe, where a group may stand that was read a few sizes away.
    """

    tails: Ints
    variances: Floats
    loose: NDArray[np.bool_]


def decode_tails(public: RowsDesign, answers: Ints) -> DecodedAnswers:
    """Return what answers by columns and rows say.

    Args:
        public: what the choice needs besides.
        answers: noisy answers [size][node].
    """
    choice, tree = public.choice(answers), public.tree
    tails, loose = answers.copy(), np.zeros(answers.shape, dtype=np.bool_)
    variances = np.repeat(np.array(public.variances)[tree.level_of][None, :], len(answers), axis=0)
    for g in range(tree.n_inner):
        below = range(int(tree.first_child[g]), int(tree.first_child[g + 1]))
        if not choice.rows[below.start : below.stop].any():
            continue
        steady = public.steady(answers, g, int(choice.columns[g]), int(choice.rows[g]))
        rho, spread = np.empty(len(answers)), np.empty(len(answers))
        for c in below:
            columns, rows = int(choice.columns[c]), int(choice.rows[c])
            if rows == 0:
                continue
            long = median_isotonic(answers[columns : columns + rows, c][::-1].astype(np.float64))[::-1]
            whole = np.clip(np.floor(long + 0.5), 0, len(answers) - columns).astype(np.int64)
            read = np.empty(len(answers) - columns, dtype=np.int64)
            tails_from_rows(whole, read)
            tails[columns:, c] = read
            share = float(public.totals[c] / public.totals[g])
            expected_density(steady, share, rho)
            idle = max(rows - share * float(steady[columns]), 0.0)
            row_variance(rho, variances[0, c], columns, idle, spread)
            variances[columns:, c] = spread[columns:]
            loose[columns - 1 :, c] = rho[columns - 1 :] > 0.0
    return DecodedAnswers(tails, variances, loose)


def match_rows(public: RowsDesign, choice: ColumnsAndRows, read: DecodedAnswers, counts: Ints) -> Ints:
    """Return counts [size][node] whose leaves were matched, all other regions their sums.

    Families of leaves are left as they are unless at least half of their groups are counted past their columns.

    Args:
        public: what the columns and rows were chosen from, beside the answers.
        choice: the columns and rows.
        read: what their answers say.
        counts: estimate, consistent and with the numbers of groups that are known.
    """
    tree, n_sizes = public.tree, len(counts)
    spread = np.array(public.variances)[tree.level_of]
    leaves = counts[:, tree.n_inner :].copy()
    for g in range(tree.n_inner):
        below = range(int(tree.first_child[g]), int(tree.first_child[g + 1]))
        n_in_rows = sum(int(counts[choice.columns[c] :, c].sum()) for c in below)
        if below.start < tree.n_inner or 2 * n_in_rows < max(int(public.totals[g]), 1):
            continue
        from_rows = [_counts_from_rows(counts[:, c], read.tails[:, c], int(choice.columns[c])) for c in below]
        parts = [_groups_of_counts(own, LOOSE * spread[c]) for own, c in zip(from_rows, below, strict=True)]
        for c, part in zip(
            below, match_groups(_groups_of_counts(counts[:, g], spread[g]), parts, n_sizes), strict=True
        ):
            leaves[:, c - tree.n_inner] = 0
            np.add.at(leaves[:, c - tree.n_inner], part.size, part.count)
    return tree.sums(leaves)


def _counts_from_rows(counts: Ints, tails: Ints, columns: int) -> Ints:
    """Return counts of a region: as estimated up to its columns, past them as its rows say."""
    long = np.cumsum(counts[::-1])[::-1]
    long[columns:] = np.minimum(tails[columns:], long[columns - 1])
    return np.asarray(long - np.append(long[1:], 0))


def _groups_of_counts(counts: Ints, variance: float) -> Groups:
    """Return groups of one region; those of one size know it as well as that many answers of its level."""
    size = np.flatnonzero(counts)
    return Groups(size, variance / counts[size], counts[size])
