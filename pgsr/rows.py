"""Rows for large groups: sparse sizes measured sideways, at full scale, where the parent's answers say it helps.

A person is one cell (rank, size) of a region's Young diagram, its groups in order of size. Answers that count every
cell at most once move by one in one place when one person joins or leaves a group, so that the first T tail counts in
full and the lengths past T of the K largest groups need the noise of tail counts alone. T and K of a region follow from
answers of higher levels that were drawn before and from public numbers of groups; the root has columns only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pgsr import kernels_rows
from pgsr._engine import NoiseSource
from pgsr.budget import Calibration
from pgsr.hierarchy import Ints, Tree
from pgsr.medians import median_isotonic

Floats = NDArray[np.float64]
Draw = Callable[[int, tuple[int, ...]], Ints]


@dataclass(frozen=True, eq=False)
class Choice:
    """How every region is measured: `columns` tail counts, then the lengths past them of its `rows` largest groups.

    Args:
        columns, rows: of every node; together at most the number of sizes, columns at least 1.
    """

    columns: Ints
    rows: Ints


@dataclass(frozen=True, eq=False)
class Sideways:
    """What a choice needs besides answers; all of it public.

    Args:
        tree: the regions.
        totals: number of groups of every node.
        variances: of one answer of every level.
    """

    tree: Tree
    totals: Ints
    variances: tuple[float, ...]

    def choice(self, answers: Ints, n_levels: int | None = None) -> Choice:
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
                columns[c], rows[c] = kernels_rows.choose(
                    steady, self.totals[c], self.totals[g], self.variances[level]
                )
        return Choice(columns, rows)

    def steady(self, answers: Ints, g: int, columns: int, rows: int) -> Ints:
        """Return the descending tail counts of a region that its parts are chosen by; one more than sizes."""
        out = np.empty(len(answers) + 1, dtype=np.int64)
        mine = np.ascontiguousarray(answers[:, g])
        kernels_rows.steady_tails(mine, columns, rows, int(self.totals[g]), out)
        return out


def exact_answers(tails: Ints, choice: Choice, nodes: slice) -> Ints:
    """Return the answers of some nodes without noise, [size][node]: columns, rows, then zeros where nothing is asked.

    Args:
        tails: exact tail counts [size][node] of these nodes.
        choice: of all nodes.
        nodes: which.
    """
    out = np.empty(tails.shape[::-1], dtype=np.int64)
    turned = np.ascontiguousarray(tails.T)
    for i, (columns, rows) in enumerate(zip(choice.columns[nodes], choice.rows[nodes], strict=True)):
        kernels_rows.fill_rows(turned[i], columns, rows, out[i])
    return np.ascontiguousarray(out.T)


def is_asked(choice: Choice, n_sizes: int, nodes: slice = slice(None)) -> NDArray[np.bool_]:
    """Return which cells [size][node] hold an answer; the others hold 0, without noise."""
    return np.arange(n_sizes)[:, None] < (choice.columns + choice.rows)[nodes]


def level_answers(draw: Draw, exact: Ints, noisy: Ints, level: int, public: Sideways) -> Ints:
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


def sideways_answers(draw: Draw, exact: Ints, public: Sideways) -> Ints:
    """Return the noisy answers of every level, [size][node]; see `level_answers`."""
    noisy = np.zeros_like(exact)
    for level in range(public.tree.n_levels):
        noisy[:, public.tree.columns(level)] = level_answers(draw, exact, noisy, level, public)
    return noisy


def all_answers(
    source: NoiseSource, exact: Ints, calibration: Calibration, tree: Tree, public: Sideways | None
) -> Ints:
    """Return the noisy answers of every level, [size][node]: of rows too where `public` is given."""
    if public is None:
        return source.add(exact, calibration, tree)
    return sideways_answers(partial(source.noise, calibration), exact, public)


@dataclass(frozen=True, eq=False)
class Read:
    """Answers by columns and rows as tail counts, [size][node] each.

    Args:
        tails: noisy tail counts.
        variances: of each.
        loose: cells that rows describe, where a group may stand that was read a few sizes away.
    """

    tails: Ints
    variances: Floats
    loose: NDArray[np.bool_]


def read_tails(public: Sideways, answers: Ints) -> Read:
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
            kernels_rows.tails_from_rows(whole, read)
            tails[columns:, c] = read
            share = float(public.totals[c] / public.totals[g])
            kernels_rows.density(steady, share, rho)
            idle = max(rows - share * float(steady[columns]), 0.0)
            kernels_rows.row_variance(rho, variances[0, c], columns, idle, spread)
            variances[columns:, c] = spread[columns:]
            loose[columns - 1 :, c] = rho[columns - 1 :] > 0.0
    return Read(tails, variances, loose)
