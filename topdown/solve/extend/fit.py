"""One stage's least squares without a dense Hessian: queries are partitions of the rows, solved by structure.

min over X >= 0 of sum over queries q and columns j of sum over answers a of w_qa (q(x_j)_a - t_qaj)^2 / 2 with
known row sums (the parent's table) and known sums of each group of rows in each column (the table fixed
before). ADMM: x takes the quadratic and the group sums, z the signs and row sums.

The x-step inverts rho I + Q'WQ. Answers inside one supergroup that nest (single cells, ages of one race, ...)
have a tree-shaped inverse, built by the Sherman-Morrison formula block by block; the others are few (the
answers of small marginals) and enter with the group sums through a Schur complement (Woodbury), as do soft rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, vstack

from topdown.errors import ConfigError
from topdown.solve.groups import Floats, Ints
from topdown.solve.problem import Compared

MOST_CROSSING = 4000  # answers that cross supergroups; one dense matrix of this size is factored
CHUNK = 64


@dataclass(frozen=True, eq=False)
class Partition:
    """One query on the rows of a stage: int64 (n,) answer of each row, weight per answer, targets (n_answers, m)."""

    label: Ints
    weight: Floats
    target: Floats


@dataclass(frozen=True, eq=False)
class StageProblem:
    """Least squares of one stage.

    Args:
        queries: see Partition.
        row_sums: (n,) persons; negative where unknown (the root).
        group: (n,) group of each row; rows of one group are neighbours if row sums are unknown.
        fixed: (n_groups, m) persons.
        supergroup: (n,), coarser than group.
        allowed: bool (n, m).
        compared: soft rules between sums of rows.
    """

    queries: tuple[Partition, ...]
    row_sums: Floats
    group: Ints
    fixed: Floats
    supergroup: Ints
    allowed: NDArray[np.bool_]
    compared: Compared

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.allowed.shape[0], self.allowed.shape[1]

    def all_answers(self) -> tuple[csr_array, Floats, Floats]:
        """Return all queries as one 0/1 matrix, with the weight and target of every answer."""
        matrix = vstack([picker(q.label, len(q.weight)) for q in self.queries], format="csr")
        weight = np.concatenate([q.weight for q in self.queries])
        return matrix, weight, np.concatenate([q.target for q in self.queries])


def picker(label: Ints, n: int, values: Floats | None = None) -> csr_array:
    """Return the matrix that sums rows by label; rows with label -1 are left out."""
    row = np.flatnonzero(label >= 0)
    data = np.ones(len(row)) if values is None else values[row]
    return csr_array((data, (label[row], row)), shape=(n, len(label)))


class Tree:
    """Apply the inverse of rho I + sum of w e e' over nested blocks."""

    def __init__(self, chain: list[tuple[Ints, Floats]], n: int, rho: float) -> None:
        d = np.full(n, rho)
        wide = []
        for label, weight in chain:
            size = np.bincount(label[label >= 0], minlength=len(weight))
            alone = (label >= 0) & (size[label] == 1)
            d[alone] += weight[label[alone]]
            wide.append((np.where(alone, -1, label), weight))
        self.inverse_d = 1.0 / d
        parts: list[csr_array] = []
        coefficients: list[Floats] = []
        for label, weight in wide:  # fine to coarse: each block sees the inverse so far
            used, label = np.unique(np.append(label, -1), return_inverse=True)
            label = label.reshape(-1)[:-1] - 1
            weight = weight[used[1:]]
            if not len(weight):
                continue
            a = self._apply((label >= 0).astype(np.float64), parts, coefficients)
            total = np.bincount(label[label >= 0], a[label >= 0], minlength=len(weight))
            parts.append(picker(label, len(weight), a))
            coefficients.append(weight / (1.0 + weight * total))
        self.low = vstack(parts, format="csr") if parts else None
        self.up = self.low.T.tocsr() if self.low is not None else None
        self.coefficient = np.concatenate(coefficients) if parts else np.zeros(0)

    def _apply(self, v: Floats, parts: list[csr_array], coefficients: list[Floats]) -> Floats:
        out = v * self.inverse_d
        for part, coefficient in zip(parts, coefficients, strict=True):
            out = out - part.T @ (coefficient * (part @ v))
        return out

    def solve(self, v: Floats) -> Floats:
        """Return the inverse times v, (n, m)."""
        out = v * self.inverse_d[:, None]
        if self.low is not None:
            out -= self.up @ (self.coefficient[:, None] * (self.low @ v))
        return out


