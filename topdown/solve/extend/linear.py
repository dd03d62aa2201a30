"""The linear step of ADMM on one stage, by structure: a tree, and a Schur complement for what does not nest.

The x-step inverts rho I + Q'WQ. Answers inside one supergroup that nest (single cells, ages of one race, ...)
have a tree-shaped inverse, built by the Sherman-Morrison formula block by block; the others are few (the
answers of small marginals) and enter with the group sums through a Schur complement (Woodbury), as do soft rules.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array, vstack

from topdown.solve.extend.fit import Answers, StageProblem, check_crossing, picker, sort_out
from topdown.solve.extend.kernels import Schur, Tree, apply_tree
from topdown.solve.groups import Floats, Ints

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
    """x = argmin of the quadratic plus rho/2 |x - v|^2 subject to the group sums."""

    def __init__(self, problem: StageProblem, groups: bool, power: float = 0.5) -> None:
        self.problem = problem
        self.chain, crossing = sort_out(problem.queries, problem.supergroup)
        check_crossing(sum(len(w) for _, w in crossing))
        n = len(problem.group)
        self.crossing_weight = np.concatenate([np.zeros(0), *(w for _, w in crossing)])
        soft = problem.compared.rows
        self.soft = csr_array(soft)
        self.soft_ratio = np.maximum(1.0, (soft**2).sum(axis=1)) ** -power
        rows = [csr_array((0, n)), *(picker(label, len(w)) for label, w in crossing), self.soft]
        self.crossing = vstack(rows, format="csr")
        self.by_row = self.crossing.T.tocsr()
        self.groups = picker(problem.group, len(problem.fixed)) if groups else None
        self.matrix, self.weight, self.target = problem.all_answers()
        self.transposed = self.matrix.T.tocsr()
        self.g = self.transposed @ (self.weight[:, None] * self.target)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty.

        Raises:
            LinAlgError: weights are too far apart.
        """
        self.rho = rho
        n = len(self.problem.group)
        self.tree = grow(self.chain, n, rho)
        r, n_groups = self.crossing.shape[0], 0
        blocks = csr_array((0, 0))
        if self.groups is not None:
            blocks, n_groups = self._factor_groups(self.groups), self.groups.shape[0]
        inner = np.diag(1.0 / np.concatenate([self.crossing_weight, rho * self.soft_ratio]))
        shared = np.zeros((n_groups, r))
        for start in range(0, r, CHUNK):
            pick = slice(start, min(start + CHUNK, r))
            column = apply_tree(self.tree, self.by_row[:, pick].toarray())
            inner[:, pick] += self.crossing @ column
            if self.groups is not None:
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
            self.problem.group,
            blocks.indptr.astype(np.int64),
            blocks.indices.astype(np.int64),
            blocks.data,
            across,
            np.ascontiguousarray(across.T),
        )
        self.blocks = blocks

    def _factor_groups(self, groups: csr_array) -> csr_array:
        """Return the inverse of the groups' complement, as a matrix of small blocks."""
        # Groups of one supergroup differ in pattern or class only, so blocks are small: pad to dense where > 1.
        p = self.problem
        n_groups = len(p.fixed)
        first = np.zeros(n_groups, dtype=np.int64)
        first[p.group[::-1]] = p.supergroup[::-1]
        order = np.argsort(first, kind="stable")
        starts = np.flatnonzero(np.diff(first[order], prepend=-1))
        rank = np.empty(n_groups, dtype=np.int64)
        rank[order] = np.arange(n_groups) - np.repeat(starts, np.diff(np.append(starts, n_groups)))
        block = np.empty(n_groups, dtype=np.int64)
        block[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n_groups)))
        width = int(rank.max()) + 1
        dense = np.zeros((len(starts), width, width))
        for k in range(width):
            column = groups @ apply_tree(self.tree, (rank[p.group] == k).astype(np.float64)[:, None])
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
        gradient = self.transposed @ (self.weight[:, None] * (self.matrix @ x - self.target))
        y = apply_tree(self.tree, -gradient)
        right = self.crossing @ y
        push = np.zeros_like(y)
        if self.groups is not None:
            left = self.groups @ y - (self.problem.fixed - self.groups @ x)
            right -= self.schur.across_t @ left
        mu = self.schur.lower_t @ (self.schur.lower @ right)
        push += self.by_row @ mu
        if self.groups is not None:
            h = self.blocks @ left - self.schur.across @ mu
            self.multipliers = -h
            push += self.groups.T @ h
        return np.asarray(x + y - apply_tree(self.tree, push))
