"""The linear step on a structured quadratic: a tree, and a Schur complement for what does not nest.

The x-step inverts rho I + Q'WQ. Answers inside one supergroup that nest (single cells, ages of one race, ...)
have a tree-shaped inverse, built by the Sherman-Morrison formula block by block; the others are few (the
answers of small marginals) and enter with the group sums through a Schur complement (Woodbury), as do soft rules.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array, vstack

from topdown.solve.groups import FixedTable, Floats, Ints
from topdown.solve.least_squares.kernels_tree import Schur, Tree, apply_tree
from topdown.solve.least_squares.structured import (
    Answers,
    Structured,
    check_crossing,
    n_answers,
    picker,
    sort_out,
)

CHUNK = 64


def grow(chain: Answers, n: int, rho: float) -> Tree:
    """Return the tree of rho I + sum of w e e' over nested blocks.

    Args:
        chain: nested answers, fine to coarse. n: rows. rho: penalty.
    """
    d = np.full(n, rho)
    wide = []
    for label, weight in chain:
        size = np.bincount(label[label >= 0], minlength=len(weight))
        alone = (label >= 0) & (size[label] == 1)
        d[alone] += weight[label[alone]]
        wide.append((np.where(alone, -1, label), weight))
    inverse_d = 1.0 / d
    below = inverse_d.copy()  # the inverse so far, times the block that a row is in
    node, top = np.full(n, -1), np.full(n, -1)
    above: Ints = np.zeros(0, dtype=np.int64)
    coefficients, keeps = [np.zeros(0)], [np.zeros(0)]
    for label, weight in wide:
        rows = np.flatnonzero(label >= 0)
        used, block = np.unique(label[rows], return_inverse=True)
        block, w = block.reshape(-1), weight[used]
        total = np.bincount(block, below[rows], minlength=len(used))
        here = len(above) + block
        inner = top[rows]
        above[inner[inner >= 0]] = here[inner >= 0]
        node[rows] = np.where(node[rows] < 0, here, node[rows])
        top[rows] = here
        above = np.concatenate([above, np.full(len(used), -1)])
        coefficients.append(w / (1.0 + w * total))
        keeps.append(1.0 / (1.0 + w * total))
        below[rows] *= keeps[-1][block]
    return Tree(inverse_d, node, above, np.concatenate(coefficients), np.concatenate(keeps))


class LinearStep:
    """x = argmin of the quadratic plus rho/2 |x - v|^2 subject to the fixed table, if it has groups.

    Args:
        quadratic: of the problem. fixed: every row is in a group, or none is. soft: (k, n), rows of the soft rules.
        power: penalties of soft rules are those of entries divided by this power of the rule's squared norm.

    Raises:
        ConfigError: too many answers do not nest (C096).
    """

    def __init__(self, quadratic: Structured, fixed: FixedTable, soft: Floats, power: float = 0.5) -> None:
        self.quadratic, self.fixed = quadratic, fixed
        self.chain, crossing = sort_out(quadratic.queries, quadratic.supergroup)
        check_crossing(n_answers(crossing))
        n = len(quadratic.supergroup)
        self.crossing_weight = np.concatenate([np.zeros(0), *(w for _, w in crossing)])
        self.soft = csr_array(soft)
        self.soft_ratio = np.maximum(1.0, (soft**2).sum(axis=1)) ** -power
        rows = [csr_array((0, n)), *(picker(label, len(w)) for label, w in crossing), self.soft]
        self.crossing = vstack(rows, format="csr")
        self.by_row = self.crossing.T.tocsr()
        self.groups = picker(fixed.of, fixed.n_groups)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty.

        Raises:
            LinAlgError: weights are too far apart.
        """
        self.rho = rho
        self.tree = grow(self.chain, len(self.quadratic.supergroup), rho)
        r, n_groups = self.crossing.shape[0], self.fixed.n_groups
        blocks = self._factor_groups() if n_groups else csr_array((0, 0))
        inner = np.diag(1.0 / np.concatenate([self.crossing_weight, rho * self.soft_ratio]))
        shared = np.zeros((n_groups, r))
        for start in range(0, r, CHUNK):
            pick = slice(start, min(start + CHUNK, r))
            column = apply_tree(self.tree, self.by_row[:, pick].toarray())
            inner[:, pick] += self.crossing @ column
            shared[:, pick] = self.groups @ column
        across = np.ascontiguousarray(blocks @ shared)
        inner -= shared.T @ across
        lower = np.zeros((r, r))
        if r:
            lower[:] = solve_triangular(
                cholesky((inner + inner.T) / 2, lower=True), np.eye(r), lower=True, check_finite=False
            )
        self.schur = Schur(
            self.by_row.indptr.astype(np.int64),
            self.by_row.indices.astype(np.int64),
            self.by_row.data,
            len(self.crossing_weight),
            lower,
            np.ascontiguousarray(lower.T),
            self.fixed.of,
            blocks.indptr.astype(np.int64),
            blocks.indices.astype(np.int64),
            blocks.data,
            across,
            np.ascontiguousarray(across.T),
        )
        self.blocks = blocks

    def _factor_groups(self) -> csr_array:
        """Return the inverse of the groups' complement, as a matrix of small blocks."""
        # Groups of one supergroup differ in pattern or class only, so blocks are small: pad to dense where > 1.
        n_groups, group = self.fixed.n_groups, self.fixed.of
        first = np.zeros(n_groups, dtype=np.int64)
        first[group[::-1]] = self.quadratic.supergroup[::-1]
        order = np.argsort(first, kind="stable")
        starts = np.flatnonzero(np.diff(first[order], prepend=-1))
        rank = np.empty(n_groups, dtype=np.int64)
        rank[order] = np.arange(n_groups) - np.repeat(starts, np.diff(np.append(starts, n_groups)))
        block = np.empty(n_groups, dtype=np.int64)
        block[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n_groups)))
        width = int(rank.max()) + 1
        dense = np.zeros((len(starts), width, width))
        for k in range(width):
            column = self.groups @ apply_tree(self.tree, (rank[group] == k).astype(np.float64)[:, None])
            dense[block, rank, k] = column[:, 0]
        member = np.full((len(starts), width), -1)
        member[block, rank] = np.arange(n_groups)
        empty, place = np.nonzero(member < 0)
        dense[empty, place, place] = 1.0
        inverse = np.linalg.inv((dense + dense.transpose(0, 2, 1)) / 2)
        inside = (member[:, :, None] >= 0) & (member[:, None, :] >= 0)
        block, one, two = np.nonzero(inside)
        return csr_array(
            (inverse[inside], (member[block, one], member[block, two])), shape=(n_groups, n_groups)
        )

    def near(self, x: Floats) -> Floats:
        """Return the x-step from x itself, as a step from there: only the step has rounding errors.

        Keeps the multipliers of the group sums.
        """
        y = apply_tree(self.tree, -self.quadratic.gradient(x))
        right = self.crossing @ y
        left = self.groups @ y - self.fixed.left(x)
        right -= self.schur.across_t @ left
        mu = self.schur.lower_t @ (self.schur.lower @ right)
        h = self.blocks @ left - self.schur.across @ mu
        self.multipliers = -h
        return np.asarray(x + y - apply_tree(self.tree, self.by_row @ mu + self.groups.T @ h))