class LinearStep:
    """x = argmin of the quadratic plus rho/2 |x - v|^2 subject to the group sums."""

    def __init__(self, problem: StageProblem, groups: bool, power: float = 0.5) -> None:
        self.problem = problem
        self.chain, crossing = sort_out(problem.queries, problem.supergroup)
        check_crossing(sum(len(w) for _, w in crossing))
        rows = [picker(lab, len(w)) for lab, w in crossing]
        self.crossing_weight = np.concatenate([np.zeros(0), *(w for _, w in crossing)])
        soft = problem.compared.rows
        self.soft = csr_array(soft)
        self.soft_ratio = np.maximum(1.0, (soft**2).sum(axis=1)) ** -power
        rows += [self.soft] if len(soft) else []
        self.crossing = vstack(rows, format="csr") if rows else None
        n_groups = len(problem.fixed)
        self.groups = picker(problem.group, n_groups) if groups else None
        self.matrix, self.weight, self.target = problem.all_answers()
        self.g = self.matrix.T @ (self.weight[:, None] * self.target)

    def factor(self, rho: float) -> None:
        """Prepare for a penalty."""
        self.rho = rho
        self.tree = Tree(self.chain, len(self.problem.group), rho)
        if self.groups is not None:
            self._factor_groups(self.groups)
        if self.crossing is None:
            return
        r = self.crossing.shape[0]
        inner = np.diag(1.0 / np.concatenate([self.crossing_weight, rho * self.soft_ratio]))
        self.across = np.zeros((self.groups.shape[0] if self.groups is not None else 0, r))
        for start in range(0, r, CHUNK):
            pick = slice(start, min(start + CHUNK, r))
            column = self.tree.solve(self.crossing[pick].T.toarray())
            inner[:, pick] += self.crossing @ column
            if self.groups is not None:
                self.across[:, pick] = self.groups @ column
        if self.groups is not None:
            inner -= self.across.T @ self._solve_groups(self.across)
        self.inner = cho_factor((inner + inner.T) / 2)

    def _factor_groups(self, groups: csr_array) -> None:
        # Groups of one supergroup differ in pattern or class only, so blocks are small: pad to dense where > 1.
        p = self.problem
        n_groups = len(p.fixed)
        first = np.zeros(n_groups, dtype=np.int64)
        first[p.group[::-1]] = p.supergroup[::-1]
        order = np.argsort(first, kind="stable")
        starts = np.flatnonzero(np.diff(first[order], prepend=-1))
        rank = np.empty(n_groups, dtype=np.int64)
        rank[order] = np.arange(n_groups) - np.repeat(starts, np.diff(np.append(starts, n_groups)))
        self.rank, self.block = rank, np.empty(n_groups, dtype=np.int64)
        self.block[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n_groups)))
        width = int(rank.max()) + 1
        dense = np.zeros((len(starts), width, width))
        for k in range(width):
            column = groups @ self.tree.solve((rank[p.group] == k).astype(np.float64)[:, None])
            dense[self.block, rank, k] = column[:, 0]
        empty = ~np.isin(
            np.arange(len(starts) * width), self.block * width + rank, assume_unique=True
        ).reshape(len(starts), width)
        block, place = np.nonzero(empty)
        dense[block, place, place] = 1.0
        self.block_inverse = np.linalg.inv((dense + dense.transpose(0, 2, 1)) / 2)

    def _solve_groups(self, v: Floats) -> Floats:
        if self.block_inverse.shape[1] == 1:
            return np.asarray(v * self.block_inverse[self.block, 0, 0][:, None])
        full = np.zeros((*self.block_inverse.shape[:2], v.shape[1]))
        full[self.block, self.rank] = v
        return np.asarray((self.block_inverse @ full)[self.block, self.rank])

    def solve(self, v: Floats, held: Floats | None = None) -> Floats:
        """Return x and keep the multipliers of the group sums.

        Args:
            v: (n, m), where x should be. held: (n_rules, m), where the sums of the soft rules should be.
        """
        right = self.g + self.rho * v
        if held is not None and len(held):
            right += self.soft.T @ (self.rho * self.soft_ratio[:, None] * held)
        return self._solve(right, self.problem.fixed)

    def near(self, x: Floats) -> Floats:
        """Return `solve(x)`, computed as a step from x: only the step has rounding errors."""
        gradient = self.matrix.T @ (self.weight[:, None] * (self.matrix @ x - self.target))
        left = self.problem.fixed - self.groups @ x if self.groups is not None else self.problem.fixed
        return x + self._solve(-gradient, left)

    def _solve(self, right_side: Floats, fixed: Floats) -> Floats:
        y = self.tree.solve(right_side)
        push = np.zeros_like(y)
        if self.groups is not None:
            h = self._solve_groups(self.groups @ y - fixed)
        if self.crossing is not None:
            right = self.crossing @ y
            if self.groups is not None:
                right -= self.across.T @ h
            mu = cho_solve(self.inner, right)
            push += self.crossing.T @ mu
            if self.groups is not None:
                h = h - self._solve_groups(self.across @ mu)
        if self.groups is not None:
            self.multipliers = -h
            push += self.groups.T @ h
        return np.asarray(y - self.tree.solve(push))


Answers = list[tuple[Ints, Floats]]  # answer of each row, -1 for none; weight per answer


def sort_out(queries: tuple[Partition, ...], supergroup: Ints) -> tuple[Answers, Answers]:
    """Split answers into a nested chain inside supergroups, fine to coarse, and those that cross."""
    n = len(supergroup)
    chain: Answers = []
    crossing: Answers = []
    for q in sorted(queries, key=lambda q: -len(q.weight)):
        low = np.full(len(q.weight), np.iinfo(np.int64).max)
        high = np.full(len(q.weight), -1)
        np.minimum.at(low, q.label, supergroup)
        np.maximum.at(high, q.label, supergroup)
        inside = (low == high)[q.label]
        nested = np.where(inside, q.label, -1)
        if not all(_nests(fine, nested) for fine, _ in chain):
            nested = np.full(n, -1)
        if (nested >= 0).any():
            chain.append((nested, q.weight))
        left = np.where(nested >= 0, -1, q.label)
        used, label = np.unique(np.append(left, -1), return_inverse=True)
        if len(used) > 1:
            crossing.append((label.reshape(-1)[:-1] - 1, q.weight[used[1:]]))
    return chain, crossing


def check_crossing(n_crossing: int, place: str = "") -> None:
    """Refuse more crossing answers of one stage than one dense matrix holds (ConfigError C096)."""
    if n_crossing > MOST_CROSSING:
        raise ConfigError(
            f"{n_crossing:,} answers of one stage{place} neither nest nor are few enough",
            code="C096",
            fix="give a pass of its own to the finer queries, or list fewer queries in the pass",
        )


def _nests(fine: Ints, coarse: Ints) -> bool:
    """Tell whether each block of `fine` lies in one block of `coarse`, or outside all of them."""
    inside = fine >= 0
    seen = np.full(int(fine.max(initial=0)) + 1, -2)
    seen[fine[inside]] = coarse[inside]
    return bool((seen[fine[inside]] == coarse[inside]).all())
